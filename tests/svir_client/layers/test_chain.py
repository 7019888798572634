"""Layers in their order, and layers that do not keep to the rules."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

import anyio
import pytest

from svir_client import AsyncClient, Client, Next, Stream, wrap
from svir_client.testing import End, Gate, MockServer, Reply, ScriptedTransport
from svir_core.errors import ConfigError, RateLimitedError, TransportError, UnsupportedError
from svir_core.event import Completed, TextDelta
from svir_core.request import Request
from tests.svir_client.chat import HELLO, REQUEST, SECONDS, hello, text, until
from tests.svir_client.layers.calls import LayerFunction, opened, read, scripted

pytestmark = pytest.mark.anyio

OPEN = Reply.stream(text("Hel"), end=End.STALL)
"""An answer that goes on until somebody closes it."""


class Mine(Exception):
    """An exception of a layer."""


def noting(name: str, notes: list[str]) -> LayerFunction:
    async def layer(request: Request, next: Next) -> Stream:
        notes.append(f"{name} in")
        stream = await next(request)
        notes.append(f"{name} out")
        return stream

    return layer


@pytest.mark.parametrize("call", ["complete", "stream"])
async def test_the_first_is_the_outermost(call: str) -> None:
    notes: list[str] = []
    layers = [noting("a", notes), wrap(noting("b", notes))]
    async with scripted(hello(), layers=layers) as (_, client):
        if call == "complete":
            assert (await client.complete(REQUEST)).text == "Hello"
        else:
            async with client.stream(REQUEST) as stream:
                assert notes == ["a in", "b in", "b out", "a out"]
                assert [piece async for piece in stream.text()] == ["Hel", "lo"]
    assert notes == ["a in", "b in", "b out", "a out"]


async def test_nothing_runs_before_the_stream_is_entered() -> None:
    notes: list[str] = []
    async with scripted(layers=[noting("a", notes)]) as (_, client):
        client.stream(REQUEST)
        assert notes == []


async def test_a_layer_changes_the_request() -> None:
    async def other(request: Request, next: Next) -> Stream:
        return await next(request.replace(model="other"))

    async with scripted(hello(), layers=[other]) as (transport, client):
        async with client.stream(REQUEST, headers={"x-mine": "1"}) as stream:
            assert stream.status == 200
        assert transport.requests[0].json()["model"] == "other"
        assert ("x-mine", "1") in [(name.lower(), value) for name, value in transport.requests[0].headers]


async def test_what_is_no_answer_passes_no_layer() -> None:
    async def never(request: Request, next: Next) -> Stream:
        raise Mine

    async with scripted(hello(), Reply.models("m"), layers=[never]) as (_, client):
        async with client.send(REQUEST) as raw:
            assert b"".join([data async for data in raw]) == b"".join(HELLO)
        assert [model.id for model in await client.list_models()] == ["m"]
        with pytest.raises(UnsupportedError):
            await client.count_tokens(REQUEST)
        assert isinstance((await read(client))[1], Mine)


async def test_the_blocking_client_has_layers() -> None:
    notes: list[str] = []

    def work(origin: str) -> str:
        with Client.openai(origin, layers=[noting("a", notes)]) as client:
            return client.complete(REQUEST).text

    with anyio.fail_after(SECONDS):
        async with MockServer(hello()) as server:
            assert await anyio.to_thread.run_sync(work, server.origin) == "Hello"
    assert notes == ["a in", "a out"]


# --- the stream that a caller has, and the one that layers had ------------------------------------------


async def test_what_a_layer_had_is_another_name_of_the_stream() -> None:
    kept: list[Stream] = []
    ended: list[Stream] = []

    async def keeping(request: Request, next: Next) -> Stream:
        stream = await next(request)
        stream.on_close(ended.append)
        kept.append(stream)
        return stream

    async with scripted(hello(), layers=[keeping, keeping]) as (_, client):
        async with client.stream(REQUEST) as stream:
            assert kept[0] is kept[1] is not stream
            with pytest.raises(ConfigError, match="was read after it was closed"):
                await anext(kept[0])
            pieces: list[object] = []
            kept[0].inspect(pieces.append)
            assert [event async for event in stream] == pieces
            assert kept[0].completion is stream.completion
        assert ended == [stream, stream]
        kept[0].on_close(ended.append)
        assert ended == [stream, stream, stream]


async def test_closing_what_a_layer_had_closes_the_stream() -> None:
    kept: list[Stream] = []

    async def keeping(request: Request, next: Next) -> Stream:
        kept.append(await next(request))
        return kept[0]

    async with scripted(OPEN, layers=[keeping]) as (transport, client), client.stream(REQUEST) as stream:
        await kept[0].aclose()
        assert transport.open_connections == 0
        with pytest.raises(ConfigError, match="after it was closed"):
            await anext(stream)


async def test_what_a_layer_read_is_gone_and_what_it_looked_at_is_not() -> None:
    async def looking(request: Request, next: Next) -> Stream:
        stream = await next(request)
        assert await stream.peek() == TextDelta("Hel")
        assert await stream.peek() == TextDelta("Hel")
        assert await anext(stream) == TextDelta("Hel")
        assert await stream.peek() == TextDelta("lo")
        return stream

    async with scripted(hello(), layers=[looking]) as (_, client):
        events, error = await read(client)
    assert (events[0], len(events), error) == (TextDelta("lo"), 2, None)


async def test_a_stream_that_a_layer_read_to_its_end_has_its_completion() -> None:
    async def reading(request: Request, next: Next) -> Stream:
        stream = await next(request)
        async for _ in stream:
            pass
        assert await stream.peek() is None
        return stream

    async with scripted(hello(), hello(), layers=[reading]) as (_, client):
        assert await read(client) == ([], None)
        assert (await client.complete(REQUEST)).text == "Hello"


async def test_the_head_is_that_of_the_latest_response() -> None:
    async with scripted(Reply.document({}, status=429), layers=[noting("a", [])]) as (_, client):
        stream = client.stream(REQUEST)
        with pytest.raises(RateLimitedError):
            await opened(stream)
        assert stream.status == 429
        with pytest.raises(ConfigError, match="entered once"):
            await opened(stream)


async def test_closed_while_the_layers_run() -> None:
    gate = Gate()
    async with scripted(hello(before_head=gate), layers=[noting("a", [])]) as (_, client):
        stream = client.stream(REQUEST)
        async with anyio.create_task_group() as tasks:

            async def enter() -> None:
                with pytest.raises(ConfigError, match="closed while it was being opened"):
                    await opened(stream)

            tasks.start_soon(enter)
            await gate.reached()
            await stream.aclose()
            gate.open()


# --- next ----------------------------------------------------------------------------------------


async def test_next_counts_what_was_sent_by_way_of_it() -> None:
    sent: list[int] = []

    async def counting(request: Request, next: Next) -> Stream:
        try:
            return await next(request)
        finally:
            sent.append(next.sent)

    async def twice(request: Request, next: Next) -> Stream:
        with contextlib.suppress(TransportError):
            return await next(request)
        return await next(request)

    layers = [counting, twice, counting]
    async with scripted(TransportError("no"), hello(), layers=layers) as (_, client):
        await client.complete(REQUEST)
    assert sent == [1, 1, 2]


async def test_of_two_streams_the_other_one_is_closed() -> None:
    async def second(request: Request, next: Next) -> Stream:
        first = await next(request)
        assert repr(first) == "<Stream open>"
        return await next(request)

    async with scripted(OPEN, hello(), layers=[second]) as (transport, client), client.stream(REQUEST) as stream:
        assert transport.open_connections == 1
        assert [piece async for piece in stream.text()] == ["Hel", "lo"]


async def test_asked_at_the_same_time_the_first_answer_wins() -> None:
    async def both(request: Request, next: Next) -> Stream:
        won: list[Stream] = []
        async with anyio.create_task_group() as tasks:

            async def one() -> None:
                won.append(await next(request))
                tasks.cancel_scope.cancel()

            tasks.start_soon(one)
            tasks.start_soon(one)
        return won[0]

    async with scripted(layers=[both]) as (transport, client):
        transport.add(hello(before_head=Gate()), hello())
        assert (await client.complete(REQUEST)).text == "Hello"


async def test_next_after_the_layer_has_returned() -> None:
    late: list[Next] = []

    async def keeping(request: Request, next: Next) -> Stream:
        late.append(next)
        return await next(request)

    async with scripted(hello(), layers=[keeping]) as (_, client):
        await client.complete(REQUEST)
        with pytest.raises(ConfigError, match="the layer keeping called next after it had returned"):
            await late[0](REQUEST)


async def test_a_stream_that_comes_after_the_layer_has_returned_is_closed() -> None:
    gate = Gate()

    async with anyio.create_task_group() as tasks:

        async def leaving(request: Request, next: Next) -> Stream:
            async def ask() -> None:
                with pytest.raises(ConfigError, match="after it had returned"):
                    await next(request)

            tasks.start_soon(ask)
            await gate.reached()
            raise Mine

        async with scripted(Reply.stream(*HELLO, before_head=gate), layers=[leaving]) as (transport, client):
            assert isinstance((await read(client))[1], Mine)
            assert transport.open_connections == 1
            gate.open()
            await until(lambda: transport.open_connections == 0)


@pytest.mark.parametrize("what", [None, "request"])
async def test_next_takes_a_request(what: Any) -> None:
    async def wrong(request: Request, next: Next) -> Stream:
        return await next(what)

    async with scripted(layers=[wrong]) as (_, client):
        with pytest.raises(ConfigError, match=r"the layer wrong called next with a .*, not a Request"):
            await client.complete(REQUEST)


# --- hostile layers ------------------------------------------------------------------------------


async def raises_before(request: Request, next: Next) -> Stream:
    raise Mine


async def raises_after(request: Request, next: Next) -> Stream:
    await next(request)
    raise Mine


async def raises_after_two(request: Request, next: Next) -> Stream:
    await next(request)
    await next(request)
    raise Mine


@pytest.mark.parametrize(("layer", "calls"), [(raises_before, 0), (raises_after, 1), (raises_after_two, 2)])
async def test_what_a_layer_raises_reaches_the_caller_and_closes_its_streams(layer: LayerFunction, calls: int) -> None:
    async with scripted(*[OPEN] * calls, layers=[noting("a", []), layer]) as (transport, client):
        assert isinstance((await read(client))[1], Mine)
        assert transport.request_count == calls


async def gives_none(request: Request, next: Next) -> Any:
    await next(request)


async def gives_a_completion(request: Request, next: Next) -> Any:
    async with await next(request) as stream:
        return stream


async def gives_a_closed_one(request: Request, next: Next) -> Any:
    stream = await next(request)
    await stream.aclose()
    return stream


async def gives_one_that_is_read(request: Request, next: Next) -> Any:
    stream = await next(request)
    assert await anext(stream) == TextDelta("Hel")
    stream._claim()
    return stream


def gives_no_awaitable(request: Request, next: Next) -> Any:
    return None


UNFIT: list[tuple[Any, int, str]] = [
    (gives_none, 1, "the layer gives_none returned a NoneType, not a Stream"),
    (gives_a_closed_one, 1, "the layer gives_a_closed_one returned a Stream that is closed"),
    (gives_one_that_is_read, 1, "the layer gives_one_that_is_read returned a Stream that is being read"),
    (gives_no_awaitable, 0, "the layer gives_no_awaitable is no async function"),
]


@pytest.mark.parametrize(("layer", "calls", "words"), UNFIT, ids=[layer.__name__ for layer, _, _ in UNFIT])
async def test_what_is_no_open_stream_is_a_mistake_of_the_layer(layer: Any, calls: int, words: str) -> None:
    async with scripted(*[OPEN] * calls, layers=[layer]) as (_, client):
        with pytest.raises(ConfigError, match=words):
            await client.complete(REQUEST)


async def test_a_layer_object_is_named_by_its_class() -> None:
    class Silent:
        async def __call__(self, request: Request, next: Next) -> Any:
            return "sk-secret"

        def __repr__(self) -> str:
            return "sk-secret"

    async with scripted(layers=[Silent()]) as (_, client):
        with pytest.raises(ConfigError, match="the layer Silent returned a str, not a Stream"):
            await client.complete(REQUEST)


async def test_a_stream_of_another_client() -> None:
    async with scripted(hello()) as (_, other):

        async def elsewhere(request: Request, next: Next) -> Stream:
            await next(request)
            return await opened(other.stream(request))

        async def unopened(request: Request, next: Next) -> Stream:
            return other.stream(request)

        async with scripted(OPEN, layers=[elsewhere]) as (transport, client), client.stream(REQUEST) as stream:
            assert transport.open_connections == 0
            assert [piece async for piece in stream.text()] == ["Hel", "lo"]
        async with scripted(layers=[unopened]) as (_, client):
            with pytest.raises(ConfigError, match="the layer unopened returned a Stream that was not entered"):
                await client.complete(REQUEST)


async def test_a_stream_is_given_on_once() -> None:
    kept: list[Stream] = []

    async def again(request: Request, next: Next) -> Stream:
        if not kept:
            kept.append(await next(request))
        return kept[0]

    async with scripted(hello(), layers=[again]) as (_, client):
        await client.complete(REQUEST)
        with pytest.raises(ConfigError, match="the layer again returned a Stream that is closed"):
            await client.complete(REQUEST)


@pytest.mark.parametrize("ways", ["none", "late stream"])
async def test_a_layer_that_swallows_its_cancellation(ways: str) -> None:
    gate = Gate()

    async def swallowing(request: Request, next: Next) -> Any:
        stream = await next(request) if ways == "late stream" else None
        try:
            await gate.pass_through()
        except BaseException:  # noqa: BLE001 - the very thing that is tested
            return stream
        raise AssertionError

    script = [OPEN] if ways == "late stream" else []
    async with scripted(*script, layers=[swallowing]) as (transport, client), anyio.create_task_group() as tasks:

        async def work() -> None:
            if ways == "none":
                with pytest.raises(ConfigError, match="the layer swallowing returned a NoneType"):
                    await client.complete(REQUEST)
            else:
                await client.complete(REQUEST)

        tasks.start_soon(work)
        await gate.reached()
        tasks.cancel_scope.cancel()
    assert transport.open_connections == 0


async def test_callbacks_that_raise_do_not_keep_other_streams_open() -> None:
    def refuse(stream: Stream) -> None:
        raise Mine

    async def two(request: Request, next: Next) -> Stream:
        for _ in range(2):
            (await next(request)).on_close(refuse)
        return await next(request)

    async with scripted(OPEN, OPEN, OPEN, layers=[two]) as (transport, client):
        assert isinstance((await read(client))[1], Mine)
        assert transport.open_connections == 0


# --- what a layer may be -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (None, "layers must be a sequence of layers, not a NoneType"),
        ("Retry", "layers must be a sequence of layers, not a str"),
        ([None], r"layers\[0\] must be a layer, not a NoneType"),
        ([raises_before, Stream], r"layers\[1\] must be a layer, not the class Stream"),
    ],
)
async def test_layers_are_checked_when_the_client_is_made(layers: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        AsyncClient.openai("http://127.0.0.1:1", transport=ScriptedTransport(), layers=layers)


async def test_the_list_of_layers_is_taken_as_it_is_then() -> None:
    layers: list[Any] = []
    async with scripted(hello(), layers=layers) as (_, client):
        layers.append(raises_before)
        assert (await client.complete(REQUEST)).text == "Hello"


def plain(request: Request, next: Next) -> Any:
    """No async function."""


async def one_argument(request: Request) -> Any:
    """Too few."""


async def three_arguments(request: Request, next: Next, more: int) -> Any:
    """Too many."""


@pytest.mark.parametrize("function", [plain, one_argument, three_arguments, None, 1, Stream])
async def test_wrap_refuses_what_is_no_layer(function: Any) -> None:
    with pytest.raises(ConfigError, match=r"async def layer|must take two arguments: request and next"):
        wrap(function)


async def test_wrap_takes_methods_objects_and_partials() -> None:
    class Counting:
        def __init__(self) -> None:
            self.calls = 0

        async def method(self, request: Request, next: Next) -> Stream:
            self.calls += 1
            return await next(request)

        __call__ = method

    async def partly(more: Counting, request: Request, next: Next) -> Stream:
        return await more.method(request, next)

    counting = Counting()
    layers = [wrap(counting.method), wrap(counting), wrap(functools.partial(partly, counting))]
    assert [repr(layer) for layer in layers] == ["wrap(method)", "wrap(Counting)", "wrap(partial)"]
    async with scripted(hello(), layers=layers) as (_, client):
        await client.complete(REQUEST)
    assert counting.calls == 3


async def test_leaving_the_block_closes_what_went_through_layers() -> None:
    @contextlib.asynccontextmanager
    async def serving() -> AsyncGenerator[tuple[MockServer, AsyncClient]]:
        with anyio.fail_after(SECONDS):
            async with (
                MockServer(OPEN) as server,
                AsyncClient.openai(server.origin, layers=[noting("a", [])]) as client,
            ):
                yield server, client

    async def taken(client: AsyncClient) -> Coroutine[Any, Any, None] | None:
        async with client.stream(REQUEST) as stream:
            async for event in stream:
                assert not isinstance(event, Completed)
                break
        return None

    async with serving() as (server, client):
        await taken(client)
        await server.wait_closed()
