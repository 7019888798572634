"""Fallback: every row of its table, and what the next client is told."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, cast

import pytest

from svir_client import AsyncClient, Client, Fallback, Next, Retry, Stream, wrap
from svir_client.layers.fallback import ELSEWHERE
from svir_client.testing import End, Reply, ScriptedTransport
from svir_core.errors import (
    AuthenticationError,
    ConfigError,
    ErrorKind,
    ServerError,
    SvirError,
    TransportError,
    TruncatedStreamError,
)
from svir_core.request import Request
from tests.svir_client.chat import REQUEST, hello, text
from tests.svir_client.layers.calls import URL, Clock, Outcome, became, inspected, read, read_whole, scripted

pytestmark = pytest.mark.anyio

DENIED = Reply.document({"error": {"message": "who?"}}, status=401)
DOWN = Reply.document({}, status=503)
BROKEN = Reply.stream(end=End.RESET)
CUT = Reply.stream(text("Hel"), end=End.RESET)
KAPUT = Reply.stream(b'data: {"error":{"message":"kaput"}}\n\n')
QUOTA = Reply.document({"error": {"message": "no credit", "code": "insufficient_quota"}}, status=429)

ROWS: list[tuple[Outcome, str, str]] = [
    (DOWN, "the next", "the next"),
    (QUOTA, "the next", "the next"),
    (TransportError("refused", unsent=True), "the next", "the next"),
    (BROKEN, "given on", "the next"),
    (KAPUT, "given on", "the next"),
    (CUT, "given on", "given on"),
    (DENIED, "raised", "raised"),
    (ConfigError("mine"), "raised", "raised"),
]


@pytest.mark.parametrize("until", ["response", "first_event"])
@pytest.mark.parametrize("row", ROWS, ids=[f"row {number}" for number in range(len(ROWS))])
async def test_the_table(row: tuple[Outcome, str, str], until: str) -> None:
    verdict = row[1 if until == "response" else 2]
    async with scripted() as (second, other), scripted(row[0], layers=[Fallback(other, until=until)]) as (_, client):
        if verdict == "the next":
            second.add(hello())
        assert await became(client, "the next") == verdict


async def test_the_error_of_the_last_is_raised() -> None:
    async with (
        scripted(CUT) as (_, third),
        scripted(DENIED) as (_, second),
        scripted(DOWN, DOWN, layers=[Fallback(second, third, on=["transport", "authentication"])]) as (_, client),
    ):
        with pytest.raises(TruncatedStreamError) as caught:
            await client.complete(REQUEST)
        assert caught.value.partial is not None
        await second.aclose()
        with pytest.raises(ConfigError, match="the client is closed"):
            await client.complete(REQUEST)


async def test_there_is_no_next_one() -> None:
    async with (
        scripted(DENIED) as (_, other),
        scripted(DOWN, layers=[Fallback(other, on=["transport", "authentication"])]) as (_, client),
    ):
        _, error = await read(client)
    assert isinstance(error, AuthenticationError)
    assert (error.__cause__, error.__context__) == (None, None)


async def test_what_is_no_error_of_ours_is_raised() -> None:
    async def broken(request: Request, next: Next) -> Stream:
        raise ZeroDivisionError

    async with scripted() as (_, other), scripted(layers=[Fallback(other), broken]) as (_, client):
        assert isinstance((await read(client))[1], ZeroDivisionError)


async def test_the_next_client_has_its_own_layers_headers_and_key() -> None:
    @wrap
    async def renamed(request: Request, next: Next) -> Stream:
        return await next(request.replace(model="spare"))

    clock = Clock()
    layers = [renamed, Retry.transient(1, sleep=clock.sleep)]
    async with (
        scripted(DOWN, hello(), layers=layers, api_key="sk-spare") as (second, other),
        scripted(DOWN, layers=[Fallback(other)], api_key="sk-first") as (first, client),
    ):
        async with client.stream(REQUEST, headers={"x-tenant": "first"}) as stream:
            assert [piece async for piece in stream.text()] == ["Hel", "lo"]
        assert stream.status == 200
        sent = [dict(request.headers) for request in (*first.requests, *second.requests)]
        assert [headers["authorization"] for headers in sent] == ["Bearer sk-first"] + ["Bearer sk-spare"] * 2
        assert ["x-tenant" in headers for headers in sent] == [True, False, False]
        assert second.requests[0].json()["model"] == "spare"


async def test_what_the_next_client_gave_is_closed_when_a_layer_outside_raises() -> None:
    async def broken(request: Request, next: Next) -> Stream:
        await next(request)
        raise ZeroDivisionError

    async with (
        scripted(Reply.stream(text("Hel"), end=End.STALL)) as (second, other),
        scripted(DOWN, layers=[broken, Fallback(other)]) as (_, client),
    ):
        assert isinstance((await read(client))[1], ZeroDivisionError)
        assert second.open_connections == 0


def a_client() -> AsyncClient:
    return AsyncClient.openai(URL, transport=ScriptedTransport())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (Fallback, "needs a client"),
        (
            lambda: Fallback(cast("Any", Client(a_client()))),
            "each client of Fallback must be an AsyncClient, not a Client",
        ),
        (lambda: Fallback(a_client(), on="transport"), "a collection of kinds"),
        (lambda: Fallback(a_client(), on=["weather"]), "Fallback: on is one of"),
        (lambda: Fallback(a_client(), on=[ErrorKind.CONFIG]), "one with every server"),
        (lambda: Fallback(a_client(), on=[ErrorKind.ATTACHMENT]), "one with every server"),
        (lambda: Fallback(a_client(), until="never"), "until is one of"),
    ],
)
def test_wrong_options(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make()


def test_the_name_shows_no_address() -> None:
    assert repr(Fallback(a_client(), a_client())) == (
        "Fallback(<AsyncClient openai_chat open>, <AsyncClient openai_chat open>)"
    )


@pytest.mark.parametrize("kind", list(ErrorKind))
async def test_by_kind(kind: ErrorKind) -> None:
    error = next(cls for cls in SvirError.__subclasses__() if cls.kind is kind)("told by a transport")
    async with scripted() as (second, other), scripted(error, layers=[Fallback(other)]) as (_, client):
        if kind in ELSEWHERE:
            second.add(hello())
        with contextlib.suppress(SvirError):
            await client.complete(REQUEST)
        assert second.request_count == (kind in ELSEWHERE)


@pytest.mark.parametrize("until", ["response", "first_event"])
@pytest.mark.parametrize(
    ("layer", "outcome", "verdict"), [(inspected, hello(), "refused"), (read_whole, CUT, "truncated")]
)
async def test_no_other_client_is_asked_after_an_event_whoever_read_it(
    layer: Any, outcome: Reply, verdict: str, until: str
) -> None:
    async with (
        scripted() as (second, other),
        scripted(outcome, layers=[Fallback(other, until=until), layer]) as (_, client),
    ):
        _, error = await read(client)
        assert isinstance(error, ServerError if verdict == "refused" else TruncatedStreamError)
        assert second.request_count == 0


async def test_a_retry_outside_knows_of_the_events_of_another_client() -> None:
    clock = Clock()
    retry = Retry.transient(2, until="first_event", sleep=clock.sleep)
    async with (
        scripted(hello(), layers=[inspected]) as (_, other),
        scripted(DOWN, layers=[retry, Fallback(other, until="first_event")]) as (_, client),
    ):
        _, error = await read(client)
        assert isinstance(error, ServerError)
    assert clock.waits == []
