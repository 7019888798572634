"""Clauses about the response: its head and body as they came, when they came, and nothing done about them."""

from __future__ import annotations

import gzip
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from svir_client.testing.contract.bench import Bench, answer, expect, raw, read, soon
from svir_client.testing.reply import Framing, Reply
from svir_client.testing.server import MockServer
from svir_client.testing.wait import Gate

PAYLOAD: Final = bytes(range(256)) * 5
HEAD: Final = b"HTTP/1.1 200 OK\r\n"
OK: Final = answer(b"ok")
PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
EXCEPTIONS: Final = ("no_proxy", "NO_PROXY")


async def _body_is(bench: Bench, reply: Reply, body: bytes, status: int = 200) -> None:
    async with MockServer(reply) as server:
        response = await bench.open(server)
        expect(response.head.status == status, f"status {response.head.status}")
        received = await read(response)
        expect(received == body, f"{len(received)} bytes in place of {len(body)}: {received[:100]!r}")
        expect(response.complete, "a response that was read to its end is not complete")


async def head_is_as_it_came(bench: Bench) -> None:
    """Status and headers: every value, repeated names, Latin-1, in their order."""
    headers = (("x-b", "2"), ("X-Name", "caf\xe9"), ("set-cookie", "a=1"), ("set-cookie", "b=2"), ("x-a", ""))
    async with MockServer(answer(b"", status=299, headers=headers)) as server:
        response = await bench.open(server)
        expect(response.head.status == 299, f"status {response.head.status}")
        wanted = (*((name.lower(), value) for name, value in headers), ("content-length", "0"))
        expect(response.head.headers == wanted, f"the headers {response.head.headers}")


async def interim_responses_are_skipped(bench: Bench) -> None:
    """1xx responses are no answer: the one after them is."""
    async with MockServer(answer(b"final", informational=(100, 102, 103))) as server:
        response = await bench.open(server)
        expect(response.head.status == 200, f"status {response.head.status}")
        expect(await read(response) == b"final", "another body")


async def body_of_a_length(bench: Bench) -> None:
    """A body with a content-length comes byte for byte."""
    await _body_is(bench, answer(PAYLOAD[:3], PAYLOAD[3:]), PAYLOAD)


async def body_in_chunks(bench: Bench) -> None:
    """A chunked body comes byte for byte, without its framing."""
    await _body_is(bench, answer(PAYLOAD[:1], PAYLOAD[1:9], PAYLOAD[9:], framing=Framing.CHUNKED), PAYLOAD)
    await _body_is(
        bench,
        raw(HEAD + b"transfer-encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0;c\r\nx-trailer: 1\r\n\r\n"),
        b"hello",
    )


async def body_that_ends_with_the_connection(bench: Bench) -> None:
    """A body without framing ends with its connection, and is whole."""
    await _body_is(bench, answer(PAYLOAD[:3], PAYLOAD[3:], framing=Framing.CLOSE), PAYLOAD)
    await _body_is(bench, raw(b"HTTP/1.0 200 OK\r\n\r\n", PAYLOAD), PAYLOAD)


async def body_of_no_bytes(bench: Bench) -> None:
    """An empty body is whole in every framing."""
    for framing in Framing:
        await _body_is(bench, answer(framing=framing), b"")


async def statuses_without_a_body(bench: Bench) -> None:
    """204 and 304 have no body, whatever their headers say."""
    await _body_is(bench, raw(b"HTTP/1.1 204 No Content\r\n\r\n"), b"", 204)
    await _body_is(bench, raw(b"HTTP/1.1 304 Not Modified\r\ncontent-length: 10\r\n\r\n"), b"", 304)


async def large_body_comes_exactly(bench: Bench) -> None:
    """A body larger than any socket buffer comes byte for byte."""
    piece = PAYLOAD * 200
    for framing in (Framing.LENGTH, Framing.CHUNKED):
        await _body_is(bench, answer(*[piece] * 32, framing=framing), piece * 32)


async def body_is_not_decoded(bench: Bench) -> None:
    """A content-encoding is left to the caller: the bytes are those on the wire."""
    data = gzip.compress(PAYLOAD)
    await _body_is(bench, answer(data, headers=(("content-encoding", "gzip"),)), data)


async def bytes_come_as_they_arrive(bench: Bench) -> None:
    """A piece is handed over before the next one exists, in every framing."""
    for framing in Framing:
        gate = Gate()
        async with MockServer(answer(b"first", gate, b"second", framing=framing)) as server:
            with soon(f"the head and the first piece of a body framed by {framing}"):
                response = await bench.open(server)
                body = aiter(response)
                first = await anext(body)
            expect(first == b"first", f"{first!r} came first")
            expect(not response.complete, "a response whose end is not here calls itself complete")
            gate.open()
            expect(b"".join([data async for data in body]) == b"second", "another rest")


async def head_comes_before_its_body(bench: Bench) -> None:
    """``open`` returns with the head, though no byte of the body is there."""
    gate = Gate()
    async with MockServer(answer(gate, b"later")) as server:
        with soon("the head of a response whose body is still to come"):
            response = await bench.open(server)
        gate.open()
        expect(await read(response) == b"later", "another body")


async def redirects_are_not_followed(bench: Bench) -> None:
    """A redirect is a response like any other."""
    for status in (301, 302, 303, 307, 308):
        async with MockServer(OK) as elsewhere:
            location = (("location", f"{elsewhere.origin}/other"),)
            async with MockServer(answer(b"moved", status=status, headers=location), OK) as server:
                response = await bench.open(server)
                expect(response.head.status == status, f"status {response.head.status} for {status}")
                expect(await read(response) == b"moved", "another body")
                seen = len(server.requests) + len(elsewhere.requests)
                expect(seen == 1, f"{seen} requests")


async def refusals_are_not_repeated(bench: Bench) -> None:
    """An error status is a response like any other: nothing is sent again."""
    for status in (401, 407, 408, 425, 429, 500, 503):
        headers = (("retry-after", "0"), ("www-authenticate", 'Basic realm="x"'), ("proxy-authenticate", "Basic"))
        async with MockServer(answer(b"no", status=status, headers=headers), OK) as server:
            response = await bench.open(server)
            expect(response.head.status == status, f"status {response.head.status} for {status}")
            expect(await read(response) == b"no", "another body")
            expect(len(server.requests) == 1, f"{len(server.requests)} requests for {status}")


@contextmanager
def _environment(**values: str) -> Generator[None]:
    before = {name: os.environ.get(name) for name in (*PROXIES, *EXCEPTIONS)}
    for name in before:
        os.environ.pop(name, None)
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


async def environment_names_no_proxy(bench: Bench) -> None:
    """Proxy variables of the environment are not looked at (they are set while this clause runs)."""
    async with MockServer(OK) as server, MockServer(answer(b"proxy")) as proxy:
        with _environment(**dict.fromkeys(PROXIES, proxy.origin)):
            data = await bench.whole(server)
        expect(data == b"ok" and not proxy.connections, "the proxy was asked")


CLAUSES: Final = (
    head_is_as_it_came,
    interim_responses_are_skipped,
    body_of_a_length,
    body_in_chunks,
    body_that_ends_with_the_connection,
    body_of_no_bytes,
    statuses_without_a_body,
    large_body_comes_exactly,
    body_is_not_decoded,
    bytes_come_as_they_arrive,
    head_comes_before_its_body,
    redirects_are_not_followed,
    refusals_are_not_repeated,
    environment_names_no_proxy,
)
