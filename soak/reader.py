"""What the client does with a call: one function for each way of using it, and what each has seen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import anyio
import anyio.lowlevel
import attrs

from soak.case import CASE_HEADER, Case
from svir_client import AsyncClient, RawStream, Stream
from svir_core import (
    Completed,
    Completion,
    ConfigError,
    ReasoningDelta,
    Request,
    SvirError,
    Tap,
    TextDelta,
)
from svir_core.wire import openai_chat

REQUEST: Final = Request("m", system="Be precise.").user("Say something.")


class Abandoned(Exception):
    """An exception of the application, raised inside the block of a stream."""


@attrs.define
class Seen:
    """What one call gave.

    Attributes:
        text, reasoning: what was delivered; of ``complete`` the answer's.
        data: the bytes of a relay.
        completion: the whole answer, where there was one.
        ended: whether the iteration, or the call, came to its end without an error.
        error: what was raised.
        left: whether the client left, of its own accord, before the end.
        again: what reading on raised after a read that was cancelled, where there was one.
        tapped: what a relay's tap made of the bytes.
    """

    text: str = ""
    reasoning: str = ""
    data: bytearray = attrs.field(factory=bytearray)
    completion: Completion | None = None
    ended: bool = False
    error: SvirError | None = None
    left: bool = False
    again: SvirError | None = None
    tapped: Completion | SvirError | None = None


async def _take(stream: Stream, seen: Seen, count: int | None = None) -> None:
    """Take ``count`` events in, or all."""
    taken = 0
    while taken != count:
        try:
            event = await anext(stream)
        except StopAsyncIteration:
            seen.ended = True
            return
        taken += 1
        if isinstance(event, TextDelta):
            seen.text += event.text
        elif isinstance(event, ReasoningDelta):
            seen.reasoning += event.text
        elif isinstance(event, Completed):
            seen.completion = event.completion


class Call:
    """A case, under way."""

    def __init__(self, client: AsyncClient, case: Case, seen: Seen) -> None:
        self.client = client
        self.case = case
        self.seen = seen
        self._headers = {CASE_HEADER: str(case.number)}

    def stream(self) -> Stream:
        return self.client.stream(REQUEST, headers=self._headers, idle_timeout=self.case.plan.idle_timeout)

    def send(self) -> RawStream:
        return self.client.send(REQUEST, headers=self._headers, idle_timeout=self.case.plan.idle_timeout)

    async def complete(self) -> None:
        answer = await self.client.complete(REQUEST, headers=self._headers, idle_timeout=self.case.plan.idle_timeout)
        self.seen.completion, self.seen.ended = answer, True
        self.seen.text = answer.text
        self.seen.reasoning = "".join(entry.text for entry in answer.reasoning)

    async def events(self) -> None:
        async with self.stream() as stream:
            await _take(stream, self.seen)

    async def text(self) -> None:
        async with self.stream() as stream:
            async for piece in stream.text():
                self.seen.text += piece
            self.seen.ended = True
            self.seen.completion = stream.completion
        self.seen.reasoning = "".join(entry.text for entry in stream.completion.reasoning)

    async def slow(self) -> None:
        async with self.stream() as stream:
            while not self.seen.ended:
                await _take(stream, self.seen, 1)
                await (anyio.sleep(self.case.lull) if self.case.lull else anyio.lowlevel.checkpoint())

    async def leave(self) -> None:
        async with self.stream() as stream:
            await _take(stream, self.seen, self.case.patience)
            self.seen.left = not self.seen.ended

    async def fail(self) -> None:
        try:
            async with self.stream() as stream:
                await _take(stream, self.seen, self.case.patience)
                raise Abandoned
        except Abandoned:
            self.seen.left = not self.seen.ended

    async def cancelled(self) -> None:
        with anyio.move_on_after(self.case.moment) as scope:
            await self.events()
        self.seen.left = scope.cancelled_caught

    async def cancelled_read(self) -> None:
        async with self.stream() as stream:
            await _take(stream, self.seen, self.case.patience)
            with anyio.CancelScope() as scope:
                scope.cancel()
                await _take(stream, self.seen, 1)
            if not scope.cancelled_caught:
                await _take(stream, self.seen)
                return
            self.seen.left = True
            try:
                await _take(stream, self.seen)
            except SvirError as error:
                self.seen.again = error

    async def closed(self) -> None:
        async with self.stream() as stream, anyio.create_task_group() as group:

            async def close_soon() -> None:
                await anyio.sleep(self.case.moment)
                self.seen.left = True
                await stream.aclose()

            group.start_soon(close_soon)
            try:
                await _take(stream, self.seen)
            except SvirError as error:
                if not (self.seen.left and isinstance(error, ConfigError)):
                    self.seen.error = error
            else:
                self.seen.left = not self.seen.ended
            group.cancel_scope.cancel()

    async def relay(self, count: int | None = None) -> None:
        tap = Tap(openai_chat.Decoder())
        try:
            async with self.send() as raw:
                async for data in _first(raw, count):
                    self.seen.data += data
                    tap.push(data)
                    await anyio.lowlevel.checkpoint()
                self.seen.left = count is not None
                self.seen.ended = count is None
        finally:
            tap.finish()
            self.seen.tapped = tap.outcome

    async def relay_left(self) -> None:
        await self.relay(self.case.patience % 5)


async def _first(raw: RawStream, count: int | None) -> AsyncIterator[bytes]:
    taken = 0
    while taken != count:
        data = await anext(raw, None)
        if data is None:
            return
        taken += 1
        yield data


READERS: Final[dict[str, Callable[[Call], Awaitable[None]]]] = {
    "complete": Call.complete,
    "events": Call.events,
    "text": Call.text,
    "slow consumer": Call.slow,
    "break": Call.leave,
    "exception": Call.fail,
    "cancelled": Call.cancelled,
    "cancelled read": Call.cancelled_read,
    "closed by another task": Call.closed,
    "relay": Call.relay,
    "relay left": Call.relay_left,
}


async def run(client: AsyncClient, case: Case) -> Seen:
    """Make the call of ``case``; what it raises that is no ``SvirError`` is raised."""
    seen = Seen()
    try:
        await READERS[case.reader](Call(client, case, seen))
    except SvirError as error:
        seen.error = error
    return seen
