"""The seeds: what servers were recorded to send, and what the conformance cases push, made into inputs at run time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from fuzz.plan import written

CASES: Final = Path(__file__).parent.parent / "conformance"
EVENTS_KEPT: Final = 2
"""Of a recorded stream the first and the last events are a seed: what lies between repeats them."""

DICTIONARY: Final = (
    b"data: ", b"event: error", b"[DONE]", b"\n\n", b"\r\n", b"\xef\xbb\xbf", b'"choices":[', b'"delta":{',
    b'"content":"', b'"tool_calls":[', b'"finish_reason":"stop"', b'"usage":{', b'"error":', b'"message":',
    b"<think>", b"</think>", b"\\ud83e", b"\\udd14", "\U0001f914".encode(), b"\xff", b"context length",
)  # fmt: skip
"""Words for blind changes."""

TEXTS: Final = (
    "x<think>y</think>z", "<thi", "</think>", "aabaabaa", "<<><>>", "abcabcabcabd", "<think><think></think></think>",
    '"\\/\b\f\n\r\t\x00\x1f\x7f', "\u00e9\u2028\uffff\U0001f914", "",
)  # fmt: skip

_IDLE: Final = re.compile(rb'"(?:object|created|system_fingerprint)": ?(?:"chat[^"]*"|"[bf][^"]*"|\d+), ?')
_ID: Final = re.compile(rb'("id": ?"chatcmpl-)[^"]+')


def _content(value: Any) -> bytes:
    return str(value).encode() if isinstance(value, str) else bytes.fromhex(value["hex"])


def _documents(folder: str) -> Iterator[dict[str, Any]]:
    for path in sorted((CASES / folder).rglob("*.json")):
        yield json.loads(path.read_text(encoding="utf-8"))


def recorded() -> Iterator[bytes]:
    """Every recorded stream, whole."""
    for path in sorted((CASES / "decoder").rglob("*.sse")):
        yield path.read_bytes()


def _condensed(stream: bytes) -> bytes:
    """The first and the last events of a stream, without members that no rule reads: small inputs are many."""
    stream = _IDLE.sub(b"", _ID.sub(rb"\1c", stream))
    parts = re.split(rb"(?<=\n\n)", stream)
    return stream if len(parts) <= 2 * EVENTS_KEPT else b"".join(parts[:EVENTS_KEPT] + parts[-EVENTS_KEPT - 1 :])


def streams() -> Iterator[bytes]:
    """The recorded streams, condensed, and what the decoder cases push."""
    yield from map(_condensed, recorded())
    for case in _documents("decoder"):
        if "chunks" in case:
            yield _condensed(b"".join(map(_content, case["chunks"])))


def of_api(name: str) -> Iterator[bytes]:
    """The recorded streams of another API than Chat Completions, and what its decoder cases push."""
    for path in sorted((CASES / "decoder" / name).rglob("*.sse")):
        yield path.read_bytes()
    for case in _documents(f"decoder/{name}"):
        if "chunks" in case:
            yield b"".join(map(_content, case["chunks"]))


def bodies() -> Iterator[bytes]:
    """The recorded bodies, those of the transport cases, and the payloads of the streams."""
    for path in sorted((CASES / "transport").rglob("*.body")):
        yield path.read_bytes()
    for case in _documents("transport"):
        for answer in case.get("server", ()):
            if "body" in answer:
                yield _content(answer["body"])
    for stream in streams():
        if not stream.startswith(b"data:"):
            yield stream
        yield from (match[1] for match in re.finditer(rb"data: (\{[^\r\n]+)", stream))


def texts() -> Iterator[bytes]:
    """Texts with markers, with what JSON escapes, and with characters of every length."""
    return map(str.encode, TEXTS)


SOURCES: Final[Mapping[str, Callable[[], Iterator[bytes]]]] = {
    "streams": streams,
    "openai_responses": partial(of_api, "openai_responses"),
    "anthropic_messages": partial(of_api, "anthropic_messages"),
    "gemini": partial(of_api, "gemini"),
    "bodies": bodies,
    "texts": texts,
}


def dictionary() -> str:
    """The words as libFuzzer reads them."""
    spelled = ("".join(f"\\x{byte:02x}" for byte in word) for word in DICTIONARY)
    return "".join(f'"{word}"\n' for word in spelled)


def inputs(source: str, max_size: int) -> list[bytes]:
    """The inputs of one source, each once, with plans that differ."""
    found = list(dict.fromkeys(data[: max_size - 2] for data in SOURCES[source]()))
    return [written(data, number * 37 % 256, number * 11 % 256) for number, data in enumerate(found)]
