"""What this process takes: memory, file descriptors, tasks."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Final

import anyio

DESCRIPTORS: Final = 16_384
"""File descriptors that a thousand streams may need at most, connections that are being closed included."""

_STATM: Final = Path("/proc/self/statm")


def allow_descriptors() -> None:
    """Raise this process's limit on open files, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def resident_bytes() -> int | None:
    """Resident memory of this process; ``None`` where the system does not tell by ``/proc``."""
    if not _STATM.exists():
        return None
    return int(_STATM.read_text().split()[1]) * resource.getpagesize()


def open_descriptors() -> int:
    """How many file descriptors this process has open, the one that looks aside."""
    return len(os.listdir("/dev/fd")) - 1


def processor_seconds() -> float:
    """The processor time that this process has used."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def tasks() -> int:
    """How many tasks the running event loop has, beside what the loop runs for itself."""
    return len(anyio.get_running_tasks())
