"""The steps of one generation, made one at a time by a client and tools, and stored as they are made (50, Loop).

Two rules hold for all of it. What a step gave is the session's, on its disk too, before anybody is told of it. A step
that cannot be stored has not been made.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, cast

import anyio
import anyio.lowlevel
import attrs

from svir_client.finished import Finished
from svir_client.generation.progress import tell_progress
from svir_client.tools.context import ToolContext
from svir_client.tools.pool import call_all
from svir_client.tools.registry import Tools
from svir_client.tracing.traced_generation import TracedGeneration
from svir_core.errors import SvirError
from svir_core.event import Completed
from svir_core.generation import Generation, Progress
from svir_core.generation_event import GenerationEvent, RoundEvent, RoundResults
from svir_core.loop import LoopPhase, ToolLoop
from svir_core.loop_step import CallModel, RunTools
from svir_core.message import Role, ToolResult

if TYPE_CHECKING:
    from svir_client.client import AsyncClient
    from svir_client.generation.plan import Plan
    from svir_client.session import Session, SessionLease
    from svir_client.stream import Stream

SAVE_SECONDS: Final = 5.0
"""A generation that is left, or cancelled, waits so long for the session's store to keep what there is."""

_OVER: Final = (LoopPhase.APPROVAL, LoopPhase.FINISHED)
"""The phases in which there is no step to make."""


class Steps:
    """One generation that has its session. Its methods are called one at a time, and :meth:`close` last, once."""

    def __init__(
        self, client: AsyncClient, session: Session, lease: SessionLease, plan: Plan, loop: ToolLoop, run_id: str
    ) -> None:
        self._client = client
        self._session = session
        self._lease = lease
        self._plan = plan
        self._loop = loop
        self._run_id = run_id
        self._before = session.suspended if plan.common.rollback and plan.input is not None else None
        self._begun = False
        self._saved = False
        self._stream: Stream | None = None
        self._ready: Iterator[RoundEvent] = iter(())
        self._results: RoundResults | None = None
        self._traced = TracedGeneration(
            client._layers,
            client.api,
            loop.request.model,
            session.id,
            run_id,
            redactor=client._redactor(plan.common.headers),
        )

    @property
    def generation(self) -> Generation | None:
        """What it came to, once that is stored."""
        return self._loop.generation if self._saved and self._loop.phase in _OVER else None

    @property
    def progress(self) -> Progress:
        """How far it has come; nowhere when it was refused."""
        return self._loop.progress if self._begun else Progress()

    async def begin(self) -> None:
        """Refuse what the API cannot carry; else it begins, and what begins it is stored."""
        request = self._loop.request
        await self._client.check(request, headers=self._plan.common.headers.value)
        self._keep(self._loop, lambda: self._traced.start(self._plan.input, request))
        await self._save()

    async def next(self) -> GenerationEvent | None:
        """The next event, when none is :meth:`ready`; ``None`` at the end."""
        while True:
            if self._results is not None:
                results, self._results = self._results, None
                return results
            if self._stream is not None:
                event = await self._read(self._stream)
                if event is not None:
                    return event
                continue
            await anyio.lowlevel.checkpoint_if_cancelled()  # who was cancelled begins no other step
            step = self._loop.next()
            if isinstance(step, CallModel):
                await self._ask(step)
            elif isinstance(step, RunTools):
                await self._run(step)
            else:  # it is finished, or waits for somebody
                return None

    def ready(self) -> RoundEvent | None:
        """The next event that came with an earlier one; ``None`` when there is none."""
        return next(self._ready, None)

    def __repr__(self) -> str:
        return repr(self._loop)

    # --- the model -------------------------------------------------------------------------------------

    async def _ask(self, step: CallModel) -> None:
        plan = self._plan
        with self._traced.round(step.round):
            stream = self._client.stream(
                step.request, headers=plan.common.headers.value, idle_timeout=plan.common.idle_timeout
            )
            await stream.__aenter__()
        self._stream = stream

    async def _read(self, stream: Stream) -> RoundEvent | None:
        """The next event of the answer; ``None`` when a layer has read it to its end."""
        number = self._loop.rounds + 1
        events = await stream._next_read()
        if not events or isinstance(events[0], Completed):
            await self._answered(stream)
        self._ready = map(functools.partial(RoundEvent, number), events)
        return self.ready()

    async def _answered(self, stream: Stream) -> None:
        loop = attrs.evolve(self._loop)
        loop.model_answered(stream.completion)
        self._keep(loop)
        await stream.aclose()
        self._stream = None
        await self._save()

    # --- the tools -------------------------------------------------------------------------------------

    async def _run(self, step: RunTools) -> None:
        plan, loop = self._plan, attrs.evolve(self._loop)
        context = ToolContext(
            session_id=self._session.id,
            run_id=self._run_id,
            state=self._session.state,
            on_error=plan.common.on_tool_error,
            approved=frozenset(id for id, said in loop.approvals.items() if said),
        )
        toolbox = self._traced.tools(Tools() if plan.common.tools is None else plan.common.tools, step.round)
        loop.tools_answered(await call_all(toolbox, step.calls, context=context, limit=loop.limits.parallel))
        await self._check_carried(loop)
        self._keep(loop)
        await self._save()

    async def _check_carried(self, loop: ToolLoop) -> None:
        """Refuse what the model or its API cannot carry before it is stored: the history would be refused for ever."""
        added = loop.request.messages[len(self._session.messages) :]
        self._plan.check_parts(added)
        await self._client.check(loop.request.replace(messages=added), headers=self._plan.common.headers.value)

    # --- the session -----------------------------------------------------------------------------------

    def _keep(self, loop: ToolLoop, tell: Callable[[], object] | None = None) -> None:
        """What ``loop`` has come to is the session's; nothing is, by ``ConfigError``, when its store cannot hold it."""
        added = loop.request.messages[len(self._session.messages) :]
        self._lease.advance(added, None if loop.phase is LoopPhase.FINISHED else loop, tell=tell)
        self._loop, self._begun, self._saved = loop, True, False
        if added and added[-1].role is Role.TOOL:
            results = tuple(part for part in added[-1].parts if isinstance(part, ToolResult))
            self._results = RoundResults(loop.rounds, results)
            self._trace_not_run(loop, results)

    def _trace_not_run(self, loop: ToolLoop, results: tuple[ToolResult, ...]) -> None:
        """Report the calls that the loop itself has answered: they were cut off, or somebody said no."""
        calls = () if loop.completion is None else loop.completion.calls
        for call, result in zip(calls, results, strict=True):
            if not (call.complete and loop.approvals.get(call.id, True)):
                self._traced.not_run(call, result, loop.rounds)

    async def _save(self) -> None:
        await self._lease.save()
        self._saved = True

    # --- the end ---------------------------------------------------------------------------------------

    async def close(self, error: BaseException | None) -> None:
        """Close what is open, keep or roll back what did not finish, and give the session back.

        ``error`` is what ended it; ``None`` when it came to its end, or was left. Raises ``StoreError`` when it was
        left and that could not be stored.
        """
        leaving = Finished()
        try:
            if isinstance(error, Exception):
                tell_progress(error, self.progress)
            try:
                with anyio.CancelScope(shield=True):
                    if self._stream is not None:
                        await self._stream.aclose()
            except anyio.get_cancelled_exc_class() as cancelled:  # asyncio's own, which no shield holds off
                leaving.cancelled = cancelled
            finally:
                if self._begun and self.generation is None:
                    await self._give_up(error, leaving)
                leaving.pass_on(error)
        except Exception as failure:
            tell_progress(failure, self.progress)
            raise
        finally:
            self._lease.release()
            self._report(error)

    async def _give_up(self, error: BaseException | None, leaving: Finished) -> None:
        with leaving.noted(error, "the generation"):
            if self._plan.common.rollback:
                self._lease.truncate(cast("int", self._loop.start))  # one that has begun has it
                self._lease.suspend(self._before)
            else:
                self._suspend(error)
        with leaving.noted(error, "the generation"):  # when its time is over the next save writes it
            await leaving.run(self._lease.save, SAVE_SECONDS)

    def _suspend(self, error: BaseException | None) -> None:
        """Keep the loop that goes on another time; it knows why it does not go on now."""
        loop = attrs.evolve(self._loop)
        if isinstance(error, SvirError) and loop.error is None and loop.phase is not LoopPhase.FINISHED:
            loop.failed(error)
        self._lease.suspend(loop)

    def _report(self, error: BaseException | None) -> None:
        generation = self.generation
        if generation is not None:
            self._traced.end(generation)
        else:
            self._traced.failed(error, self._loop.progress)
