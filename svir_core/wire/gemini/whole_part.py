"""One part of an answer as the part of the wire that it was: what this API gave beside it goes out with it.

Another API's opaque data is no business of this one's clients, and stays out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from svir_core.check import an
from svir_core.errors import ConfigError, UnsupportedError
from svir_core.json_text import sanitize, string
from svir_core.message import Opaque, Part, Reasoning, Text, ToolCall
from svir_core.slow_json import read_any, without_lone_surrogates
from svir_core.wire.gemini.conversation import is_call
from svir_core.wire.gemini.table import API_NAME
from svir_core.wire.json_value import Json, is_object

ONE_LINE: Final = {ord("\n"): " ", ord("\r"): " "}
"""Line ends in JSON are white space: its strings hold none."""


def spoken(text: str, *, thought: bool) -> bytes:
    """A piece of text, or of a thought."""
    return b'{"text":' + string(text) + (b',"thought":true}' if thought else b"}")


def written(part: Part) -> bytes | None:
    """A part; ``None`` for one that says nothing here. ``ConfigError`` when it is none of an answer's,
    ``UnsupportedError`` for a call that is not whole."""
    if isinstance(part, ToolCall):
        return written_call(part)
    if isinstance(part, Opaque):
        own = _own(part)
        return None if own is None else own[0]
    if not isinstance(part, Text | Reasoning):
        raise ConfigError(f"{an(type(part))} is no part of an answer")
    thought = isinstance(part, Reasoning)
    own = _own(part.opaque)
    if own is not None and own[1].get("text") == part.text and (own[1].get("thought") is True) is thought:
        return own[0]
    return spoken(part.text, thought=thought) if part.text else None


def trailing(parts: Sequence[Part]) -> Iterator[Part]:
    """What stands behind everything that deltas tell: opaque parts, and signatures with nothing beside them."""
    last = max((number for number, part in enumerate(parts) if _is_told(part)), default=-1)
    yield from parts[last + 1 :]


def _is_told(part: Part) -> bool:
    return isinstance(part, ToolCall) or (isinstance(part, Text | Reasoning) and bool(part.text))


def written_call(call: ToolCall) -> bytes:
    """A call, in one part; ``UnsupportedError`` for one that is not whole."""
    text = without_lone_surrogates(sanitize(call.arguments)) or "{}"
    if not call.complete or not is_object(read_any(text)):
        raise UnsupportedError("Gemini has no way to tell a tool call that is not whole")
    own = _own(call.opaque)
    if own is not None and is_call(own[0].decode(), call.name, text) and own[1]["functionCall"].get("id") in _ids(call):
        return own[0]
    head = b"" if call.synthetic_id else b'"id":' + string(call.id) + b","
    return b'{"functionCall":{' + head + b'"name":' + string(call.name) + b',"args":' + text.encode() + b"}}"


def _ids(call: ToolCall) -> tuple[Any, ...]:
    return (None, "") if call.synthetic_id else (call.id,)


def _own(opaque: Opaque | None) -> tuple[bytes, Json] | None:
    """What this API gave, as text in one line and as an object; ``None`` when it gave nothing."""
    if opaque is None or opaque.api != API_NAME:
        return None
    text = without_lone_surrogates(sanitize(opaque.json)).translate(ONE_LINE).strip()
    fields = read_any(text)
    return (text.encode(), fields) if is_object(fields) else None
