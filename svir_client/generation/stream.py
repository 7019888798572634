"""A generation as its reader has it: entered once, read by one task at a time, closed by any (50, Loop)."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import anyio

from svir_client.generation.plan import Plan
from svir_client.generation.progress import tell_progress
from svir_client.generation.steps import Steps
from svir_client.iteration import no_end
from svir_client.unique import Unique
from svir_core.errors import ConfigError, SvirError
from svir_core.event import TextDelta
from svir_core.generation import Generation, Progress
from svir_core.generation_event import GenerationEvent, RoundEvent

if TYPE_CHECKING:
    from typing import Self

    from svir_client.client import AsyncClient
    from svir_client.session import Session

T = TypeVar("T")


class GenerationStream(Unique):
    """The events of every round of one generation: ``async with generate_stream(...) as run: async for event in run``.

    Entering checks what was given, takes the session, and stores the input; iterating asks the model, runs the tools,
    and stores what they gave. Leaving the block, in whatever way, gives the session back, and so does a read that fails
    or is cancelled. What it leaves behind is in ``session.suspended``: :func:`svir_client.resume` goes on with it.
    """

    def __init__(self, client: AsyncClient, session: Session, plan: Plan) -> None:
        self._client = client
        self._session = session
        self._plan = plan
        self._run_id = uuid.uuid4().hex
        self._entered = False
        self._steps: Steps | None = None
        self._over = False
        self._ending: anyio.Event | None = None
        self._error: SvirError | None = None
        self._working: anyio.CancelScope | None = None
        self._idle: anyio.Event | None = None

    async def __aenter__(self) -> Self:
        if self._entered:
            raise self._refusal("a GenerationStream is entered once")
        self._entered = True
        try:
            steps = self._steps = self._taken()
        except Exception as error:  # of svir's, or of a function of the caller's
            tell_progress(error, Progress())
            raise
        await self._alone(steps, steps.begin)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.aclose()
        except SvirError as failure:
            if error is None:
                raise
            error.add_note(f"on leaving the generation: {failure.detail}")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> GenerationEvent:
        if self._error is not None:
            raise self._error
        steps = self._steps
        if steps is None:
            raise self._refusal("a GenerationStream was read before it was entered with async with")
        if self._over:
            if steps.generation is not None:
                raise StopAsyncIteration
            raise self._refusal("a GenerationStream was read after it was closed")
        if self._working is not None:
            raise self._refusal("two tasks read one GenerationStream at the same time")
        event: GenerationEvent | None = steps.ready()
        if event is not None:
            return event
        event = await self._alone(steps, steps.next)
        if event is None:
            await self._end(steps, None)
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        """End the generation now, and give the session back. Idempotent.

        A task that reads gets a ``ConfigError``, its connection is closed and its tools cancelled.
        """
        if self._working is not None:
            self._working.cancel()
            if self._idle is None:
                self._idle = anyio.Event()
            await self._idle.wait()
        if self._steps is not None:
            await self._end(self._steps, None)

    def text(self) -> GenerationTextStream:
        """The visible text alone, of all rounds, piece by piece; other events are passed over."""
        return GenerationTextStream(self)

    @property
    def generation(self) -> Generation:
        """What it came to; raises its error, or ``ConfigError`` when it was not read to its end."""
        generation = None if self._steps is None else self._steps.generation
        if generation is None:
            raise self._error or self._refusal("the generation was not read to its end, so it came to nothing yet")
        return generation

    @property
    def progress(self) -> Progress:
        """How far it has come."""
        return Progress() if self._steps is None else self._steps.progress

    @property
    def run_id(self) -> str:
        """What traces and tools know it by; unique across processes."""
        return self._run_id

    def __repr__(self) -> str:
        state = "new" if not self._entered else "over" if self._steps is None or self._over else repr(self._steps)
        return f"<GenerationStream {state}>"

    async def _next_read(self) -> list[GenerationEvent]:
        """The next event and those that came with it; none at the end."""
        async for event in self:
            return [event, *(() if self._steps is None else iter(self._steps.ready, None))]
        return []

    def _taken(self) -> Steps:
        """The session taken, and the steps that are to be made with it."""
        self._plan.check(self._client)
        lease = self._session.lease()
        try:
            loop = self._plan.loop(self._client, self._session)
            return Steps(self._client, self._session, lease, self._plan, loop, self._run_id)
        except BaseException:
            lease.release()
            raise

    async def _alone(self, steps: Steps, work: Callable[[], Awaitable[T]]) -> T:
        """What ``work`` gives. When it raises, and when another task closes this meanwhile, all is over."""
        try:
            try:
                with anyio.CancelScope() as self._working:
                    given = await work()
                    if not self._working.cancel_called:
                        return given
            except StopAsyncIteration as error:  # of a layer, a tool, or who is told of its exceptions
                failure = no_end(error)
                await self._end(steps, failure)
                raise failure from error
            except BaseException as error:
                await self._end(steps, error)
                raise
            await self._end(steps, None)
        finally:
            self._working = None
            if self._idle is not None:
                self._idle.set()
                self._idle = None
        raise self._refusal("a GenerationStream was closed by another task while it was read")

    def _refusal(self, detail: str) -> ConfigError:
        error = ConfigError(detail)
        error.progress = self.progress
        return error

    async def _end(self, steps: Steps, error: BaseException | None) -> None:
        if self._ending is not None:
            return await self._ending.wait()
        ending = self._ending = anyio.Event()
        self._over = True
        if isinstance(error, SvirError):
            self._error = error
        try:
            await steps.close(error)
        finally:
            ending.set()


class GenerationTextStream(Unique):
    """The text of a :class:`GenerationStream`."""

    def __init__(self, run: GenerationStream) -> None:
        self._run = run

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        async for event in self._run:
            if isinstance(event, RoundEvent) and isinstance(event.event, TextDelta) and event.event.text:
                return event.event.text
        raise StopAsyncIteration
