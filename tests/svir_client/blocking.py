"""A scripted server in a thread with an event loop of its own, for tests that block."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

import anyio
import attrs
from anyio.from_thread import BlockingPortal, start_blocking_portal

from svir_client import Client
from svir_client.testing import Gate, MockServer, Reply
from tests.svir_client.chat import SECONDS

T = TypeVar("T")


@attrs.frozen
class Peer:
    """The server, and a way into its event loop."""

    server: MockServer
    portal: BlockingPortal

    @property
    def origin(self) -> str:
        return self.server.origin

    def wait(self, event: Callable[[], Awaitable[T]]) -> T:
        """What the awaited thing gives, within the limit."""

        async def within() -> T:
            with anyio.fail_after(SECONDS):
                return await event()

        return self.portal.call(within)

    def wait_requests(self, count: int) -> None:
        self.wait(lambda: self.server.wait_requests(count))

    def wait_closed(self) -> None:
        self.wait(self.server.wait_closed)

    def open(self, gate: Gate) -> None:
        self.portal.call(gate.open)


@contextlib.contextmanager
def serving(*replies: Reply) -> Generator[Peer]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(MockServer(*replies)) as server:
        yield Peer(server, portal)


@contextlib.contextmanager
def connected(*replies: Reply) -> Generator[tuple[Peer, Client]]:
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
