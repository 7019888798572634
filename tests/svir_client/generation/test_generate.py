"""What a generation refuses, in which order, and what becomes of its options: 51 sections 1.5 A to C and G1."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from svir_client import (
    AsyncClient,
    Capability,
    Client,
    FunctionModel,
    ModelDescriptor,
    Next,
    Session,
    Stream,
    Tools,
    generate,
    generate_stream,
)
from svir_client.testing import MockServer, Reply
from svir_core import (
    ConfigError,
    Media,
    Message,
    Progress,
    Request,
    ResponseTimeoutError,
    SessionInUseError,
    UnsupportedError,
)
from svir_core.wire.openai_responses import API as RESPONSES
from tests.svir_client.chat import SECONDS
from tests.svir_client.generation.generations import (
    BLIND,
    PNG,
    Script,
    asks,
    assert_at_rest,
    call,
    roles,
    scripted_by,
)
from tests.svir_client.layers.calls import scripted

pytestmark = pytest.mark.anyio

LIMITED = ModelDescriptor("m", capabilities={*Capability}, max_output_tokens=100)


# --- what is refused, and in which order ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"client": object()}, "client must be an AsyncClient"),
        ({"session": "alice"}, "session must be a Session"),
        ({"model": 5}, "model must be a str"),
        ({"input": 5}, "a text, a part or a Message"),
        ({"rollback": 1}, "rollback must be a bool"),
        ({"on_tool_error": 5}, "on_tool_error must be callable"),
        ({"idle_timeout": 0}, "idle_timeout must be a positive number"),
        ({"headers": {"bad name": "x"}}, "a header's name"),
        ({"temperature": True}, "temperature"),
        ({"effort": "mighty"}, "effort"),
        (
            {"system": "x", "messages": []},
            r"messages, system; .*Session\(messages=...\).*Session\(system=",
        ),
        ({"approvals": {}}, r"no option named approvals; resume\(approvals=...\) takes them"),
        ({"on_error": print}, "no option named on_error; on_tool_error is told"),
        ({"temprature": 1}, "no option named temprature$"),
        ({"tools": [print]}, r"tools is a list, not a Toolbox: make a registry, Tools\(\)"),
    ],
)
async def test_a_wrong_argument_is_refused_where_it_is_given_though_the_session_is_in_use(
    wrong: dict[str, Any], words: str
) -> None:
    session = Session()
    async with scripted_by() as (model, client):
        given: dict[str, Any] = {"client": client, "session": session, "input": "hi", "model": "m", **wrong}
        with session.lease(), pytest.raises(ConfigError, match=words):
            generate_stream(given.pop("client"), given.pop("session"), given.pop("input"), **given)
    assert (session.messages, session.suspended, model.requests) == ((), None, [])


async def test_the_blocking_client_is_not_taken_for_the_async_one() -> None:
    blocking: Any = Client.openai("http://127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"client must be an AsyncClient, not a Client: .* svir_client.sync"):
        await generate(blocking, None, "hi", model="m")


async def test_capabilities_are_checked_before_the_session_is_asked_for_and_the_api_after() -> None:
    session = Session()
    async with scripted() as (_, client):
        with session.lease():
            with pytest.raises(UnsupportedError, match="image_input"):
                await generate(client, session, PNG, model=BLIND)
            with pytest.raises(ConfigError, match="described for gemini, and the client speaks openai_chat"):
                await generate(client, session, "hi", model=ModelDescriptor("m", api="gemini"))
            with pytest.raises(SessionInUseError) as caught:
                await generate(client, session, Message.user("hi", Media.data(b"x", "video/x-none")), model="m")
    assert caught.value.progress == Progress()
    assert session.messages == ()


async def test_what_went_before_is_not_held_against_the_model_of_this_turn() -> None:
    session = Session(messages=[Message.user(PNG), Message.assistant("A dot.")])
    async with scripted_by("ok") as (_, client):
        assert (await generate(client, session, "hi", model=BLIND)).text == "ok"


async def test_a_closed_client_is_refused_before_anything_is_stored() -> None:
    session = Session()
    client = FunctionModel(Script().ask)
    await client.aclose()
    with pytest.raises(ConfigError, match="closed") as caught:
        await generate(client, session, "hi", model="m")
    assert (session.messages, caught.value.progress) == ((), Progress())
    assert_at_rest(session)


# --- options -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "options", "sent"),
    [
        ("m", {}, None),
        ("m", {"max_tokens": 7}, 7),
        (LIMITED, {}, 100),
        (LIMITED, {"max_tokens": 7}, 7),
        (LIMITED, {"max_tokens": None}, None),
    ],
)
async def test_the_limit_of_the_model_is_the_default_of_every_round(
    tools: Tools, model: str | ModelDescriptor, options: dict[str, Any], sent: int | None
) -> None:
    async with scripted_by(asks(call("a")), "ok") as (script, client):
        await generate(client, None, "hi", model=model, tools=tools, **options)
    assert [request.max_tokens for request in script.requests] == [sent, sent]


async def test_further_fields_are_merged_deeply_and_hosted_tools_come_before_local_ones(tools: Tools) -> None:
    model = ModelDescriptor(
        "m",
        api="openai_responses",
        capabilities={Capability.TEXT_INPUT, Capability.TOOLS},
        extra={"truncation": "auto", "metadata": {"a": {"x": "1", "y": "2"}, "b": "3"}},
    )
    extra = {"metadata": {"a": {"x": "9"}}, "tools": [{"type": "web_search"}]}
    answers = (Reply.completion(asks(call("a")), api=RESPONSES), Reply.text("ok", api=RESPONSES))
    with anyio.fail_after(SECONDS):
        async with MockServer(*answers) as server, AsyncClient.responses(server.origin) as client:
            await generate(client, None, "hi", model=model, tools=tools, extra=extra)
            bodies = [request.json() for request in server.requests]
    assert len(bodies) == 2
    for body in bodies:
        assert body["metadata"] == {"a": {"x": "9", "y": "2"}, "b": "3"}
        assert body["truncation"] == "auto"
        assert [tool.get("name", tool["type"]) for tool in body["tools"]] == ["web_search", "f", "broken", "image"]


async def test_every_round_has_the_headers_and_the_layers() -> None:
    rounds: list[int] = []

    async def count(request: Request, next: Next) -> Stream:
        rounds.append(len(request.messages))
        return await next(request)

    answers = [Reply.completion(asks(call("a"))), Reply.text("ok")]
    async with scripted(*answers, layers=[count]) as (transport, client):
        await generate(client, None, "hi", model="m", headers={"X-Trace": "abc"})
        assert [dict(request.headers)["x-trace"] for request in transport.requests] == ["abc", "abc"]
    assert rounds == [1, 3]


async def test_every_round_has_the_idle_timeout_of_the_call() -> None:
    async def hangs(request: Request) -> None:
        await anyio.sleep_forever()

    session = Session()
    async with scripted_by(asks(call("a")), hangs) as (_, client):
        with pytest.raises(ResponseTimeoutError):
            await generate(client, session, "hi", model="m", idle_timeout=0.05)
    assert roles(session) == ["u", "a", "t"]
