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
from svir_client.testing.scripted_peer import ScriptedServer, ServerState

if TYPE_CHECKING:
    from typing import Self

    from svir_client.testing.server import MockServer

T = TypeVar("T")

SECONDS: Final = 10.0
"""How long a blocking wait takes at most, unless it is told otherwise."""


class ThreadedMockServer(ScriptedServer):
    """``with MockServer(reply, ...).in_thread() as server:`` for a test that blocks.

    It has what the server has. The waits block, for ``seconds`` at most, and raise ``TimeoutError``
    then. Gates belong to the thread's event loop: ``server.call(gate.open)``, ``server.call(gate.reached)``.
    """

    def __init__(self, server: MockServer, state: ServerState) -> None:
        super().__init__(state)
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

    def wait_requests(self, count: int, seconds: float = SECONDS) -> tuple[RecordedRequest, ...]:
        """Wait until ``count`` requests have come; returns ``requests``."""
        return self.call(self._server.wait_requests, count, seconds=seconds)

    def wait_connections(self, count: int, seconds: float = SECONDS) -> tuple[RecordedConnection, ...]:
        """Wait until ``count`` connections have been accepted; returns ``connections``."""
        return self.call(self._server.wait_connections, count, seconds=seconds)

    def wait_closed(self, seconds: float = SECONDS) -> None:
        """Wait until the client has closed every connection accepted so far."""
        self.call(self._server.wait_closed, seconds=seconds)
