"""A request's body is exactly as long as its headers say, or there is no complete request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.counted_body import CountedBody
from svir_core.errors import AttachmentError, ConfigError
from svir_core.http_message import HttpRequest


def request(*headers: tuple[str, str]) -> HttpRequest:
    return HttpRequest("POST", "http", "127.0.0.1", 80, "/", (("host", "h"), *headers))


async def blocks(*data: bytes | Exception) -> AsyncIterator[bytes]:
    for block in data:
        if isinstance(block, Exception):
            raise block
        yield block


def pull_all(length: int, *data: bytes | Exception) -> list[bytes]:
    async def pull() -> list[bytes]:
        body = CountedBody(blocks(*data))
        body.declare(request(("content-length", str(length))))
        pulled = [await body.pull()]
        while not body.done:
            pulled.append(await body.pull())
        assert await body.pull() == b""
        return pulled

    return asyncio.run(pull())


@given(st.lists(st.binary(max_size=5), max_size=8))
def test_every_block_comes_once_in_order_and_none_is_empty(data: list[bytes]) -> None:
    whole = b"".join(data)
    pulled = pull_all(len(whole), *data)
    assert b"".join(pulled) == whole
    assert pulled == ([block for block in data if block] or [b""])


@given(st.lists(st.binary(min_size=1, max_size=5), max_size=8), st.integers(1, 5))
def test_a_body_of_another_length(data: list[bytes], difference: int) -> None:
    length = sum(map(len, data))
    with pytest.raises(AttachmentError, match=f"ended {difference} bytes before"):
        pull_all(length + difference, *data)
    if length >= difference:
        with pytest.raises(AttachmentError, match="longer"):
            pull_all(length - difference, *data)


def test_the_last_block_waits_for_the_end() -> None:
    with pytest.raises(OSError, match="at the end"):
        pull_all(3, b"abc", OSError("at the end"))
    with pytest.raises(AttachmentError, match="longer"):
        pull_all(3, b"abc", b"", b"d")


def test_closing_closes_the_iterator_inside_the_shield() -> None:
    seen: list[str] = []

    class Body:
        def __aiter__(self) -> AsyncIterator[bytes]:
            return self

        async def __anext__(self) -> bytes:
            raise StopAsyncIteration

        async def aclose(self) -> None:
            seen.append("closed")

    @contextmanager
    def shield() -> Generator[None]:
        seen.append("shielded")
        yield
        seen.append("over")

    asyncio.run(CountedBody(Body()).aclose(shield()))
    assert seen == ["shielded", "closed", "over"]
    asyncio.run(CountedBody(None).aclose(shield()))
    assert len(seen) == 3


def test_no_body() -> None:
    body = CountedBody(None)
    body.declare(request())
    body.declare(request(("content-length", "0")))
    assert body.done
    assert asyncio.run(body.pull()) == b""
    with pytest.raises(ConfigError, match="there is no body"):
        body.declare(request(("content-length", "1")))


@pytest.mark.parametrize("lengths", [(), ("1", "1"), ("",), ("-1",), ("1.0",), ("+1",)])
def test_a_body_needs_one_length(lengths: tuple[str, ...]) -> None:
    body = CountedBody(blocks(b"a"))
    with pytest.raises(ConfigError, match="exactly one content-length"):
        body.declare(request(*(("content-length", length) for length in lengths)))


def test_a_body_is_not_sent_in_chunks() -> None:
    body = CountedBody(blocks(b"a"))
    with pytest.raises(ConfigError, match="no transfer-encoding") as caught:
        body.declare(request(("transfer-encoding", "chunked")))
    assert caught.value.unsent
