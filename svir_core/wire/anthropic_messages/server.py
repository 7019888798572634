"""The server half: events as a stream of Anthropic Messages that the strictest client accepts (00 section 7).

Three rules hold for all of it. Blocks come one after the other, so calls whose pieces interleave are held back until
the one before them is whole. What this API cannot carry is refused by name. A refused event has written nothing: the
stream can still be ended with an error.

The stream: ``message_start`` with the first event; a block for each run of deltas of one kind; ``message_delta`` with
the stop reason and the usage; ``message_stop``. Figures that clients demand and nobody knows are 0. After an error
comes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from svir_core.check import an
from svir_core.errors import ConfigError, ErrorKind, SvirError, TruncatedStreamError, UnsupportedError
from svir_core.event import Completed, Event, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.message import Part, Reasoning
from svir_core.response import Completion, FinishReason, Usage, joined_text
from svir_core.wire.anthropic_messages.event_writer import EventWriter, error_event
from svir_core.wire.anthropic_messages.held_calls import HeldCalls
from svir_core.wire.anthropic_messages.table import FINISHES, SOURCE, TEXT
from svir_core.wire.anthropic_messages.whole_part import check_parts, trailing, write_part
from svir_core.wire.json_value import Json

WORDS: Final[Mapping[FinishReason, str]] = {
    FinishReason.STOP: "end_turn",
    FinishReason.TOOL_CALLS: "tool_use",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.CONTENT_FILTER: "refusal",  # what filters do surface as (21 section 11)
    FinishReason.REFUSAL: "refusal",
    FinishReason.PAUSE: "pause_turn",
}
"""How a finish is said, unless the completion has this API's own word for it."""

FAILURES: Final[Mapping[ErrorKind, tuple[str, Json | None]]] = {
    ErrorKind.RATE_LIMITED: ("rate_limit_error", None),
    ErrorKind.TIMEOUT: ("timeout_error", None),
    ErrorKind.AUTHENTICATION: ("authentication_error", None),
    ErrorKind.CONTEXT_OVERFLOW: ("request_too_large", None),
    ErrorKind.CONTENT_FILTER: ("invalid_request_error", {"error_code": "content_filter"}),
}
"""``type`` and ``details`` of an error. All other kinds are the server's own trouble: ``api_error``."""

OWN_TROUBLE: Final[tuple[str, Json | None]] = ("api_error", None)


class StreamEncoder:
    """One answer as a stream: push its events, in order, up to ``Completed``; or end it with ``fail``.

    ``Completed`` alone writes a whole answer, every part of it as the block it was, signatures and opaque blocks
    included. After deltas it is too late for most of that: signatures and citations stay out, and of the opaque blocks
    those go out that stand behind everything else. Reasoning of any source goes out as thinking.

    Args:
        model: what ``message_start`` names as its model.
        id: the id of the message.

    Raises ``ConfigError`` for arguments that are none of these.
    """

    __slots__ = ("_calls", "_done", "_said", "_writer")

    def __init__(self, model: str, id: str) -> None:
        if not (isinstance(model, str) and model and isinstance(id, str) and id):
            raise ConfigError("a stream needs a model and an id, strings that are not empty")
        self._writer = EventWriter(model, id)
        self._calls = HeldCalls(self._writer)
        self._said: dict[str, list[str]] = {TEXT: [], SOURCE: []}
        self._done = False

    @property
    def done(self) -> bool:
        """Whether the stream has ended: with an answer or an error. Nothing may follow."""
        return self._done

    def push(self, event: Event) -> bytes:
        """The bytes of ``event``; none for an event that says nothing, or that is held back.

        Raises ``ConfigError`` for an event after the end or out of order, and for a ``Completed`` that disagrees with
        the events before it; ``UnsupportedError`` for a finish that this API has no word for. None of these has
        written anything.
        """
        self._check_open()
        if isinstance(event, TextDelta):
            self._speak(TEXT, event.text)
        elif isinstance(event, ReasoningDelta):
            self._speak(SOURCE, event.text)
        elif isinstance(event, ToolCallDelta):
            self._calls.push(event, self._begin)
        elif isinstance(event, Completed):
            self._completed(event.completion)
        else:
            raise ConfigError(f"{an(type(event))} is no event")
        return self._writer.taken()

    def fail(self, error: SvirError | str) -> bytes:
        """The bytes that end the stream with an error: its ``detail``, or a message of the caller's.

        What an upstream server said is not passed on unless the caller passes it as the message.
        Raises ``ConfigError`` when the stream has already ended.
        """
        self._check_open()
        self._done = True
        if isinstance(error, SvirError):
            kind, details = FAILURES.get(error.kind, OWN_TROUBLE)
            return error_event(kind, error.detail, details)
        return error_event(OWN_TROUBLE[0], error, OWN_TROUBLE[1])

    def finish(self) -> bytes:
        """The events have ended: nothing after an end, else the error that the answer was cut off."""
        return b"" if self._done else self.fail(TruncatedStreamError("the answer ended before it was complete"))

    def _check_open(self) -> None:
        if self._done:
            raise ConfigError("the stream has ended: nothing may follow")

    # --- deltas ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        """What is known before the end; clients demand the figures."""
        self._writer.begin({"input_tokens": 0, "output_tokens": 0})

    def _speak(self, kind: str, text: str) -> None:
        if text:
            self._calls.check_whole()
            self._begin()
            self._calls.flush()
            self._said[kind].append(text)
            self._writer.speak(kind, text)

    # --- the end ---------------------------------------------------------------------------------

    def _completed(self, completion: Completion) -> None:
        word = _word(completion)
        check_parts(completion.parts)
        alone = not (self._calls.any or any(self._said.values()))
        if alone:
            _check_calls(completion)
        else:
            self._agrees(completion)
        self._done = True
        usage = _report(completion.usage)
        if alone:
            self._writer.begin({"input_tokens": 0, **usage, "output_tokens": 0})
        self._begin()
        for part in completion.parts if alone else ():
            write_part(self._writer, part)
        self._calls.flush()
        for part in () if alone else trailing(completion.parts):
            write_part(self._writer, part)
        stopped_at = completion.extra.get("stop_sequence")
        self._writer.end(word, stopped_at if isinstance(stopped_at, str) else None, usage)

    def _agrees(self, completion: Completion) -> None:
        """Whether ``completion`` is what the deltas said."""
        if joined_text(completion.parts) != "".join(self._said[TEXT]):
            raise ConfigError("the text of the completion is not that of the events before it")
        if _reasons(completion.parts) != "".join(self._said[SOURCE]):
            raise ConfigError("the reasoning of the completion is not that of the events before it")
        self._calls.agree(completion.calls)
        _check_calls(completion)


def _reasons(parts: Sequence[Part]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Reasoning))


def _check_calls(completion: Completion) -> None:
    calls = completion.calls
    if not all(call.id and call.name for call in calls):
        raise ConfigError("a tool call has no id or no name")
    if len({call.id for call in calls}) != len(calls):
        raise ConfigError("two tool calls have the same id")


def _word(completion: Completion) -> str:
    """The stop reason: this API's own word where the completion has it."""
    finish, raw = completion.finish, completion.raw_finish
    if finish is FinishReason.TOOL_CALLS and not completion.calls:
        raise ConfigError("the finish 'tool_calls' does not fit an answer without calls")
    if raw is not None and FINISHES.get(raw) is finish:
        return raw
    if finish not in WORDS:
        raise UnsupportedError(f"Anthropic Messages has no word for the finish {finish.value!r}")
    return WORDS[finish]


def _report(usage: Usage | None) -> Json:
    """The usage as this API tells it; the output is demanded by clients."""
    told = usage or Usage()
    report: Json = {"output_tokens": told.output or 0}
    if told.input is not None:
        report["input_tokens"] = max(0, told.input - (told.cache_read or 0) - (told.cache_write or 0))
    if told.cache_write is not None:
        report["cache_creation_input_tokens"] = told.cache_write
    if told.cache_read is not None:
        report["cache_read_input_tokens"] = told.cache_read
    if told.reasoning is not None:
        report["output_tokens_details"] = {"thinking_tokens": told.reasoning}
    return report
