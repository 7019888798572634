"""The scripted server in a thread of its own, for code that is not async."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeVar, cast, overload

import anyio
import anyio.from_thread

from svir_client.testing.record import RecordedConnection, RecordedRequest
from svir_client.testing.reply import Reply

if TYPE_CHECKING:
    from typing import Self

    from svir_client.testing.server import MockServer

T = TypeVar("T")

SECONDS: Final = 10.0
"""How long a blocking wait takes at most, unless it is told otherwise."""


class ThreadedMockServer:
    """``with MockServer(reply, ...).in_thread() as server:`` for a test that blocks.

    It has what the server has. The waits block, for ``seconds`` at most, and raise ``TimeoutError``
    then. Gates belong to the thread's event loop: ``server.call(gate.open)``, ``server.call(gate.reached)``.
    """

    def __init__(self, server: MockServer) -> None:
        self._server = server
        self._stack = ExitStack()
        self._portal: anyio.from_thread.BlockingPortal | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._portal = stack.enter_context(anyio.from_thread.start_blocking_portal())
            server: AbstractContextManager[MockServer] = self._portal.wrap_async_context_manager(self._server)
            stack.enter_context(server)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._portal = None
        self._stack.__exit__(kind, error, traceback)

    @overload
    def call(self, function: Callable[..., Awaitable[T]], *arguments: object, seconds: float = SECONDS) -> T: ...
    @overload
    def call(self, function: Callable[..., T], *arguments: object, seconds: float = SECONDS) -> T: ...
    def call(self, function: Callable[..., object], *arguments: object, seconds: float = SECONDS) -> object:
        """Call ``function``, sync or async, in the server's event loop; its result, or what it raises.

        Raises ``TimeoutError`` after ``seconds``, ``RuntimeError`` outside of the ``with`` block.
        """
        if self._portal is None:
            raise RuntimeError("ThreadedMockServer is used inside `with`")

        async def limited() -> object:
            with anyio.fail_after(seconds):
                result = function(*arguments)
                return await cast("Awaitable[object]", result) if inspect.isawaitable(result) else result

        return self._portal.call(limited)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._server.port

    @property
    def origin(self) -> str:
        """Scheme, host and port: what a base URL starts with."""
        return self._server.origin

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        """The requests so far, in the order in which they were complete."""
        return self.call(lambda: self._server.requests)

    @property
    def request_count(self) -> int:
        """How many requests there were."""
        return self._server.request_count

    @property
    def connections(self) -> tuple[RecordedConnection, ...]:
        """The connections so far, in the order in which they were accepted."""
        return self.call(lambda: self._server.connections)

    @property
    def connection_count(self) -> int:
        """How many connections were accepted."""
        return self._server.connection_count

    @property
    def open_connections(self) -> int:
        """How many connections neither side has closed."""
        return self._server.open_connections

    @property
    def unscripted(self) -> int:
        """How many requests came beyond the script."""
        return self._server.unscripted

    @property
    def unasked(self) -> int:
        """How many replies nobody asked for."""
        return self._server.unasked

    def add(self, *replies: Reply) -> None:
        """Append replies to the script."""
        self._server.add(*replies)

    def wait_requests(self, count: int, seconds: float = SECONDS) -> tuple[RecordedRequest, ...]:
        """Wait until ``count`` requests have come; returns ``requests``."""
        return self.call(self._server.wait_requests, count, seconds=seconds)

    def wait_connections(self, count: int, seconds: float = SECONDS) -> tuple[RecordedConnection, ...]:
        """Wait until ``count`` connections have been accepted; returns ``connections``."""
        return self.call(self._server.wait_connections, count, seconds=seconds)

    def wait_closed(self, seconds: float = SECONDS) -> None:
        """Wait until the client has closed every connection accepted so far."""
        self.call(self._server.wait_closed, seconds=seconds)
