"""So many calls at once, one after the other in each of so many tasks, until the time is up."""

from __future__ import annotations

import gc
import itertools
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Final

import anyio
import anyio.lowlevel
import attrs

from soak import measure
from soak.case import Case
from soak.oracle import Violation, judge
from soak.reader import run
from soak.server import ServerProcess
from soak.transport import CONNECT_SECONDS, TRANSPORTS, Tested
from svir_client import AsyncClient

MARKS: Final = (0.1, 0.5, 1.0)
"""Where memory is measured; before the first of them everything that is made once has been made."""

CALL_SECONDS: Final = 180.0
"""No call takes longer: the slowest answer at pace 1, read by the slowest consumer, on a busy machine."""

SETTLE_SECONDS: Final = 5.0
"""How long, after the last call, until the server has seen every connection closed that is not kept."""

GROWTH: Final = 1.1
SLACK_BYTES: Final = 8 * 1024 * 1024
"""Memory is flat when its end is within these of its first mark: allocators round, and answers differ."""


@attrs.frozen
class Settings:
    """What a load is.

    Attributes:
        streams: calls at once.
        seconds: how long calls are begun; those under way then come to their end.
        calls: after how many calls it ends, at the latest.
        transport: a name of :data:`soak.transport.TRANSPORTS`.
        seed: of every draw.
        first: the number of the first call.
        pace: by how much the pauses of servers and consumers are drawn out; 0 for none.
    """

    streams: int
    seconds: float
    seed: int
    transport: str = "h11"
    first: int = 0
    calls: int | None = None
    pace: float = 1.0


@attrs.define
class Summary:
    """What a load was.

    Attributes:
        outcomes: how many calls ended how.
        faults: how many calls met what.
        seconds: until the last call that was begun in time had ended.
        under_way: how many calls were under way at each of ``MARKS``; the others of the streams were resting.
        resident: of this process at each of ``MARKS``, in bytes; none where the system does not tell.
        descriptors: before, at the most that was seen at a mark, and after.
        processor: seconds of processor time of this process.
        requests: how many requests the server saw.
        violation: what went wrong, where something did.
    """

    outcomes: Counter[str] = attrs.field(factory=Counter[str])
    faults: Counter[str] = attrs.field(factory=Counter[str])
    seconds: float = 0.0
    under_way: list[int] = attrs.field(factory=list[int])
    resident: list[int] = attrs.field(factory=list[int])
    descriptors: list[int] = attrs.field(factory=list[int])
    processor: float = 0.0
    requests: int = 0
    violation: str | None = None

    @property
    def calls(self) -> int:
        """How many calls ended."""
        return self.outcomes.total()

    def flat(self) -> bool:
        """Whether memory stayed where it was."""
        return not self.resident or self.resident[-1] <= self.resident[0] * GROWTH + SLACK_BYTES


class Load:
    """One load, under way."""

    def __init__(self, settings: Settings, server: ServerProcess) -> None:
        self.settings = settings
        self.summary = Summary()
        self._server = server
        self._numbers = itertools.count(settings.first)
        self._began = time.monotonic()
        self._marks = list(MARKS)
        self._under_way = 0

    async def run(self) -> Summary:
        """Make the calls; what went wrong is in the summary."""
        before = measure.open_descriptors()
        spent = measure.processor_seconds()
        tested = TRANSPORTS[self.settings.transport](self.settings.streams * 9 // 10 + 1, None)
        client = self._client(tested)
        async with anyio.create_task_group() as group:
            for _ in range(self.settings.streams):
                group.start_soon(self._calls, client, tested, group.cancel_scope)
        self.summary.seconds = time.monotonic() - self._began
        self.summary.processor = measure.processor_seconds() - spent
        try:
            if self.summary.violation is None:
                await self._settle(tested, before)
        except Violation as error:
            self.summary.violation = f"seed {self.settings.seed}, after {self.summary.calls} calls: {error}"
        await tested.transport.aclose()
        return self.summary

    def _client(self, tested: Tested) -> AsyncClient:
        return AsyncClient.openai(self._server.url, transport=tested.transport, connect_timeout=CONNECT_SECONDS)

    def _progress(self) -> float:
        passed = (time.monotonic() - self._began) / self.settings.seconds
        return max(passed, self.summary.calls / self.settings.calls) if self.settings.calls else passed

    async def _calls(self, client: AsyncClient, tested: Tested, scope: anyio.CancelScope) -> None:
        """One call after the other, each a case of its own; the first violation ends them all."""
        while self._progress() < 1:
            case = Case.of(self.settings.seed, next(self._numbers), self.settings.pace)
            try:
                if case.rest:
                    await anyio.sleep(case.rest)
                await self._call(client, tested, case)
            except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - nothing else may come out of a call
                self._report(case, error)
                scope.cancel()
                return
            self._mark()

    async def _call(self, client: AsyncClient, tested: Tested, case: Case) -> None:
        if len(case.plan.replies) > 1:  # the client learns from it: that must not reach other cases
            client = self._client(tested)
        self._under_way += 1
        try:
            with anyio.fail_after(CALL_SECONDS):
                seen = await run(client, case)
        finally:
            self._under_way -= 1
        self.summary.outcomes[judge(case, seen)] += 1
        self.summary.faults[case.fault] += 1

    def _report(self, case: Case, error: BaseException) -> None:
        if self.summary.violation is None:
            why = str(error) if isinstance(error, Violation) else "".join(traceback.format_exception(error))
            self.summary.violation = f"seed {self.settings.seed}, {case}: {why}\nscript: {case.plan}"

    def _mark(self) -> None:
        """Measure where a mark has been reached."""
        if self._marks and self._progress() >= self._marks[0]:
            self._marks.pop(0)
            self.summary.under_way.append(self._under_way)
            gc.collect()
            self.summary.descriptors.append(measure.open_descriptors())
            resident = measure.resident_bytes()
            if resident is not None:
                self.summary.resident.append(resident)

    async def _settle(self, tested: Tested, before: int) -> None:
        """Everything that was opened is closed: at once what no call uses, and at the end the rest."""
        await _soon(lambda: tested.pool().leased == 0, "connections are still in use")
        kept = tested.pool().idle
        await _soon(lambda: self._server.counts().open == kept, f"the server has more connections than the {kept} kept")
        await tested.transport.aclose()
        await _soon(lambda: self._server.counts().open == 0, "the server still has connections")
        await _soon(lambda: measure.open_descriptors() == before, "file descriptors are left open")
        self.summary.requests = self._server.counts().requests
        self.summary.descriptors = [before, max(self.summary.descriptors), measure.open_descriptors()]
        if not self.summary.flat():
            raise Violation(f"memory grew: {self.summary.resident} bytes")


async def _soon(holds: Callable[[], bool], otherwise: str) -> None:
    """Look again and again, for so long; a ``Violation`` when it never ``holds``."""
    with anyio.move_on_after(SETTLE_SECONDS):
        while not holds():
            await anyio.lowlevel.checkpoint()
        return
    raise Violation(otherwise)
