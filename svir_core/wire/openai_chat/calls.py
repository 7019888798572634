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
from typing import Any

import orjson

from svir_core.errors import ProtocolError, ResponseLimitError, UnsupportedError
from svir_core.event import ToolCallDelta
from svir_core.message import Opaque, ToolCall
from svir_core.response import FinishReason
from svir_core.wire.openai_chat.table import CALL_KEYS
from svir_core.wire.transcript import CallRun


class Calls:
    """The calls of one answer: their ids, and the keys this API does not know."""

    __slots__ = ("_extra", "_ids", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ids: dict[int, str | None] = {}
        self._extra: dict[int, Json] = {}

    def resolve(self, piece: Any) -> ToolCallDelta:
        """What one entry of ``tool_calls`` says, and of which call; all ``None`` when it says nothing."""
        if not is_object(piece):
            raise ProtocolError("a piece of a tool call is not an object")
        fields = piece
        index = self._index(fields.get("index"))
        call_id = _text(fields.get("id"), "id")
        kind = _text(fields.get("type"), "type")
        if kind is not None and kind != "function":
            raise UnsupportedError("a tool call is not a call of a function", server_message=kind)
        function = fields.get("function")
        if function is None or function == "":
            function = {}
        if not is_object(function):
            raise ProtocolError("the function of a tool call is not an object")
        function = function
        name = _text(function.get("name"), "name")
        arguments = _text(function.get("arguments"), "arguments")
        known = self._ids.get(index)
        if call_id is not None and known is not None and call_id != known:
            raise ProtocolError(f"the id of tool call {index} changed")
        piece_says = ToolCallDelta(index, call_id, name, arguments)
        if says_something(piece_says):
            self._ids[index] = known or call_id
        if not fields.keys() <= CALL_KEYS:
            self._keep(index, fields)
        return piece_says

    def _index(self, index: Any) -> int:
        if type(index) is not int or index < 0:
            raise ProtocolError("a piece of a tool call has no index")
        if index >= self._limit:
            raise ResponseLimitError(f"the answer has more than {self._limit} tool calls")
        return index

    def _keep(self, index: int, fields: Json) -> None:
        """Keep the keys this API does not know, the last value of each that is not null."""
        unknown = {key: value for key, value in fields.items() if key not in CALL_KEYS and value is not None}
        self._extra.setdefault(index, {}).update(unknown)

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
            opaque = Opaque("openai_chat", orjson.dumps(extra).decode()) if extra else None
            return ToolCall(run.id, run.name, arguments, complete=complete, opaque=opaque)

        return make


def says_something(piece: ToolCallDelta) -> bool:
    """Whether a piece is more than an index."""
    return piece.id is not None or piece.name is not None or piece.arguments is not None


def _text(value: Any, what: str) -> str | None:
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ProtocolError(f"the {what} of a tool call is not a string")
    return value


def _is_object(text: str) -> bool:
    try:
        return is_object(orjson.loads(text))
    except orjson.JSONDecodeError:
        return False
