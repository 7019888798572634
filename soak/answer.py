"""What the server has to say in one call: an answer drawn from a seed, and its event stream."""

from __future__ import annotations

import random
from typing import Final

import attrs

from svir_core import (
    Completed,
    Completion,
    Event,
    FinishReason,
    ReasoningDelta,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from svir_core.message import Part, Reasoning
from svir_core.wire.openai_chat.server import StreamEncoder

WORDS: Final = (
    "stream",
    " of",
    "\n\n",
    " bytes,",
    ' "quoted"',
    " naïve",
    " 語",
    " \U0001f600",
    "\\",
    " {",
    "\tx",
    " é" * 40,
)
"""What answers are made of: escapes, lines, and characters of one to four bytes."""

SOURCE: Final = "reasoning_content"


@attrs.frozen
class Answer:
    """An answer, as the events it is made of, and as what goes over the wire, one piece for each."""

    completion: Completion
    pieces: tuple[bytes, ...]

    @property
    def body(self) -> bytes:
        """The whole event stream."""
        return b"".join(self.pieces)


def _words(rng: random.Random, most: int) -> list[str]:
    return ["".join(rng.choices(WORDS, k=rng.randint(1, 6))) for _ in range(rng.randint(1, most))]


def draw(rng: random.Random) -> Answer:
    """Text, with reasoning before it or calls behind it now and then."""
    events: list[Event] = []
    parts: list[Part] = []
    finish = FinishReason.STOP
    if rng.random() < 0.25:
        thoughts = _words(rng, 10)
        events += [ReasoningDelta(SOURCE, thought) for thought in thoughts]
        parts.append(Reasoning(SOURCE, "".join(thoughts)))
    texts = _words(rng, 30)
    events += [TextDelta(text) for text in texts]
    parts.append(Text("".join(texts)))
    if rng.random() < 0.2:
        finish = FinishReason.TOOL_CALLS
        for index in range(rng.randint(1, 3)):
            pieces = ['{"value":', str(rng.randint(0, 10**6)), "}"]
            events.append(ToolCallDelta(index, f"call_{index}", "lookup", ""))
            events += [ToolCallDelta(index, None, None, piece) for piece in pieces]
            parts.append(ToolCall(f"call_{index}", "lookup", "".join(pieces)))
    count = len(events)
    completion = Completion(finish, parts, usage=Usage(7, count, 7 + count), model="m", id=f"c{rng.getrandbits(32):x}")
    encoder = StreamEncoder("m", completion.id or "", 1735689600)
    sent = [encoder.push(event) for event in (*events, Completed(completion))]
    return Answer(completion, tuple(piece for piece in sent if piece))
