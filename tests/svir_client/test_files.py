import base64
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import anyio
import anyio.lowlevel
import anyio.to_thread
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client import files
from svir_core.body import Body, Measured
from svir_core.errors import AttachmentError, ConfigError
from svir_core.message import Image, Media, Message, PathSource, TextFile, ToolResult
from svir_core.request import Request
from svir_core.wire.openai_chat.encode import Encoder

TEXT = 'a"\\\n\x01\u00e9\U0001f600'
SECONDS = 10


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t.txt").write_bytes(TEXT.encode())
    (tmp_path / "i.png").write_bytes(bytes(range(250)))
    (tmp_path / "bad.txt").write_bytes(b"secret\xff")
    return tmp_path


@pytest.fixture
def body(folder: Path) -> Body:
    request = Request("m").user(
        Image.path(folder / "i.png"), TextFile.path(folder / "t.txt"), Image.path(folder / "i.png")
    )
    return Encoder().encode(request, files.measure(request))


class Opened:
    """Every file that ``files`` opened."""

    def __init__(self) -> None:
        self.files: list[BinaryIO] = []

    @property
    def all_closed(self) -> bool:
        return all(file.closed for file in self.files)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    seen, real = Opened(), files.open_file

    def open_file(path: str) -> BinaryIO:
        seen.files.append(real(path))
        return seen.files[-1]

    monkeypatch.setattr(files, "open_file", open_file)
    return seen


# --- measuring -----------------------------------------------------------------------------------


def test_only_a_request_is_measured() -> None:
    nothing: Any = None
    with pytest.raises(ConfigError, match="request must be a Request"):
        files.measure(nothing)


def test_files_are_measured_once_by_what_is_needed(folder: Path, opened: Opened) -> None:
    text, image = str(folder / "t.txt"), str(folder / "i.png")
    size, escaped = len(TEXT.encode()), len(orjson.dumps(TEXT)) - 2
    declared = TextFile(PathSource(text), "t", escaped)
    only_declared = Request("m").user(declared)
    assert files.measure(only_declared) == {text: Measured(size)}
    for parts in ((declared, TextFile.path(text)), (TextFile.path(text), Image.path(text, "image/png"))):
        assert files.measure(Request("m").user(*parts)) == {text: Measured(size, escaped)}
    request = (
        Request("m")
        .user(Image.path(image), TextFile.data("x", "x"))
        .message(Message.tool(ToolResult("1", [Media.path(image)])))
    )
    opened.files.clear()
    assert files.measure(request) == {image: Measured(250)}
    assert len(opened.files) == 1
    assert opened.all_closed


def test_a_large_text_is_measured_in_blocks(tmp_path: Path, opened: Opened) -> None:
    text = 'ab"\u00e9' * 400_000  # its characters are cut by blocks
    (tmp_path / "t").write_bytes(text.encode())
    measured = files.measure(Request("m").user(TextFile.path(tmp_path / "t")))
    assert measured == {str(tmp_path / "t"): Measured(len(text.encode()), len(orjson.dumps(text)) - 2)}
    assert opened.all_closed


def refused(path: Path, words: str, *, text: bool = True) -> None:
    part = TextFile.path(path) if text else Image.path(path, "image/png")
    with pytest.raises(AttachmentError) as caught:
        files.measure(Request("m").user("x", part))
    assert str(caught.value) == f"messages[0].parts[1]: {path.name!r} {words}"
    assert caught.value.__context__ is None


@pytest.mark.parametrize("text", [True, False])
def test_what_cannot_be_read_is_named_without_its_folder(folder: Path, text: bool) -> None:
    os.mkfifo(folder / "pipe")
    refused(folder / "missing", "cannot be read (FileNotFoundError)", text=text)
    refused(folder / "pipe", "cannot be read (OSError)", text=text)
    refused(folder, "cannot be read (OSError)", text=text)


def test_a_text_file_must_be_utf8_when_it_is_measured(folder: Path, opened: Opened) -> None:
    refused(folder / "bad.txt", "is not UTF-8")
    assert opened.all_closed
    files.measure(Request("m").user(Image.path(folder / "bad.txt", "image/png")))


def test_the_error_names_the_part_that_wants_text(folder: Path) -> None:
    bad = folder / "bad.txt"
    request = Request("m").user(Image.path(bad, "image/png"), TextFile.path(bad), TextFile.path(bad))
    with pytest.raises(AttachmentError, match=r"^messages\[0\].parts\[1\]"):
        files.measure(request)


@pytest.mark.anyio
async def test_measuring_in_a_thread(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    real = files.measure

    def measure(request: Request) -> Any:
        threads.append(threading.get_ident())
        return real(request)

    monkeypatch.setattr(files, "measure", measure)
    assert await files.measure_in_thread(Request("m").user("x", TextFile.data("x", "x"))) == {}
    assert threads == []
    request = Request("m").user(Image.path(folder / "i.png"))
    assert await files.measure_in_thread(request) == {str(folder / "i.png"): Measured(250)}
    assert threads != [threading.get_ident()]


# --- producing -----------------------------------------------------------------------------------


def test_a_body_is_read_from_disk_again_and_again(body: Body, opened: Opened) -> None:
    assert body.on_disk
    first = b"".join(files.blocks(body))
    image = base64.b64encode(bytes(range(250)))
    assert first.count(image) == 2
    assert orjson.dumps(TEXT)[1:-1] in first
    for block_bytes in (1, 2, 3, 4, 64):
        assert b"".join(files.blocks(body, block_bytes)) == first
    assert len(first) == body.length
    assert opened.all_closed


def test_closing_the_blocks_closes_the_file(body: Body, opened: Opened) -> None:
    blocks = files.blocks(body, 3)
    while not opened.files:
        next(blocks)
    assert not opened.all_closed
    blocks.close()
    assert opened.all_closed


def test_what_happens_between_measuring_and_reading(folder: Path) -> None:
    request = Request("m").user(TextFile.path(folder / "t.txt"))
    body = Encoder().encode(request, files.measure(request))
    changes = {
        "grew": TEXT.encode() + b"x",
        "shrank": TEXT.encode()[:-1],
        "is not UTF-8": b"\xff" * len(TEXT.encode()),
        "another length": b"x" * len(TEXT.encode()),
    }
    for words, content in changes.items():
        (folder / "t.txt").write_bytes(content)
        for block_bytes in (1, 1000):
            with pytest.raises(AttachmentError, match=words):
                list(files.blocks(body, block_bytes))
    (folder / "t.txt").unlink()
    with pytest.raises(AttachmentError, match="FileNotFoundError"):
        list(files.blocks(body))


@given(st.binary(max_size=60), st.text(max_size=60), st.integers(1, 70))
def test_disk_and_memory_give_the_same_bytes(image: bytes, text: str, block_bytes: int) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "i.png").write_bytes(image)
        (folder / "t").write_bytes(text.encode())
        on_disk = Request("m").user(Image.path(folder / "i.png"), TextFile.path(folder / "t"))
        in_memory = Request("m").user(Image.data(image, "image/png"), TextFile.data(text, "t"))
        body = Encoder().encode(on_disk, files.measure(on_disk))
        assert b"".join(files.blocks(body, block_bytes)) == bytes(Encoder().encode(in_memory))


# --- the async stream ----------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("block_bytes", [1, 7, 1000])
async def test_a_stream_gives_the_bytes_of_the_blocks(body: Body, block_bytes: int, opened: Opened) -> None:
    expected = list(files.blocks(body, block_bytes))
    with anyio.fail_after(SECONDS):
        stream = files.stream(body, block_bytes)
        assert [block async for block in stream] == expected
        assert [block async for block in stream] == []
        await stream.aclose()
    assert opened.all_closed


@pytest.mark.anyio
async def test_a_body_in_memory_needs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    body = Encoder().encode(Request("m").user(Image.data(bytes(5000), "image/png")))
    before = threading.active_count()
    stream = files.stream(body, 30)
    assert b"".join([block async for block in stream]) == bytes(body)
    assert threading.active_count() == before
    stream = files.stream(body, 30)
    await stream.__anext__()
    await stream.aclose()
    assert [block async for block in stream] == []


@pytest.mark.parametrize("block_bytes", [0, -3, True])
def test_a_stream_checks_its_block_size(body: Body, block_bytes: int) -> None:
    for each in (body, Body((b"x",))):
        with pytest.raises(ConfigError, match="block_bytes"):
            files.stream(each, block_bytes)


@pytest.mark.anyio
async def test_an_error_of_a_file_ends_the_stream(folder: Path, body: Body, opened: Opened) -> None:
    (folder / "i.png").write_bytes(b"other")
    with anyio.fail_after(SECONDS):
        stream = files.stream(body, 3)
        taken = await up_to_the_file(stream, body)
        with pytest.raises(AttachmentError, match="shrank"):
            taken += b"".join([block async for block in stream])
        assert len(taken) < body.length
        assert [block async for block in stream] == []
    assert opened.all_closed


class Gate:
    """Lets every read of a file begin, and end only when the test says so."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.open = threading.Event()
        self.closed = threading.Event()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate, real = Gate(), files.open_file

    class Slow:
        def __init__(self, path: str) -> None:
            self.file = real(path)

        def __enter__(self) -> "Slow":
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()
            gate.closed.set()

        def read(self, size: int, /) -> bytes:
            gate.begun.set()
            assert gate.open.wait(SECONDS)
            return self.file.read(size)

    monkeypatch.setattr(files, "open_file", Slow)
    yield gate
    gate.open.set()


async def wait_for(event: threading.Event) -> None:
    assert await anyio.to_thread.run_sync(event.wait, SECONDS)


async def up_to_the_file(stream: files.MemoryStream | files.FileStream, body: Body) -> bytes:
    """What comes before the first file, whose first read has then begun with nobody waiting for it."""
    literal = body.segments[0]
    assert isinstance(literal, bytes)
    taken = b""
    while len(taken) < len(literal):
        taken += await stream.__anext__()
    assert taken == literal
    return taken


@pytest.mark.anyio
async def test_the_next_block_is_read_while_this_one_is_used(body: Body, gate: Gate) -> None:
    with anyio.fail_after(SECONDS):
        stream = files.stream(body, 30)
        taken = await up_to_the_file(stream, body)
        await wait_for(gate.begun)
        gate.open.set()
        taken += b"".join([block async for block in stream])
    assert taken == b"".join(files.blocks(body))


@pytest.mark.anyio
async def test_a_cancelled_wait_loses_no_block(body: Body, gate: Gate) -> None:
    with anyio.fail_after(SECONDS):
        stream = files.stream(body, 30)
        taken = await up_to_the_file(stream, body)
        for _ in range(3):
            with anyio.CancelScope() as scope:
                scope.cancel()
                await stream.__anext__()
            with anyio.move_on_after(0.001) as scope:
                await stream.__anext__()
            assert scope.cancelled_caught
        gate.open.set()
        taken += b"".join([block async for block in stream])
    assert taken == b"".join(files.blocks(body))


@pytest.mark.anyio
async def test_closing_while_a_read_is_under_way_closes_the_file_after_it(body: Body, gate: Gate) -> None:
    with anyio.fail_after(SECONDS):
        stream = files.stream(body, 30)
        await up_to_the_file(stream, body)
        await wait_for(gate.begun)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await stream.aclose()
        assert scope.cancelled_caught
        assert not gate.closed.is_set()
        gate.open.set()
        await wait_for(gate.closed)
        assert [block async for block in stream] == []
        await stream.aclose()


@pytest.mark.anyio
async def test_closing_waits_for_the_read_that_is_under_way(body: Body, gate: Gate) -> None:
    with anyio.fail_after(SECONDS):
        stream = files.stream(body, 30)
        await up_to_the_file(stream, body)
        await wait_for(gate.begun)
        async with anyio.create_task_group() as group:
            group.start_soon(stream.aclose)
            await anyio.lowlevel.checkpoint()
            gate.open.set()
        assert gate.closed.is_set()


@pytest.mark.anyio
async def test_closing_again_while_a_read_is_under_way_waits_for_it_too(body: Body, gate: Gate) -> None:
    with anyio.fail_after(SECONDS):
        stream = files.stream(body, 30)
        await up_to_the_file(stream, body)
        await wait_for(gate.begun)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await stream.aclose()
        async with anyio.create_task_group() as group:
            group.start_soon(stream.aclose)
            await anyio.lowlevel.checkpoint()
            gate.open.set()
        assert gate.closed.is_set()


@pytest.mark.anyio
async def test_closing_by_another_task_ends_the_reader(body: Body, gate: Gate) -> None:
    ended: list[str] = []
    with anyio.fail_after(SECONDS):
        stream = files.stream(body, 30)
        await up_to_the_file(stream, body)

        async def read() -> None:
            with pytest.raises(StopAsyncIteration):
                await stream.__anext__()
            ended.append("reader")

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await wait_for(gate.begun)
            group.start_soon(stream.aclose)
            await anyio.lowlevel.checkpoint()
            gate.open.set()
    assert ended == ["reader"]


@pytest.mark.anyio
async def test_closing_between_blocks_closes_the_file(body: Body, opened: Opened) -> None:
    with anyio.fail_after(SECONDS):
        stream = files.stream(body, 30)
        while not opened.files:
            await stream.__anext__()
        await stream.aclose()
        assert opened.all_closed
        assert [block async for block in stream] == []


@pytest.mark.anyio
async def test_a_stream_that_was_never_read_is_closed(body: Body, opened: Opened) -> None:
    with anyio.fail_after(SECONDS):
        stream = files.stream(body)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await stream.aclose()
        assert [block async for block in stream] == []
    assert opened.files == []


@pytest.mark.anyio
async def test_a_stream_needs_no_place_among_the_shared_worker_threads(tmp_path: Path) -> None:
    file = tmp_path / "file.txt"
    file.write_bytes(b"x" * 100)
    request = Request("m").message(Message.user(TextFile.path(file)))
    body = Encoder().encode(request, files.measure(request))
    limiter = anyio.to_thread.current_default_thread_limiter()
    for number in range(int(limiter.total_tokens)):
        limiter.acquire_on_behalf_of_nowait(number)
    try:
        with anyio.fail_after(20):
            produced = b"".join([block async for block in files.stream(body, 9)])
    finally:
        for number in range(int(limiter.total_tokens)):
            limiter.release_on_behalf_of(number)
    assert len(produced) == body.length
