"""The server half: events as a Chat Completions stream that the strictest client accepts (00 section 7, 11 section D).

Three rules hold for all of it. What is legal is read from the decoder's own tables, so that what is
written here is read there. What this API cannot carry is refused by name. A refused event has
written nothing: the stream can still be ended with an error.

The stream: a chunk with the role; a chunk for each event; one chunk with the finish reason; one with
the usage and no choices, when it was asked for and is known; ``[DONE]``. Absent is ``null``, or not
there, never ``""``. There are no ``id:`` fields and no comments. After an error comes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Final

import orjson

from svir_core.check import an
from svir_core.errors import ConfigError, ErrorKind, SvirError, TruncatedStreamError, UnsupportedError
from svir_core.event import Completed, Event, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.json_text import sanitize
from svir_core.message import Opaque, Part, Reasoning, Text, ToolCall
from svir_core.response import Completion, FinishReason, Usage, joined_text, merged_reasoning
from svir_core.think import THINK_SOURCE, Think
from svir_core.wire.json_value import Json
from svir_core.wire.openai_chat.table import DONE, REASONING_KEYS, Move, State, finish_of, step
from svir_core.wire.transcript import CallRun, Transcript

WORDS: Final[Mapping[FinishReason, str]] = {
    FinishReason.STOP: "stop",
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.LENGTH: "length",
    FinishReason.CONTENT_FILTER: "content_filter",
    FinishReason.REFUSAL: "stop",
}
"""How a finish is said. Not here: this API has no word for it. A refusal that was cut is said as ``length``."""

FAILURES: Final[Mapping[ErrorKind, tuple[str, str]]] = {
    ErrorKind.CONTEXT_OVERFLOW: ("invalid_request_error", "context_length_exceeded"),
    ErrorKind.CONTENT_FILTER: ("invalid_request_error", "content_filter"),
    ErrorKind.RATE_LIMITED: ("rate_limit_error", "rate_limit_exceeded"),
}
"""``type`` and ``code`` of an error. All other kinds are the server's own trouble: ``server_error``, no code."""

_OPEN, _CLOSE = Think().markers


class StreamEncoder:
    """One answer as a stream: push its events, in order, up to ``Completed``; or end it with ``fail``.

    A call is opened with its whole name and its id, as clients want it: it is held back until its
    first arguments, the next event of another kind, or the end. Reasoning between ``<think>``
    markers is closed before text, calls and the end. Text goes out as it is: markers in it are for
    the reader to take as text or as reasoning.

    ``Completed`` alone writes a whole answer, part by part. What an API gave beside the parts, and opaque parts, stay
    out. Reasoning of the sources of this API goes out as it came: ``reasoning_content`` and ``reasoning`` under these
    keys, ``think`` between markers. Reasoning of any other source (``thinking``, ``thought``, ``reasoning_summary``)
    goes out as ``reasoning_content``: who reads the stream gets what was sent, but for that source.

    Args:
        model: what every chunk names as its model.
        id: the answer's id, the same in every chunk.
        created: when the answer began, in whole seconds of Unix time.
        include_usage: whether the client asked for usage (``stream_options.include_usage``).
        refusal: the answer is a refusal: its text goes out as such. It must be known before the text.

    Raises ``ConfigError`` for arguments that are none of these.
    """

    __slots__ = (
        "_done",
        "_frame",
        "_held",
        "_include_usage",
        "_refusal",
        "_started",
        "_state",
        "_tail",
        "_thinking",
        "_transcript",
    )

    def __init__(self, model: str, id: str, created: int, *, include_usage: bool = True, refusal: bool = False) -> None:
        if not (isinstance(model, str) and model and isinstance(id, str) and id):
            raise ConfigError("a stream needs a model and an id, strings that are not empty")
        if isinstance(created, bool) or not isinstance(created, int) or created < 0:
            raise ConfigError("created must be whole seconds of Unix time")
        self._frame: Json = {
            "id": sanitize(id),
            "object": "chat.completion.chunk",
            "created": created,
            "model": sanitize(model),
        }
        self._include_usage = include_usage
        self._refusal = refusal
        self._started = False
        self._done = False
        self._state = State.START
        self._transcript = Transcript()
        self._held: dict[int, CallRun] = {}  # calls not opened yet
        self._thinking = False  # whether the opening marker went out and the closing one did not
        self._tail = ""  # the end of the reasoning since: a closing marker may stand across two pieces

    @property
    def done(self) -> bool:
        """Whether the stream has ended: with an answer or an error. Nothing may follow."""
        return self._done

    def push(self, event: Event) -> bytes:
        """The bytes of ``event``; none for an event that says nothing, or that is held back.

        Raises ``ConfigError`` for an event after the end or out of order, for a part that is none of an answer's, and
        for a ``Completed`` that disagrees with the events before it; ``UnsupportedError`` for what this API cannot
        carry: a closing marker inside ``think`` reasoning, a finish it has no word for, a refusal told too late;
        ``ProtocolError`` for a refusal mixed with content or calls, and for a finish that the answer cannot have
        (``tool_calls`` without a call, ``content_filter`` with one). None of these has written anything.
        """
        self._check_open()
        if isinstance(event, TextDelta):
            return self._text(event.text) if event.text else b""
        if isinstance(event, ReasoningDelta):
            return self._reasoning(event) if event.text else b""
        if isinstance(event, ToolCallDelta):
            return self._call(event)
        if isinstance(event, Completed):
            said = bool(self._transcript.parts())
            data = self._completed(event.completion) if said else self._whole(event.completion)
            self._done = True
            return data
        raise ConfigError(f"{an(type(event))} is no event")

    def fail(self, error: SvirError | str) -> bytes:
        """The bytes that end the stream with an error: its ``detail``, or a message of the caller's.

        What an upstream server said is not passed on unless the caller passes it as the message.
        Raises ``ConfigError`` when the stream has already ended.
        """
        self._check_open()
        self._done = True
        kind, code = (
            FAILURES.get(error.kind, ("server_error", None)) if isinstance(error, SvirError) else ("server_error", None)
        )
        message = sanitize(error.detail if isinstance(error, SvirError) else error)
        return _event({"error": {"message": message, "type": kind, "param": None, "code": code}})

    def finish(self) -> bytes:
        """The events have ended: nothing after an end, else the error that the answer was cut off."""
        return b"" if self._done else self.fail(TruncatedStreamError("the answer ended before it was complete"))

    def _check_open(self) -> None:
        if self._done:
            raise ConfigError("the stream has ended: nothing may follow")

    # --- deltas ----------------------------------------------------------------------------------

    def _text(self, text: str) -> bytes:
        self._state = step(self._state, Move.REFUSED if self._refusal else Move.CONTENT)
        self._transcript.text(text)
        key = "refusal" if self._refusal else "content"
        return self._release() + self._delta({key: self._closing() + sanitize(text)})

    def _reasoning(self, event: ReasoningDelta) -> bytes:
        between = event.source == THINK_SOURCE
        if between and _CLOSE in self._tail + event.text:
            raise UnsupportedError("reasoning that holds its own closing marker cannot go out between markers")
        self._state = step(self._state, Move.CONTENT if between else Move.REASONING)
        source = _written_as(event.source)
        self._transcript.reasoning(source, event.text)
        released = self._release()
        text = sanitize(event.text)
        return released + self._delta({"content": self._opening(text)} if between else {source: text})

    def _opening(self, text: str) -> str:
        """Reasoning, after the opening marker where one is due."""
        due, self._thinking = not self._thinking, True
        self._tail = (self._tail + text)[1 - len(_CLOSE) :]
        return _OPEN + text if due else text

    def _closing(self) -> str:
        """The closing marker, when one is due."""
        due, self._thinking, self._tail = self._thinking, False, ""
        return _CLOSE if due else ""

    def _closed(self) -> bytes:
        """The closing marker as a chunk of its own, when one is due."""
        closing = self._closing()
        return self._delta({"content": closing}) if closing else b""

    def _call(self, piece: ToolCallDelta) -> bytes:
        if piece.index < 0:
            raise ConfigError("the index of a tool call is negative")
        run = self._transcript.calls.get(piece.index)
        if run is not None and run.id and piece.id and piece.id != run.id:
            raise ConfigError(f"the id of tool call {piece.index} changed")
        self._state = step(self._state, Move.CALL)
        self._transcript.call(piece)
        if run is None:
            released = self._release()
            run = self._held[piece.index] = self._transcript.calls[piece.index]
        else:
            released = self._release(but=piece.index)
        if piece.index not in self._held:
            return released + self._continued(piece)
        return released + (self._release() if run.arguments else b"")

    def _continued(self, piece: ToolCallDelta) -> bytes:
        function = {
            key: sanitize(value) for key, value in (("name", piece.name), ("arguments", piece.arguments)) if value
        }
        return self._delta({"tool_calls": [{"index": piece.index, "function": function}]}) if function else b""

    def _release(self, but: int | None = None) -> bytes:
        """Open the calls that were held back and can be opened, in the order they came."""
        ready = [run for index, run in self._held.items() if index != but and run.id and run.names]
        return b"".join(self._opened(run, run.id) for run in ready)

    def _opened(self, run: CallRun, call_id: str) -> bytes:
        del self._held[run.index]
        function = {"name": sanitize(run.name), "arguments": sanitize("".join(run.arguments))}
        call = {"index": run.index, "id": sanitize(call_id), "type": "function", "function": function}
        return self._closed() + self._delta({"tool_calls": [call]})

    # --- the end ---------------------------------------------------------------------------------

    def _whole(self, completion: Completion) -> bytes:
        """An answer of which nothing was said before; written by another encoder, so that a refusal leaves no trace."""
        refusal = self._refusal or completion.finish is FinishReason.REFUSAL
        encoder = StreamEncoder("m", "i", 0, include_usage=self._include_usage, refusal=refusal)
        encoder._frame = self._frame
        said = [encoder.push(event) for event in _events_of(completion.parts)]
        return b"".join([*said, encoder._completed(completion)])

    def _completed(self, completion: Completion) -> bytes:
        word = self._word(completion)
        calls = self._agreed(completion)
        self._state = State.COMPLETE
        opened = [self._opened(run, call.id) for run, call in calls if run.index in self._held]
        end = [self._closed(), self._delta({}, word), self._usage(completion.usage), b"data: " + DONE + b"\n\n"]
        return b"".join(opened + end)

    def _word(self, completion: Completion) -> str:
        finish = completion.finish
        if finish not in WORDS:
            raise UnsupportedError(f"Chat Completions has no word for the finish {finish.value!r}")
        if finish is FinishReason.REFUSAL and not self._refusal:
            raise UnsupportedError("a refusal must be known before its text goes out: StreamEncoder(refusal=True)")
        word = "length" if finish is FinishReason.REFUSAL and completion.raw_finish == "length" else WORDS[finish]
        if finish_of(word, self._state) is not finish:
            raise ConfigError(f"the finish {finish.value!r} does not fit the events before it")
        return word

    def _agreed(self, completion: Completion) -> list[tuple[CallRun, ToolCall]]:
        """The calls, each as its pieces and as the completion has it; all of it must agree."""
        parts = self._transcript.parts()
        if joined_text(completion.parts) != joined_text(parts):
            raise ConfigError("the text of the completion is not that of the events before it")
        if _reasons(completion.parts) != _reasons(parts):
            raise ConfigError("the reasoning of the completion is not that of the events before it")
        runs = [run for _, run in sorted(self._transcript.calls.items())]
        calls = completion.calls
        if sorted(run.index for run in runs) != list(range(len(calls))):
            raise ConfigError("the calls of the completion are not those of the events before it, numbered from 0")
        for run, call in zip(runs, calls, strict=True):
            said = (run.id or (call.id if call.synthetic_id else ""), run.name, "".join(run.arguments))
            if not call.id or not call.name or said != (call.id, call.name, call.arguments):
                raise ConfigError(f"tool call {run.index} of the completion is not that of the events before it")
        if len({call.id for call in calls}) != len(calls):
            raise ConfigError("two tool calls have the same id")
        return list(zip(runs, calls, strict=True))

    def _usage(self, usage: Usage | None) -> bytes:
        if not self._include_usage or usage is None or usage.input is None or usage.output is None:
            return b""  # a report without both figures is one that clients refuse
        total = usage.input + usage.output if usage.total is None else usage.total
        report: Json = {"prompt_tokens": usage.input, "completion_tokens": usage.output, "total_tokens": total}
        read = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
        for group, details in (
            ("prompt_tokens_details", read),
            ("completion_tokens_details", {"reasoning_tokens": usage.reasoning}),
        ):
            known = {name: figure for name, figure in details.items() if figure is not None}
            if known:
                report[group] = known
        return _event({**self._frame, "choices": [], "usage": report})

    # --- chunks ----------------------------------------------------------------------------------

    def _delta(self, delta: Json, finish: str | None = None) -> bytes:
        chunk = self._chunk(delta, finish)
        if self._started:
            return chunk
        self._started = True
        return self._chunk({"role": "assistant", "content": None}, None) + chunk

    def _chunk(self, delta: Json, finish: str | None) -> bytes:
        chunk: Json = {**self._frame, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        if self._include_usage:
            chunk["usage"] = None
        return _event(chunk)


def _event(payload: Json) -> bytes:
    return b"data: " + orjson.dumps(payload) + b"\n\n"


def _written_as(source: str) -> str:
    """The source that reasoning has for who reads the stream."""
    return source if source == THINK_SOURCE or source in REASONING_KEYS else REASONING_KEYS[0]


def _reasons(parts: Sequence[Part]) -> dict[str, str]:
    told = tuple(Reasoning(_written_as(part.source), part.text) for part in parts if isinstance(part, Reasoning))
    return {reasoning.source: reasoning.text for reasoning in merged_reasoning(told)}


def _events_of(parts: Sequence[Part]) -> Iterator[Event]:
    """The events that say what ``parts`` say."""
    calls = count()
    for part in parts:
        if isinstance(part, Text):
            yield TextDelta(part.text)
        elif isinstance(part, Reasoning):
            yield ReasoningDelta(part.source, part.text)
        elif isinstance(part, ToolCall):
            yield ToolCallDelta(next(calls), part.id, part.name, part.arguments)
        elif not isinstance(part, Opaque):
            raise ConfigError(f"{an(type(part))} is no part of an answer")


def encode_stream(
    events: Iterable[Event],
    *,
    model: str,
    id: str,
    created: int,
    include_usage: bool = True,
    refusal: bool | None = None,
) -> Iterator[bytes]:
    """The stream of ``events``, piece by piece: :class:`StreamEncoder` over an iterable.

    An error that ``events`` raises ends the stream as the error it is; events that end too early end
    it as cut off. ``refusal`` need not be given for a finished sequence, which tells it itself.
    Raises what ``StreamEncoder.push`` raises.
    """
    if refusal is None:
        refusal = isinstance(events, Sequence) and _refuses(events)
    encoder = StreamEncoder(model, id, created, include_usage=include_usage, refusal=refusal)
    source = iter(events)
    while not encoder.done:
        try:
            event = next(source, None)
        except SvirError as error:
            yield encoder.fail(error)
            return
        data = encoder.finish() if event is None else encoder.push(event)
        if data:
            yield data


def _refuses(events: Sequence[Event]) -> bool:
    last = events[-1] if len(events) else None
    return isinstance(last, Completed) and last.completion.finish is FinishReason.REFUSAL
