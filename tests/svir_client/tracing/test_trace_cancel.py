"""A traced call, cancelled at each of its awaits: one end for one start, and nothing is left."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from svir_client import AsyncClient, Retry, Timeout, Trace
from svir_client.testing import Framing, Pause, Reply
from svir_client.tracing import memory
from tests.svir_client.chat import HELLO, SECONDS, cancelled_everywhere
from tests.svir_client.layers.test_layers_cancel import MOMENT, complete, stream
from tests.svir_client.tracing.traced import pairs

pytestmark = pytest.mark.anyio

SLOW = Reply.stream(HELLO[0], Pause(MOMENT), *HELLO[1:], framing=Framing.CHUNKED, before_head=Pause(MOMENT))
DOWN = Reply.document({}, status=503, before_head=Pause(MOMENT))


async def shortly(seconds: float) -> None:
    await anyio.sleep(MOMENT)


@pytest.mark.parametrize("call", [complete, stream])
async def test_cancelled_at_any_await(call: Callable[[AsyncClient], Coroutine[Any, Any, None]]) -> None:
    outer, inner = memory(), memory()
    layers = [Trace(outer), Timeout.total(SECONDS), Retry.transient(2, sleep=shortly), Trace(inner)]
    times = await cancelled_everywhere(lambda: [DOWN, SLOW], call, layers=layers)
    assert times > 5
    for sink in (outer, inner):
        starts, ends = pairs(sink)
        assert len(starts) > 5
        assert sorted(event.run_id for event in starts) == sorted(event.run_id for event in ends)
        outcomes = {event.document()["attributes"]["outcome"] for event in ends}
        assert outcomes == {"completed", "abandoned"} | ({"failed"} if sink is inner else set())
