"""Attachments on disk: measured before a request is encoded, read while it is sent.

Core never opens a file; this module does, and only regular ones. No file's content and no folder's
name gets into an error.
Source: 10-chat-completions section 10, 30-client section 1, 60-performance (attachments).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, BinaryIO

import anyio.lowlevel
import anyio.to_thread

from svir_core.body import Body, Measured, Measurements, attachment_error, attachments
from svir_core.json_text import TextMeter
from svir_core.limits import BLOCK_BYTES
from svir_core.message import Image, Media, PathSource, TextFile
from svir_core.request import Request

if TYPE_CHECKING:
    from typing import Self


def _open(path: str, flags: int) -> int:
    """A descriptor of a regular file; a pipe or a device could be waited for without end."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("not a regular file")
    return descriptor


def open_file(path: str) -> BinaryIO:
    """A regular file, open for reading without a buffer; ``OSError`` or ``ValueError`` otherwise."""
    return open(path, "rb", buffering=0, opener=_open)


# --- measuring -----------------------------------------------------------------------------------


def _needs_text_length(part: Image | TextFile | Media) -> bool:
    return isinstance(part, TextFile) and part.escaped_length is None


def _measure(path: str, as_text: bool) -> Measured:
    """The size of a file, and its escaped length when it is read as text: one pass, a block at a time."""
    with open_file(path) as file:
        if not as_text:
            return Measured(os.fstat(file.fileno()).st_size)
        meter = TextMeter()
        size = 0
        while block := file.read(BLOCK_BYTES):
            size += len(block)
            meter.push(block)
        return Measured(size, meter.finish())


def _measured(path: str, as_text: bool, where: str) -> Measured:
    try:
        return _measure(path, as_text)
    except UnicodeDecodeError:
        what = "is not UTF-8"
    except (OSError, ValueError) as error:
        what = f"cannot be read ({type(error).__name__})"
    raise attachment_error(where, PathSource(path), what)


def measure(request: Request) -> Measurements:
    """Measure every file of ``request``, each once: its size, and for a text file whose escaped length
    nobody declared also that, in one pass that checks UTF-8.

    Raises ``AttachmentError``, naming the part and the file's name, for a file that cannot be read, is
    not a regular file, or is read as text and is not UTF-8. Blocks while it reads.
    """
    files: dict[str, tuple[str, bool]] = {}
    for where, part in attachments(request):
        if isinstance(part.source, PathSource):
            first, as_text = files.get(part.source.path, (where, False))
            needed = _needs_text_length(part)
            files[part.source.path] = (where if needed and not as_text else first, as_text or needed)
    return {path: _measured(path, as_text, where) for path, (where, as_text) in files.items()}


async def measure_in_thread(request: Request) -> Measurements:
    """:func:`measure`, in a worker thread when there is a file to measure.

    When it is cancelled it returns at once, and the thread ends by itself.
    """
    if not any(isinstance(part.source, PathSource) for _, part in attachments(request)):
        return {}
    return await anyio.to_thread.run_sync(measure, request, abandon_on_cancel=True)


# --- producing -----------------------------------------------------------------------------------


def blocks(body: Body, block_bytes: int = BLOCK_BYTES) -> Generator[bytes, None, None]:
    """The bytes of ``body``, files read from disk; see :meth:`svir_core.body.Body.blocks` for what it raises."""
    return body.blocks(block_bytes, open_file)


class MemoryStream:
    """The bytes of a body that lies in memory, as an async iterator."""

    def __init__(self, body: Body, block_bytes: int) -> None:
        self._blocks = body.blocks(block_bytes)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """The next block."""
        await anyio.lowlevel.checkpoint()
        block = next(self._blocks, None)
        if block is None:
            raise StopAsyncIteration
        return block

    async def aclose(self) -> None:
        """Nothing more is given after it."""
        self._blocks.close()


async def _ended(work: Future[Any]) -> None:
    """Wait until ``work`` has ended, however; always a checkpoint. Cancelling leaves it to itself."""
    if work.done():
        await anyio.lowlevel.checkpoint()
    else:
        # A limiter of its own: tools that fill the shared one while they wait for this upload would never end.
        await anyio.to_thread.run_sync(wait, (work,), abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))


class FileStream:
    """The bytes of a body with files in it, as an async iterator: read in a thread, one block ahead.

    Not to be iterated by two tasks at once. ``aclose`` may be called at any time, by any exit,
    cancelled or not, and more than once: it closes an open file, after the one read that may be under
    way in the thread.
    """

    def __init__(self, body: Body, block_bytes: int) -> None:
        self._blocks = blocks(body, block_bytes)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="svir-body")
        self._ahead: Future[bytes | None] | None = None
        self._closing: Future[None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """The next block; raises what :meth:`svir_core.body.Body.blocks` raises."""
        if self._closing is not None:
            raise StopAsyncIteration
        if self._ahead is None:
            self._ahead = self._read()
        ahead = self._ahead  # kept until it is taken: a cancelled wait loses no block
        await _ended(ahead)
        if self._closing is not None:
            raise StopAsyncIteration
        self._ahead = None
        block = ahead.result()
        if block is None:
            await self.aclose()
            raise StopAsyncIteration
        self._ahead = self._read()
        return block

    def _read(self) -> Future[bytes | None]:
        return self._thread.submit(next, self._blocks, None)

    async def aclose(self) -> None:
        """Close the file, if one is open; nothing more is given after it."""
        if self._closing is None:
            if self._ahead is None or self._ahead.done():
                self._blocks.close()
                self._closing = Future()
                self._closing.set_result(None)
            else:
                self._closing = self._thread.submit(self._blocks.close)  # after the read that is under way
            self._thread.shutdown(wait=False)
        if not self._closing.done():
            await _ended(self._closing)


def stream(body: Body, block_bytes: int = BLOCK_BYTES) -> MemoryStream | FileStream:
    """The bytes of ``body`` for a transport: :func:`blocks`, without blocking the event loop on a disk.

    Raises ``ConfigError`` when ``block_bytes`` is not a positive integer.
    """
    return FileStream(body, block_bytes) if body.on_disk else MemoryStream(body, block_bytes)
