"""A generation under way: the loop of core, driven by a client and tools (50, Loop)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Final

import anyio
import attrs

from svir_client.generation.event import GenerationEvent, RoundEvent, RoundResults
from svir_client.generation.plan import Plan
from svir_client.generation.progress import tell_progress
from svir_client.tools.context import ToolContext
from svir_client.tools.pool import call_all
from svir_client.tools.registry import Tools
from svir_client.tracing.traced_generation import TracedGeneration
from svir_client.unique import Unique
from svir_core.errors import ConfigError, SvirError
from svir_core.event import TextDelta
from svir_core.generation import Generation, Progress
from svir_core.loop import LoopPhase, ToolLoop
from svir_core.loop_step import AskApproval, CallModel, Finished, RunTools
from svir_core.message import ToolResult

if TYPE_CHECKING:
    from typing import Self

    from svir_client.client import AsyncClient
    from svir_client.session import Session, SessionLease
    from svir_client.stream import Stream

SAVE_SECONDS: Final = 5.0
"""A generation that is left, or cancelled, waits so long for the session's store to keep what there is."""


class GenerationStream(Unique):
    """The events of every round of one generation: ``async with generate_stream(...) as run: async for event in run``.

    Entering checks what was given, takes the session, and stores the input; iterating asks the model, runs the tools,
    and stores what they gave. Leaving the block, in whatever way, gives the session back. What an error or a
    cancellation leaves behind is in ``session.suspended``: :func:`svir_client.resume` goes on with it.
    """

    def __init__(self, client: AsyncClient, session: Session, plan: Plan) -> None:
        self._client = client
        self._session = session
        self._plan = plan
        self._run_id = uuid.uuid4().hex
        self._entered = False
        self._reading = False
        self._lease: SessionLease | None = None
        self._loop: ToolLoop | None = None
        self._begun = False
        self._traced: TracedGeneration | None = None
        self._stream: Stream | None = None
        self._generation: Generation | None = None
        self._error: SvirError | None = None

    async def __aenter__(self) -> Self:
        if self._entered:
            raise ConfigError("a GenerationStream is entered once")
        self._entered = True
        self._lease = lease = self._session.lease()
        try:
            loop = self._loop = self._plan.loop(self._session)
            await self._plan.check(self._client, loop)
            self._traced = traced = TracedGeneration(
                self._client._layers, self._client.api, loop.request.model, self._session.id, self._run_id
            )
            traced.start(self._plan.input, loop.request)
            self._begun = True
            await self._store(lease, loop)
        except BaseException as error:
            await self._close(error)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> GenerationEvent:
        if self._error is not None:
            raise self._error
        if self._generation is not None:
            raise StopAsyncIteration
        if self._lease is None or self._loop is None or self._traced is None:
            when = "after it was closed" if self._entered else "before it was entered with async with"
            raise ConfigError(f"a GenerationStream was read {when}")
        if self._reading:
            raise ConfigError("two tasks read one GenerationStream at the same time")
        self._reading = True
        try:
            event = await self._advance(self._lease, self._loop, self._traced)
        except BaseException as error:
            await self._close(error)
            raise
        finally:
            self._reading = False
        if event is None:
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        """End the generation now, and give the session back. Idempotent."""
        await self._close(None)

    def text(self) -> GenerationTextStream:
        """The visible text alone, of all rounds, piece by piece; other events are passed over."""
        return GenerationTextStream(self)

    @property
    def generation(self) -> Generation:
        """What it came to; raises its error, or ``ConfigError`` when it was not read to its end."""
        if self._generation is not None:
            return self._generation
        raise self._error or ConfigError("the generation was not read to its end, so it came to nothing yet")

    @property
    def progress(self) -> Progress:
        """How far it has come."""
        return Progress() if self._loop is None else self._loop.progress

    @property
    def run_id(self) -> str:
        """What traces and tools know it by; unique across processes."""
        return self._run_id

    def __repr__(self) -> str:
        state = "new" if not self._entered else "over" if self._lease is None else repr(self._loop)
        return f"<GenerationStream {state}>"

    async def _next_read(self) -> list[GenerationEvent]:
        """The next event and those that came with it; none at the end."""
        async for event in self:
            return [event, *self._at_hand()]
        return []

    def _at_hand(self) -> Iterator[GenerationEvent]:
        """The events of the round that were read and not handed over."""
        if self._stream is not None and self._loop is not None:
            for event in self._stream._buffer:
                yield RoundEvent(self._loop.rounds + 1, event)

    # --- steps -----------------------------------------------------------------------------------------

    async def _advance(self, lease: SessionLease, loop: ToolLoop, traced: TracedGeneration) -> GenerationEvent | None:
        """The next event; ``None`` at the end."""
        while True:
            if self._stream is not None:
                async for event in self._stream:
                    return RoundEvent(loop.rounds + 1, event)
                await self._answered(self._stream, lease, loop)
            step = loop.next()
            match step:
                case CallModel():
                    with traced.round(step.round):
                        stream = self._client.stream(
                            step.request, headers=self._plan.headers.value, idle_timeout=self._plan.idle_timeout
                        )
                        await stream.__aenter__()
                    self._stream = stream
                case RunTools():
                    return await self._run(step, lease, loop, traced)
                case AskApproval() | Finished():
                    self._generation = loop.generation
                    await self._close(None)
                    return None

    async def _answered(self, stream: Stream, lease: SessionLease, loop: ToolLoop) -> None:
        self._stream = None
        await stream.aclose()
        loop.model_answered(stream.completion)
        await self._store(lease, loop)

    async def _run(
        self, step: RunTools, lease: SessionLease, loop: ToolLoop, traced: TracedGeneration
    ) -> GenerationEvent:
        plan = self._plan
        context = ToolContext(
            session_id=self._session.id,
            run_id=self._run_id,
            state=self._session.state,
            on_error=plan.on_error,
            approved=frozenset(id for id, said in loop.approvals.items() if said),
        )
        toolbox = traced.tools(Tools() if plan.tools is None else plan.tools, step.round)
        results = await call_all(toolbox, step.calls, context=context, limit=loop.limits.parallel)
        await self._check_carried(results, loop)
        loop.tools_answered(results)
        stored = loop.request.messages[-1].parts
        await self._store(lease, loop)
        return RoundResults(step.round, tuple(part for part in stored if isinstance(part, ToolResult)))

    async def _check_carried(self, results: tuple[ToolResult, ...], loop: ToolLoop) -> None:
        """Refuse what the API or the model cannot carry before it is stored: it would refuse the history for ever."""
        if all(isinstance(result.content, str) for result in results):
            return
        trial = attrs.evolve(loop)
        trial.tools_answered(results)
        added = trial.request.messages[len(loop.request.messages) :]
        self._plan.check_parts(added)
        await self._client.check(trial.request.replace(messages=added), headers=self._plan.headers.value)

    async def _store(self, lease: SessionLease, loop: ToolLoop) -> None:
        """What the loop has come to becomes the session's, on its disk too."""
        lease.append(loop.request.messages[len(self._session.messages) :])
        lease.suspend(None if loop.phase is LoopPhase.FINISHED else loop)
        await lease.save()

    # --- ends ------------------------------------------------------------------------------------------

    async def _close(self, error: BaseException | None) -> None:
        """Close what is open, keep or roll back what did not finish, and give the session back. Idempotent."""
        lease, self._lease = self._lease, None
        if lease is None:
            return
        if isinstance(error, SvirError):
            self._error = error
        try:
            with anyio.CancelScope(shield=True):
                stream, self._stream = self._stream, None
                if stream is not None:
                    await stream.aclose()
                if self._loop is not None and self._generation is None:
                    await self._give_up(lease, self._loop, error)
        finally:
            lease.release()
            if self._traced is not None:
                self._report(self._traced, error)

    async def _give_up(self, lease: SessionLease, loop: ToolLoop, error: BaseException | None) -> None:
        if isinstance(error, SvirError) and loop.error is None:
            loop.failed(error)
        if isinstance(error, Exception):
            tell_progress(error, loop.progress)
        if not self._begun:
            return
        if self._plan.rollback:
            lease.truncate(loop.start)
            lease.suspend(None)
        else:
            lease.suspend(loop)
        with anyio.move_on_after(SAVE_SECONDS):
            try:
                await lease.save()
            except SvirError:
                if error is None:  # else that is what is raised, and what is not stored yet is in the session
                    raise

    def _report(self, traced: TracedGeneration, error: BaseException | None) -> None:
        if self._generation is not None:
            traced.end(self._generation)
        else:
            traced.failed(GeneratorExit() if error is None else error, self.progress)


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
