"""Clauses about connections: which are kept, which are closed at once, and calls side by side."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Coroutine
from typing import Any, Final

import anyio

from svir_client.testing.contract.bench import SOON, Bench, Blocks, answer, expect, raw, read, read_until, soon, within
from svir_client.testing.reply import End, Framing
from svir_client.testing.server import MockServer
from svir_client.testing.wait import Gate
from svir_client.transport import TransportResponse
from svir_core.errors import ConfigError, SvirError

OK: Final = answer(b"ok")
CHUNKED: Final = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
CALLS: Final = 50


async def aclose_inside_a_body_closes(bench: Bench) -> None:
    """``aclose`` before the message's end closes the connection at once, whatever was read of it."""
    for framing in Framing:
        for pieces in ((), (b"read",), (b"read", b"not read")):
            async with MockServer(answer(*pieces, Gate(), b"never", framing=framing)) as server:
                response = await bench.open(server)
                if pieces:
                    await anext(aiter(response))
                with soon("aclose before the end closes the connection"):
                    await response.aclose()
                    await server.wait_closed()
                expect(not response.complete, "a response closed before its end calls itself complete")


async def aclose_in_a_cancelled_scope_closes(bench: Bench) -> None:
    """``aclose`` does its work though its scope is cancelled."""
    async with MockServer(answer(b"piece", Gate(), b"never")) as server:
        response = await bench.open(server)
        await anext(aiter(response))
        with anyio.CancelScope() as scope:
            scope.cancel()
            await response.aclose()
        with soon("aclose in a cancelled scope closes the connection"):
            await server.wait_closed()


async def aclose_waits_for_nothing(bench: Bench) -> None:
    """``aclose`` is over at once, however much of the body is still to come."""
    async with MockServer(answer(bytes(16 * 1024 * 1024))) as server:
        response = await bench.open(server)
        with soon("aclose of a response with 16 MiB to come"):
            await response.aclose()
        with soon("and its connection is closed"):
            await server.wait_closed()


async def aclose_is_idempotent(bench: Bench) -> None:
    """``aclose`` may be called again, before and after the end, and harms no later call on the same connection."""
    async with MockServer(OK, answer(b"one", Gate(), b"never")) as server:
        whole = await bench.open(server)
        await read(whole)
        await whole.aclose()
        other = await bench.open(server)
        await whole.aclose()
        expect(await anext(aiter(other)) == b"one", "another body")
        await other.aclose()
        await other.aclose()


async def closed_body_is_no_end(bench: Bench) -> None:
    """Who reads on after ``aclose`` before the end gets an error, never an end."""
    async with MockServer(answer(b"piece", Gate(), b"never")) as server:
        response = await bench.open(server)
        body = aiter(response)
        await anext(body)
        await response.aclose()
        await bench.failure(anext(body), SvirError)


async def closed_on_this_side_is_a_config_error(bench: Bench) -> None:
    """Who reads on what this side closed, the response or its transport, gets a ``ConfigError``: nobody cut it off."""
    for whole_transport in (False, True):
        async with MockServer(answer(b"piece", Gate(), b"never")) as server:
            response = await bench.open(server)
            body = aiter(response)
            await anext(body)
            await (bench.transport if whole_transport else response).aclose()
            await bench.failure(anext(body), ConfigError)


async def connection_is_kept_after_a_whole_response(bench: Bench) -> None:
    """A response that was read to its end leaves its connection to the next call."""
    replies = (OK, answer(b"a", b"b", framing=Framing.CHUNKED), answer(), answer(b"no", status=400))
    async with MockServer(*replies, OK) as server:
        for _ in replies:
            await bench.whole(server)
        await bench.whole(server, body=Blocks(b"ab", b"c"), length=3)
        used = len(server.connections)
        expect(used == 1, f"{used} connections for {len(replies) + 1} calls")


async def connection_is_not_kept_when_the_server_says_so(bench: Bench) -> None:
    """``connection: close`` is honoured."""
    async with MockServer(answer(b"ok", headers=(("connection", "close"),)), OK) as server:
        await bench.whole(server)
        with soon("the connection that the server gives up is closed"):
            await server.wait_closed()
        expect(await bench.whole(server) == b"ok", "another body")


async def connection_that_the_server_closed_is_not_used(bench: Bench) -> None:
    """A kept connection that its server has closed meanwhile costs the next call nothing."""
    gate = Gate()
    async with MockServer(answer(b"ok", gate, end=End.CLOSE), OK) as server:
        expect(await bench.whole(server) == b"ok", "another body")
        gate.open()
        await anyio.wait_all_tasks_blocked()  # the server has closed
        expect(await bench.whole(server) == b"ok", "another body")
        expect(len(server.requests) == 2, f"{len(server.requests)} requests for 2 calls")


async def drain_keeps_the_connection(bench: Bench) -> None:
    """``drain`` within its limits reads to the end, and the connection serves the next call."""
    gates = [Gate(), Gate()]
    replies = (answer(b"a" * 5000, gates[0], b"b"), answer(b"c", gates[1], b"d", framing=Framing.CHUNKED))
    async with MockServer(*replies, OK) as server:
        for gate in gates:
            response = await bench.open(server)
            gate.open()
            await response.drain(seconds=SOON)
            expect(response.complete, "a response that was drained is not complete")
            await response.drain()
            await response.aclose()
        await bench.whole(server)
        used = len(server.connections)
        expect(used == 1, f"{used} connections for 3 calls")


async def drain_gives_up_beyond_its_limit(bench: Bench) -> None:
    """``drain`` of more than ``limit`` bytes closes the connection and raises nothing."""
    async with MockServer(answer(bytes(16 * 1024 * 1024))) as server:
        response = await bench.open(server)
        with within(2 * SOON, "a drain of 16 MiB with a limit of 1000 bytes"):
            await response.drain(limit=1000, seconds=SOON)
            await response.aclose()
        expect(not response.complete, "16 MiB were read for a limit of 1000 bytes")
        with soon("the connection that was not drained is closed"):
            await server.wait_closed()


async def drain_gives_up_after_its_seconds(bench: Bench) -> None:
    """``drain`` of a body that does not end closes the connection after ``seconds``, and raises nothing."""
    async with MockServer(answer(b"piece", Gate(), b"never")) as server:
        response = await bench.open(server)
        with soon("a drain of 0.05 s"):
            await response.drain(seconds=0.05)
            await response.aclose()
        with soon("the connection that was not drained is closed"):
            await server.wait_closed()


async def drain_raises_nothing(bench: Bench) -> None:
    """``drain`` of a body that is cut off, reset or broken raises nothing, and its connection is closed."""
    for reply in (
        answer(b"0123456789", cut=5),
        answer(b"0123456789", cut=5, end=End.RESET),
        raw(CHUNKED, b"zz\r\n"),
    ):
        async with MockServer(reply) as server:
            response = await bench.open(server)
            await response.drain(seconds=SOON)
            expect(not response.complete, "a broken response calls itself complete")
            await response.aclose()
            with soon("the connection of a broken body is closed"):
                await server.wait_closed()


async def transport_aclose_closes_idle_connections(bench: Bench) -> None:
    """``Transport.aclose`` closes what is kept, may be called again, and refuses later calls: ``ConfigError``."""
    async with MockServer(OK, OK) as server:
        await bench.whole(server)
        expect(not server.connections[0].closed.is_set(), "the connection was not kept")
        await bench.transport.aclose()
        with soon("the kept connection is closed with its transport"):
            await server.wait_closed()
        await bench.transport.aclose()
        body = Blocks(b"x")
        await bench.failure(bench.open(server, body, length=1), ConfigError)
        expect(body.closed > 0, "the body of a refused call was not closed")
        expect(len(server.connections) == 1, "a closed transport has connected")


async def transport_aclose_closes_connections_in_use(bench: Bench) -> None:
    """``Transport.aclose`` closes the connection of a response that is being read, whose reader gets an error."""
    async with MockServer(answer(b"piece", Gate(), b"never")) as server:
        response = await bench.open(server)
        body = aiter(response)
        await anext(body)
        await bench.transport.aclose()
        with soon("the connection in use is closed with its transport"):
            await server.wait_closed()
        await bench.failure(anext(body), SvirError)


async def dropped_response_gives_its_connection_up(bench: Bench) -> None:
    """A response that nobody holds any more and nobody closed: its connection is closed, so that no slot is lost."""
    for read_first in (False, True):
        async with MockServer(answer(b"piece", Gate(), b"never")) as server:
            response: list[TransportResponse] = [await bench.open(server, hold=False)]
            if read_first:
                await anext(aiter(response[0]))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)  # which a transport may give, and ought to
                response.clear()
                gc.collect()
            with soon("the connection of a dropped response is closed"):
                await server.wait_closed()


async def _side_by_side(call: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    async with anyio.create_task_group() as group:
        for number in range(CALLS):
            group.start_soon(call, number)


async def concurrent_calls_get_their_own_answers(bench: Bench) -> None:
    """50 calls at once: each gets the answer to its own request."""
    answers: dict[str, bytes] = {}
    async with MockServer(*(answer(b"%d" % number, b"." * number) for number in range(CALLS))) as server:

        async def call(number: int) -> None:
            target = f"/{number}"
            answers[target] = await bench.whole(server, target=target)

        await _side_by_side(call)
        wrong = sum(
            answers[request.target] != b"%d" % place + b"." * place for place, request in enumerate(server.requests)
        )
        expect(len(server.requests) == CALLS, f"{len(server.requests)} requests")
        expect(not wrong, f"{wrong} calls got another one's answer")


async def concurrent_bodies_are_not_mixed(bench: Bench) -> None:
    """50 uploads at once: each request has its own body."""
    async with MockServer(*[OK] * CALLS) as server:

        async def call(number: int) -> None:
            block = b"%02d" % number * 10_000
            await bench.whole(server, target=f"/{number}", body=Blocks(block, block), length=2 * len(block))

        await _side_by_side(call)
        wrong = sum(request.body != b"%02d" % int(request.target[1:]) * 20_000 for request in server.requests)
        expect(len(server.requests) == CALLS and not wrong, f"{wrong} bodies of {len(server.requests)} are mixed")


async def responses_are_independent(bench: Bench) -> None:
    """Closing one response leaves another one alone."""
    gate = Gate()
    async with MockServer(answer(b"a", Gate(), b"never"), answer(b"b", gate, b"c")) as server:
        first = await bench.open(server)
        second = await bench.open(server)
        body = aiter(second)
        await read_until(body, 1)
        await first.aclose()
        gate.open()
        expect(b"".join([data async for data in body]) == b"c", "another rest")


CLAUSES: Final = (
    aclose_inside_a_body_closes,
    aclose_in_a_cancelled_scope_closes,
    aclose_waits_for_nothing,
    aclose_is_idempotent,
    closed_body_is_no_end,
    closed_on_this_side_is_a_config_error,
    connection_is_kept_after_a_whole_response,
    connection_is_not_kept_when_the_server_says_so,
    connection_that_the_server_closed_is_not_used,
    drain_keeps_the_connection,
    drain_gives_up_beyond_its_limit,
    drain_gives_up_after_its_seconds,
    drain_raises_nothing,
    transport_aclose_closes_idle_connections,
    transport_aclose_closes_connections_in_use,
    dropped_response_gives_its_connection_up,
    concurrent_calls_get_their_own_answers,
    concurrent_bodies_are_not_mixed,
    responses_are_independent,
)
