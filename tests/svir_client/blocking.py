"""A blocking client of a scripted server that runs in a thread of its own, for tests that block."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator

from svir_client import Client
from svir_client.testing import MockServer, Reply, ThreadedMockServer
from tests.svir_client.chat import SECONDS


def serving(*replies: Reply) -> ThreadedMockServer:
    return MockServer(*replies).in_thread()


@contextlib.contextmanager
def connected(*replies: Reply) -> Generator[tuple[ThreadedMockServer, Client]]:
    with serving(*replies) as peer, Client.openai(peer.origin) as client:
        yield peer, client


class InThread:
    """Runs ``function`` in a thread of its own; leaving the block gives its end the limit, and raises its error."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.error: BaseException | None = None

    def _run(self) -> None:
        try:
            self._function()
        except BaseException as error:  # noqa: BLE001 - told to the test
            self.error = error

    def __enter__(self) -> InThread:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(SECONDS)
        assert not self._thread.is_alive(), "the thread did not end"
        if self.error is not None:
            raise self.error
