"""The file that recordings are appended to."""

from __future__ import annotations

import os
import stat

from svir_core.errors import ConfigError

FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class RecordingFile:
    """A regular file for its owner alone, that is only appended to; ``ConfigError`` when it is none."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._descriptor = -1
        failure = None
        try:
            self._descriptor = os.open(path, FLAGS, 0o600)
            if stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                os.fchmod(self._descriptor, 0o600)
            else:
                failure = "it is not a regular file"
        except (OSError, ValueError) as error:  # ValueError: no path at all
            failure = type(error).__name__
        if failure is not None:
            self.close()
            raise ConfigError(f"the recording cannot be opened: {failure}")

    def append(self, line: bytes) -> None:
        """Write ``line``, a whole one; raises ``OSError``."""
        view = memoryview(line)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def close(self) -> None:
        """Close it; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
