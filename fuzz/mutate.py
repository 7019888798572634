"""Mutators that know what a stream and a JSON body are made of.

Half of the inputs are changed blindly, as the fuzzer does by itself: the structure must not hide what lies between.
"""

from __future__ import annotations

import random
import re
from typing import Final

from fuzz.check import Mutate
from fuzz.json_tree import change

BLIND: Final = 0.45
PLAN: Final = 0.05
"""How often inputs are changed blindly, and how often in their plan alone."""

_BLANK_LINE: Final = re.compile(rb"(?<=\n\n)|(?<=\r\n\r\n)|(?<=\r\r)")
_CHUNK: Final = b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":%b,"finish_reason":%b}]}\n\n'

FRAGMENTS: Final = (
    _CHUNK % (b'{"content":"x"}', b"null"),
    _CHUNK % (b'{"content":"<think>"}', b"null"),
    _CHUNK % (b'{"content":"</th"}', b"null"),
    _CHUNK % (b'{"content":0.10}', b"null"),
    _CHUNK % (b'{"content":"\\ud83e"}', b"null"),
    _CHUNK % (b'{"content":"\\udd14"}', b"null"),
    _CHUNK % (b'{"reasoning":"r","reasoning_content":"r"}', b"null"),
    _CHUNK % (b'{"refusal":"no"}', b"null"),
    _CHUNK % (b'{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}', b"null"),
    _CHUNK % (b'{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}', b"null"),
    _CHUNK % (b'{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"\\ud83e"}}]}', b"null"),
    _CHUNK % (b'{"tool_calls":[{"id":"a","function":{"name":"f"}},{"function":{"arguments":{"x":1.0}}}]}', b"null"),
    _CHUNK % (b'{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}', b"null"),
    _CHUNK % (b'{"content":[{"type":"text","text":"x"},{"type":"thinking","thinking":[{"text":"y"}]}]}', b"null"),
    _CHUNK % (b'{"reasoning_details":[{"type":"reasoning.text","index":0,"text":"y","signature":"s"}]}', b"null"),
    _CHUNK % (b'{"content":"xx"}', b"null"),
    _CHUNK % (b'{"content":"xxx<think>"}', b'"eos"'),
    _CHUNK % (b"{}", b'"stop"'),
    _CHUNK % (b"{}", b'"tool_calls"'),
    _CHUNK % (b"{}", b'"length"'),
    _CHUNK % (b"{}", b'"content_filter"'),
    b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n',
    b'data: {"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]}\n\n',
    b'data: {"choices":[{"content_filter_offsets":{},"content_filter_results":{"a":{"filtered":true}}}]}\n\n',
    b'data: {"error":{"message":"no"}}\n\n',
    b"data: [DONE]\n\n",
    b"data: [DONE]",
    b"data:\n\n",
    b"data: {\ndata: }\n\n",
    b"event: error\ndata: no\n\n",
    b"event: other\ndata: x\n\n",
    b'error: {"message":"no"}\n\n',
    b'{"error": {\n"message": "no"}\n}\n',
    b": comment\n",
    b"id: 1\nretry: 2\n",
    b"junk\n",
    b"\r",
    b"\xef\xbb\xbf",
    b"\x1f\x8b",
    b"<html>",
)


def _without_meaning(raw: bytes, max_size: int, chance: float, rng: random.Random, blindly: Mutate) -> bytes | None:
    """``raw`` changed blindly, or in its plan alone; ``None`` when ``chance`` wants a change by what it means."""
    if chance < BLIND:
        return blindly(raw, max_size)
    if chance < BLIND + PLAN:
        return (bytes(rng.randrange(256) for _ in range(2)) + raw[2:])[:max_size]
    return None


def events(raw: bytes, max_size: int, seed: int, blindly: Mutate) -> bytes:
    """Change an input whose data is a stream: a whole event, an event's JSON, the line ends, or blindly."""
    rng = random.Random(seed)
    chance = rng.random()
    changed = _without_meaning(raw, max_size, chance, rng, blindly)
    if changed is not None:
        return changed
    head, data = raw[:2].ljust(2, b"\0"), raw[2:]
    parts = [part for part in _BLANK_LINE.split(data) if part] or [b""]
    place = rng.randrange(len(parts))
    if chance < 0.75:
        _change_events(parts, place, rng)
    elif chance < 0.98:
        parts[place] = _change_payload(parts[place], rng)
    else:
        end = rng.choice((b"\r\n", b"\r", b"\n"))
        parts = [re.sub(rb"\r\n|\r|\n", end, part) for part in parts]
    return (head + b"".join(parts))[:max_size]


def _change_events(parts: list[bytes], place: int, rng: random.Random) -> None:
    """One event more, one less, one twice, or two in another order."""
    kind = rng.randrange(6)
    if kind <= 2:
        parts.insert(rng.randrange(len(parts) + 1), rng.choice(FRAGMENTS))
    elif kind == 3:
        del parts[place]
    elif kind == 4:
        parts.insert(place, parts[place])
    else:
        other = rng.randrange(len(parts))
        parts[place], parts[other] = parts[other], parts[place]


def _change_payload(part: bytes, rng: random.Random) -> bytes:
    """``part`` with the JSON of its first payload changed."""
    start = part.find(b"{")
    end = part.rfind(b"}") + 1
    if start < 0 or end <= start:
        return part + rng.choice(FRAGMENTS)
    return part[:start] + change(part[start:end], rng) + part[end:]


def json_body(raw: bytes, max_size: int, seed: int, blindly: Mutate) -> bytes:
    """Change an input whose data is one JSON value: a node of it, what stands around it, or blindly."""
    rng = random.Random(seed)
    chance = rng.random()
    changed = _without_meaning(raw, max_size, chance, rng, blindly)
    if changed is not None:
        return changed
    head, data = raw[:2].ljust(2, b"\0"), raw[2:]
    if chance < 0.55:
        around = rng.choice((b"\xef\xbb\xbf%b", b" \r\n%b", b"%b\n%b", b"[%b]", b'{"error":%b}', b"%b ", b"%b,"))
        return (head + around.replace(b"%b", data))[:max_size]
    return (head + change(data, rng))[:max_size]
