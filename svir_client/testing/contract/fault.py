"""Clauses about servers at fault: bodies cut off, heads without end, bytes that are no HTTP."""

from __future__ import annotations

from typing import Final

from svir_client.testing.contract.bench import SOON, Bench, answer, expect, raw, read_until, soon
from svir_client.testing.reply import End, Framing, Reply
from svir_client.testing.server import MockServer
from svir_client.testing.wait import Gate
from svir_core.errors import ProtocolError, ResponseLimitError, SvirError, TransportError

HEAD: Final = b"HTTP/1.1 200 OK\r\n"
CHUNKED: Final = HEAD + b"transfer-encoding: chunked\r\n\r\n"
SMALL_HEAD: Final = 16 * 1024
LARGE_HEAD: Final = 256 * 1024
PAYLOAD: Final = b"0123456789" * 100


async def _cut(bench: Bench, reply: Reply, received: bytes) -> None:
    async with MockServer(reply) as server:
        response = await bench.open(server)
        failed = await bench.read_to_failure(response, TransportError)
        expect(failed.received == received, f"{len(failed.received)} bytes came before, in place of {len(received)}")
        with soon("the connection of a body that was cut off is closed"):
            await server.wait_closed()


async def cut_body_of_a_length(bench: Bench) -> None:
    """A body that ends before its content-length: every byte of it, then ``TransportError``."""
    for cut in (0, 1, 999):
        await _cut(bench, answer(PAYLOAD, cut=cut), PAYLOAD[:cut])


async def cut_body_in_chunks(bench: Bench) -> None:
    """A chunked body without its end: every byte of it, then ``TransportError``."""
    await _cut(bench, answer(PAYLOAD, PAYLOAD, framing=Framing.CHUNKED, end=End.CLOSE), PAYLOAD * 2)
    await _cut(bench, raw(CHUNKED + b"a\r\n01234"), b"01234")
    await _cut(bench, raw(CHUNKED + b"5\r\n01234\r\n5"), b"01234")
    await _cut(bench, raw(CHUNKED + b"5\r\n01234\r\n0\r\n"), b"01234")


async def cut_body_never_ends_as_if_whole(bench: Bench) -> None:
    """Who reads on after the error of a cut body gets an error again, never an end."""
    async with MockServer(answer(PAYLOAD, cut=10)) as server:
        body = aiter(await bench.open(server))
        await read_until(body, 10)
        for _ in range(2):
            await bench.failure(anext(body), SvirError)


async def reset_inside_a_body(bench: Bench) -> None:
    """A connection that is reset inside a body: nothing but bytes of it, then ``TransportError``."""
    gate = Gate()
    async with MockServer(answer(PAYLOAD, gate, PAYLOAD, end=End.RESET, cut=1500)) as server:
        response = await bench.open(server)
        body = aiter(response)
        received = await read_until(body, len(PAYLOAD))
        gate.open()
        failed = await bench.read_to_failure(response, TransportError)
        received += failed.received
        expect((PAYLOAD * 2)[:1500].startswith(received), "bytes that were never sent")


async def broken_chunks(bench: Bench) -> None:
    """Chunks that are none: what came before, then ``ProtocolError`` or ``TransportError``."""
    for tail in (b"zz\r\n", b"-1\r\n", b"1" * 40 + b"\r\n"):
        async with MockServer(raw(CHUNKED + b"5\r\n01234\r\n", tail)) as server:
            response = await bench.open(server)
            failed = await bench.read_to_failure(response, ProtocolError, TransportError)
            expect(failed.received in (b"", b"01234"), f"{failed.received!r} came before {tail!r}")


async def bytes_that_are_no_http(bench: Bench) -> None:
    """An answer that is no HTTP: ``ProtocolError`` or ``TransportError``, not unsent, and the connection is closed."""
    for wire in (
        b"220 mail ready\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02\x16",
        b"HTTP/1.1 OK\r\n\r\n",
        HEAD + b"no colon\r\n\r\n",
        HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\nabc",
        HEAD + b"content-length: -1\r\n\r\n",
    ):
        async with MockServer(raw(wire)) as server:
            await bench.failure(bench.open(server), ProtocolError, TransportError, unsent=False)
            with soon(f"the connection that said {wire!r} is closed"):
                await server.wait_closed()


def _head(size: int, line: int) -> bytes:
    """A head of ``size`` bytes, in lines of about ``line``."""
    end = b"content-length: 2\r\n\r\n"
    lines = HEAD
    while (left := size - len(lines) - len(end)) > 0:
        length = left if left < line + 10 else line
        lines += b"x: " + b"y" * (length - 5) + b"\r\n"
    return lines + end


async def head_of_16_kib_is_read(bench: Bench) -> None:
    """A head of 16 KiB is read, as one long header and as many short ones, in one piece and in small ones."""
    for line in (SMALL_HEAD, 200):
        head = _head(SMALL_HEAD, line)
        for step in (len(head), 100):
            pieces = [head[at : at + step] for at in range(0, len(head), step)]
            async with MockServer(raw(*pieces, b"ok")) as server:
                expect(await bench.whole(server) == b"ok", "another body")


async def head_of_more_than_256_kib_is_refused(bench: Bench) -> None:
    """A larger head is a ``ResponseLimitError`` or ``ProtocolError``, whatever its pieces, also before its end."""
    for line in (2 * LARGE_HEAD, 2000):
        head = _head(LARGE_HEAD + 100_000, line)
        for step in (len(head), 1000):
            pieces: list[bytes | Gate] = [head[at : at + step] for at in range(0, len(head), step)]
            pieces[-1:] = [head[(len(pieces) - 1) * step : -1], Gate()]  # its end never comes
            async with MockServer(raw(*pieces)) as server:
                call = bench.open(server, idle_timeout=SOON)
                await bench.failure(call, ResponseLimitError, ProtocolError, unsent=False)
                with soon("the connection of an endless head is closed"):
                    await server.wait_closed()


async def whole_head_of_more_than_256_kib_is_refused(bench: Bench) -> None:
    """A larger head is refused though it is whole, and though most of it comes in one read."""
    head = _head(LARGE_HEAD + 100_000, 2000)
    for step in (len(head), 60_000, 1000):
        pieces = [head[at : at + step] for at in range(0, len(head), step)]
        async with MockServer(raw(*pieces, b"ok")) as server:
            await bench.failure(bench.open(server), ResponseLimitError, ProtocolError, unsent=False)


CLAUSES: Final = (
    cut_body_of_a_length,
    cut_body_in_chunks,
    cut_body_never_ends_as_if_whole,
    reset_inside_a_body,
    broken_chunks,
    bytes_that_are_no_http,
    head_of_16_kib_is_read,
    head_of_more_than_256_kib_is_refused,
    whole_head_of_more_than_256_kib_is_refused,
)
