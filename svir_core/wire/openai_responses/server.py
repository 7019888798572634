"""The server half: events as a stream of OpenAI Responses that the strictest client accepts (00 section 7).

Three rules hold for all of it. Every item is opened, grown and ended, and stands once more in the final response. What
this API cannot carry is refused by name. A refused event has written nothing: the stream can still be ended with an
error.

The stream: ``response.created`` and ``response.in_progress`` with the first event; an item for each run of deltas of
one kind; ``response.completed`` or ``response.incomplete`` with all items and the usage. After an error, which is
``response.failed``, comes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from svir_core.check import an
from svir_core.errors import ConfigError, ErrorKind, SvirError, TruncatedStreamError, UnsupportedError
from svir_core.event import Completed, Event, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.json_text import sanitize
from svir_core.message import Part, Reasoning
from svir_core.response import Completion, FinishReason, joined_text
from svir_core.wire.openai_responses.event_writer import EventWriter
from svir_core.wire.openai_responses.finish import completed
from svir_core.wire.openai_responses.open_calls import OpenCalls, check_calls
from svir_core.wire.openai_responses.table import COMPLETED, CUT, ENDS, FAILED, INCOMPLETE, KINDS, RAW_SOURCE
from svir_core.wire.openai_responses.usage import written
from svir_core.wire.openai_responses.whole_part import reasoning_part, text_item, told_of, trailing, write_parts

REASONS: Final[Mapping[FinishReason, str]] = {
    FinishReason.LENGTH: "max_output_tokens",
    FinishReason.CONTENT_FILTER: "content_filter",
    FinishReason.PAUSE: "steered",
}
"""Why a response is incomplete, unless the completion has this API's own word for it. Other finishes are completed."""

FAILURES: Final[Mapping[ErrorKind, str]] = {
    ErrorKind.RATE_LIMITED: "rate_limit_exceeded",
    ErrorKind.AUTHENTICATION: "invalid_api_key",
    ErrorKind.CONTEXT_OVERFLOW: "context_length_exceeded",
    ErrorKind.CONTENT_FILTER: "invalid_prompt",
}
"""The code of an error. All other kinds are the server's own trouble: ``server_error``."""


class _OpenText:
    """The message or the reasoning that is growing."""

    __slots__ = ("item_id", "part", "pieces", "place")

    def __init__(self, part: str, place: int, item_id: str) -> None:
        self.part = part
        self.place = place
        self.item_id = item_id
        self.pieces: list[str] = []


class StreamEncoder:
    """One answer as a stream: push its events, in order, up to ``Completed``; or end it with ``fail``.

    ``Completed`` alone writes a whole answer, every part of it as the item it was, encrypted reasoning and opaque items
    included. After deltas it is too late for most of that: of what this API gave, those items go out that stand behind
    everything the deltas told. Reasoning of other APIs goes out as ``reasoning_text``, Gemini's as a summary.

    Args:
        model: what the response names as its model.
        id: the id of the response.
        created: when it began, in whole seconds of Unix time.
        refusal: the answer is a refusal: its text goes out as such. It must be known before the text.

    Raises ``ConfigError`` for arguments that are none of these.
    """

    __slots__ = ("_calls", "_done", "_refusal", "_said", "_text", "_writer")

    def __init__(self, model: str, id: str, created: int, *, refusal: bool = False) -> None:
        if not (isinstance(model, str) and model and isinstance(id, str) and id):
            raise ConfigError("a stream needs a model and an id, strings that are not empty")
        if isinstance(created, bool) or not isinstance(created, int) or created < 0:
            raise ConfigError("created must be whole seconds of Unix time")
        self._writer = EventWriter(model, id, created)
        self._refusal = refusal
        self._calls = OpenCalls(self._writer, self._end_text)
        self._said: dict[str, list[str]] = {part: [] for part in KINDS}
        self._text: _OpenText | None = None
        self._done = False

    @property
    def done(self) -> bool:
        """Whether the stream has ended: with an answer or an error. Nothing may follow."""
        return self._done

    def push(self, event: Event) -> bytes:
        """The bytes of ``event``; none for an event that says nothing, or that is held back.

        Raises ``ConfigError`` for an event after the end or out of order, and for a ``Completed`` that
        disagrees with the events before it; ``UnsupportedError`` for a finish that this API has no word
        for, and for a refusal told too late. None of these has written anything.
        """
        self._check_open()
        if isinstance(event, TextDelta):
            self._speak("refusal" if self._refusal else "output_text", event.text)
        elif isinstance(event, ReasoningDelta):
            self._speak(reasoning_part(event.source), event.text)
        elif isinstance(event, ToolCallDelta):
            self._calls.push(event)
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
        code = FAILURES.get(error.kind, "server_error") if isinstance(error, SvirError) else "server_error"
        if isinstance(error, SvirError) and error.kind is ErrorKind.RATE_LIMITED and not error.retryable:
            code = "insufficient_quota"
        message = sanitize(error.detail if isinstance(error, SvirError) else error)
        self._writer.begin()
        self._writer.end(FAILED, status="failed", error={"code": code, "message": message})
        return self._writer.taken()

    def finish(self) -> bytes:
        """The events have ended: nothing after an end, else the error that the answer was cut off."""
        return b"" if self._done else self.fail(TruncatedStreamError("the answer ended before it was complete"))

    def _check_open(self) -> None:
        if self._done:
            raise ConfigError("the stream has ended: nothing may follow")

    # --- deltas ----------------------------------------------------------------------------------

    def _speak(self, part: str, text: str) -> None:
        if not text:
            return
        self._calls.release()
        open_text = self._text
        if open_text is None or open_text.part != part:
            self._end_text()
            item = KINDS[part].item
            item_id = self._writer.new_id(item)
            place = self._writer.open(text_item(item_id, part, "", "in_progress"))
            open_text = self._text = _OpenText(part, place, item_id)
            self._writer.open_part(place, item_id, part, 0)
        open_text.pieces.append(text)
        self._said[part].append(text)
        self._writer.grow_part(open_text.place, open_text.item_id, part, 0, text)

    def _end_text(self, status: str = COMPLETED) -> None:
        """The text that is growing has ended."""
        ended, self._text = self._text, None
        if ended is not None:
            text = "".join(ended.pieces)
            self._writer.close_part(ended.place, ended.item_id, ended.part, 0, text)
            self._writer.close(ended.place, text_item(ended.item_id, ended.part, text, status))

    # --- the end ---------------------------------------------------------------------------------

    def _completed(self, completion: Completion) -> None:
        alone = not (self._calls.runs or any(self._said.values()))
        refuses = completion.finish is FinishReason.REFUSAL
        check_calls(completion.calls)
        if not alone:
            self._agrees(completion)
        status, reason = _ending(completion, completed(told_of(completion.parts, refusal=refuses)))
        self._done = True
        self._writer.begin()
        self._end_text(status)
        if alone:
            write_parts(self._writer, completion.parts, refusal=refuses)
        else:
            self._calls.close(completion.calls)
            write_parts(self._writer, trailing(completion.parts), refusal=refuses)
        name = next(name for name, ended in ENDS.items() if ended == status)
        details = None if reason is None else {"reason": reason}
        usage = None if completion.usage is None else written(completion.usage)
        self._writer.end(name, status=status, incomplete_details=details, usage=usage)

    def _agrees(self, completion: Completion) -> None:
        """Whether ``completion`` is what the deltas said."""
        if (completion.finish is FinishReason.REFUSAL) is not self._refusal:
            raise UnsupportedError("a refusal must be known before its text goes out: StreamEncoder(refusal=True)")
        if joined_text(completion.parts) != "".join(self._said["refusal"] + self._said["output_text"]):
            raise ConfigError("the text of the completion is not that of the events before it")
        for part_type in ("summary_text", RAW_SOURCE):
            if _reasons(completion.parts, part_type) != "".join(self._said[part_type]):
                raise ConfigError("the reasoning of the completion is not that of the events before it")
        self._calls.agree(completion.calls)


def _reasons(parts: Sequence[Part], part_type: str) -> str:
    reasoning = [part for part in parts if isinstance(part, Reasoning)]
    return "".join(part.text for part in reasoning if reasoning_part(part.source) == part_type)


def _ending(completion: Completion, answer: FinishReason) -> tuple[str, str | None]:
    """The status of the response, and why it is incomplete; ``answer`` is what its items say when it is not."""
    finish, raw = completion.finish, completion.raw_finish or ""
    if finish is answer:
        return COMPLETED, None
    if INCOMPLETE.get(raw) is finish:
        return CUT, raw
    if finish in REASONS:
        return CUT, REASONS[finish]
    if finish is FinishReason.OTHER:
        raise UnsupportedError(f"OpenAI Responses has no word for the finish {finish.value!r}")
    raise ConfigError(f"the finish {finish.value!r} does not fit the answer")
