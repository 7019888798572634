"""Drawn schedules of calls over one transport: no slot is lost, none is free while a call waits, turns are kept.

The transport and its pool are the real ones; what they dial is a channel in memory, whose peer is the
schedule. After every step the event loop runs until nothing can move, and then the books must balance.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from enum import Enum, auto

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from svir_core.errors import SvirError
from svir_core.http_message import HttpRequest, Origin
from svir_transport.h11 import H11Response, H11Transport, pool, transport
from svir_transport.h11.channel import Channel
from svir_transport.h11.dial import Phase
from svir_transport.h11.pool import Lease, Pool
from tests.svir_transport.h11.peer import Web, echo, read

pytestmark = pytest.mark.anyio

MOST, IDLE, EXPIRY = 3, 1, 5.0
SETTLE = 16
"""Passes through the event loop after a step; the longest chain, a cancelled dial, takes about ten."""


class Line:
    """A channel in memory; the schedule says what its peer does."""

    def __init__(self) -> None:
        self.sent = 0
        self.closed = False
        self.headed = False
        self._ended = False
        self._inbox = b""
        self._moved = anyio.Event()

    def says(self, data: bytes) -> None:
        self._inbox += data
        self._move()

    def ends(self) -> None:
        self._ended = True
        self._move()

    def _move(self) -> None:
        self._moved.set()
        self._moved = anyio.Event()

    def _check(self) -> None:
        if self.closed:
            raise anyio.ClosedResourceError

    def receive_now(self) -> bytes | None:
        self._check()
        data, self._inbox = self._inbox, b""
        return data if data or self._ended else None

    def send_now(self, data: memoryview) -> int:
        self._check()
        assert not self._ended, "a request was written to a peer that had closed"
        self.sent += len(data)
        self.headed = False
        return len(data)

    def flush_now(self) -> bool:
        return True

    async def readable(self) -> None:
        await anyio.lowlevel.checkpoint()
        while not (self._inbox or self._ended):
            self._check()
            await self._moved.wait()
        self._check()

    async def writable(self) -> None:
        await anyio.lowlevel.checkpoint()

    def quiet(self) -> bool:
        return not (self.closed or self._inbox or self._ended)

    def close(self) -> None:
        self.closed = True
        self._move()


class Dial:
    """A connection being made: held up until the schedule lets it succeed or fail."""

    def __init__(self) -> None:
        self.outcome: Exception | None = None
        self.go = anyio.Event()


class Books:
    """A pool that writes down who asked for a slot, and who got one, and asks that it was the first."""

    def __init__(self) -> None:
        self.numbers = itertools.count()
        self.waiting: list[int] = []

    def pool(self, clock: Callable[[], float]) -> Pool:
        books = self

        class Recorded(Pool):
            async def lease(self) -> Lease:
                number = next(books.numbers)
                books.waiting.append(number)
                try:
                    lease = await super().lease()
                    assert number == books.waiting[0], "a later call was served first"
                    return lease
                finally:
                    books.waiting.remove(number)

        return Recorded(MOST, IDLE, EXPIRY, clock)


class Do(Enum):
    """What a schedule is made of."""

    CALL = auto()
    CANCEL = auto()
    CONNECT = auto()
    REFUSE = auto()
    ANSWER = auto()
    ANSWER_LAST = auto()
    READ = auto()
    LEAVE = auto()
    FORGET = auto()
    PEER_CLOSES = auto()
    LATER = auto()


class Call:
    """One caller: opens, waits to be told what to do with the response, and does it."""

    def __init__(self, port: int) -> None:
        self.request = HttpRequest("GET", "http", "h", port, "/", (("host", "h"),))
        self.scope = anyio.CancelScope()
        self.done = False
        self.response: H11Response | None = None
        self.told = anyio.Event()
        self.leaves = False

    def hold(self, response: H11Response) -> None:
        self.response = response

    async def run(self, over: H11Transport) -> None:
        with self.scope:
            try:
                self.hold(await over.open(self.request, None))
                await self.told.wait()  # meanwhile the schedule may take the response away
                if self.response is not None and not self.leaves:
                    await read(self.response)
            except SvirError:
                pass  # what became of the call is for the books to say
        if self.response is not None:
            await self.response.aclose()
            self.response = None
        self.done = True


class World:
    """A transport, its callers and its peers, and the steps that a schedule may take."""

    def __init__(self) -> None:
        self.now = 0.0
        self.books = Books()
        self.transport = H11Transport(max_connections=MOST, max_idle=IDLE, idle_expiry=EXPIRY)
        self.pool = self.books.pool(lambda: self.now)
        self.transport._pools[anyio.lowlevel.current_token().native_token] = self.pool
        self.calls: list[Call] = []
        self.dials: list[Dial] = []
        self.lines: list[Line] = []
        self.closed = False

    async def dial(self, origin: Origin, context: object, enter: Callable[[Phase], None]) -> Channel:
        enter(Phase.TCP)
        dial = Dial()
        self.dials.append(dial)
        try:
            await dial.go.wait()
        finally:
            self.dials.remove(dial)
        if dial.outcome is not None:
            raise dial.outcome
        self.lines.append(Line())
        return self.lines[-1]

    def open_lines(self) -> list[Line]:
        return [line for line in self.lines if not line.closed]

    def idle_lines(self) -> list[Channel]:
        return [connection.channel for connection in self.pool._idle]

    async def step(self, group: anyio.abc.TaskGroup, what: Do, number: int) -> None:
        self.calls = [call for call in self.calls if not call.done]
        asked = [line for line in self.open_lines() if line not in self.idle_lines()]
        answered = [call for call in self.calls if call.response is not None]
        match what:
            case Do.CALL:
                call = Call(80 + number % 2)
                self.calls.append(call)
                group.start_soon(call.run, self.transport)
            case Do.LATER:
                self.now += number
            case Do.CANCEL if self.calls:
                self.calls[number % len(self.calls)].scope.cancel()
            case Do.CONNECT | Do.REFUSE if self.dials:
                dial = self.dials[number % len(self.dials)]
                dial.outcome = ConnectionRefusedError() if what is Do.REFUSE else None
                dial.go.set()
            case Do.ANSWER | Do.ANSWER_LAST if asked:
                self._speak(asked[number % len(asked)], what)
            case Do.PEER_CLOSES if lines := self.open_lines():
                lines[number % len(lines)].ends()
            case Do.READ | Do.LEAVE | Do.FORGET if answered := [
                call for call in self.calls if call.response is not None
            ]:
                call = answered[number % len(answered)]
                call.leaves = what is Do.LEAVE
                if what is Do.FORGET:
                    call.response = None
                call.told.set()
            case _:
                pass  # nothing there to do it to
        await self.settle()

    def _speak(self, line: Line, what: Do) -> None:
        """The head first, the body the next time."""
        if line.headed:
            line.says(b"ok")
        else:
            line.headed = True
            last = b"connection: close\r\n" if what is Do.ANSWER_LAST else b""
            line.says(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n" + last + b"\r\n")

    async def close(self) -> None:
        self.closed = True
        await self.transport.aclose()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(SETTLE):
            await anyio.lowlevel.checkpoint()

    def check(self) -> None:
        """The books balance."""
        free = self.pool._slots._free
        assert self.pool.leased + free == MOST
        holding = sum(not call.done for call in self.calls) - len(self.books.waiting)
        assert self.pool.leased <= holding, "a slot is held by nobody"
        assert not (self.books.waiting and free), "a call waits while a slot is free"
        assert not (self.closed and self.books.waiting), "a call waits for a transport that is closed"
        assert self.pool.idle <= IDLE
        assert self.pool.idle + self.pool.leased <= MOST
        assert len(self.open_lines()) + len(self.dials) <= self.pool.idle + self.pool.leased
        assert len(self.open_lines()) >= self.pool.idle


USUAL = (Do.CALL, Do.CONNECT, Do.ANSWER, Do.READ)
"""Four times as likely as the rest, so that schedules get further than to a few callers who never connect."""

STEPS = st.lists(st.tuples(st.sampled_from([*USUAL, *USUAL, *USUAL, *Do]), st.integers(0, 5)), min_size=30, max_size=80)


CLOSED_WHILE_A_KEPT_CONNECTION_IS_WATCHED = [
    (Do.CALL, 1), (Do.CONNECT, 0), (Do.ANSWER, 0), (Do.ANSWER, 0), (Do.READ, 0), (Do.CALL, 1), (Do.LATER, 0),
]  # fmt: skip


@given(steps=STEPS, close_at=st.integers(20, 200))
@example(steps=CLOSED_WHILE_A_KEPT_CONNECTION_IS_WATCHED, close_at=6)
@settings(max_examples=100)
async def test_the_books_balance_after_every_step(steps: list[tuple[Do, int]], close_at: int) -> None:
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # FORGET: looked at in test_response
        world = World()
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                patch.setattr(transport, "dial", world.dial)
                patch.setattr(pool, "EARLY_CLOSE_SECONDS", -1.0)  # else the first close ends all keeping
                for place, (what, number) in enumerate(steps):
                    if place == close_at:
                        await world.close()
                        world.check()
                    await world.step(group, what, number)
                    world.check()
                await world.transport.aclose()
                for call in world.calls:
                    call.scope.cancel()
        assert world.open_lines() == []
        assert (world.pool.leased, world.pool.idle, world.pool._slots._free) == (0, 0, MOST)
        assert world.dials == []
        assert world.books.waiting == []


async def test_500_tasks_over_5_connections_are_answered_in_the_order_asked(plain: Web) -> None:
    order: list[int] = []

    async with plain.serve(echo) as site:
        over = site.transport(max_connections=5)

        async def call(number: int) -> None:
            response = await over.open(site.get(), None)
            order.append(number)
            assert await read(response) == b""

        async with anyio.create_task_group() as group:
            for number in range(500):
                group.start_soon(call, number)
                await anyio.lowlevel.checkpoint()
        assert len(site.talks) == 5
        assert sum(len(talk.heads) for talk in site.talks) == 500
    assert sorted(order) == list(range(500))
    # Five are under way at once, and may overtake each other; a call that is passed by more has been passed over.
    assert all(abs(place - number) < 10 for place, number in enumerate(order))
