"""Clauses about the two clocks of a transport, and about which failure is marked ``unsent``."""

from __future__ import annotations

import math
import socket
from typing import Final

import anyio

from svir_client.testing.contract.bench import AMPLE, SHORT, SOON, Bench, Blocks, answer, expect, raw, soon, within
from svir_client.testing.contract.peer import MutePeer
from svir_client.testing.reply import End, Reply
from svir_client.testing.server import MockServer
from svir_client.testing.wait import Gate
from svir_core.errors import ConfigError, ResponseTimeoutError, SvirError, TransportError

OK: Final = answer(b"ok")
BLOCK: Final = bytes(64 * 1024)
MANY: Final = 512
"""Blocks of 64 KiB: 32 MiB, more than socket buffers hold."""

PACE: Final = 0.2
"""Seconds between two pieces, and so also at the least a busy machine's hesitation that a clause bears."""

WRONG: Final = (0, -1.0, math.nan)
"""Seconds that are no limit."""


async def connect_timeout_bounds_tcp(bench: Bench) -> None:
    """A peer whose backlog is full: ``ResponseTimeoutError`` after ``connect_timeout``, unsent."""
    with MutePeer(full=True) as peer, soon("connect_timeout ends the wait for TCP"):
        call = bench.open(peer.port, connect_timeout=SHORT, idle_timeout=AMPLE)
        await bench.failure(call, ResponseTimeoutError, unsent=True)


async def connect_timeout_bounds_tls(bench: Bench) -> None:
    """A peer that never answers the TLS handshake: ``ResponseTimeoutError``, unsent, and the connection is closed."""
    with MutePeer() as peer:
        with soon("connect_timeout ends the wait for TLS"):
            call = bench.open(peer.port, scheme="https", connect_timeout=SHORT, idle_timeout=AMPLE)
            await bench.failure(call, ResponseTimeoutError, unsent=True)
        with soon("the connection without TLS is closed"):
            await peer.closed()


async def connect_timeout_ends_with_the_connection(bench: Bench) -> None:
    """Once connected, ``connect_timeout`` bounds nothing."""
    gate = Gate()
    async with MockServer(raw(gate, b"HTTP/1.1 200 OK\r\n\r\nok")) as server, anyio.create_task_group() as group:

        async def later() -> None:
            await gate.reached()
            await anyio.sleep(3 * SOON / 2)  # the clock itself is what is looked at
            gate.open()

        group.start_soon(later)
        expect(await bench.whole(server, connect_timeout=SOON) == b"ok", "another body")


async def idle_timeout_bounds_the_head(bench: Bench) -> None:
    """No head for ``idle_timeout``: ``ResponseTimeoutError``, not unsent, and the connection is closed."""
    async with MockServer(Reply.silence()) as server:
        with soon("idle_timeout ends the wait for the head"):
            await bench.failure(bench.open(server, idle_timeout=SHORT), ResponseTimeoutError, unsent=False)
        with soon("the connection of a silent server is closed"):
            await server.wait_closed()


async def idle_timeout_bounds_each_read(bench: Bench) -> None:
    """No byte of the body for ``idle_timeout``: what came, then ``ResponseTimeoutError``, not unsent; it is closed."""
    async with MockServer(answer(b"piece", Gate(), b"never")) as server:
        with soon("idle_timeout ends the wait for the body"):
            response = await bench.open(server, idle_timeout=SHORT)
            failed = await bench.read_to_failure(response, ResponseTimeoutError)
        expect(failed.received == b"piece", f"{failed.received!r} came before")
        with soon("the connection of a stalled body is closed"):
            await server.wait_closed()


async def idle_timeout_bounds_a_write_without_progress(bench: Bench) -> None:
    """A peer that takes nothing more: ``ResponseTimeoutError``, not unsent, and the connection is closed."""
    with MutePeer() as peer:
        with within(3 * SOON, "idle_timeout ends a write without progress"):
            call = bench.open(peer.port, Blocks(*[BLOCK] * MANY), length=MANY * len(BLOCK), idle_timeout=SHORT)
            await bench.failure(call, ResponseTimeoutError, unsent=False)
        with soon("the connection that takes nothing is closed"):
            await peer.closed()


async def idle_timeout_is_no_total(bench: Bench) -> None:
    """A response that goes on for longer than ``idle_timeout``, never pausing for as long, is whole."""
    gates = [Gate() for _ in range(7)]
    pieces = [piece for gate in gates for piece in (b"x", gate)]
    async with MockServer(answer(*pieces)) as server, anyio.create_task_group() as group:

        async def pace() -> None:
            for gate in gates:
                await gate.reached()
                await anyio.sleep(PACE)  # the clock itself is what is looked at
                gate.open()

        group.start_soon(pace)
        data = await bench.whole(server, idle_timeout=5 * PACE)
        expect(data == b"x" * len(gates), f"{len(data)} pieces")


async def idle_timeout_waits_for_the_body(bench: Bench) -> None:
    """The time that the request's body takes to be read is not counted as silence of the server."""

    async def slowly() -> None:
        await anyio.sleep(0.75)  # the clock itself is what is looked at

    async with MockServer(OK) as server:
        data = await bench.whole(server, body=Blocks(b"a", slowly, b"b", b"c"), length=3, idle_timeout=0.5)
        expect(data == b"ok", "another body")


async def endless_timeouts_are_taken(bench: Bench) -> None:
    """``math.inf`` is no limit; ``connect_timeout=None`` is the transport's own."""
    async with MockServer(OK, OK) as server:
        for connect_timeout in (math.inf, None):
            data = await bench.whole(server, idle_timeout=math.inf, connect_timeout=connect_timeout)
            expect(data == b"ok", "another body")


def _refusing_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as closed:
        closed.bind(("127.0.0.1", 0))
        return int(closed.getsockname()[1])


async def refused_connection_is_unsent(bench: Bench) -> None:
    """Nobody listens: ``TransportError``, unsent."""
    call = bench.open(_refusing_port(), Blocks(b"x"), length=1)
    await bench.failure(call, TransportError, unsent=True)


async def unknown_name_is_unsent(bench: Bench) -> None:
    """A name that no resolver knows: ``TransportError``, or ``ResponseTimeoutError`` of a slow resolver; unsent."""
    call = bench.open(_refusing_port(), host="name.invalid", connect_timeout=AMPLE)
    await bench.failure(call, TransportError, ResponseTimeoutError, unsent=True)


async def failed_tls_is_unsent(bench: Bench) -> None:
    """A peer that does not speak TLS: ``TransportError``, unsent, and the connection is closed."""
    with MutePeer() as peer, soon("an answer that is no TLS ends the call, and the connection"):
        async with anyio.create_task_group() as group:
            group.start_soon(peer.closed, b"220 mail ready\r\n")
            await bench.failure(bench.open(peer.port, scheme="https"), TransportError, unsent=True)


async def request_that_left_is_not_unsent(bench: Bench) -> None:
    """The connection ends in place of an answer, or inside its head: ``TransportError``, not unsent."""
    for replies in (
        (raw(end=End.CLOSE),),
        (raw(end=End.RESET),),
        (raw(b"HTTP/1.1 200 OK\r\nx: "),),
        (OK, raw(end=End.CLOSE)),
        (OK, raw(end=End.RESET)),
    ):
        async with MockServer(*replies, OK) as server:
            for _ in replies[1:]:
                await bench.whole(server)
            await bench.failure(bench.open(server), TransportError, unsent=False)
            expect(len(server.requests) == len(replies), f"{len(server.requests)} requests for {len(replies)} calls")


async def request_cut_off_is_not_unsent(bench: Bench) -> None:
    """The connection is reset while the body is being sent: an error, not unsent."""
    body = Blocks(*[BLOCK] * MANY)
    async with MockServer(raw(before_body=True, end=End.RESET)) as server:
        call = bench.open(server, body, length=MANY * len(BLOCK))
        await bench.failure(call, SvirError, unsent=False)
        expect(body.closed > 0, "the body was not closed")


async def refused_call_is_unsent(bench: Bench) -> None:
    """A call that is refused (a clock that is none, a body without its length, a closed transport) is unsent."""
    async with MockServer(OK) as server:
        for idle, connect in (*((wrong, AMPLE) for wrong in WRONG), *((AMPLE, wrong) for wrong in WRONG)):
            body = Blocks(b"x")
            call = bench.open(server, body, length=1, idle_timeout=idle, connect_timeout=connect)
            await bench.failure(call, ConfigError, unsent=True)
            expect(body.closed > 0, "the body was not closed")
        await bench.failure(bench.open(server, Blocks(b"x")), ConfigError, unsent=True)
        await bench.transport.aclose()
        await bench.failure(bench.open(server), ConfigError, unsent=True)
        await anyio.wait_all_tasks_blocked()
        expect(not server.connections, "a call that was refused has connected")


CLAUSES: Final = (
    connect_timeout_bounds_tcp,
    connect_timeout_bounds_tls,
    connect_timeout_ends_with_the_connection,
    idle_timeout_bounds_the_head,
    idle_timeout_bounds_each_read,
    idle_timeout_bounds_a_write_without_progress,
    idle_timeout_is_no_total,
    idle_timeout_waits_for_the_body,
    endless_timeouts_are_taken,
    refused_connection_is_unsent,
    unknown_name_is_unsent,
    failed_tls_is_unsent,
    request_that_left_is_not_unsent,
    request_cut_off_is_not_unsent,
    refused_call_is_unsent,
)
