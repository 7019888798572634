"""The blocking client: an ``AsyncClient`` on the loop thread (00 section 5)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

import anyio
import anyio.to_thread

from svir_client.client import AsyncClient
from svir_client.key import ApiKey, KeyFunction
from svir_client.parsed import Parsed
from svir_client.sync.loop_thread import Carried, Job, event_loop_here, loop_thread, refuse_event_loop
from svir_client.sync.stream import SyncRawStream, SyncStream
from svir_client.unique import Unique
from svir_core.check import expect
from svir_core.http_message import HeadersLike
from svir_core.request import Request
from svir_core.response import Completion
from svir_core.secret import Secret, Withheld
from svir_core.wire.api import Model

if TYPE_CHECKING:
    from typing import Self

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound="Client")


class _Constructor(Generic[P]):
    """A constructor of ``AsyncClient`` as one of ``Client``: the same parameters, the same docstring."""

    def __init__(self, make: Callable[P, AsyncClient]) -> None:
        self._make: Callable[..., AsyncClient] = make
        self.__doc__ = make.__doc__

    def __get__(self, instance: object, owner: type[C]) -> Callable[P, C]:
        @functools.wraps(self._make)
        def construct(*arguments: P.args, **options: P.kwargs) -> C:
            given = cast("dict[str, Any]", options)
            try:
                if "api_key" in given:
                    given["api_key"] = _off_the_loop(given["api_key"])
                return owner(self._make(*arguments, **given))
            finally:
                given.clear()  # a traceback's locals show no key, and no address
                del arguments

        return construct


class Client(Unique):
    """The blocking twin of :class:`svir_client.AsyncClient`: made by :meth:`openai` or :meth:`from_env` with the
    same options; used with ``with``, or closed by :meth:`close`. Threads share it.

    Its methods wait. On a thread that runs an event loop all but ``close`` raise ``ConfigError``.
    """

    openai = _Constructor(AsyncClient.openai)
    responses = _Constructor(AsyncClient.responses)
    anthropic = _Constructor(AsyncClient.anthropic)
    gemini = _Constructor(AsyncClient.gemini)
    of = _Constructor(AsyncClient.of)
    from_env = _Constructor(AsyncClient.from_env)

    def __init__(self, client: AsyncClient) -> None:
        self._client = expect(client, AsyncClient, "client")
        self._used = False

    def complete(
        self, request: Request, *, headers: HeadersLike | None = None, idle_timeout: float | None = None
    ) -> Completion:
        """The whole answer. Nothing stays open, however it ends; raises what :meth:`stream` raises."""
        given = Withheld(headers)
        del headers  # a traceback's locals show no value
        return self._call(lambda: self._client.complete(request, headers=given.value, idle_timeout=idle_timeout))

    def parse(
        self, request: Request, into: type[T], *, headers: HeadersLike | None = None, idle_timeout: float | None = None
    ) -> Parsed[T]:
        """The whole answer as a ``T``, and the answer itself, as :meth:`svir_client.AsyncClient.parse` gives and
        raises."""
        given = Withheld(headers)
        del headers
        return self._call(lambda: self._client.parse(request, into, headers=given.value, idle_timeout=idle_timeout))

    def stream(
        self, request: Request, *, headers: HeadersLike | None = None, idle_timeout: float | None = None
    ) -> SyncStream:
        """The answer's events as they come: ``with client.stream(request) as stream``.

        As :meth:`svir_client.AsyncClient.stream`; see :class:`SyncStream`.
        """
        given = Withheld(headers)
        del headers
        refuse_event_loop()
        self._used = True
        return SyncStream(self._client.stream(request, headers=given.value, idle_timeout=idle_timeout))

    def send(
        self, request: Request, *, headers: HeadersLike | None = None, idle_timeout: float | None = None
    ) -> SyncRawStream:
        """The answer's bytes as they come, for a relay: ``with client.send(request) as raw``.

        As :meth:`svir_client.AsyncClient.send`; see :class:`SyncRawStream`.
        """
        given = Withheld(headers)
        del headers
        refuse_event_loop()
        self._used = True
        return SyncRawStream(self._client.send(request, headers=given.value, idle_timeout=idle_timeout))

    def list_models(self) -> tuple[Model, ...]:
        """The models that the server lists, as :meth:`svir_client.AsyncClient.list_models` gives and raises."""
        return self._call(self._client.list_models)

    def count_tokens(
        self, request: Request, *, headers: HeadersLike | None = None, idle_timeout: float | None = None
    ) -> int:
        """How many tokens the server counts in ``request``, as :meth:`svir_client.AsyncClient.count_tokens`
        gives and raises."""
        given = Withheld(headers)
        del headers
        return self._call(lambda: self._client.count_tokens(request, headers=given.value, idle_timeout=idle_timeout))

    def check(self, request: Request, *, headers: HeadersLike | None = None) -> None:
        """Raise what a call of ``request`` would before a byte of it is sent: :meth:`svir_client.AsyncClient.check`."""
        given = Withheld(headers)
        del headers
        return self._call(lambda: self._client.check(request, headers=given.value))

    @property
    def api(self) -> str:
        """The name of the wire API that it speaks: ``openai_chat``."""
        return self._client.api

    def close(self) -> None:
        """Refuse further calls, and close the transport when this client made it. Idempotent.

        Returns when it is closed; on a thread that runs an event loop, at once.
        """
        if not self._used:
            self._client._closed = True  # there is nothing to close, and no reason to start a thread
            return
        job = Job(loop_thread(), self._client.aclose)
        job.start()
        if event_loop_here() is None:
            job.result()

    def _call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        refuse_event_loop()
        self._used = True
        return loop_thread().call(work)

    def __enter__(self) -> Self:
        refuse_event_loop()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return repr(self._client).replace(type(self._client).__name__, type(self).__name__, 1)


def _off_the_loop(key: ApiKey | None) -> ApiKey | None:
    """A key function that may block, as one that does not: the loop thread serves every client of the process."""
    if not callable(key):
        return key
    function: KeyFunction = key

    async def ask() -> str | Secret:
        value = function() if inspect.iscoroutinefunction(function) else await _in_worker(function)
        if not inspect.isawaitable(value):
            return value
        try:
            return await value
        except Exception:
            raise
        except BaseException as error:
            if _cancelled():
                raise
            carried = Carried(error)
        raise carried

    return ask


def _cancelled() -> bool:
    """Whether somebody wants the running task cancelled."""
    import asyncio  # imported late: it brings ssl

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _in_worker(function: KeyFunction) -> str | Secret | Awaitable[str | Secret]:
    def call() -> str | Secret | Awaitable[str | Secret]:
        try:
            return function()
        except StopIteration as error:  # no coroutine can raise it
            carried = Carried(error)
        except Exception:
            raise
        except BaseException as error:  # noqa: BLE001 - raised again where the caller waits
            carried = Carried(error)
        raise carried

    # A limiter of its own: each caller brings a thread that waits, so there are no more of these than callers.
    return await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
