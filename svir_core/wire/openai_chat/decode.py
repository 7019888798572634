"""Decode a Chat Completions stream: 10-chat-completions sections 1 to 9, 11-quirks sections A to C.

Where a rule lives: framing in ``sse``, a body that is no stream in ``opening``, failures in ``wire.failure``, what
strict refuses and lenient forgives in ``wire.policy``, what may follow what and what a finish means in ``table`` and
``progress``, payloads that are no JSON object in ``payload``, which choice is the answer in ``choice``, texts in
``speech``, tool calls in ``calls``, what is said twice in ``repetition``, usage in ``usage``, content filtering in
``azure``, whole documents in ``document``, lone surrogates in ``surrogate``, ``<think>`` in ``think``, keys beyond the
protocol in ``extra``, reasoning details in ``reasoning_details``. This file is the way of one chunk through them: it is
judged whole, then delivered whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import orjson

from svir_core.check import expect
from svir_core.event import Event, ToolCallDelta
from svir_core.limits import Limits
from svir_core.quirk import NONE, Quirk
from svir_core.response import AnomalyCode, Completion, Usage
from svir_core.slow_json import read_exact, read_without_huge, without_lone_surrogates
from svir_core.think import THINK_SOURCE, Think, ThinkSplitter, resolve
from svir_core.wire.api import Clock, Mode
from svir_core.wire.failure import Failure, sniff
from svir_core.wire.json_value import Json, is_array, is_object
from svir_core.wire.openai_chat import azure, extra, usage
from svir_core.wire.openai_chat.calls import Calls, says_something
from svir_core.wire.openai_chat.choice import Choices
from svir_core.wire.openai_chat.document import as_chunk, holds_message, instead_of_delta, is_document
from svir_core.wire.openai_chat.progress import Progress
from svir_core.wire.openai_chat.repetition import CallRepetition
from svir_core.wire.openai_chat.speech import REASONING, SPOKEN, Said, Speech
from svir_core.wire.openai_chat.surrogate import Mender
from svir_core.wire.openai_chat.table import CHOICE_KEYS, CHUNK_KEYS, DONE, EVENT_TYPES, PLAIN, Move, step
from svir_core.wire.payload import second_look
from svir_core.wire.stream import StreamDecoder
from svir_core.wire.verdict import Verdict, overflow_or_server

Reading = tuple[Said, list[ToolCallDelta]]
"""What a delta brings: texts, and pieces of calls."""

NO_KEYS: Final[frozenset[str]] = frozenset()
ABSENT: Final = (None, "")
"""What of a finish reason is as good as none."""

REPETITIONS: Final = Quirk.TOOL_NAME_REPEATED | Quirk.TOOL_ARGUMENTS_RESENT | Quirk.CONTENT_CUMULATIVE
"""The quirks of servers that say things twice."""


class Decoder(StreamDecoder):
    """One streamed answer of Chat Completions. Push bytes in any pieces, iterate what comes back, then ``finish()``.

    Args:
        mode: "strict" refuses what the protocol does not allow; "lenient" forgives and records it.
        think: how markers in the text are read: "split", "keep", "inside", or a ``Think``.
        limits: what the response may cost.
        clock: seconds, from any start; read here and where visible deltas come.
        extra: keep what the server says beyond the protocol on ``completion.extra``.
        quirks: repairs for a server known to need them; none by default.

    Raises ``ConfigError`` for an option that is none of these.
    """

    __slots__ = (
        "_adds_usage",
        "_calls",
        "_choices",
        "_extra",
        "_has_lane",
        "_huge",
        "_id",
        "_index",
        "_mender",
        "_merges",
        "_model",
        "_plain_keys",
        "_progress",
        "_raw",
        "_repeats",
        "_repetition",
        "_reread",
        "_speech",
        "_splitter",
        "_usage",
    )

    def __init__(
        self,
        *,
        mode: Mode | str = Mode.STRICT,
        think: Think | str = "split",
        limits: Limits | None = None,
        clock: Clock = time.monotonic,
        extra: bool = False,
        quirks: Quirk = NONE,
    ) -> None:
        limits = Limits() if limits is None else expect(limits, Limits, "limits")
        super().__init__(mode=mode, limits=limits, clock=clock, types=EVENT_TYPES, terminator=DONE)
        markers = resolve(think)
        self._splitter = None if markers is None else ThinkSplitter(markers)
        self._progress = Progress(expect(quirks, Quirk, "quirks"))
        self._calls = Calls(limits.tool_calls, self._exact_call, quirks)
        self._speech = Speech(self._forgive, self._again, quirks)
        self._repetition = CallRepetition(quirks)
        self._repeats = bool(quirks & REPETITIONS)
        self._merges = Quirk.CHOICES_MERGED in quirks
        self._adds_usage = Quirk.USAGE_INCREMENTS in quirks
        self._choices = Choices(self._forgive, None if self._policy.lenient else 0)
        self._id: str | None = None
        self._model: str | None = None
        self._usage: Usage | None = None
        self._extra: Json | None = {} if expect(extra, bool, "extra") else None
        self._mender = Mender()
        self._raw: Json | None = None  # the chunk at hand, lone surrogates still in it
        self._huge = False  # whether the chunk at hand has numbers that no float holds
        self._reread: tuple[bytes, Any, Json] = b"", None, {}  # a payload, a slower reader, and what it read
        self._has_lane = not (extra or self._repeats or self._merges)
        self._plain_keys = NO_KEYS  # the delta keys that need no move; none before the first chunk
        self._index: int | str | None = None  # of the answer's choice, as the first chunk had it

    def _named(self) -> tuple[Usage | None, str | None, str | None]:
        return self._usage, self._model, self._id

    def _verdict(self, failure: Failure, words: str) -> Verdict:
        return overflow_or_server(failure, words)

    # --- payloads --------------------------------------------------------------------------------

    def _event(self, payload: bytes, name: str | None) -> None:
        """``[DONE]``, or a chunk."""
        chunk: Any
        try:
            chunk = orjson.loads(payload)
        except orjson.JSONDecodeError:
            chunk = None
        if self._plain(chunk):
            return
        if payload == DONE:
            self._finish_answer()
        elif is_object(chunk):
            self._raw = None
            self._huge = False
            self._chunk(chunk)
        else:
            chunk = self._look_again(payload)
            if chunk is not None:
                self._chunk(chunk)

    def _plain(self, chunk: Any) -> bool:
        """The lane of nearly every chunk: one more piece of what came before, and nothing else that any rule looks at.
        False, and nothing done, for everything else: it then goes the general way."""
        try:
            choices = chunk["choices"]
            choice = choices[0]
            delta = choice["delta"]
            if (
                len(delta) != 1
                or chunk["id"] != self._id
                or chunk["model"] != self._model
                or choice["index"] is not self._index  # a small integer is one object; False is not 0
                or choice.get("finish_reason") not in ABSENT
                or chunk.get("usage") is not None
                or len(choices) != 1
                or "error" in chunk
                or "message" in chunk
                or "base_resp" in chunk
                or "x_groq" in chunk
                or "error" in choice
                or "usage" in choice
            ):
                return False
            ((key, value),) = delta.items()
        except (KeyError, IndexError, TypeError, AttributeError):
            return False
        if not value or key not in self._plain_keys:
            return False
        if key == "tool_calls":
            if type(value) is not list:
                return False
            self._choices.place = 0
            for piece in self._pieces(value):
                self._called(piece)
        elif type(value) is not str:
            return False
        elif key == "content":
            self._said(value)
        else:
            self._reasoned(key, value)
        return True

    def _look_again(self, payload: bytes) -> Json | None:
        """The object in a payload that the JSON library does not take, or that is none. A failure comes first."""
        found = second_look(payload)
        if found.chunk is not None:
            self._sniff(found.chunk)
        for code in found.codes:
            self._forgive(code)
        self._raw = found.raw
        self._huge = found.huge
        return found.chunk

    def _sniff(self, chunk: Json) -> None:
        failure = sniff(chunk)
        if failure is not None:
            self._fail_with(failure, self._payload)

    def _document(self, document: Any) -> bool:
        if not is_document(document):
            return False
        self._forgive(AnomalyCode.WHOLE_DOCUMENT)
        self._chunk(as_chunk(self._look_again(self._payload) or document))
        self._finish_answer()
        return True

    # --- a chunk ---------------------------------------------------------------------------------

    def _chunk(self, chunk: Json) -> None:
        """Read one chunk: nothing of it is delivered before all of it is judged."""
        self._sniff(chunk)
        choices = chunk.get("choices")
        finished = self._progress.finished
        if not choices and not finished and azure.is_prompt_report(chunk):
            self._keep_extra(chunk, None)
            return
        self._id = self._constant(self._id, chunk.get("id"), AnomalyCode.ID_CHANGED)
        self._model = self._constant(self._model, chunk.get("model"), AnomalyCode.MODEL_CHANGED)
        if self._merges:
            merged = [choice for choice in choices if is_object(choice)] if is_array(choices) else []
            reported = self._reported(chunk, merged)
            self._keep_extra(chunk, None)
            self._merge(chunk, finished=finished)
        else:
            choice = self._choices.pick(choices, finished=finished)
            reported = self._reported(chunk, [] if choice is None else [choice])
            if choice is not None:
                self._deliver(*self._choice(choice))
            self._keep_extra(chunk, choice)
        self._usage = reported
        self._index = self._choices.index
        self._plain_keys = PLAIN[self._progress.at] if self._has_lane and not self._mender.halves else NO_KEYS

    def _reported(self, chunk: Json, choices: list[Json]) -> Usage | None:
        return usage.after(self._usage, chunk, choices, self._forgive, add=self._adds_usage)

    def _constant(self, known: str | None, value: Any, changed: AnomalyCode) -> str | None:
        if value is None or value == "" or value == known:
            return known
        if not isinstance(value, str):
            self._forgive(AnomalyCode.WRONG_TYPE)
        elif known is None:
            return value
        else:
            self._forgive(changed)
        return known

    def _keep_extra(self, chunk: Json, choice: Json | None) -> None:
        if self._extra is not None:
            if self._huge:
                reading = self._reading(read_without_huge)
                chunk = chunk and reading
                choice = choice and reading["choices"][self._choices.place]
            extra.keep(self._extra, chunk, CHUNK_KEYS)
            extra.keep(self._extra, choice or {}, CHOICE_KEYS)

    def _merge(self, chunk: Json, *, finished: bool) -> None:
        """Read all choices of ``chunk`` as parts of one answer, one after the other."""
        readings: list[Reading] = []
        for index, choice in self._choices.each(chunk.get("choices"), finished=finished):
            self._progress.turn_to(index)
            self._calls.turn_to(index)
            readings.append(self._choice(choice))
            self._keep_extra({}, choice)
        for reading in readings:
            self._deliver(*reading)

    def _choice(self, choice: Json) -> Reading:
        delta = choice.get("delta")
        if not is_object(delta):
            if azure.is_annotation(choice):
                self._annotation(choice)
                return [], []
            delta = instead_of_delta(choice, self._forgive)
        return self._delta(delta, choice.get("finish_reason"))

    def _annotation(self, choice: Json) -> None:
        """The asynchronous content filter speaks (10 section 8)."""
        word = choice.get("finish_reason")
        if word not in ABSENT:
            self._progress.filtered(word)
        if azure.blocks(choice.get("content_filter_results")):
            self._progress.blocked = True

    # --- a delta: judged, then delivered ---------------------------------------------------------

    def _delta(self, delta: Json, word: Any) -> Reading:
        """Judge a delta, and the finish reason beside it: what there is to deliver."""
        said = self._speech.read(delta)
        calls = delta.get("tool_calls")
        pieces = [] if calls is None or calls == "" else self._pieces(calls)
        spoken, called = said, pieces
        if self._raw is not None or self._mender.halves:
            said, pieces = self._mender.mend(said, pieces, delta if self._raw is None else self._delta_in(self._raw))
        if self._repeats:
            spoken = said = self._speech.new(said)
            called = pieces = self._repetition.new(pieces)
        state = self._progress.start()
        for key, _ in spoken:
            state = step(state, SPOKEN.get(key, REASONING))
        if called:
            state = step(state, Move.CALL)
        if spoken or called:
            self._progress.reach(state)
        if word not in ABSENT:
            self._progress.finish(word, state)
        return said, pieces

    def _again(self, read: Callable[[str], Any]) -> Json:
        """The delta at hand in another reading, by ``read``."""
        return self._delta_in(self._reading(read))

    def _reading(self, read: Callable[[str], Any]) -> Json:
        """The chunk at hand, read by ``read``: once for a payload, however often it is asked for."""
        if self._reread[0] is not self._payload or self._reread[1] is not read:
            text = without_lone_surrogates(self._payload.decode("utf-8", "replace"))
            self._reread = self._payload, read, read(text)
        return self._reread[2]

    def _exact_call(self, number: int) -> Json:
        """An entry of the calls at hand, its numbers exact."""
        call: Json = self._again(read_exact)["tool_calls"][number]
        return call

    def _delta_in(self, chunk: Json) -> Json:
        """The delta at hand, in another reading of its chunk."""
        choice: Json = chunk["choices"][self._choices.place]
        delta = choice["message"] if holds_message(choice) else choice.get("delta")
        return delta if is_object(delta) else {}

    def _pieces(self, calls: Any) -> list[ToolCallDelta]:
        if not is_array(calls):
            self._forgive(AnomalyCode.WRONG_TYPE)
            return []
        resolve_piece = self._calls.resolve
        return [piece for number, call in enumerate(calls) if says_something(piece := resolve_piece(call, number))]

    # --- delivery --------------------------------------------------------------------------------

    def _deliver(self, said: Said, pieces: list[ToolCallDelta]) -> None:
        for key, text in said:
            if key == "content":
                self._said(text)
            elif key == "refusal":
                self._text(text)
            else:
                self._reasoned(key, text)
        for piece in pieces:
            self._called(piece)

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

    # --- the end ---------------------------------------------------------------------------------

    def _finish_answer(self, move: Move = Move.DONE) -> None:
        """``[DONE]``, or the end of the input: the answer is whole, or it never finished."""
        finish = self._progress.done(move)
        self._calls.check(self._transcript.calls)
        self._release()
        self._complete(
            Completion(
                finish,
                self._transcript.parts(self._calls.maker(finish, cut=self._progress.may_go_on(move)))
                + self._speech.opaque(),
                self._usage,
                self._timing(),
                self._model,
                self._id,
                tuple(self._policy.anomalies),
                self._policy.count,
                self._progress.word or None,
                self._extra or {},
            )
        )

    def _input_ended(self) -> None:
        if not self._progress.may(Move.END):
            super()._input_ended()
        self._finish_answer(Move.END)

    def _release(self) -> None:
        """What was held back is no marker and no half of a character any more: deliver it."""
        for place in self._mender.halves:
            if isinstance(place, int):
                self._called(ToolCallDelta(place, None, None, "\ufffd"))
            else:
                self._deliver([(place, "\ufffd")], [])
        if self._splitter is not None:
            self._split(self._splitter.finish())

    def _drop(self) -> None:
        super()._drop()
        self._raw = None
        self._reread = b"", None, {}
        self._speech = Speech(self._forgive, self._again, NONE)
        self._repetition = CallRepetition(NONE)


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
