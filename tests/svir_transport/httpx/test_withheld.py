"""What a traceback with locals shows of a call over a library whose own objects have telling reprs: nothing."""

from __future__ import annotations

import pathlib
import traceback
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from svir_client.testing import MockServer, Reply
from svir_core.errors import AttachmentError
from svir_core.http_message import HttpRequest
from svir_transport.h11 import H11Transport
from svir_transport.httpx import HttpxTransport

pytestmark = pytest.mark.anyio

OURS = tuple(str(pathlib.Path(__file__).parents[3] / name) for name in ("svir_core", "svir_transport"))
WITHHELD = ("canary", "s3cr3t")


class Interrupted(BaseException):
    """What no library catches."""


class Body:
    """Two blocks, and then a failure."""

    def __init__(self, failure: BaseException) -> None:
        self.failure = failure
        self.left = 2

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise self.failure
        return b"x" * 1000


def frames(error: BaseException) -> list[tuple[str, str]]:
    """File and locals of every frame but those of this test."""
    return [
        (frame.f_code.co_filename, "\n".join(map(repr, frame.f_locals.values())))
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename != __file__
    ]


async def raised(transport: HttpxTransport | H11Transport, failure: BaseException) -> BaseException:
    """What comes of a call whose body fails after its first block."""
    headers = (("host", "canary.example"), ("authorization", "Bearer s3cr3t"), ("content-length", "4000"))
    async with MockServer(Reply.text("x")) as server:
        request = HttpRequest("POST", "http", "127.0.0.1", server.port, "/canary?key=s3cr3t", headers)
        with anyio.fail_after(5), pytest.raises(type(failure)) as caught:
            await transport.open(request, Body(failure))
    return caught.value


@pytest.fixture(params=["made", "client", "transport", "h11"])
async def transport(request: pytest.FixtureRequest, httpx: Any) -> AsyncIterator[HttpxTransport | H11Transport]:
    given: dict[str, Callable[[], Any]] = {"client": httpx.AsyncClient, "transport": httpx.AsyncHTTPTransport}
    if request.param in given:
        async with given[request.param]() as client:
            yield HttpxTransport(client)
    else:
        made = H11Transport() if request.param == "h11" else HttpxTransport()
        yield made
        await made.aclose()


async def test_a_body_that_fails_has_no_frames_of_the_library_behind_it(
    transport: HttpxTransport | H11Transport,
) -> None:
    cause = OSError("disk")
    failure = AttachmentError("changed")
    failure.__cause__ = cause
    error = await raised(transport, failure)
    assert error is failure
    assert error.__cause__ is cause
    seen = frames(error)
    assert seen
    assert all(file.startswith(OURS) for file, _ in seen)
    assert not [word for _, shown in seen for word in WITHHELD if word in shown]


async def test_what_passes_through_shows_nothing_of_the_call_in_our_frames(
    transport: HttpxTransport | H11Transport,
) -> None:
    error = await raised(transport, Interrupted())
    ours = [shown for file, shown in frames(error) if file.startswith(OURS)]
    assert ours
    assert not [word for shown in ours for word in WITHHELD if word in shown]
