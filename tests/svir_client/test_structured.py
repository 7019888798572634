"""Answers that are read into a type: whole by ``parse``, and while they are written by ``partial``."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any, TypedDict

import anyio
import attrs
import msgspec
import pydantic
import pytest

from examples.four_apis import CONSTRUCTORS, SPOKEN
from svir_client import AsyncClient, Next, Parsed, PartialStream, Stream, SyncPartialStream, wrap
from svir_client.testing import Gate, MockServer, Reply
from svir_core.errors import ConfigError, ProtocolError, ServerError, SvirError
from svir_core.event import TextDelta
from svir_core.limits import JSON_DEPTH
from svir_core.message import Reasoning, Text, ToolCall
from svir_core.request import Request, Schema
from svir_core.response import Completion, FinishReason, Usage
from tests.svir_client.blocking import connected

pytestmark = pytest.mark.anyio

SECONDS = 20


@attrs.frozen
class Step:
    """One step."""

    do: str
    minutes: int


@attrs.frozen
class Recipe:
    """How to cook it."""

    title: str
    steps: list[Step]


TEXT = '{"title": "Tea", "steps": [{"do": "boil", "minutes": 3}, {"do": "st\\u0065ep", "minutes": 5}]}'
RECIPE = Recipe("Tea", [Step("boil", 3), Step("steep", 5)])
ASK = Request("m").user("tea")
TYPED = ASK.replace(response_format=Schema.of(Recipe))


def each(text: str, size: int = 3) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


@contextlib.asynccontextmanager
async def talking(
    *replies: Reply, word: str = "openai", **options: Any
) -> AsyncGenerator[tuple[MockServer, AsyncClient]]:
    async with MockServer(*replies) as server, CONSTRUCTORS[word](server.origin, **options) as client:
        yield server, client


@contextlib.asynccontextmanager
async def streaming(reply: Reply, request: Request = TYPED) -> AsyncGenerator[Stream]:
    async with talking(reply) as (_, client), client.stream(request) as stream:
        yield stream


def schema_in(word: str, body: Mapping[str, Any]) -> Any:
    """Where docs/wire-apis.md says that the schema is sent."""
    if word == "openai":
        return body["response_format"]["json_schema"]["schema"]
    if word == "responses":
        return body["text"]["format"]["schema"]
    if word == "anthropic":
        return body["output_config"]["format"]["schema"]
    assert body["generationConfig"]["responseMimeType"] == "application/json"
    return body["generationConfig"]["responseJsonSchema"]


@pytest.mark.parametrize("word", CONSTRUCTORS)
async def test_parse_asks_for_the_type_and_reads_it(word: str) -> None:
    with anyio.fail_after(SECONDS):
        async with talking(Reply.text(TEXT, api=SPOKEN[word]), word=word) as (server, client):
            value, completion = await client.parse(ASK, Recipe, headers={"x-a": "1"}, idle_timeout=5)
        assert value == RECIPE
        assert completion.text == TEXT
        assert schema_in(word, json.loads(server.requests[0].body)) == Schema.of(Recipe).schema
        assert ("x-a", "1") in server.requests[0].headers


@pytest.mark.parametrize("word", CONSTRUCTORS)
async def test_partial_shows_it_while_it_is_written(word: str) -> None:
    titles: list[str] = []
    with anyio.fail_after(SECONDS):
        async with talking(Reply.text(*each(TEXT), api=SPOKEN[word]), word=word) as (server, client):
            async with client.stream(TYPED) as stream:
                partial = stream.partial(Recipe)
                async for now in partial:
                    assert now is partial
                    titles.append(now.data.get("title", ""))
            assert stream.completion.parse(Recipe) == RECIPE
        assert schema_in(word, json.loads(server.requests[0].body)) == Schema.of(Recipe).schema
    assert titles[-1] == "Tea"
    assert partial.value == RECIPE
    assert partial.value is partial.value
    assert partial.data == json.loads(TEXT)
    assert partial.text == TEXT


async def test_a_format_of_the_request_stays() -> None:
    own = Schema("own", {"type": "object"}, strict=True)
    with anyio.fail_after(SECONDS):
        async with (
            MockServer(Reply.text(TEXT), Reply.text(TEXT)) as server,
            AsyncClient.openai(server.origin) as client,
        ):
            assert (await client.parse(ASK.replace(response_format=own), Recipe)).value == RECIPE
            assert (await client.parse(ASK.replace(response_format="json"), Recipe)).value == RECIPE
        formats = [json.loads(request.body)["response_format"] for request in server.requests]
        assert [sent["type"] for sent in formats] == ["json_schema", "json_object"]
        assert formats[0]["json_schema"] == {"name": "own", "strict": True, "schema": {"type": "object"}}


async def test_parse_passes_through_the_layers() -> None:
    seen: list[Request] = []

    @wrap
    async def layer(request: Request, next: Next) -> Stream:
        seen.append(request)
        stream = await next(request)
        assert await stream.peek() is not None
        return stream

    with anyio.fail_after(SECONDS):
        async with talking(Reply.text(TEXT), Reply.text(TEXT), layers=[layer]) as (_, client):
            parsed = await client.parse(ASK, Recipe)
            async with client.stream(TYPED) as stream:
                partial = stream.partial(Recipe)
                async for _ in partial:
                    pass
                assert partial.value == RECIPE
    assert isinstance(parsed, Parsed)
    assert seen == [TYPED, TYPED]


async def test_a_wrong_call_sends_nothing() -> None:
    nothing: Any = object()
    no_request: Any = "tea"
    async with AsyncClient.openai("http://127.0.0.1:1") as client:
        with pytest.raises(ConfigError, match="takes a Request"):
            await client.parse(no_request, Recipe)
        for request in (ASK, TYPED):
            with pytest.raises(ConfigError, match="not a type that JSON can be read into"):
                await client.parse(request, nothing)
        with pytest.raises(ConfigError, match="not a type that JSON can be read into"):
            client.stream(ASK).partial(nothing)
        with pytest.raises(ConfigError, match="not a type that JSON can be read into"):
            client.stream(ASK).partial(Recipe).items(nothing, "steps")


UNFINISHED = ("length", "content_filter", "tool_calls")


def answer(finish: str) -> Completion:
    call = (ToolCall("c", "f", "{}"),) if finish == "tool_calls" else ()
    return Completion(FinishReason(finish), (Text('{"title": "Te'), *call), usage=Usage(3, 4))


@pytest.mark.parametrize("finish", UNFINISHED)
async def test_only_a_stop_is_parsed(finish: str) -> None:
    with anyio.fail_after(SECONDS):
        async with talking(*[Reply.completion(answer(finish))] * 2) as (_, client):
            with pytest.raises(ProtocolError, match=f"finished with '{finish}'") as caught:
                await client.parse(ASK, Recipe)
            async with client.stream(TYPED) as stream:
                partial = stream.partial(Recipe)
                error = await until_error(partial)
                with pytest.raises(ProtocolError, match=finish):
                    await anext(partial)
    assert caught.value == error
    assert error.partial is not None
    assert error.partial.text == '{"title": "Te'
    assert error.partial.usage is not None
    assert error.partial.usage.output == 4
    assert partial.data == {"title": "Te"}
    with pytest.raises(ProtocolError, match=finish):
        _ = partial.value


async def test_a_refusal_is_named_and_its_words_are_kept() -> None:
    refusal = Completion(FinishReason.REFUSAL, (Text("I will not."),))
    with anyio.fail_after(SECONDS):
        async with talking(*[Reply.completion(refusal)] * 2) as (_, client):
            with pytest.raises(ProtocolError, match="finished with 'refusal'") as caught:
                await client.parse(ASK, Recipe)
            async with client.stream(TYPED) as stream:
                error = await until_error(stream.partial(Recipe))
    assert error.detail == "the answer is not JSON: expected a value at character 0"
    for refused in (caught.value, error):
        assert refused.partial is not None
        assert refused.partial.text == "I will not."


class Model(pydantic.BaseModel):
    do: str
    minutes: int


class Struct(msgspec.Struct):
    do: str
    minutes: int


class Typed(TypedDict):
    do: str
    minutes: int


@pytest.mark.parametrize("kind", [Model, Struct, Typed, Step])
async def test_types_of_every_library(kind: Any) -> None:
    text = '[{"do": "boil", "minutes": 3}, {"do": "steep", "minutes": 5}]'
    expected = [kind(do="boil", minutes=3), kind(do="steep", minutes=5)]
    with anyio.fail_after(SECONDS):
        async with talking(*[Reply.text(*each(text))] * 2) as (_, client):
            assert (await client.parse(ASK, list[kind])).value == expected
            async with client.stream(TYPED) as stream:
                partial = stream.partial(list[kind])
                assert [item async for item in partial.items(kind)] == expected
                assert partial.value == expected


async def until_error(partial: PartialStream[Any]) -> SvirError:
    try:
        async for _ in partial:
            pass
    except SvirError as error:
        return error
    raise AssertionError("no error came")


@pytest.mark.parametrize(
    ("text", "words", "news"),
    [
        ("Sure! " + TEXT, "expected a value at character 0", 0),
        ("```json\n" + TEXT, "expected a value at character 0", 0),
        (TEXT + " Enjoy!", f"expected nothing after the value at character {len(TEXT) + 1}", 1),
        (TEXT[:-2], f"expected the rest of the value at character {len(TEXT) - 2}", 1),
        ('{"title": "Tea", "steps": 3}', r"does not fit Recipe: \$\.steps: expected an array", 1),
        ("", "expected the rest of the value at character 0", 0),
    ],
)
async def test_what_does_not_fit_is_told_after_what_came(text: str, words: str, news: int) -> None:
    with anyio.fail_after(SECONDS):
        async with streaming(Reply.text(*[text] if text else [])) as stream:
            partial = stream.partial(Recipe)
            for _ in range(news):
                assert await anext(partial) is partial
            with pytest.raises(ProtocolError, match=words) as caught:
                await anext(partial)
    assert caught.value.partial is not None
    assert caught.value.partial.text == partial.text == text
    with pytest.raises(ProtocolError, match=words):
        _ = partial.value


async def test_what_is_no_json_is_told_before_the_answer_ends() -> None:
    with anyio.fail_after(SECONDS):
        async with streaming(Reply.text("Sure, ", Gate())) as stream:
            error = await until_error(stream.partial(Recipe))
    assert error.detail == "the answer is not JSON: expected a value at character 0"


async def test_blanks_around_and_reasoning_before_are_fine() -> None:
    parts = (Reasoning("reasoning_content", "Tea, then."), Text("\n " + TEXT + "\n"))
    with anyio.fail_after(SECONDS):
        async with streaming(Reply.completion(Completion(FinishReason.STOP, parts))) as stream:
            partial = stream.partial(Recipe)
            assert [now.path async for now in partial] == [()]
    assert partial.value == RECIPE


async def test_a_number_alone_is_news_at_the_end() -> None:
    with anyio.fail_after(SECONDS):
        async with streaming(Reply.text("4", "2"), ASK) as stream:
            partial = stream.partial(int)
            assert [now.data async for now in partial] == [42]
    assert partial.value == 42


async def test_an_error_of_the_stream_is_raised_as_it_raises_it() -> None:
    reply = Reply.events(TextDelta('{"title": "T'), ServerError("failed"))
    with anyio.fail_after(SECONDS):
        async with streaming(reply) as stream:
            partial = stream.partial(Recipe)
            error = await until_error(partial)
            assert error is stream.error
    assert isinstance(error, ServerError)
    assert error.partial is not None
    assert partial.data == {"title": "T"}
    with pytest.raises(ConfigError, match="not read to its end"):
        _ = partial.value


@attrs.frozen
class Broken:
    x: int

    def __attrs_post_init__(self) -> None:
        raise KeyError(self.x)


async def test_what_a_class_raises_is_the_end_and_stays_it() -> None:
    with anyio.fail_after(SECONDS):
        async with streaming(Reply.text('{"x": 1}')) as stream:
            partial = stream.partial(Broken)
            with pytest.raises(KeyError) as first:
                _ = [step async for step in partial]
            with pytest.raises(KeyError) as again:
                await anext(partial)
            with pytest.raises(KeyError) as value:
                _ = partial.value
    assert first.value is again.value is value.value
    assert partial.data == {"x": 1}


async def test_what_a_class_of_an_item_raises_is_the_end_and_stays_it() -> None:
    with anyio.fail_after(SECONDS):
        async with streaming(Reply.text('[{"x": 1}, {"x": 2}]'), ASK) as stream:
            items = stream.partial(list[Any]).items(Broken)
            for _ in range(2):
                with pytest.raises(KeyError, match="1"):
                    await anext(items)


# --- items ------------------------------------------------------------------------------------------------


async def test_an_item_comes_when_it_is_complete() -> None:
    gate = Gate()
    first = TEXT.index("}") + 1
    with anyio.fail_after(SECONDS):
        async with streaming(Reply.text(*each(TEXT[:first]), gate, *each(TEXT[first:]))) as stream:
            partial = stream.partial(Recipe)
            steps = partial.items(Step, "steps")
            assert await anext(steps) == RECIPE.steps[0]
            assert partial.text == TEXT[:first]
            gate.open()
            assert [step async for step in steps] == RECIPE.steps[1:]
            assert partial.value == RECIPE
            assert [step async for step in partial.items(Step, "steps")] == RECIPE.steps
            assert [step async for step in partial.items(Step, "other")] == []


async def test_an_item_that_does_not_fit_is_told_when_it_came() -> None:
    text = '{"title": "Tea", "steps": [{"do": "boil", "minutes": 3}, {"do": "steep"}, {"do": "pour", "minutes": 1}]}'
    with anyio.fail_after(SECONDS):
        async with streaming(Reply.text(text)) as stream:
            items = stream.partial(Recipe).items(Step, "steps")
            assert await anext(items) == Step("boil", 3)
            for _ in range(2):
                with pytest.raises(ProtocolError, match=r"the answer at \$\.steps\[1\]: does not fit") as caught:
                    await anext(items)
                assert caught.value.partial is not None
                assert caught.value.partial.text == text


async def test_items_that_came_before_an_error_are_given_first() -> None:
    with anyio.fail_after(SECONDS):
        async with streaming(Reply.text('[{"do": "boil", "minutes": 3}, oops')) as stream:
            items = stream.partial(list[Step]).items(Step)
            assert await anext(items) == Step("boil", 3)
            for _ in range(2):
                with pytest.raises(ProtocolError, match="expected a value at character 31"):
                    await anext(items)


async def test_what_is_no_array_has_no_items() -> None:
    with anyio.fail_after(SECONDS):
        async with streaming(Reply.text('{"a": 1}'), ASK) as stream:
            with pytest.raises(ProtocolError, match=r"no array at \$\.a"):
                await anext(stream.partial(dict[str, int]).items(int, "a"))


async def test_an_item_that_nests_too_deep() -> None:
    with anyio.fail_after(SECONDS):
        async with streaming(Reply.text("[" * JSON_DEPTH + "]" * JSON_DEPTH), ASK) as stream:
            with pytest.raises(ProtocolError, match=r"the answer at \$\[0\]: nested too deep"):
                await anext(stream.partial(list[Any]).items(list[Any]))


async def test_what_is_open_is_one_of_a_kind() -> None:
    async with AsyncClient.openai("http://127.0.0.1:1") as client:
        partial = client.stream(ASK).partial(Recipe)
    for one in (partial, partial.items(Step, "steps")):
        with pytest.raises(ConfigError, match="one of a kind"):
            copy.copy(one)
        assert "tea" not in repr(one)


# --- the blocking twin ------------------------------------------------------------------------------------


def test_the_twin_parses() -> None:
    with connected(Reply.text(TEXT)) as (_, client):
        assert client.parse(ASK, Recipe).value == RECIPE


def test_the_twin_shows_it_while_it_is_written() -> None:
    with connected(Reply.text(*each(TEXT)), Reply.text(*each(TEXT)), Reply.text("Sure!")) as (_, client):
        with client.stream(TYPED) as stream:
            partial = stream.partial(Recipe)
            paths = [now.path for now in partial]
            assert paths[-1] == ()
            assert partial.value == RECIPE
            assert list(partial) == []
        with client.stream(TYPED) as stream:
            assert list(stream.partial(Recipe).items(Step, "steps")) == RECIPE.steps
        with client.stream(TYPED) as stream, pytest.raises(ProtocolError, match="at character 0"):
            list(stream.partial(Recipe))


def test_the_twin_ends_with_what_a_class_raises() -> None:
    with connected(Reply.text('{"x": 1}')) as (_, client), client.stream(TYPED) as stream:
        partial = stream.partial(Broken)
        for _ in range(2):
            with pytest.raises(KeyError, match="1"):
                list(partial)
        with pytest.raises(KeyError, match="1"):
            _ = partial.value


def test_a_thread_that_is_interrupted_reads_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    with connected(Reply.text(*each(TEXT))) as (_, client), client.stream(TYPED) as stream:
        partial = stream.partial(Recipe)
        monkeypatch.setattr(SyncPartialStream, "_take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(partial)
        monkeypatch.undo()
        with pytest.raises(ConfigError, match="after it was closed"):
            next(partial)
