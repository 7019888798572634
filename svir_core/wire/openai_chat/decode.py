"""Decode a Chat Completions stream: 10-chat-completions sections 1 to 9, 11-quirks sections A and B.

Where a rule lives: framing in ``sse``, a body that is no stream in ``opening``, failures in
``wire.failure``, what strict refuses and lenient forgives in ``wire.policy``, what may follow what
and what a finish means in ``table``, payloads that are no JSON object in ``payload``, which choice is the
answer in ``choice``, tool calls in ``calls``, usage in ``usage``, content filtering in ``azure``, whole documents in
``document``, lone surrogates in ``surrogate``, ``<think>`` in ``think``. This file is the way of one chunk through
them: it is judged whole, then delivered whole.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson

from svir_core.errors import UnsupportedError
from svir_core.event import Event, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.limits import Limits
from svir_core.quirk import NONE, Quirk, checked
from svir_core.response import AnomalyCode, Completion, Usage
from svir_core.slow_json import read_exact, read_numbers, without_lone_surrogates
from svir_core.think import THINK_SOURCE, Think, ThinkSplitter, resolve
from svir_core.wire.api import Clock, Mode
from svir_core.wire.failure import sniff
from svir_core.wire.json_value import Json, is_array, is_object
from svir_core.wire.openai_chat import azure, extra, usage
from svir_core.wire.openai_chat.calls import Calls, says_something
from svir_core.wire.openai_chat.choice import Choices
from svir_core.wire.openai_chat.document import as_chunk, as_delta, holds_message, is_document
from svir_core.wire.openai_chat.payload import second_look
from svir_core.wire.openai_chat.surrogate import Mender
from svir_core.wire.openai_chat.table import (
    CHOICE_KEYS,
    CHUNK_KEYS,
    DELTA_KEYS,
    DONE,
    EVENT_TYPES,
    FILTERED,
    FINISHES,
    PLAIN,
    Move,
    State,
    finish_of,
    step,
)
from svir_core.wire.stream import StreamDecoder

NO_KEYS: Final[frozenset[str]] = frozenset()


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
        "_answer",
        "_blocked",
        "_calls",
        "_choices",
        "_extra",
        "_id",
        "_index",
        "_mender",
        "_model",
        "_plain_keys",
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
        quirks: Quirk = NONE,
    ) -> None:
        limits = limits or Limits()
        checked(quirks)
        super().__init__(mode=mode, limits=limits, clock=clock, types=EVENT_TYPES, terminator=DONE)
        markers = resolve(think)
        self._splitter = None if markers is None else ThinkSplitter(markers)
        self._calls = Calls(limits.tool_calls, self._exact_call)
        self._state = State.START
        self._answer = State.START  # what the answer was when it finished
        self._word = ""  # the server's finish reason
        self._blocked = False  # whether a content filter's annotation blocked it
        self._choices = Choices(self._forgive, None if self._policy.lenient else 0)
        self._id: str | None = None
        self._model: str | None = None
        self._usage: Usage | None = None
        self._extra: Json | None = {} if extra else None
        self._mender = Mender()
        self._raw: Json | None = None  # the chunk at hand, lone surrogates still in it
        self._plain_keys = NO_KEYS  # the delta keys that need no move; none before the first chunk
        self._index: int | None = None  # of the answer's choice, as the first chunk had it

    def _named(self) -> tuple[Usage | None, str | None, str | None]:
        return self._usage, self._model, self._id

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
                or choice.get("finish_reason")
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
        finished = self._state is State.FINISHED
        if not choices and not finished and azure.is_prompt_report(chunk):
            self._keep_extra(chunk, None)
            return
        self._id = self._constant(self._id, chunk.get("id"), AnomalyCode.ID_CHANGED)
        self._model = self._constant(self._model, chunk.get("model"), AnomalyCode.MODEL_CHANGED)
        reported = self._reported(chunk)
        choice = self._choices.pick(choices, finished=finished)
        if choice is not None:
            self._choice(choice)
        self._usage = reported
        self._keep_extra(chunk, choice)
        self._index = self._choices.index
        self._plain_keys = PLAIN[self._state] if self._extra is None and not self._mender.halves else NO_KEYS

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

    def _choice(self, choice: Json) -> None:
        delta = choice.get("delta")
        if not is_object(delta):
            if azure.is_annotation(choice):
                self._annotation(choice)
                return
            delta = self._absent_delta(choice, delta)
        self._delta(delta, choice.get("finish_reason"))

    def _absent_delta(self, choice: Json, delta: Any) -> Json:
        if holds_message(choice):
            self._forgive(AnomalyCode.WHOLE_DOCUMENT)
            return as_delta(choice["message"])
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

    # --- a delta: judged, then delivered ---------------------------------------------------------

    def _delta(self, delta: Json, word: Any) -> None:
        said = self._strings(delta)
        calls = delta.get("tool_calls")
        pieces = self._pieces(calls) if calls else []
        state = self._state
        if said.get("reasoning_content") or said.get("reasoning"):
            state = step(state, Move.REASONING)
        if said.get("content"):
            state = step(state, Move.CONTENT)
        if said.get("refusal"):
            state = step(state, Move.REFUSED)
        if pieces:
            state = step(state, Move.CALL)
        if word:
            self._finish_reason(word, state)
        else:
            self._state = state
        if said.get("reasoning") == said.get("reasoning_content"):
            said.pop("reasoning", None)
        if self._raw is not None or self._mender.halves:
            said, pieces = self._mender.mend(said, pieces, delta if self._raw is None else self._delta_in(self._raw))
        self._deliver(said, pieces)

    def _deliver(self, said: dict[str, str], pieces: list[ToolCallDelta]) -> None:
        if first := said.get("reasoning_content"):
            self._reasoned("reasoning_content", first)
        if second := said.get("reasoning"):
            self._reasoned("reasoning", second)
        if content := said.get("content"):
            self._said(content)
        if refusal := said.get("refusal"):
            self._text(refusal)
        for piece in pieces:
            self._called(piece)

    def _strings(self, delta: Json) -> dict[str, str]:
        """The strings of ``delta`` that are not empty, by key."""
        found: dict[str, str] = {}
        for key, value in delta.items():
            if value is None:
                continue
            if key not in DELTA_KEYS:
                self._forgive(AnomalyCode.UNKNOWN_DELTA_KEY)
            elif type(value) is str:
                found[key] = value
            elif key == "content" and type(value) in (int, float):
                self._forgive(AnomalyCode.NUMBER_AS_CONTENT)
                found[key] = self._number()
            elif key != "tool_calls":
                self._forgive(AnomalyCode.WRONG_TYPE)
        return found

    def _number(self) -> str:
        """The number that is the content, as it was spelled."""
        return str(self._delta_in(read_numbers(self._clean()))["content"])

    def _exact_call(self, place: int) -> Json:
        """An entry of the calls at hand, its numbers exact."""
        call: Json = self._delta_in(read_exact(self._clean()))["tool_calls"][place]
        return call

    def _clean(self) -> str:
        """The payload at hand, as JSON text that the fast reader takes."""
        return without_lone_surrogates(self._payload.decode("utf-8", "replace"))

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
        return [piece for place, call in enumerate(calls) if says_something(piece := resolve_piece(call, place))]

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
        self._visible += 1
        self._items.append(TextDelta(text))
        self._transcript.text(text)

    def _reasoned(self, source: str, text: str) -> None:
        self._visible += 1
        self._items.append(ReasoningDelta(source, text))
        self._transcript.reasoning(source, text)

    def _called(self, piece: ToolCallDelta) -> None:
        self._call_pieces += 1
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
