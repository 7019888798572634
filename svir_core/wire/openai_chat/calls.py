"""Which call a piece belongs to, and which calls an answer holds (10 section 3, 11 section C).

The rules, in order; each quirk changes the rule it stands under, and no other:

1. A piece is an object with an ``index``, a whole number from 0, that names the call.
   TOOL_INDEX_MISSING: a piece without one belongs to the call that has its id; else it opens a call when it has a
   name; else it belongs to the call opened last, and opens the first when there is none.
   TOOL_INDEX_REUSED: an id that no call has, with a name, opens a call on an index whose call has another id (or,
   with TOOL_ID_MISSING, a name and no id), and the index names the new call. An id of an earlier call of that
   index names that one again.
   CHOICES_MERGED: an index names a call within its choice.
2. An index at or over the limit is ``ResponseLimitError`` at once, before any talk of gaps; so is a call that a
   quirk opens beyond it.
3. A call's place is its index, or the next one free when a quirk gave that away.
   TOOL_INDEX_GAPS: its place is the next one, in order of first appearance.
4. ``null``, ``""`` and a missing key say nothing. A value of another type is ``ProtocolError``.
   TOOL_ARGUMENTS_OBJECT: arguments that are an object are its JSON text.
5. An id stays: the same again is fine, another is ``ProtocolError``.
   TOOL_ID_DRIFTS: an id that no call has, without a name, is no id.
6. Pieces of a name, and of arguments, are one text (``repetition`` has what two quirks take out of it).
7. At the end the indices run from 0 without a gap, every id and name is there, no id comes twice.
   TOOL_INDEX_GAPS: gaps are nothing.
   TOOL_ID_MISSING: a call without an id gets ``call_<n>``: the first n from 0 whose id the server did not send.

Both modes hold all of them: a call that is guessed wrong is run wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final

from svir_core.errors import ProtocolError, ResponseLimitError, UnsupportedError
from svir_core.event import ToolCallDelta
from svir_core.message import Opaque, ToolCall
from svir_core.quirk import NONE, Quirk
from svir_core.response import FinishReason
from svir_core.slow_json import HugeNumber, exact_text, read_any
from svir_core.wire.json_value import Json, is_object
from svir_core.wire.openai_chat.table import API_NAME, CALL_KEYS
from svir_core.wire.transcript import CallRun

PLAIN_KEYS: Final = CALL_KEYS - {"type"}
"""The keys of most pieces: with no others there is nothing more to look at."""

NOTHING: Final = ToolCallDelta(0, None, None, None)
"""A piece that says nothing, so that it does not matter of which call."""

CUT: Final = (FinishReason.LENGTH, FinishReason.OTHER)
"""After these nobody knows whether arguments that are empty were to stay so."""


class _Call:
    """One call: where it stands, and who it is."""

    __slots__ = ("extra", "id", "index", "named", "place", "scope")

    def __init__(self, place: int, index: int | None, scope: int | str, extra: Json) -> None:
        self.place = place
        self.index = index
        self.scope = scope
        self.id: str | None = None
        self.named = False
        self.extra = extra


class Calls:
    """The calls of one answer: their ids, and the keys this API does not know.

    Args:
        limit: how many calls an answer may hold.
        exact: reads an entry of the ``tool_calls`` at hand again, its numbers exact.
        quirks: the repairs that are on.
    """

    __slots__ = (
        "_by_id",
        "_by_index",
        "_drifted",
        "_drifts",
        "_exact",
        "_gaps",
        "_ids_missing",
        "_index_missing",
        "_limit",
        "_made",
        "_objects",
        "_opened",
        "_places",
        "_reused",
        "_scope",
        "_scopes",
        "_silent",
    )

    def __init__(self, limit: int, exact: Callable[[int], Json], quirks: Quirk = NONE) -> None:
        self._limit = limit
        self._exact = exact
        self._index_missing = Quirk.TOOL_INDEX_MISSING in quirks
        self._reused = Quirk.TOOL_INDEX_REUSED in quirks
        self._drifts = Quirk.TOOL_ID_DRIFTS in quirks
        self._ids_missing = Quirk.TOOL_ID_MISSING in quirks
        self._gaps = Quirk.TOOL_INDEX_GAPS in quirks
        self._objects = Quirk.TOOL_ARGUMENTS_OBJECT in quirks
        self._drifted: set[str] = set()  # ids of the server's that are no call's
        self._opened: list[_Call] = []
        self._places: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._by_index: dict[int, _Call] = {}  # of the choice at hand
        self._scope: int | str = 0  # the choice at hand
        self._scopes: dict[int | str, dict[int, _Call]] = {0: self._by_index}
        self._silent: dict[int, Json] = {}  # unknown keys that came before their call said anything
        self._made: dict[int, str] = {}  # ids made at the end, by place

    def turn_to(self, choice: int | str) -> None:
        """What follows comes from this choice of the answer."""
        self._scope = choice
        self._by_index = self._scopes.setdefault(choice, {})

    # --- a piece ---------------------------------------------------------------------------------

    def resolve(self, piece: Any, number: int) -> ToolCallDelta:
        """What entry ``number`` of ``tool_calls`` says, and of which call; all ``None`` when it says nothing."""
        if not is_object(piece):
            raise ProtocolError("a piece of a tool call is not an object")
        index = piece.get("index")
        if type(index) is not int or not 0 <= index < self._limit:
            self._check_absent(index, number)
            index = None
        function = piece.get("function")
        if not is_object(function):
            function = self._absent_function(function)
        call_id = _text(piece, "id")
        name = _text(function, "name")
        arguments = function.get("arguments")
        if type(arguments) is not str or not arguments:
            arguments = self._unusual_arguments(arguments, number)
        call = None if index is None else self._by_index.get(index)
        if call is None or call_id is not None:
            if call_id is None and name is None and arguments is None:
                self._look_at_rest(self._kept_for_later(index), piece, number)
                return NOTHING
            call = self._identify(call, index, call_id, name)
            if call_id != call.id:
                call_id = None
        if name is not None:
            call.named = True
        if not piece.keys() <= PLAIN_KEYS:
            self._look_at_rest(call.extra, piece, number)
        return ToolCallDelta(call.place, call_id, name, arguments)

    def _check_absent(self, index: Any, number: int) -> None:
        if type(index) in (float, HugeNumber):  # integers over 64 bits are read as floats
            index = self._exact(number)["index"]
        if index >= self._limit if type(index) is int else isinstance(index, HugeNumber) and index.text.isdigit():
            self._refuse_more()
        if index is not None or not self._index_missing:
            raise ProtocolError("a piece of a tool call has no index")

    def _absent_function(self, function: Any) -> Json:
        if function is None or function == "":
            return {}
        raise ProtocolError("the function of a tool call is not an object")

    def _unusual_arguments(self, arguments: Any, number: int) -> str | None:
        if arguments is None or arguments == "":
            return None
        if is_object(arguments) and self._objects:
            return exact_text(self._exact(number)["function"]["arguments"])
        raise ProtocolError("the arguments of a tool call are not a string")

    def _kept_for_later(self, index: int | None) -> Json:
        """Where unknown keys of a piece go that says nothing and whose call is not known yet."""
        if index is not None:
            return self._silent.setdefault(index, {})
        return self._opened[-1].extra if self._opened else {}

    # --- whose it is -----------------------------------------------------------------------------

    def _identify(self, known: _Call | None, index: int | None, call_id: str | None, name: str | None) -> _Call:
        """The call of a piece that has an id, or whose index names no call."""
        owner = None if call_id is None else self._by_id.get(call_id)
        if index is None:
            known = owner or (self._opened[-1] if self._opened and name is None else None)
        call = known or self._open(index)
        if call_id is None or call_id == call.id:
            return call
        if self._reused and index is not None and call is known:
            if owner is not None and owner.index == index and owner.scope == self._scope:
                self._by_index[index] = owner
                return owner
            if owner is None and name is not None and (call.id or (self._ids_missing and call.named)):
                call = self._open(index)
        if call.id is None:
            call.id = call_id
            self._by_id.setdefault(call_id, call)
        elif not self._drifts or name is not None or owner is not None:
            raise ProtocolError(f"the id of tool call {call.place} changed")
        else:
            self._drifted.add(call_id)
        return call

    def _open(self, index: int | None) -> _Call:
        place = len(self._opened) if index is None or self._gaps else index
        while place in self._places:
            place += 1
        if place >= self._limit:
            self._refuse_more()
        call = _Call(place, index, self._scope, {} if index is None else self._silent.pop(index, {}))
        self._places[place] = call
        self._opened.append(call)
        if index is not None:
            self._by_index[index] = call
        return call

    def _refuse_more(self) -> None:
        raise ResponseLimitError(f"the answer has more than {self._limit} tool calls")

    def _look_at_rest(self, kept: Json, fields: Json, number: int) -> None:
        """The type must be a function; keys this API does not know are kept, the last value that is not null."""
        kind = _text(fields, "type")
        if kind is not None and kind != "function":
            raise UnsupportedError("a tool call is not a call of a function", server_message=kind)
        if not fields.keys() <= CALL_KEYS:
            for key, value in self._exact(number).items():
                if key not in CALL_KEYS and value is not None:
                    kept[key] = value

    # --- the end ---------------------------------------------------------------------------------

    def check(self, runs: dict[int, CallRun]) -> None:
        """Whether the answer's calls are whole; ``runs`` are their pieces."""
        if not self._gaps:
            for known in self._scopes.values():
                if len(known) and max(known) >= len(known):
                    raise ProtocolError("the indices of the tool calls have a gap")
        for call in self._opened:
            run = runs.get(call.place)
            if (not call.id and not self._ids_missing) or run is None or not run.names:
                raise ProtocolError(f"tool call {call.place} has no id or no name")
        if len(self._by_id) != sum(call.id is not None for call in self._opened):
            raise ProtocolError("two tool calls have the same id")
        taken = self._by_id.keys() | self._drifted
        numbers = count()
        for place in sorted(call.place for call in self._opened if call.id is None):
            self._made[place] = next(made for n in numbers if (made := f"call_{n}") not in taken)

    def maker(self, finish: FinishReason, *, cut: bool = False) -> Callable[[CallRun], ToolCall]:
        """Makes the executable calls of an answer that ended with ``finish``; ``cut`` when more of it could have come
        all the same."""
        may_be_empty = not cut and finish not in CUT

        def make(run: CallRun) -> ToolCall:
            arguments = "".join(run.arguments)
            complete = _is_object(arguments) if arguments else may_be_empty
            call = self._places.get(run.index)
            opaque = Opaque(API_NAME, exact_text(call.extra)) if call and call.extra else None
            made = self._made.get(run.index)
            return ToolCall(
                made or run.id, run.name, arguments, complete=complete, synthetic_id=made is not None, opaque=opaque
            )

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
    return is_object(read_any(text))
