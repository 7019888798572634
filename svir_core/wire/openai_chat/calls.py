"""Which call a piece belongs to, and which calls an answer holds (10 section 3).

The rules, in order:

1. A piece is an object with an ``index``, a whole number from 0: it names the call.
2. An index at or over the limit is ``ResponseLimitError`` at once, before any talk of gaps.
3. ``null``, ``""`` and a missing key say nothing. A value of another type is ``ProtocolError``.
4. An id stays: the same again is fine, another is ``ProtocolError``.
5. At the end the indices run from 0 without a gap, every id and name is there, no id comes twice.

Both modes hold all of them: a call that is guessed wrong is run wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

import orjson

from svir_core.errors import ProtocolError, ResponseLimitError, UnsupportedError
from svir_core.event import ToolCallDelta
from svir_core.message import Opaque, ToolCall
from svir_core.response import FinishReason
from svir_core.slow_json import exact_text
from svir_core.wire.json_value import Json, is_object
from svir_core.wire.openai_chat.table import CALL_KEYS
from svir_core.wire.transcript import CallRun

PLAIN_KEYS: Final = CALL_KEYS - {"type"}
"""The keys of most pieces: with no others there is nothing more to look at."""


class Calls:
    """The calls of one answer: their ids, and the keys this API does not know.

    Args:
        limit: how many calls an answer may hold.
        exact: reads an entry of the ``tool_calls`` at hand again, its numbers exact.
    """

    __slots__ = ("_exact", "_extra", "_ids", "_limit")

    def __init__(self, limit: int, exact: Callable[[int], Json]) -> None:
        self._limit = limit
        self._exact = exact
        self._ids: dict[int, str | None] = {}
        self._extra: dict[int, Json] = {}

    def resolve(self, piece: Any, place: int) -> ToolCallDelta:
        """What the entry at ``place`` of ``tool_calls`` says, and of which call; all ``None`` when it says nothing."""
        if not is_object(piece):
            raise ProtocolError("a piece of a tool call is not an object")
        index = piece.get("index")
        if type(index) is not int or not 0 <= index < self._limit:
            self._refuse_index(index)
        function = piece.get("function")
        if not is_object(function):
            function = self._absent_function(function)
        call_id = _text(piece, "id")
        says = ToolCallDelta(index, call_id, _text(function, "name"), _text(function, "arguments"))
        if call_id is not None or index not in self._ids:
            self._open(index, says)
        if not piece.keys() <= PLAIN_KEYS:
            self._look_at_rest(index, piece, place)
        return says

    def _absent_function(self, function: Any) -> Json:
        if function is None or function == "":
            return {}
        raise ProtocolError("the function of a tool call is not an object")

    def _refuse_index(self, index: Any) -> NoReturn:
        if type(index) is int and index >= self._limit:
            raise ResponseLimitError(f"the answer has more than {self._limit} tool calls")
        raise ProtocolError("a piece of a tool call has no index")

    def _open(self, index: int, piece: ToolCallDelta) -> None:
        """A piece of a call that is not known, or one that names its id."""
        known = self._ids.get(index)
        if known is not None and piece.id != known:
            raise ProtocolError(f"the id of tool call {index} changed")
        if says_something(piece):
            self._ids[index] = piece.id

    def _look_at_rest(self, index: int, fields: Json, place: int) -> None:
        """The type must be a function; keys this API does not know are kept, the last value that is not null."""
        kind = _text(fields, "type")
        if kind is not None and kind != "function":
            raise UnsupportedError("a tool call is not a call of a function", server_message=kind)
        if not fields.keys() <= CALL_KEYS:
            kept = self._extra.setdefault(index, {})
            for key, value in self._exact(place).items():
                if key not in CALL_KEYS and value is not None:
                    kept[key] = value

    def check(self, runs: dict[int, CallRun]) -> None:
        """Whether the answer's calls are whole; ``runs`` are their pieces."""
        if sorted(self._ids) != list(range(len(self._ids))):
            raise ProtocolError("the indices of the tool calls have a gap")
        for index, call_id in self._ids.items():
            run = runs.get(index)
            if not call_id or run is None or not run.names:
                raise ProtocolError(f"tool call {index} has no id or no name")
        if len(set(self._ids.values())) != len(self._ids):
            raise ProtocolError("two tool calls have the same id")

    def maker(self, finish: FinishReason) -> Callable[[CallRun], ToolCall]:
        """Makes the executable calls of an answer that ended with ``finish``."""

        def make(run: CallRun) -> ToolCall:
            arguments = "".join(run.arguments)
            complete = _is_object(arguments) if arguments else finish is not FinishReason.LENGTH
            extra = self._extra.get(run.index)
            opaque = Opaque("openai_chat", exact_text(extra)) if extra else None
            return ToolCall(run.id, run.name, arguments, complete=complete, opaque=opaque)

        return make


def says_something(piece: ToolCallDelta) -> bool:
    """Whether a piece is more than an index."""
    return piece.id is not None or piece.name is not None or piece.arguments is not None


def _text(fields: Json, key: str) -> str | None:
    value = fields.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ProtocolError(f"the {key} of a tool call is not a string")
    return value


def _is_object(text: str) -> bool:
    try:
        return is_object(orjson.loads(text))
    except orjson.JSONDecodeError:
        return False
