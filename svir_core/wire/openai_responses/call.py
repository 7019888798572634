"""One call of an answer: who it is, and what it is called with (20 sections 3.2 and 9).

Three rules hold for all of it, in both modes: a call that is guessed wrong is run wrong. What names a call (its id,
its name) never changes. Its arguments as a whole are what came of them in pieces; where only the end of them was
missing, lenient takes the whole. A call is complete only when its item ended, and did not end cut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svir_core.errors import ProtocolError
from svir_core.event import ToolCallDelta
from svir_core.message import Opaque, ToolCall
from svir_core.response import AnomalyCode
from svir_core.slow_json import read_any
from svir_core.wire.json_value import Json, is_object
from svir_core.wire.openai_responses.run import Run
from svir_core.wire.openai_responses.table import CALL_TEXTS, CUSTOM
from svir_core.wire.policy import Forgive


def string(fields: Json, key: str) -> str | None:
    """The string that a call has as ``key``, where ``null``, ``""`` and a missing key are none."""
    value = fields.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise ProtocolError(f"the {key} of a tool call is not a string")
    return value


class Call:
    """The call that an item is.

    Args:
        kind: the item's type.
        index: its place among the calls, from 0.
        forgive: called with what is wrong; raises in strict mode.
        called: called with what there is to deliver.

    Attributes:
        id: the ``call_id``.
        name: the tool's name.
    """

    __slots__ = ("_called", "_forgive", "_index", "_kind", "_run", "id", "name")

    def __init__(self, kind: str, index: int, forgive: Forgive, called: Callable[[ToolCallDelta], None]) -> None:
        self._kind = kind
        self._index = index
        self._forgive = forgive
        self._called = called
        self._run = Run(kind)
        self.id: str | None = None
        self.name: str | None = None

    def open(self, fields: Json) -> None:
        """The item begins. What it is called with comes later, whatever stands here."""
        self._deliver(*self._identify(fields), "")

    def grow(self, piece: Any) -> None:
        """A piece of the arguments."""
        if not isinstance(piece, str):
            raise ProtocolError("the arguments of a tool call are not a string")
        self._deliver(None, None, self._run.push(piece))

    def settle(self, whole: Any) -> None:
        """All of the arguments; ``null`` says nothing."""
        self._deliver(None, None, self._rest(whole))

    def close(self, fields: Json) -> None:
        """The item has ended, and is ``fields``."""
        call_id, name = self._identify(fields)
        self._deliver(call_id, name, self._rest(fields.get(CALL_TEXTS[self._kind])))

    def repeat(self, fields: Json) -> None:
        """The item has ended before: ``ProtocolError`` when it is another call now."""
        self._identify(fields)
        whole = fields.get(CALL_TEXTS[self._kind])
        if whole is not None and whole != self._run.text:
            raise ProtocolError("the arguments of a tool call changed")

    def release(self) -> None:
        """The answer has ended, and the item has not: what waited is delivered."""
        self._deliver(None, None, self._run.release())

    def part(self, opaque: Opaque | None, *, cut: bool, may_be_empty: bool) -> ToolCall:
        """The call of an answer that has ended. ``opaque`` is the whole item, where there was one; ``cut`` says that it
        is not whole, ``may_be_empty`` that nothing in the answer was cut. Raises ``ProtocolError`` without an id or a
        name."""
        if self.id is None or self.name is None:
            raise ProtocolError(f"tool call {self._index} has no id or no name")
        text = self._run.text
        complete = opaque is not None and not cut and (bool(text) or may_be_empty)
        if complete and text and self._kind != CUSTOM:
            complete = is_object(read_any(text))
        return ToolCall(self.id, self.name, text, complete=complete, opaque=opaque)

    def _identify(self, fields: Json) -> tuple[str | None, str | None]:
        """The id and the name, where they are new."""
        call_id, name = string(fields, "call_id"), string(fields, "name")
        if (call_id and self.id and call_id != self.id) or (name and self.name and name != self.name):
            raise ProtocolError(f"the id or the name of tool call {self._index} changed")
        new = (None if self.id else call_id, None if self.name else name)
        self.id = self.id or call_id
        self.name = self.name or name
        return new

    def _rest(self, whole: Any) -> str:
        """What of the arguments as a whole is new."""
        if whole is None:
            return self._run.release()
        if not isinstance(whole, str):
            raise ProtocolError("the arguments of a tool call are not a string")
        said = bool(self._run.text)
        rest = self._run.rest(whole)
        if rest is None:
            raise ProtocolError("the arguments of a tool call are not what came of them in pieces")
        if said and rest:
            self._forgive(AnomalyCode.TEXT_DIFFERS)
        return self._run.push(rest)

    def _deliver(self, call_id: str | None, name: str | None, text: str) -> None:
        if call_id or name or text:
            self._called(ToolCallDelta(self._index, call_id, name, text or None))
