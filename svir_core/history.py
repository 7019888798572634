"""What is wrong with a conversation before it is sent: calls and results that do not fit (11 section D).

Three rules hold for all of it. Every call of a complete history has exactly one result, after it. A result answers
the latest call of its id that came before it. ``Api.matches_by_id`` says the rest: where it is false (Chat
Completions, Anthropic Messages, Gemini) the results come directly after the message with their calls, in any order, and
an id is unique within that message; where it is true (OpenAI Responses) the results come anywhere after their call, and
an id is unique among the calls that wait for one, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import attrs

from svir_core.check import choice, expect, wire_api
from svir_core.message import Message, Role, ToolCall, ToolResult

if TYPE_CHECKING:
    from svir_core.wire.api import Api


class HistoryFaultCode(StrEnum):
    """What is wrong with a call or a result."""

    ORPHAN_RESULT = "orphan_result"
    RESULT_BEFORE_CALL = "result_before_call"
    RESULT_TOO_LATE = "result_too_late"
    SECOND_RESULT = "second_result"
    UNANSWERED_CALL = "unanswered_call"
    INCOMPLETE_CALL = "incomplete_call"
    DUPLICATE_CALL_ID = "duplicate_call_id"
    NO_CALL_ID = "no_call_id"
    NO_CALL_NAME = "no_call_name"
    WRONG_ROLE = "wrong_role"


WORDS: Final[Mapping[HistoryFaultCode, str]] = {
    HistoryFaultCode.ORPHAN_RESULT: "the result of a call that is not in the history",
    HistoryFaultCode.RESULT_BEFORE_CALL: "a result that comes before its call",
    HistoryFaultCode.RESULT_TOO_LATE: "a result that does not come directly after the message with its call",
    HistoryFaultCode.SECOND_RESULT: "a second result of one call",
    HistoryFaultCode.UNANSWERED_CALL: "a call without a result",
    HistoryFaultCode.INCOMPLETE_CALL: "a call whose arguments are not a JSON object",
    HistoryFaultCode.DUPLICATE_CALL_ID: "a call with the id of an earlier call",
    HistoryFaultCode.NO_CALL_ID: "a call without an id",
    HistoryFaultCode.NO_CALL_NAME: "a call without a name",
    HistoryFaultCode.WRONG_ROLE: "calls belong to the assistant, results to the tool role",
}
"""Each fault in our words."""


def _code(value: HistoryFaultCode | str) -> HistoryFaultCode:
    return choice(HistoryFaultCode, value, "HistoryFault.code")


@attrs.frozen
class HistoryFault:
    """One call or result that does not fit.

    Attributes:
        code: what is wrong.
        message, part: where: ``messages[message].parts[part]``.
        call_id: the id of the call (withheld in ``repr``: the server made it).
    """

    code: HistoryFaultCode = attrs.field(converter=_code)
    message: int
    part: int
    call_id: str = attrs.field(default="", repr=False)

    def __str__(self) -> str:
        return f"messages[{self.message}].parts[{self.part}]: {WORDS[self.code]}"


class _Call:
    """A call of the history, and how many results it waits for: more than one where ids are not unique."""

    __slots__ = ("id", "message", "part", "turn", "waiting")

    def __init__(self, call: ToolCall, message: int, part: int, turn: int) -> None:
        self.id = call.id
        self.message = message
        self.part = part
        self.turn = turn
        self.waiting = 1


class _Reading:
    """One pass over a history. A turn is a message with calls, and what follows it until the next message that is
    not one of results."""

    def __init__(self, *, by_id: bool, ids: frozenset[str]) -> None:
        self._by_id = by_id
        self._ids = ids  # of all calls, to tell an orphan from a result that comes early
        self._calls: list[_Call] = []
        self._latest: dict[str, _Call] = {}
        self._turn = 0
        self._early: set[str] = set()
        self.faults: list[HistoryFault] = []

    def message(self, number: int, message: Message) -> None:
        if message.role is not Role.TOOL:
            self._turn += 1
        for place, part in enumerate(message.parts):
            if isinstance(part, ToolCall):
                self._call(part, number, place, message.role)
            elif isinstance(part, ToolResult):
                self._result(part, number, place, message.role)

    def _fault(self, code: HistoryFaultCode, message: int, part: int, call_id: str) -> None:
        self.faults.append(HistoryFault(code, message, part, call_id))

    def _call(self, call: ToolCall, message: int, part: int, role: Role) -> None:
        before = self._latest.get(call.id)
        found = {
            HistoryFaultCode.WRONG_ROLE: role is not Role.ASSISTANT,
            HistoryFaultCode.NO_CALL_ID: not call.id,
            HistoryFaultCode.NO_CALL_NAME: not call.name,
            HistoryFaultCode.INCOMPLETE_CALL: not call.complete,
            HistoryFaultCode.DUPLICATE_CALL_ID: before is not None
            and (before.turn == self._turn or (self._by_id and before.waiting > 0)),
        }
        for code, is_so in found.items():
            if is_so:
                self._fault(code, message, part, call.id)
        if before is not None and found[HistoryFaultCode.DUPLICATE_CALL_ID]:
            before.waiting += 1
        elif call.id:
            opened = self._latest[call.id] = _Call(call, message, part, self._turn)
            self._calls.append(opened)
            if call.id in self._early:
                opened.waiting = 0
                self._early.discard(call.id)

    def _result(self, result: ToolResult, message: int, part: int, role: Role) -> None:
        code = self._judged(result.call_id, role)
        if code is not None:
            self._fault(code, message, part, result.call_id)

    def _judged(self, call_id: str, role: Role) -> HistoryFaultCode | None:
        """What is wrong with a result, if anything; its call counts as answered, so that one mistake is one fault."""
        call = self._latest.get(call_id)
        if call is None and call_id not in self._ids:
            return HistoryFaultCode.ORPHAN_RESULT
        if call is None:
            self._early.add(call_id)
            return HistoryFaultCode.RESULT_BEFORE_CALL
        if not call.waiting:
            return HistoryFaultCode.SECOND_RESULT
        call.waiting -= 1
        if role is not Role.TOOL:
            return HistoryFaultCode.WRONG_ROLE
        if not self._by_id and call.turn != self._turn:
            return HistoryFaultCode.RESULT_TOO_LATE
        return None

    def end(self) -> None:
        for call in self._calls:
            if call.waiting:
                self._fault(HistoryFaultCode.UNANSWERED_CALL, call.message, call.part, call.id)


def check_history(messages: Iterable[Message], api: Api) -> tuple[HistoryFault, ...]:
    """What ``api`` would refuse about the calls and results of ``messages``, in the order of the history; ``()`` when
    nothing. Looks at nothing else, and changes nothing. Which place a result has, and how far an id is unique, goes by
    ``api.matches_by_id``.

    A history that ends with calls still to be answered has a fault for each of them: answer before you send.
    Raises ``ConfigError`` for what is no message, and no wire API.
    """
    wire_api(api)
    history = tuple(expect(message, Message, "every message") for message in messages)
    ids = frozenset(part.id for message in history for part in message.parts if isinstance(part, ToolCall) and part.id)
    reading = _Reading(by_id=api.matches_by_id, ids=ids)
    for number, message in enumerate(history):
        reading.message(number, message)
    reading.end()
    return tuple(sorted(reading.faults, key=lambda fault: (fault.message, fault.part)))
