"""Between any layers, before any server, left in any way: every start has one end, and it is true."""

from __future__ import annotations

import contextlib

import anyio
from hypothesis import given
from hypothesis import strategies as st

from svir_client import AsyncClient, Trace
from svir_client.testing import ScriptedTransport
from svir_client.tracing import Outcome, ProviderEnd, memory
from svir_core.errors import SvirError
from svir_core.event import Completed, Event
from tests.svir_client.chat import REQUEST, SECONDS, hello
from tests.svir_client.layers.calls import URL, Clock
from tests.svir_client.layers.test_layers_property import LAYERS, OUTCOMES, made
from tests.svir_client.tracing.traced import end_of, pairs


@given(
    st.lists(st.sampled_from([*LAYERS, "trace"]), max_size=4, unique=True),
    st.lists(st.sampled_from(list(OUTCOMES)), max_size=8),
    st.sampled_from(["asyncio", "trio"]),
    st.sampled_from(["read", "break", "cancel"]),
)
def test_every_start_has_one_end(names: list[str], outcomes: list[str], backend: str, way: str) -> None:
    if {"twice", "first"} & set(names):
        names = [name for name in names if name != "limit"]  # a second stream beside the first waits for its slot

    async def work() -> None:
        clock, outer, inner = Clock(), memory(), memory()
        script = iter(outcomes)
        with anyio.fail_after(SECONDS):
            async with (
                contextlib.aclosing(ScriptedTransport(answer=lambda _: OUTCOMES[next(script, "whole")])) as transport,
                contextlib.aclosing(ScriptedTransport(answer=lambda _: hello())) as other,
            ):
                spare = AsyncClient.openai(URL, transport=other)
                between = [Trace(inner) if name == "trace" else made(name, clock, spare) for name in names]
                client = AsyncClient.openai(URL, transport=transport, layers=[Trace(outer), *between])
                events: list[Event] = []
                error: SvirError | None = None
                with anyio.CancelScope() as scope:
                    try:
                        async with client.stream(REQUEST) as stream:
                            async for event in stream:
                                events.append(event)
                                if way == "cancel":
                                    scope.cancel()
                                if way == "break":
                                    break
                    except SvirError as raised:
                        error = raised
        end = end_of(outer)
        check(end, events, error)
        starts, ends = pairs(inner)
        assert sorted(event.run_id for event in starts) == sorted(event.run_id for event in ends)

    anyio.run(work, backend=backend)


def check(end: ProviderEnd, events: list[Event], error: SvirError | None) -> None:
    """The end says what the caller saw."""
    if error is not None:
        assert (end.outcome, end.error_kind) == (Outcome.FAILED, error.kind)
    elif events and isinstance(events[-1], Completed):
        assert end.outcome is Outcome.COMPLETED
    else:
        assert end.outcome in {Outcome.ABANDONED, Outcome.COMPLETED}
    assert (end.first_token_seconds is None) <= (not events)
