"""Events in a file, as JSON Lines (30 section 5).

Four rules hold for it. Only its owner reads the file. It is a regular file of ours under one name, and no link to
another. An event is a line, or nothing of it is there. Where the cap is reached it stops for good, and says so.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from typing import Final

from svir_client.tracing.record import TraceEvent
from svir_client.tracing.sink import tell
from svir_client.unique import Unique
from svir_core.check import count, expect
from svir_core.errors import ConfigError

FILE_BYTES: Final = 64 * 1024 * 1024
"""By default: some sixty thousand calls without content. Rotation is others' business."""

STOPPED: Final = b'{"type":"trace_stopped","detail":"the file has reached its size cap"}\n'
"""The last line of a file that has reached its cap, which leaves room for it."""

OWNER_ONLY: Final = 0o600


class FileSink(Unique):
    """Appends each event as a line of JSON."""

    def __init__(self, path: str | os.PathLike[str], append: bool, max_bytes: int, content: bool) -> None:
        self._descriptor: int | None = None
        self._descriptor = _opened(path, append)
        self._lock = threading.RLock()
        self._max_bytes = max_bytes
        self._stopped = False
        self._torn = False
        self.content = content

    @property
    def stopped(self) -> bool:
        """Whether the cap was reached."""
        return self._stopped

    def write(self, event: TraceEvent) -> None:
        """Append the line at once, by one write of the system's; several processes may share a file.

        Raises ``OSError`` when it could not be written whole, and ``ConfigError`` when the sink is closed. What is
        dropped behind the cap raises nothing.
        """
        line = event.json() + b"\n"
        with self._lock:
            if self._descriptor is None:
                raise ConfigError("the trace file is closed")
            if not self._stopped:
                self._append(self._descriptor, line)

    def close(self) -> None:
        """Close the file. Idempotent."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _ends_stopped(self, descriptor: int, size: int) -> bool:
        """Whether the file has been full before, for this process or another."""
        start = max(size - len(STOPPED), 0)
        self._stopped = os.pread(descriptor, len(STOPPED), start) == STOPPED
        return self._stopped

    def _append(self, descriptor: int, line: bytes) -> None:
        size = os.fstat(descriptor).st_size
        begin = b"\n" if self._torn else b""
        if self._ends_stopped(descriptor, size):
            return
        if size + len(begin) + len(line) + len(STOPPED) > self._max_bytes:
            self._stopped = True
            tell("a trace file has reached its size cap: it takes no more events")
            line = STOPPED
        if size + len(begin) + len(line) > self._max_bytes:
            return
        line = begin + line
        written = os.write(descriptor, line)
        self._torn = written < len(line)
        if self._torn:
            raise OSError("the trace file took a part of a line")


def file(
    path: str | os.PathLike[str], *, append: bool = True, max_bytes: int = FILE_BYTES, content: bool = False
) -> FileSink:
    """A sink that appends events to the file at ``path``, made with mode 0600 when it is not there.

    Nothing waits in a buffer: an event is the system's at once, and outlives a crash of the process. Without
    ``append`` what an older file holds is dropped, once it is known to be fit. ``max_bytes`` is how large the file may
    become: what does not fit is dropped, as is all that comes after it. The file's last line then says so, and a
    warning of the logger ``svir.tracing``. Raises ``ConfigError`` when the file cannot be opened, is a symbolic link,
    no regular file, another user's, or has a second name; and where the system cannot tell (Windows).
    """
    return FileSink(
        path,
        expect(append, bool, "file: append"),
        count(max_bytes, 1, "file: max_bytes"),
        expect(content, bool, "content"),
    )


def _opened(path: str | os.PathLike[str], append: bool) -> int:
    """A descriptor of the file, emptied without ``append``. Errors of the system are told by their class: a path may
    show a name."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ConfigError("file takes a path")
    if not hasattr(os, "O_NOFOLLOW"):
        raise ConfigError("this system cannot open a file without following links, so no trace is written to one")
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = None
    try:
        descriptor = os.open(path, flags, OWNER_ONLY)
    except (OSError, ValueError) as error:  # ValueError: no path at all
        problem = f"cannot be opened: {type(error).__name__}"
    else:
        problem = _unfit(os.fstat(descriptor))
    if not problem and descriptor is not None:
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, OWNER_ONLY)  # an umask may have taken more, an older file may give more
            if not append:
                os.ftruncate(descriptor, 0)
            return descriptor
        problem = "cannot be kept to its owner"
    if descriptor is not None:
        os.close(descriptor)
    raise ConfigError(f"the trace file {problem}")


def _unfit(status: os.stat_result) -> str:
    """Why nothing is written to a file; empty when it may be."""
    if not stat.S_ISREG(status.st_mode):
        return "is no regular file"
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    return "has a second name" if status.st_nlink != 1 else ""
