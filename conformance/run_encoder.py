"""Encoder cases (13): from files and from memory, in every block size, each body twice."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import anyio
import attrs

from conformance.apis import APIS
from conformance.case import Case, Variant
from conformance.fields import (
    CaseError,
    Fields,
    Json,
    anything,
    flag,
    hexadecimal,
    items,
    mapping,
    natural,
    one_of,
    one_or_more,
    parse,
    positive,
    text,
)
from conformance.outcome import equal, shown
from conformance.request_notation import request
from svir_client import files
from svir_core.body import Body, Measurements
from svir_core.errors import ErrorKind, SvirError
from svir_core.limits import BLOCK_BYTES
from svir_core.message import BytesSource, Image, PathSource, TextFile
from svir_core.request import Request
from svir_core.wire.api import Api, CodecOptions, Compat

BACKENDS = ("asyncio", "trio")
ERRORS = (ErrorKind.ATTACHMENT, ErrorKind.CONFIG, ErrorKind.CONTEXT_OVERFLOW, ErrorKind.UNSUPPORTED)


@attrs.frozen
class _Attachment:
    data: bytes
    media_type: str | None
    name: str | None
    declared_size: int | None
    escaped_len: int | None

    def first_content(self) -> bytes:
        """What the file holds while the body is built."""
        return self.data if self.declared_size is None else b"a" * self.declared_size


@attrs.frozen
class _Options:
    lean: bool = False
    send_reasoning: bool = False
    block_bytes: Sequence[int] = ()
    context_tokens: int | None = None


@attrs.frozen
class _Case:
    """What every variant of one case shares."""

    api: Api
    request: Json
    attachments: Mapping[str, _Attachment]
    options: _Options
    body: Json
    error: str | None

    def encode(self, asked: Request, measured: Measurements | None) -> Body:
        """The body; ``lean`` leaves out what is optional."""
        omit = self.api.optional_fields(asked) if self.options.lean else frozenset[str]()
        return self.api.encode(asked, CodecOptions(context_tokens=self.options.context_tokens), Compat(omit), measured)

    def build_request(self, sources: Mapping[str, PathSource | BytesSource]) -> Request:
        """The request, its attachments read from ``sources``."""

        def attach(kind: str, key: str) -> Image | TextFile:
            if key not in sources:
                raise CaseError(f"there is no attachment {key!r}")
            attachment = self.attachments[key]
            if kind == "image":
                return Image(sources[key], attachment.media_type)
            return TextFile(sources[key], key if attachment.name is None else attachment.name, attachment.escaped_len)

        asked = request(self.request, "case.request", attach)
        return asked.replace(send_reasoning=True) if self.options.send_reasoning else asked

    def problems_of_error(self, error: SvirError, when: str) -> list[str]:
        """What is wrong with an error raised while building or producing."""
        if self.error == error.kind:
            return []
        expected = "a body" if self.error is None else f"the error {self.error}"
        return [f"{when}: expected {expected}, got the error {error.kind} ({error.detail})"]

    def problems_of_body(self, data: bytes, length: int, when: str) -> list[str]:
        """What is wrong with one produced body."""
        if self.error is not None:
            return [f"{when}: expected the error {self.error}, got a body of {len(data)} bytes"]
        if len(data) != length:
            return [f"{when}: {len(data)} bytes were produced, {length} were declared"]
        try:
            document = parse(data)
        except CaseError as error:
            return [f"{when}: the body is {error}"]
        return [] if equal(self.body, document) else [f"{when}: expected {shown(self.body)}, got {shown(document)}"]


def read(path: Path, document: Json, api: str) -> Case:
    """The variants of one case; ``CaseError`` when it is not in the notation."""
    with Fields(document, "case") as fields:
        fields.optional("description", text, "")
        asked = fields.required("request", anything)
        attachments = fields.optional("attachments", mapping(_attachment), dict[str, _Attachment]())
        options = fields.optional("options", _options, _Options())
        body, error = fields.required("expect", _expected)
        notes = fields.optional("open", items(text), ())
    case = _Case(APIS[api], asked, attachments, options, body, error)
    with contextlib.suppress(SvirError):
        # Read once here: a request outside of the notation is a fault of the case, not of each run.
        case.build_request({key: BytesSource(b"") for key in attachments})
    return Case(list(_variants(case)), notes)


def _variants(case: _Case) -> Iterator[Variant]:
    for size in (None, *case.options.block_bytes):
        label = "default blocks" if size is None else f"blocks of {size}"
        block_bytes = BLOCK_BYTES if size is None else size
        yield Variant(("from files", label), partial(_run_files, case, partial(_collect, block_bytes)))
        if all(attachment.declared_size is None for attachment in case.attachments.values()):
            yield Variant(("from memory", label), partial(_run_memory, case, block_bytes))
    for backend in BACKENDS:
        yield Variant(("from files", f"streamed on {backend}"), partial(_run_files, case, partial(_stream, backend)))


# --- running -------------------------------------------------------------------------------------

Produce: TypeAlias = Callable[[Body], bytes]


def _collect(block_bytes: int, body: Body) -> bytes:
    return b"".join(files.blocks(body, block_bytes))


def _stream(backend: str, body: Body) -> bytes:
    async def collect() -> bytes:
        return b"".join([block async for block in files.stream(body)])

    return anyio.run(collect, backend=backend)


def _run_files(case: _Case, produce: Produce) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        paths: dict[str, Path] = {}
        for number, (key, attachment) in enumerate(case.attachments.items()):
            # No ending: a media type comes from the case alone. No key either: it may be no file name.
            paths[key] = Path(folder) / f"attachment-{number}"
            paths[key].write_bytes(attachment.first_content())
        sources = {key: PathSource(path) for key, path in paths.items()}
        try:
            asked = case.build_request(sources)
            body = case.encode(asked, files.measure(asked))
        except SvirError as error:
            return case.problems_of_error(error, "building")
        for key, attachment in case.attachments.items():
            _overwrite(paths[key], attachment.data)
        return _produce_twice(case, body, produce)


def _run_memory(case: _Case, block_bytes: int) -> list[str]:
    sources = {key: BytesSource(attachment.data) for key, attachment in case.attachments.items()}
    try:
        body = case.encode(case.build_request(sources), None)
    except SvirError as error:
        return case.problems_of_error(error, "building")
    return _produce_twice(case, body, lambda body: b"".join(body.blocks(block_bytes)))


def _overwrite(path: Path, data: bytes) -> None:
    """Write ``data`` over the file in place: the same file, not another one of its name."""
    with path.open("r+b") as file:
        file.write(data)
        file.truncate()


def _produce_twice(case: _Case, body: Body, produce: Produce) -> list[str]:
    produced: list[bytes] = []
    problems: list[str] = []
    for turn in ("the first production", "the second production"):
        try:
            produced.append(produce(body))
        except SvirError as error:
            problems += case.problems_of_error(error, turn)
        else:
            problems += case.problems_of_body(produced[-1], body.length, turn)
    if len(produced) == 2 and produced[0] != produced[1]:
        problems.append("the second production differs from the first")
    return problems


# --- reading -------------------------------------------------------------------------------------


def _attachment(value: Json, where: str) -> _Attachment:
    with Fields(value, where) as fields:
        kind = fields.only("hex", "text")
        data = fields.required(kind, hexadecimal) if kind == "hex" else fields.required(kind, text).encode()
        return _Attachment(
            data,
            fields.optional("media_type", text, None),
            fields.optional("name", text, None),
            fields.optional("declared_size", natural, None),
            fields.optional("escaped_len", natural, None),
        )


def _options(value: Json, where: str) -> _Options:
    with Fields(value, where) as fields:
        return _Options(
            fields.optional("lean", flag, False),
            fields.optional("send_reasoning", flag, False),
            fields.optional("block_bytes", one_or_more(positive), ()),
            fields.optional("context_tokens", positive, None),
        )


def _expected(value: Json, where: str) -> tuple[Json, str | None]:
    with Fields(value, where) as fields:
        if fields.only("body", "error") == "body":
            return fields.required("body", anything), None
        return None, fields.required("error", one_of(*(str(kind) for kind in ERRORS)))
