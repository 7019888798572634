"""Decode a Chat Completions stream: 10-chat-completions sections 1 to 9, 11-quirks sections A and B.

Where a rule lives: framing in ``sse``, a body that is no stream in ``opening``, failures in
``wire.failure``, what strict refuses and lenient forgives in ``wire.policy``, what may follow what
and what a finish means in ``table``, tool calls in ``calls``, usage in ``usage``, content filtering
in ``azure``, whole documents in ``document``, ``<think>`` in ``think``. This file is the way of one chunk
through them: it is judged whole, then delivered whole.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from svir_core.errors import UnsupportedError
from svir_core.event import Event, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.limits import Limits
from svir_core.response import AnomalyCode, Completion, Usage
from svir_core.slow_json import deep, read_numbers, read_surrogates, too_deep, without_lone_surrogates
from svir_core.think import THINK_SOURCE, Think, ThinkSplitter, resolve
from svir_core.wire.api import Clock, Mode
from svir_core.wire.failure import sniff
from svir_core.wire.openai_chat import azure, document, extra, usage
from svir_core.wire.openai_chat.calls import Calls, says_something
from svir_core.wire.openai_chat.surrogate import Mender
from svir_core.wire.openai_chat.table import (
    CHOICE_KEYS,
    CHUNK_KEYS,
    DELTA_KEYS,
    DONE,
    EVENT_TYPES,
    FILTERED,
    FINISHES,
    Move,
    State,
    finish_of,
    step,
)
from svir_core.wire.stream import StreamDecoder


class Decoder(StreamDecoder):
    """One streamed answer of Chat Completions. Push bytes in any pieces, iterate what comes back, then ``finish()``.

    Args:
        mode: "strict" refuses what the protocol does not allow; "lenient" forgives and records it.
        think: how markers in the text are read: "split", "keep", "inside", or a ``Think``.
        limits: what the response may cost.
        clock: seconds, from any start; read here and where visible deltas come.
        extra: keep what the server says beyond the protocol on ``completion.extra``.

    Raises ``ConfigError`` for an option that is none of these.
    """

    __slots__ = (
        "_answer",
        "_blocked",
        "_calls",
        "_extra",
        "_id",
        "_index",
        "_mender",
        "_model",
        "_place",
        "_raw",
        "_splitter",
        "_state",
        "_usage",
        "_word",
    )

    def __init__(
        self,
        *,
        mode: Mode | str = Mode.STRICT,
        think: Think | str = "split",
        limits: Limits | None = None,
        clock: Clock = time.monotonic,
        extra: bool = False,
    ) -> None:
        limits = limits or Limits()
        super().__init__(mode=mode, limits=limits, clock=clock, types=EVENT_TYPES, terminator=DONE)
        markers = resolve(think)
        self._splitter = None if markers is None else ThinkSplitter(markers)
        self._calls = Calls(limits.tool_calls)
        self._state = State.START
        self._answer = State.START  # what the answer was when it finished
        self._word = ""  # the server's finish reason
        self._blocked = False  # whether a content filter's annotation blocked it
        self._index = None if self._policy.lenient else 0  # of the choice that is the answer
        self._place = 0  # where in ``choices`` that choice stands
        self._id: str | None = None
        self._model: str | None = None
        self._usage: Usage | None = None
        self._extra: Json | None = {} if extra else None
        self._mender = Mender()
        self._raw: Any = None  # the payload at hand, lone surrogates still in it

    def _named(self) -> tuple[Usage | None, str | None, str | None]:
        return self._usage, self._model, self._id

    # --- payloads --------------------------------------------------------------------------------

    def _event(self, payload: bytes, name: str | None) -> None:
        if payload == DONE:
            self._finish_answer()
            return
        chunk = self._load(payload)
        if chunk is not None:
            self._chunk(chunk)
            self._raw = None

    def _load(self, payload: bytes) -> Json | None:
        try:
            chunk = orjson.loads(payload)
        except orjson.JSONDecodeError:
            chunk = None
        return chunk if type(chunk) is dict else self._second_reading(payload)

    def _second_reading(self, payload: bytes) -> Json | None:
        """A payload that is no JSON object, or holds what the JSON library refuses. A failure comes before every rule."""
        if payload[:1] == b":":
            self._forgive(AnomalyCode.PAYLOAD_WITH_COLON)
            return None
        text = payload.decode("utf-8", "replace")
        clean = without_lone_surrogates(text)
        chunk: Any = None
        try:
            chunk = orjson.loads(clean)
        except orjson.JSONDecodeError:
            pass
        if chunk is None and too_deep(text):
            deep()
        if is_object(chunk):
            failure = sniff(chunk)
            if failure is not None:
                self._fail_with(failure, payload)
        if text.encode("utf-8", "replace") != payload:
            self._forgive(AnomalyCode.INVALID_UTF8)
        if not is_object(chunk):
            self._forgive(AnomalyCode.NOT_AN_OBJECT)
            return None
        if clean != text:
            self._forgive(AnomalyCode.LONE_SURROGATE)
            self._raw = read_surrogates(text)
        return chunk

    def _document(self, value: Any) -> bool:
        if not document.is_document(value):
            return False
        self._forgive(AnomalyCode.WHOLE_DOCUMENT)
        chunk = self._load(self._payload)
        if chunk is not None:
            self._chunk(document.as_chunk(chunk))
        self._finish_answer()
        return True

    # --- a chunk ---------------------------------------------------------------------------------

    def _chunk(self, chunk: Json) -> None:
        failure = sniff(chunk)
        if failure is not None:
            self._fail_with(failure, self._payload)
        choices = chunk.get("choices")
        if not choices and self._state is not State.FINISHED and azure.is_prompt_report(chunk):
            self._keep_extra(chunk, None)
            return
        value = chunk.get("id")
        if value != self._id:
            self._id = self._constant(self._id, value, AnomalyCode.ID_CHANGED)
        value = chunk.get("model")
        if value != self._model:
            self._model = self._constant(self._model, value, AnomalyCode.MODEL_CHANGED)
        reported = self._reported(chunk)
        choice = self._choose(choices)
        if choice is not None:
            self._choice(choice)
        self._usage = reported
        if self._extra is not None:
            self._keep_extra(chunk, choice)

    def _constant(self, known: str | None, value: Any, changed: AnomalyCode) -> str | None:
        if value is None or value == "":
            return known
        if not isinstance(value, str):
            self._forgive(AnomalyCode.WRONG_TYPE)
        elif known is None:
            return value
        else:
            self._forgive(changed)
        return known

    def _reported(self, chunk: Json) -> Usage | None:
        """The usage known after ``chunk``."""
        known = self._usage
        for report in usage.reports(chunk):
            figures = usage.read(report)
            if figures is None:
                self._forgive(AnomalyCode.USAGE_INCOMPLETE)
                continue
            if known is not None and figures != known:
                self._forgive(AnomalyCode.USAGE_REPEATED)
            known = figures
        return known

    def _keep_extra(self, chunk: Json, choice: Json | None) -> None:
        if self._extra is not None:
            extra.keep(self._extra, chunk, CHUNK_KEYS)
            extra.keep(self._extra, choice or {}, CHOICE_KEYS)

    # --- its choice ------------------------------------------------------------------------------

    def _choose(self, choices: Any) -> Json | None:
        """The choice that is the answer, if the chunk has it."""
        if not choices:
            if self._state is not State.FINISHED:
                self._forgive(AnomalyCode.NO_CHOICES)
            return None
        if not is_array(choices):
            self._forgive(AnomalyCode.WRONG_TYPE)
            return None
        entries = choices
        if len(entries) > 1:
            self._forgive(AnomalyCode.OTHER_CHOICE)
        found: Json | None = None
        for place, entry in enumerate(entries):
            if not self._is_answer(entry, alone=len(entries) == 1):
                continue
            if found is not None:
                raise UnsupportedError("a chunk holds the same choice twice")
            found = entry
            self._place = place
        return found

    def _is_answer(self, choice: Any, *, alone: bool) -> bool:
        if not is_object(choice):
            self._forgive(AnomalyCode.WRONG_TYPE)
            return False
        index = choice.get("index")
        if index is not None and type(index) is not int:
            self._forgive(AnomalyCode.WRONG_TYPE)
            index = None
        if self._index is None:  # lenient: the first index seen is the answer
            self._index = index or 0
        if index is None or index == self._index:
            return True
        if alone:
            self._forgive(AnomalyCode.OTHER_CHOICE)
        return False

    def _choice(self, choice: Json) -> None:
        delta = choice.get("delta")
        if type(delta) is not dict:
            if azure.is_annotation(choice):
                self._annotation(choice)
                return
            delta = self._absent_delta(choice, delta)
        self._delta(delta, choice.get("finish_reason"))

    def _absent_delta(self, choice: Json, delta: Any) -> Json:
        if document.holds_message(choice):
            self._forgive(AnomalyCode.WHOLE_DOCUMENT)
            return document.as_delta(choice["message"])
        if delta is not None and delta != "":
            self._forgive(AnomalyCode.WRONG_TYPE)
        return {}

    def _annotation(self, choice: Json) -> None:
        """The asynchronous content filter speaks (10 section 8)."""
        word = choice.get("finish_reason")
        if word:
            if word != FILTERED:
                raise UnsupportedError("a content filter's annotation has a finish reason that is not its own")
            self._end(FILTERED, Move.FILTER_FINISH, self._state)
        if azure.blocks(choice.get("content_filter_results")):
            self._blocked = True

    def _end(self, word: str, move: Move, state: State) -> None:
        self._state = step(state, move)
        self._word = word
        if state is not State.FINISHED:
            self._answer = state

    # --- its delta: judged, then delivered -------------------------------------------------------

    def _delta(self, delta: Json, word: Any) -> None:
        if not delta.keys() <= DELTA_KEYS and any(delta[key] is not None for key in delta.keys() - DELTA_KEYS):
            self._forgive(AnomalyCode.UNKNOWN_DELTA_KEY)
        if self._raw is not None or self._mender.halves:
            delta = self._mended(delta)
        self._string(delta, "role")
        content = self._string(delta, "content")
        first = self._string(delta, "reasoning_content")
        second = self._string(delta, "reasoning")
        refusal = self._string(delta, "refusal")
        calls = delta.get("tool_calls")
        pieces = self._pieces(calls) if calls else ()
        state = self._state
        if first or second:
            state = step(state, Move.REASONING)
        if content and state is not State.TEXT:
            state = step(state, Move.CONTENT)
        if refusal:
            state = step(state, Move.REFUSED)
        if pieces:
            state = step(state, Move.CALL)
        if word:
            self._finish_reason(word, state)
        else:
            self._state = state
        if first:
            self._reasoned("reasoning_content", first)
        if second and second != first:
            self._reasoned("reasoning", second)
        if content:
            self._said(content)
        if refusal:
            self._text(refusal)
        for piece in pieces:
            self._called(piece)

    def _string(self, delta: Json, key: str) -> str:
        value = delta.get(key)
        if type(value) is str:
            return value
        if value is None:
            return ""
        if key == "content" and type(value) in (int, float):
            self._forgive(AnomalyCode.NUMBER_AS_CONTENT)
            return self._number()
        self._forgive(AnomalyCode.WRONG_TYPE)
        return ""

    def _number(self) -> str:
        """The number that is the content, as it was spelled."""
        choice = read_numbers(without_lone_surrogates(self._payload.decode("utf-8", "replace")))["choices"][self._place]
        return str((choice.get("delta") or choice["message"])["content"])

    def _mended(self, delta: Json) -> Json:
        raw = delta
        if self._raw is not None:
            choice = self._raw["choices"][self._place]
            raw = choice.get("delta") or choice.get("message") or {}
        return self._mender.mend(delta, raw)

    def _pieces(self, calls: Any) -> list[ToolCallDelta]:
        if not is_array(calls):
            self._forgive(AnomalyCode.WRONG_TYPE)
            return []
        pieces = [self._calls.resolve(call) for call in calls]
        return [piece for piece in pieces if says_something(piece)]

    def _finish_reason(self, word: Any, state: State) -> None:
        if not isinstance(word, str) or word not in FINISHES:
            shown = word if isinstance(word, str) else None
            raise UnsupportedError("the finish reason is none that svir knows", server_message=shown)
        self._end(word, Move.FINISH, state)

    # --- delivery --------------------------------------------------------------------------------

    def _said(self, content: str) -> None:
        """Content: text, and reasoning between markers."""
        splitter = self._splitter
        if splitter is None or (splitter.idle and splitter.trigger not in content):
            self._text(content)
        else:
            self._split(splitter.push(content))

    def _split(self, pieces: list[tuple[bool, str]]) -> None:
        for is_reasoning, text in pieces:
            if is_reasoning:
                self._reasoned(THINK_SOURCE, text)
            else:
                self._text(text)

    def _text(self, text: str) -> None:
        self.output_seen += 1
        self._visible += 1
        self._items.append(TextDelta(text))
        self._transcript.text(text)

    def _reasoned(self, source: str, text: str) -> None:
        self.output_seen += 1
        self._visible += 1
        self._items.append(ReasoningDelta(source, text))
        self._transcript.reasoning(source, text)

    def _called(self, piece: ToolCallDelta) -> None:
        self.output_seen += 1
        self._items.append(piece)
        self._transcript.call(piece)

    # --- the end ---------------------------------------------------------------------------------

    def _finish_answer(self) -> None:
        """``[DONE]``: the answer is whole, or it never finished."""
        self._state = step(self._state, Move.DONE)
        finish = finish_of(FILTERED if self._blocked else self._word, self._answer)
        self._calls.check(self._transcript.calls)
        self._release()
        self._complete(
            Completion(
                finish,
                self._transcript.parts(self._calls.maker(finish)),
                self._usage,
                self._timing(),
                self._model,
                self._id,
                tuple(self._policy.anomalies),
                self._policy.count,
                self._word,
                self._extra or {},
            )
        )

    def _release(self) -> None:
        """What was held back is no marker and no half of a character any more: deliver it."""
        for place, _half in self._mender.halves.items():
            if isinstance(place, int):
                self._called(ToolCallDelta(place, None, None, "\ufffd"))
            elif place == "content":
                self._said("\ufffd")
            elif place == "refusal":
                self._text("\ufffd")
            else:
                self._reasoned(place, "\ufffd")
        if self._splitter is not None:
            self._split(self._splitter.finish())


def decode(chunks: Iterable[bytes | bytearray | memoryview], **options: Any) -> Iterator[Event]:
    """The events of one streamed answer: ``Decoder(**options)``, pushed and finished.

    Raises the decoder's error after the last good event; stops reading ``chunks`` once the answer is whole.
    """
    decoder = Decoder(**options)
    for chunk in chunks:
        yield from decoder.push(chunk)
        if decoder.done:
            return
    yield from decoder.finish()
