"""The thread on which the calls of every blocking client run, and one such call.

There is one per process, not one per client. A client that nobody closed then costs no thread, clients
that share a transport share its connections, and a thread that makes a client for every request starts
nothing new. It is a daemon, and the threads it starts inherit that, so that no exit waits for it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from svir_core.errors import ConfigError

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


def _in_asyncio(asyncio: Any) -> bool:
    return asyncio._get_running_loop() is not None


def _in_trio(trio: Any) -> bool:
    return bool(trio.lowlevel.in_trio_run())


FOLDER: Final = os.path.dirname(__file__)

RUNS_HERE: Final[dict[str, Callable[[Any], bool]]] = {"asyncio": _in_asyncio, "trio": _in_trio}
"""How each library is asked whether its event loop runs on this very thread. ``sniffio`` would also say so in a
worker thread that inherited its context variable."""


def event_loop_here() -> str | None:
    """Whose event loop runs on this thread, if one does."""
    for name, runs_here in RUNS_HERE.items():
        module = sys.modules.get(name)
        if module is not None and runs_here(module):
            return name
    return None


def refuse_event_loop() -> None:
    """Raises ``ConfigError`` on a thread that runs an event loop: blocking would stop all its tasks."""
    name = event_loop_here()
    if name is not None:
        raise ConfigError(f"a Client blocks, and this thread runs an event loop ({name}): use AsyncClient here")


class LoopThread:
    """An asyncio event loop in a daemon thread, running until the process ends.

    Attributes:
        lost: this process was forked from the one where the thread runs.
    """

    __slots__ = ("loop", "lost")

    def __init__(self) -> None:
        import asyncio  # imported late: it brings ssl, and who only imports the client needs neither

        self.lost = False
        self.loop = asyncio.new_event_loop()
        try:
            threading.Thread(target=self._run, name="svir-blocking", daemon=True).start()
        except RuntimeError:
            self.loop.close()
            raise

    def _run(self) -> None:
        import asyncio

        async def forever() -> None:  # a task: anyio takes it for the root of everything on this loop
            await self.loop.create_future()

        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(forever())

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What ``work`` gives or raises, waited for. A wait that is interrupted cancels it and waits no longer."""
        job = Job(self, work)
        try:
            job.start()
            return job.result()
        finally:
            job.cancel()


class Carried(Exception):
    """Brings ``error`` of the caller's own function through a coroutine, where Python would take it for something
    else: the cancellation of the task, the end of a generator."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class Job(Generic[T]):
    """A coroutine on the loop thread. Its methods may be called on any thread, and more than once.

    ``ended`` is called on the loop thread once there is a result. One that is cancelled before it began, since
    its ``start`` was interrupted or another thread was faster, has ended and never begins.
    """

    __slots__ = ("_ended", "_finished", "_future", "_task", "_thread", "_work")

    def __init__(
        self, thread: LoopThread, work: Callable[[], Coroutine[Any, Any, T]], ended: Callable[[], None] | None = None
    ) -> None:
        self._thread = thread
        self._work = work
        self._ended = ended
        self._task: asyncio.Task[None] | None = None
        self._future: Future[T] = Future()
        self._finished = False

    def start(self) -> None:
        """Begin, unless it has begun."""
        self._thread.loop.call_soon_threadsafe(self._begin)

    def cancel(self) -> None:
        """Cancel it, unless it has ended. Waits for nothing and takes no lock: finalizers call it.

        Whoever waits then is told: also when it was never started.
        """
        if not self._finished and not self._thread.lost:
            self._thread.loop.call_soon_threadsafe(self._interrupt)

    def join(self) -> None:
        """Wait until it has ended, however; not on a thread that runs an event loop, nor in a forked process."""
        if not self._thread.lost and event_loop_here() is None:
            self._future.exception()

    def result(self) -> T:
        """Wait for what it gives or raises: the same error object each time.

        Raises ``concurrent.futures.CancelledError`` when it was cancelled, and ``ConfigError`` in a
        process that was forked since.
        """
        self.check_process()
        error = self._future.exception()
        if error is None:
            return self._future.result()
        try:
            raise error
        finally:
            del error  # else it and this frame would hold each other

    def check_process(self) -> None:
        """Raises ``ConfigError`` in a process that was forked since."""
        if self._thread.lost:
            raise ConfigError("it was opened before this process was forked, and belongs to the other process")

    def _begin(self) -> None:
        if self._finished or self._task is not None:
            return
        self._task = self._thread.loop.create_task(self._run())
        self._task.add_done_callback(self._finish)

    def _interrupt(self) -> None:
        if self._task is not None:
            self._task.cancel()
        elif not self._finished:
            self._finish()

    async def _run(self) -> None:
        from asyncio import CancelledError as Cancelled  # late, as above

        try:
            result = await self._work()
        except Carried as carried:
            self._future.set_exception(carried.error)
        except Cancelled:
            raise
        except BaseException as error:  # noqa: BLE001 - some of them would end the loop
            self._future.set_exception(error.with_traceback(_without_ours(error.__traceback__)))
        else:
            self._future.set_result(result)

    def _finish(self, _: asyncio.Task[None] | None = None) -> None:
        self._finished = True
        if not self._future.done():
            self._future.set_exception(CancelledError())
        if self._ended is not None:
            self._ended()


def _without_ours(traceback: TracebackType | None) -> TracebackType | None:
    """Without the frames that brought the call here: they say nothing, and would hold the error that they hold."""
    while traceback is not None and os.path.dirname(traceback.tb_frame.f_code.co_filename) == FOLDER:
        traceback = traceback.tb_next
    return traceback


class _Process:
    """The loop thread of this process; those of its parents are kept, so that nothing collects and closes what
    the parent still uses: the selector of a loop is shared with it."""

    __slots__ = ("_lock", "_parents", "_thread")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None
        self._parents: list[LoopThread] = []

    def thread(self) -> LoopThread:
        with self._lock:
            if self._thread is None:
                self._thread = LoopThread()
            return self._thread

    def forked(self) -> None:
        self._lock = threading.Lock()  # another thread of the parent may have held it
        if self._thread is not None:
            self._thread.lost = True
            self._parents.append(self._thread)
            self._thread = None


_PROCESS: Final = _Process()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_PROCESS.forked)


def loop_thread() -> LoopThread:
    """The thread of this process, started when there is none yet.

    Raises ``OSError`` or ``RuntimeError`` when the system gives no event loop or no thread.
    """
    return _PROCESS.thread()
