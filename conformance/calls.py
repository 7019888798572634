"""The calls of a transport case: what is asked, and what the caller does meanwhile (13)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import anyio
import attrs

from conformance.fields import CaseError, Fields, Json, anything, flag, items, natural
from conformance.outcome import Actual, Expectation, expectation
from conformance.request_notation import default_request, request
from svir_client import AsyncClient
from svir_core.errors import SvirError
from svir_core.event import Completed
from svir_core.request import Request


class Reader:
    """The task that reads one stream, event by event and only while it may, and what steers it."""

    def __init__(self, client: AsyncClient, make_request: Callable[[], Request]) -> None:
        self.actual = Actual()
        self._client = client
        self._make_request = make_request
        self._scope = anyio.CancelScope()
        self._allowed = 0.0
        self._paused = False
        self._left = False
        self._ended = False
        self._changed = anyio.Event()

    def _notify(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    # The reading task.

    async def run(self) -> None:
        """Read until the stream ends, the caller leaves, or the task is cancelled."""
        began = anyio.current_time()
        try:
            with self._scope:
                await self._read()
        except SvirError as error:
            self.actual.error = error
        finally:
            self.actual.seconds = anyio.current_time() - began
            self.actual.cancelled = not self.actual.over and (self._left or self._scope.cancel_called)
            self._ended = True
            self._notify()

    async def _read(self) -> None:
        async with self._client.stream(self._make_request()) as stream:
            events = aiter(stream)
            while await self._may_read():
                event = await anext(events, None)
                if event is None:
                    return
                self.actual.events.append(event)
                if isinstance(event, Completed):
                    self.actual.completion = event.completion
                self._allowed -= 1
                self._notify()

    async def _may_read(self) -> bool:
        self._paused = True
        while self._allowed <= 0 and not self._left:
            await self._changed.wait()
        self._paused = False
        return not self._left

    # What the case does to it.

    async def read_events(self, count: float) -> None:
        """Let it read ``count`` events; returns when it has, or when the stream ended."""
        self._allowed = count
        self._notify()
        while self._allowed > 0 and not self._ended:
            await self._changed.wait()

    async def read_for(self, seconds: float) -> None:
        """Let it read for a time, or until the stream ends."""
        with anyio.move_on_after(seconds):
            await self.read_events(math.inf)
        self._allowed = 0

    async def cancel(self) -> None:
        """Cancel the task, and wait until it is gone."""
        self._scope.cancel()
        await self._wait_for_end()

    async def leave(self) -> None:
        """Leave the stream as a ``break`` does; a read under way has to be cancelled for it."""
        self._left = True
        self._notify()
        if not self._paused:
            self._scope.cancel()
        await self._wait_for_end()

    async def _wait_for_end(self) -> None:
        while not self._ended:
            await self._changed.wait()


Action: TypeAlias = Callable[[Reader], Awaitable[None]]


def _action(value: Json, where: str) -> Action:
    if isinstance(value, dict):
        with Fields(value, where) as fields:
            if fields.only("read_events", "read_for_ms") == "read_events":
                count = fields.required("read_events", natural)
                return lambda reader: reader.read_events(count)
            milliseconds = fields.required("read_for_ms", natural)
            return lambda reader: reader.read_for(milliseconds / 1000)
    if not isinstance(value, str) or value not in ACTIONS:
        raise CaseError(f"{where}: one of {', '.join(ACTIONS)}, read_events or read_for_ms is expected")
    return ACTIONS[value]


ACTIONS: Mapping[str, Action] = {
    "read_all": lambda reader: reader.read_events(math.inf),
    "cancel": lambda reader: reader.cancel(),
}


@attrs.frozen
class CallScript:
    """One call: a request or a listing, what the caller does, and what must come of it."""

    make_request: Callable[[], Request]
    list_models: bool
    actions: Sequence[Action]
    expect: Expectation | None


def call_script(value: Json, where: str) -> CallScript:
    """One entry of ``calls``; ``CaseError`` when it is not in the notation."""
    with Fields(value, where) as fields:
        asked = fields.optional("request", anything, None)
        make_request = default_request if asked is None else partial(request, asked, f"{where}.request")
        with contextlib.suppress(SvirError):
            make_request()  # read once here: a request outside of the notation is a fault of the case
        return CallScript(
            make_request,
            fields.optional("list_models", flag, False),
            fields.optional("client", items(_action), [ACTIONS["read_all"]]),
            fields.optional("expect", expectation, None),
        )


async def perform(client: AsyncClient, script: CallScript) -> Actual:
    """Make the call; what came of it."""
    if script.list_models:
        return await _list_models(client)
    reader = Reader(client, script.make_request)
    async with anyio.create_task_group() as group:
        group.start_soon(reader.run)
        for action in script.actions:
            await action(reader)
        await reader.leave()
    return reader.actual


async def _list_models(client: AsyncClient) -> Actual:
    actual = Actual()
    began = anyio.current_time()
    try:
        actual.models = await client.list_models()
    except SvirError as error:
        actual.error = error
    actual.seconds = anyio.current_time() - began
    return actual
