"""A text inside JSON, in blocks of any size, is what the JSON library writes, of exactly the measured length.

What is not UTF-8 is refused by the meter and the escaper alike; base64 is that of the whole; a value is sent equal.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

import orjson

from fuzz.check import Target, require, same
from fuzz.mutate import json_body
from fuzz.plan import read
from svir_core.errors import ConfigError
from svir_core.json_text import Base64, TextEscaper, TextMeter, base64_length, inside, plain, sanitize, string


def escaped(blocks: Sequence[bytes]) -> bytes | None:
    """The escaper's bytes, or ``None`` when it refuses the text."""
    escaper = TextEscaper()
    try:
        return b"".join([*map(escaper.push, blocks), escaper.finish()])
    except UnicodeDecodeError:
        return None


def measured(blocks: Sequence[bytes]) -> int | None:
    """The meter's length, or ``None`` when it refuses the text."""
    meter = TextMeter()
    try:
        for block in blocks:
            meter.push(block)
        return meter.finish()
    except UnicodeDecodeError:
        return None


def check(raw: bytes) -> None:
    plan = read(raw)
    blocks = plan.pieces()
    try:
        text = plan.data.decode()
    except UnicodeDecodeError:
        expected = None
    else:
        expected = orjson.dumps(text)[1:-1]
        same("inside() is not what the JSON library writes", inside(text), expected)
    same("not what the JSON library writes", escaped(blocks), expected)
    same("the cut matters", escaped([plan.data]), expected)
    same("not the measured length", measured(blocks), None if expected is None else len(expected))
    same("not the base64 of the whole", _base64(blocks), base64.b64encode(plan.data))
    same("not the length of base64", base64_length(len(plan.data)), len(base64.b64encode(plan.data)))
    _any_string(
        plan.data.decode("utf-16-le", "surrogatepass") if len(plan.data) % 2 == 0 else plan.data.decode("latin-1")
    )
    _any_value(plan.data)


def _base64(blocks: Sequence[bytes]) -> bytes:
    encoder = Base64()
    return b"".join([*map(encoder.push, blocks), encoder.finish()])


def _any_string(text: str) -> None:
    """A string with lone surrogates in it is sent clean, and only those are changed."""
    clean = sanitize(text)
    same("sanitize() is not stable", sanitize(clean), clean)
    same("string() is not the clean text", json.loads(string(text)), clean)
    kept = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
    same("sanitize() changed another character", clean, kept)


def _any_value(data: bytes) -> None:
    """A JSON value is sent equal, or refused by name."""
    try:
        value = json.loads(data.decode())
    except (ValueError, RecursionError):
        return
    try:
        sent = orjson.dumps(plain(value, "value"))
    except ConfigError:
        return
    if "\\ud" not in data.decode().lower():
        same("a value was changed", json.loads(sent), value)
    require(sent == orjson.dumps(plain(value, "value")), "not stable")


TARGET = Target(check, "texts", json_body, max_size=128)
