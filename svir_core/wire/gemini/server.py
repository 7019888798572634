"""The server half: events as a stream of Gemini that the strictest client accepts (00 section 7).

Three rules hold for all of it. A call goes out whole, in one part, as the Developer API sends it: it is held back
until something else is said, or the end. What this API cannot carry is refused by name. A refused event has written
nothing: the stream can still be ended with an error.

The stream: a chunk for each event, with one candidate; one chunk with the finish reason and the usage, and then the
end of the input. After an error comes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from svir_core.check import an
from svir_core.errors import ConfigError, ErrorKind, SvirError, TruncatedStreamError, UnsupportedError
from svir_core.event import Completed, Event, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.json_text import sanitize
from svir_core.message import Part, Reasoning, ToolCall
from svir_core.response import Completion, FinishReason, Usage, joined_text
from svir_core.slow_json import read_any
from svir_core.wire.failure import tells_overflow
from svir_core.wire.gemini.table import FINISHES, TOKEN
from svir_core.wire.gemini.whole_part import spoken, trailing, written, written_call
from svir_core.wire.json_value import Json, is_object
from svir_core.wire.transcript import CallRun

WORDS: Final[Mapping[FinishReason, str]] = {
    FinishReason.STOP: "STOP",
    FinishReason.TOOL_CALLS: "STOP",
    FinishReason.LENGTH: "MAX_TOKENS",
    FinishReason.CONTENT_FILTER: "SAFETY",
    FinishReason.PAUSE: "CONTINUATION",
}
"""How a finish is said, unless the completion has this API's own word for it."""

FAILURES: Final[Mapping[ErrorKind, tuple[int, str]]] = {
    ErrorKind.RATE_LIMITED: (429, "RESOURCE_EXHAUSTED"),
    ErrorKind.TIMEOUT: (504, "DEADLINE_EXCEEDED"),
    ErrorKind.AUTHENTICATION: (401, "UNAUTHENTICATED"),
    ErrorKind.CONTEXT_OVERFLOW: (400, "INVALID_ARGUMENT"),
    ErrorKind.CONTENT_FILTER: (400, "INVALID_ARGUMENT"),
}
"""``code`` and ``status`` of an error. All other kinds are the server's own trouble: ``INTERNAL``."""

OWN_TROUBLE: Final = (500, "INTERNAL")

LAST_SECOND: Final = 253402300799
"""The last second that a date of four digits can tell."""


class StreamEncoder:
    """One answer as a stream: push its events, in order, up to ``Completed``; or end it with ``fail``.

    ``Completed`` alone writes a whole answer, every part of it as the part it was, signatures and opaque parts
    included. After deltas it is too late for some of that: the signatures of what was told stay out, but for calls
    that are still held back, and of the other parts those go out that stand behind everything else. Reasoning of any
    source goes out as a thought.

    Args:
        model: what every chunk names as its model.
        id: the id of the response.
        created: when it began, in whole seconds of Unix time.

    Raises ``ConfigError`` for arguments that are none of these.
    """

    __slots__ = ("_calls", "_done", "_head", "_sent", "_text", "_thoughts")

    def __init__(self, model: str, id: str, created: int) -> None:
        if not (isinstance(model, str) and model and isinstance(id, str) and id):
            raise ConfigError("a stream needs a model and an id, strings that are not empty")
        if isinstance(created, bool) or not isinstance(created, int) or not 0 <= created <= LAST_SECOND:
            raise ConfigError("created must be whole seconds of Unix time")
        moment = datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._head: Json = {"modelVersion": sanitize(model), "createTime": moment, "responseId": sanitize(id)}
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._calls: dict[int, CallRun] = {}
        self._sent = 0  # how many calls went out
        self._done = False

    @property
    def done(self) -> bool:
        """Whether the stream has ended: with an answer or an error. Nothing may follow."""
        return self._done

    def push(self, event: Event) -> bytes:
        """The bytes of ``event``; none for an event that says nothing, or that is held back.

        Raises ``ConfigError`` for an event after the end or out of order, and for a ``Completed`` that disagrees with
        the events before it; ``UnsupportedError`` for a finish that this API has no word for, and for a call that is
        not whole. None of these has written anything.
        """
        self._check_open()
        if isinstance(event, TextDelta):
            return self._speak(self._text, event.text)
        if isinstance(event, ReasoningDelta):
            return self._speak(self._thoughts, event.text)
        if isinstance(event, ToolCallDelta):
            self._call(event)
            return b""
        if isinstance(event, Completed):
            return self._completed(event.completion)
        raise ConfigError(f"{an(type(event))} is no event")

    def fail(self, error: SvirError | str) -> bytes:
        """The bytes that end the stream with an error: its ``detail``, or a message of the caller's.

        What an upstream server said is not passed on unless the caller passes it as the message.
        Raises ``ConfigError`` when the stream has already ended.
        """
        self._check_open()
        self._done = True
        kind = error.kind if isinstance(error, SvirError) else None
        message = sanitize(error.detail if isinstance(error, SvirError) else error)
        if kind is ErrorKind.CONTEXT_OVERFLOW and not tells_overflow(message):
            message = f"context length: {message}"  # an overflow is known by its words alone
        code, status = OWN_TROUBLE if kind is None else FAILURES.get(kind, OWN_TROUBLE)
        told: Json = {"code": code, "message": message, "status": status}
        details = _details(error) if isinstance(error, SvirError) else []
        return _event({"error": {**told, "details": details} if details else told})

    def finish(self) -> bytes:
        """The events have ended: nothing after an end, else the error that the answer was cut off."""
        return b"" if self._done else self.fail(TruncatedStreamError("the answer ended before it was complete"))

    def _check_open(self) -> None:
        if self._done:
            raise ConfigError("the stream has ended: nothing may follow")

    # --- deltas ----------------------------------------------------------------------------------

    def _speak(self, said: list[str], text: str) -> bytes:
        if not text:
            return b""
        said.append(text)
        parts = [*self._whole_calls(), spoken(text, thought=said is self._thoughts)]
        return b"".join(map(self._chunk, parts))

    def _call(self, piece: ToolCallDelta) -> None:
        run = self._calls.get(piece.index)
        if piece.index < 0:
            raise ConfigError("the index of a tool call is negative")
        if piece.index < self._sent:
            raise ConfigError(f"tool call {piece.index} goes on after it went out")
        if run is not None and run.id and piece.id and piece.id != run.id:
            raise ConfigError(f"the id of tool call {piece.index} changed")
        if run is None:
            run = self._calls[piece.index] = CallRun(piece.index)
        run.push(piece)

    def _whole_calls(self) -> list[bytes]:
        """The calls that were held back and are whole, in order: something else is said."""
        calls: list[bytes] = []
        while (run := self._calls.get(self._sent)) is not None and run.names:
            arguments = "".join(run.arguments)
            if not is_object(read_any(arguments)):
                break
            calls.append(written_call(ToolCall(run.id, run.name, arguments, synthetic_id=not run.id)))
            self._sent += 1
        return calls

    # --- the end ---------------------------------------------------------------------------------

    def _completed(self, completion: Completion) -> bytes:
        word = _word(completion)
        _check_calls(completion)
        alone = not (self._calls or self._text or self._thoughts)
        if not alone:
            self._agrees(completion)
        rest = completion.parts if alone else (*completion.calls[self._sent :], *trailing(completion.parts))
        parts = [each for each in map(written, rest) if each is not None]
        self._done = True
        return b"".join(map(self._chunk, parts)) + self._end(word, completion)

    def _agrees(self, completion: Completion) -> None:
        """Whether ``completion`` is what the deltas said."""
        if joined_text(completion.parts) != "".join(self._text):
            raise ConfigError("the text of the completion is not that of the events before it")
        if _thoughts(completion.parts) != "".join(self._thoughts):
            raise ConfigError("the reasoning of the completion is not that of the events before it")
        if sorted(self._calls) != list(range(len(completion.calls))):
            raise ConfigError("the calls of the completion are not those of the events before it, numbered from 0")
        for index, call in enumerate(completion.calls):
            run = self._calls[index]
            said = (run.id or (call.id if call.synthetic_id else ""), run.name, "".join(run.arguments))
            if said != (call.id, call.name, call.arguments):
                raise ConfigError(f"tool call {index} of the completion is not that of the events before it")

    def _end(self, word: str, completion: Completion) -> bytes:
        candidate: Json = {"content": {"role": "model"}, "finishReason": word, "index": 0}
        token = completion.extra.get(TOKEN)
        if completion.finish is FinishReason.PAUSE and isinstance(token, str):
            candidate[TOKEN] = sanitize(token)
        report = {} if completion.usage is None else _report(completion.usage)
        return _event({"candidates": [candidate], **({"usageMetadata": report} if report else {}), **self._head})

    # --- chunks ----------------------------------------------------------------------------------

    def _chunk(self, part: bytes) -> bytes:
        content = b'{"content":{"parts":[' + part + b'],"role":"model"},"index":0}'
        return b'data: {"candidates":[' + content + b"]," + orjson.dumps(self._head)[1:] + b"\r\n\r\n"


def _event(payload: Json) -> bytes:
    return b"data: " + orjson.dumps(payload) + b"\r\n\r\n"


def _thoughts(parts: Sequence[Part]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Reasoning))


def _check_calls(completion: Completion) -> None:
    calls = completion.calls
    if not all((call.id or call.synthetic_id) and call.name for call in calls):
        raise ConfigError("a tool call has no id or no name")
    if len({call.id for call in calls}) != len(calls):
        raise ConfigError("two tool calls have the same id")


def _word(completion: Completion) -> str:
    """The finish reason: this API's own word where the completion has it."""
    finish, raw = completion.finish, completion.raw_finish
    if finish not in WORDS:
        raise UnsupportedError(f"Gemini has no word for the finish {finish.value!r}")
    if (finish is FinishReason.TOOL_CALLS) != bool(completion.calls) and finish in (
        FinishReason.TOOL_CALLS,
        FinishReason.STOP,
    ):
        raise ConfigError(f"the finish {finish.value!r} does not fit the calls of the answer")
    if finish is FinishReason.CONTENT_FILTER and completion.calls:
        raise UnsupportedError("Gemini has no answer of tool calls that a content filter ended")
    return raw if raw is not None and FINISHES.get(raw) is finish else WORDS[finish]


def _report(usage: Usage) -> Json:
    """The usage as this API tells it: thoughts are not among the candidates' tokens, and the total is the sum."""
    total = usage.total
    if total is None and usage.input is not None and usage.output is not None:
        total = usage.input + usage.output
    thoughts = None if usage.output is None else usage.reasoning
    figures = {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": None if usage.output is None else max(0, usage.output - (thoughts or 0)),
        "totalTokenCount": total,
        "thoughtsTokenCount": thoughts,
        "cachedContentTokenCount": usage.cache_read,
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def _details(error: SvirError) -> list[Json]:
    """What a client needs to know beyond the status."""
    details: list[Json] = []
    if error.kind is ErrorKind.CONTENT_FILTER:
        details.append(_detail("ErrorInfo", reason="content_filter"))
    if error.kind is ErrorKind.RATE_LIMITED and not error.retryable:
        details.append(_detail("QuotaFailure", violations=[{"quotaId": "RequestsPerDay"}]))
    if error.retry_after is not None:
        details.append(_detail("RetryInfo", retryDelay=f"{error.retry_after:.3f}s"))
    return details


def _detail(kind: str, **fields: Any) -> Json:
    return {"@type": f"type.googleapis.com/google.rpc.{kind}", **fields}
