"""Decoder cases (13): every mode, line ending and stride."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import attrs

from conformance.apis import APIS
from conformance.case import Case, Variant
from conformance.fields import (
    CaseError,
    Fields,
    Json,
    content,
    items,
    load_fixture,
    one_of,
    one_or_more,
    positive,
    text,
)
from conformance.outcome import Actual, Expectation, expectation, visible
from svir_core.event import Completed, Events
from svir_core.limits import Limits
from svir_core.quirk import NONE, Quirk, named
from svir_core.wire.api import Api, CodecOptions, Decoder, Mode

MODES = ("strict", "lenient")
LINE_ENDINGS = ("lf", "crlf")
FILE_STRIDES = (1, 3, 8192)


@attrs.frozen
class _Options:
    """What a case sets on the decoder besides the mode."""

    think: str = "split"
    limits: Limits = attrs.field(factory=Limits)
    quirks: Quirk = NONE


def _decoder(api: Api, options: _Options, mode: str) -> Decoder:
    chosen = CodecOptions(Mode(mode), options.think, options.limits, quirks=options.quirks)
    return api.decoder(chosen, time.monotonic)


@attrs.frozen
class _Input:
    """What is pushed, before line endings and strides."""

    pieces: Sequence[bytes]
    endings: Sequence[str]
    strides: Sequence[int | None]


def read(path: Path, document: Json, api: str) -> Case:
    """The variants of one case; ``CaseError`` when it is not in the notation."""
    with Fields(document, "case") as fields:
        fields.required("description", text)
        recorded = "file" in fields
        source = _input(fields, path.parent)
        options = fields.optional("options", _options, _Options())
        expected = fields.required("expect", _expected)
        notes = fields.optional("open", items(text), ())
    if recorded and any(outcome.visible_by_chunk is not None for outcome in expected.values()):
        raise CaseError("case: visible_by_chunk needs chunks")
    return Case(list(_variants(source, partial(_decoder, APIS[api], options), expected)), notes)


def _variants(source: _Input, make: Callable[[str], Decoder], expected: Mapping[str, Expectation]) -> Iterator[Variant]:
    for ending in source.endings:
        pieces = _with_line_ending(source.pieces, ending)
        for stride in source.strides:
            split = pieces if stride is None else _split(b"".join(pieces), stride)
            label = "pieces as given" if stride is None else f"stride {stride}"
            for mode in MODES:
                wanted = expected[mode]
                if split != pieces:  # what is visible by chunk is said of the chunks as given
                    wanted = attrs.evolve(wanted, visible_by_chunk=None)
                yield Variant((mode, ending, label), partial(_run, make, mode, split, wanted))


def _run(make: Callable[[str], Decoder], mode: str, pieces: Sequence[bytes], expected: Expectation) -> list[str]:
    return expected.problems(decode(make(mode), pieces))


def decode(decoder: Decoder, pieces: Sequence[bytes]) -> Actual:
    """Push the pieces until ``Completed`` or an error, else ``finish()``: the outcome, as events gave it."""
    actual = Actual()
    for piece in pieces:
        events = decoder.push(piece)
        actual.visible_by_chunk.append(visible(events.items))
        if events.items or events.error is not None:
            _take(actual, events)
            if actual.over:
                return actual
    _take(actual, decoder.finish())
    return actual


def _take(actual: Actual, events: Events) -> None:
    actual.events += events.items
    actual.error = events.error
    if events.items and isinstance(last := events.items[-1], Completed):
        actual.completion = last.completion


# --- the input -----------------------------------------------------------------------------------


def _input(fields: Fields, folder: Path) -> _Input:
    if fields.only("file", "chunks") == "chunks":
        pieces = fields.required("chunks", items(content))
        endings: Sequence[str] = LINE_ENDINGS[:1]
        strides: Sequence[int | None] = (None,)
    else:
        pieces, endings, strides = [_fixture(fields, folder)], LINE_ENDINGS, FILE_STRIDES
    return _Input(
        pieces,
        fields.optional("line_endings", one_or_more(one_of(*LINE_ENDINGS)), endings),
        fields.optional("strides", one_or_more(positive), strides),
    )


def _fixture(fields: Fields, folder: Path) -> bytes:
    data = load_fixture(folder, fields.required("file", text), f"{fields.where}.file")
    for pair in fields.optional("replace", items(items(content)), ()):
        if len(pair) != 2:
            raise CaseError(f"{fields.where}.replace: pairs of from and to are expected")
        old, new = pair
        if not old or old not in data:
            raise CaseError(f"{fields.where}.replace: {old!r} does not occur")
        data = data.replace(old, new)
    return cut(data, fields)


def cut(data: bytes, fields: Fields) -> bytes:
    """``data`` up to the first occurrence of the field ``cut_before``, which must occur."""
    mark = fields.optional("cut_before", content, None)
    if mark is None:
        return data
    if not mark or mark not in data:
        raise CaseError(f"{fields.where}.cut_before: {mark!r} does not occur")
    return data[: data.index(mark)]


def _with_line_ending(pieces: Sequence[bytes], ending: str) -> Sequence[bytes]:
    """``lf`` leaves the bytes as they are; ``crlf`` puts a CR before every LF that has none."""
    if ending == "lf":
        return pieces
    converted: list[bytes] = []
    last = b""
    for piece in pieces:
        # The byte before the piece decides whether an LF at its start already has its CR.
        converted.append(re.sub(rb"(?<!\r)\n", b"\r\n", last + piece)[len(last) :])
        last = piece[-1:] if piece[-1:] == b"\r" else b""
    return converted


def _split(data: bytes, stride: int) -> Sequence[bytes]:
    return [data[start : start + stride] for start in range(0, len(data), stride)]


def _options(value: Json, where: str) -> _Options:
    with Fields(value, where) as fields:
        return _Options(
            fields.optional("think", one_of("split", "keep"), "split"),
            fields.optional("limits", _limits, Limits()),
            named(fields.optional("quirks", items(one_of(*Quirk.__members__)), ())),
        )


def _limits(value: Json, where: str) -> Limits:
    with Fields(value, where) as fields:
        names = ("wire_bytes", "event_bytes", "tool_calls")
        return Limits(**{name: fields.required(name, positive) for name in names if name in fields})


def _expected(value: Json, where: str) -> Mapping[str, Expectation]:
    with Fields(value, where) as fields:
        strict = fields.required("strict", expectation)
        lenient = fields.required("lenient", lambda item, place: strict if item == "same" else expectation(item, place))
        return {"strict": strict, "lenient": lenient}
