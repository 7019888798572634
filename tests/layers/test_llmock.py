"""The client with layers before llmock, a server that breaks on demand and judges what its client made of that.

Its verdict counts attempts of the same call: what is broken off after its first event is not repeated by a layer, so
the application here does, once, as docs/layers.md shows.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.to_thread
import pytest
from llmock.pytest_plugin import LLMock

from svir_client import AsyncClient, Layer, Limit, Retry, Timeout
from svir_client.layers.retry import Sleep
from svir_core.errors import ProtocolError, RateLimitedError, SvirError
from svir_core.request import Request
from tests.svir_client.chat import SECONDS
from tests.svir_client.layers.calls import Clock

pytestmark = pytest.mark.anyio

REQUEST = Request("gpt-4o").user("Say something of several words, please.")


async def quicker(seconds: float) -> None:
    """A backoff of a quarter of the time: still one that grows."""
    await anyio.sleep(seconds / 4)


async def answered(server: LLMock, *, retry: Retry, repeats: int = 0) -> list[SvirError]:
    """Ask until there is a whole answer, at most so many times more; what went wrong before."""
    errors: list[SvirError] = []
    layers: list[Layer] = [retry, Timeout.idle(0.3)]
    with anyio.fail_after(SECONDS):
        async with AsyncClient.openai(server.base_url("openai"), api_key="sk-0", layers=layers) as client:
            while True:
                try:
                    answer = await client.complete(REQUEST)
                except SvirError as error:
                    errors.append(error)
                    await anyio.to_thread.run_sync(lambda: server.requests)  # the server has seen that it was closed
                    if len(errors) > repeats:
                        return errors
                else:
                    assert answer.text.startswith("Mock response from gpt-4o")
                    return errors


async def judged(server: LLMock) -> None:
    """A clean verdict: neither errors nor warnings."""
    await anyio.to_thread.run_sync(lambda: server.assert_resilient(strict=True))


def failing(status: int, times: int, wait: float | None = None) -> Callable[[LLMock], object]:
    return lambda server: server.fail(status, times=times, retry_after=wait)


FAULTS: dict[str, tuple[Callable[[LLMock], object], int, Sleep]] = {
    "no fault": (LLMock.reset, 0, anyio.sleep),
    "two rate limits": (failing(429, 2, 0.2), 2, anyio.sleep),
    "a rate limit of no wait": (failing(429, 1, 0), 1, anyio.sleep),
    "three 503s that say how long": (failing(503, 3, 0.2), 3, anyio.sleep),
    "an overloaded server": (failing(529, 1, 0.2), 1, anyio.sleep),
    "three 500s": (failing(500, 3), 3, quicker),
    "two 502s": (failing(502, 2), 2, quicker),
    "two 504s that say how long": (failing(504, 2, 0.1), 2, anyio.sleep),
    "a 408": (failing(408, 1), 1, quicker),
}
"""What ``Retry.transient(3)`` repeats: what was done, how often the server failed, and how it was waited."""


@pytest.mark.parametrize("fault", FAULTS)
async def test_faults_before_the_response(llmock: LLMock, fault: str) -> None:
    script, failures, sleep = FAULTS[fault]
    script(llmock)
    assert await answered(llmock, retry=Retry.transient(3, sleep=sleep)) == []
    assert len(llmock.requests) == failures + 1
    await judged(llmock)


STREAM_FAULTS: dict[str, Callable[[LLMock, int], object]] = {
    "truncated": lambda server, after: server.truncate(after_chunks=after),
    "disconnected": lambda server, after: server.disconnect(after_chunks=after),
    "stalled": lambda server, after: server.stall(after_chunks=after, seconds=30),
    "malformed": lambda server, after: server.corrupt(after_chunks=after),
}


@pytest.mark.parametrize("fault", [name for name in STREAM_FAULTS if name != "malformed"])
async def test_faults_before_the_first_event(llmock: LLMock, fault: str) -> None:
    """One chunk came, and it said only who speaks."""
    STREAM_FAULTS[fault](llmock, 1)
    retry = Retry.transient(3, until="first_event", sleep=quicker)
    assert await answered(llmock, retry=retry) == []
    assert len(llmock.requests) == 2
    await judged(llmock)


@pytest.mark.parametrize("fault", STREAM_FAULTS)
async def test_faults_after_the_first_event(llmock: LLMock, fault: str) -> None:
    STREAM_FAULTS[fault](llmock, 3)
    retry = Retry.transient(3, until="first_event", sleep=quicker)
    (error,) = await answered(llmock, retry=retry, repeats=1)
    assert error.partial is not None
    assert error.partial.text == "Mock response "
    assert error.retryable == (fault != "malformed")
    assert not llmock.requests[0].completed
    await judged(llmock)


async def test_a_malformed_chunk_ends_the_stream_at_once(llmock: LLMock) -> None:
    """No layer repeats what the server got wrong; the server sees that nobody reads on."""
    llmock.pace(20).corrupt(after_chunks=2)
    (error,) = await answered(llmock, retry=Retry.transient(3, until="first_event"))
    assert isinstance(error, ProtocolError)
    (record,) = llmock.requests
    assert (record.fault, record.completed) == ("stream:malformed@2", False)
    assert llmock.verdict().passed


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_what_no_repeat_can_mend(llmock: LLMock, status: int) -> None:
    llmock.fail(status, times=None)
    assert len(await answered(llmock, retry=Retry.transient(3, sleep=quicker))) == 1
    lean = 2 if status in (400, 422) else 1  # the one lean retry is another request: without its optional fields
    assert len(llmock.requests) == lean
    await judged(llmock)


async def test_an_outage_ends_the_call_after_so_many_repeats(llmock: LLMock) -> None:
    llmock.fail(503, times=None, retry_after=0.1)
    (error,) = await answered(llmock, retry=Retry.transient(3))
    assert error.status == 503
    assert len(llmock.requests) == 4
    await judged(llmock)


async def test_a_limit_waits_for_what_the_server_has_left(llmock: LLMock) -> None:
    """Two calls a minute: the third waits as long as the second was told, and none is refused."""
    llmock.limits(rpm=2)
    clock = Clock()
    layers = [Limit(clock=clock, sleep=clock.sleep)]
    with anyio.fail_after(SECONDS):
        async with AsyncClient.openai(llmock.base_url("openai"), api_key="sk-0", layers=layers) as client:
            for left in (1, 0):
                async with client.stream(REQUEST) as stream:
                    assert stream.rate_limit is not None
                    assert stream.rate_limit.remaining_requests == left
                    reset = stream.rate_limit.reset_requests
            with pytest.raises(RateLimitedError):  # no time has passed for the server
                await client.complete(REQUEST)
    assert reset is not None
    assert reset > 1
    assert clock.waits == [reset]
