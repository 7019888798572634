"""Whether what a call gave is what its script allows."""

from __future__ import annotations

from typing import Final

import attrs

from soak.case import Case
from soak.fault import Plan
from soak.reader import Seen
from svir_core import (
    Completed,
    Completion,
    ConfigError,
    ErrorKind,
    ReasoningDelta,
    SvirError,
    TextDelta,
)
from svir_core.wire import openai_chat

RELAYS: Final = frozenset({"relay", "relay left"})


class Violation(Exception):
    """A call gave what its script does not allow."""


@attrs.define
class Told:
    """What a decoder makes of the bytes that arrive; neither an answer nor an error: it would read on."""

    text: str = ""
    reasoning: str = ""
    completion: Completion | None = None
    error: SvirError | None = None


def told(body: bytes, *, ended: bool) -> Told:
    """Decode ``body``; ``ended`` when the input is over after it, or cut off: a last line may have no line end."""
    decoder = openai_chat.Decoder()
    events = [decoder.push(body)]
    if ended and not decoder.done:
        events.append(decoder.finish())
    said = Told(error=events[-1].error)
    for event in (event for group in events for event in group.items):
        if isinstance(event, TextDelta):
            said.text += event.text
        elif isinstance(event, ReasoningDelta):
            said.reasoning += event.text
        elif isinstance(event, Completed):
            said.completion = event.completion
    return said


def endings(plan: Plan, said: Told) -> set[ErrorKind | None]:
    """How a stream that is read to its end may end; ``None`` is the whole answer."""
    if said.error is not None:
        kind: ErrorKind | None = said.error.kind
    else:
        kind = None if said.completion is not None else plan.ending
    return {kind} | _early(plan, ErrorKind.TRUNCATED_STREAM)


def _of(plan: Plan) -> Told:
    """What the whole script tells: a body that is cut off is an input that ended."""
    return told(plan.body, ended=plan.ending in (None, ErrorKind.TRANSPORT))


def _early(plan: Plan, cut: ErrorKind) -> set[ErrorKind | None]:
    """What may come before the script's own end."""
    early: set[ErrorKind | None] = set()
    if plan.lossy:
        early |= {cut, ErrorKind.TRANSPORT}
    if plan.idle_timeout is not None:
        early.add(ErrorKind.TIMEOUT)
    return early


def _expect(holds: bool, words: str) -> None:
    if not holds:
        raise Violation(words)


def judge(case: Case, seen: Seen) -> str:
    """The outcome in a word; raises :class:`Violation` for one that the script does not allow."""
    if seen.error is not None and seen.error.status is None and isinstance(seen.error, ConfigError):
        raise Violation(f"the client was blamed: {seen.error!r}")
    if case.plan.refused is not None:
        return _judge_refused(case.plan, seen)
    if case.reader in RELAYS:
        return _judge_relay(case.plan, seen)
    return _judge_stream(case, seen)


def _judge_refused(plan: Plan, seen: Seen) -> str:
    _expect(not seen.text and not seen.reasoning and not seen.data, "something was delivered of a refused call")
    if seen.left:
        return "left"
    refused, error = plan.refused, seen.error
    if refused is None or error is None:
        raise Violation("a refused call raised nothing")
    kinds = {refused.kind} | ({ErrorKind.TIMEOUT} if plan.idle_timeout is not None else set[ErrorKind]())
    _expect(error.kind in kinds, f"refused as {error!r}")
    _expect(error.status == refused.status, f"refused with the status {error.status}")
    _expect(error.retry_after == refused.retry_after, f"retry_after is {error.retry_after}")
    return error.kind.value


def _judge_relay(plan: Plan, seen: Seen) -> str:
    data = bytes(seen.data)
    _expect(plan.body.startswith(data), "the relayed bytes are not those that were sent")
    if seen.left:
        return "left"
    kind = None if seen.error is None else seen.error.kind
    _expect(kind in {plan.ending} | _early(plan, ErrorKind.TRANSPORT), f"the relay ended with {seen.error!r}")
    if not _early(plan, ErrorKind.TRANSPORT):
        _expect(data == plan.body, f"{len(data)} of {len(plan.body)} bytes were relayed")
    expected = told(data, ended=True)
    if expected.completion is not None:
        _expect(seen.tapped == expected.completion, "the tap missed the answer")
    else:
        _expect(isinstance(seen.tapped, SvirError), "the tap took a broken answer for a whole one")
    return "relayed" if kind is None else kind.value


def _judge_stream(case: Case, seen: Seen) -> str:
    plan, said = case.plan, _of(case.plan)
    _expect(said.text.startswith(seen.text), "the text is not what was sent")
    _expect(case.reader == "text" or said.reasoning.startswith(seen.reasoning), "the reasoning is not what was sent")
    if seen.completion is not None:
        _judge_answer(case, seen.completion)
    if seen.error is not None:
        _judge_partial(case, seen, seen.error)
    if seen.left:
        if seen.again is not None:
            _expect(isinstance(seen.again, ConfigError), f"reading on after a cancelled read raised {seen.again!r}")
        return "left"
    kind = None if seen.error is None else seen.error.kind
    _expect(kind in endings(plan, said), f"the stream ended with {seen.error!r}")
    if kind is None:
        _expect(seen.ended and seen.completion is not None, "the stream ended without an answer and without an error")
    if not _early(plan, ErrorKind.TRUNCATED_STREAM) and case.reader not in ("complete", "text"):
        _expect((seen.text, seen.reasoning) == (said.text, said.reasoning), "what had come was not delivered")
    return "whole" if kind is None else kind.value


def _judge_answer(case: Case, answer: Completion) -> None:
    expected = case.answer.completion
    same = (answer.parts, answer.finish, answer.usage, answer.id) == (
        expected.parts,
        expected.finish,
        expected.usage,
        expected.id,
    )
    _expect(same and not answer.anomalies, f"the answer is {answer!r}, not {expected!r}")


def _judge_partial(case: Case, seen: Seen, error: SvirError) -> None:
    """What an error says had been delivered is what was; the readers of less than all have seen less of it."""
    text = "" if error.partial is None else error.partial.text
    if case.reader == "complete":
        _expect(_of(case.plan).text.startswith(text), "the error's partial text is not what was sent")
    else:
        _expect(text == seen.text, f"the error's partial text has {len(text)} characters, and {len(seen.text)} came")
