"""A conversation that goes on at another API in the middle, on real sockets: reasoning, calls and their results.

What one API gave is its own business: it goes back to it byte for byte, and never to another.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable

import pytest

from svir_client import AsyncClient
from svir_client.testing import Reply, assert_prefix_stable
from svir_core.errors import UnsupportedError
from svir_core.history import check_history
from svir_core.message import CachePoint, Image, Opaque, Part, Text, ToolResult
from svir_core.request import Effort, Request, Tool
from svir_core.response import Completion, FinishReason
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from svir_core.wire.api import Api
from svir_core.wire.json_value import Json
from tests.svir_client.switching import APIS, NO, Talk, calls, first_reply, refusal, talking
from tests.svir_core.wire.foreign import BY_NAME, all_parts, answer, mark, opaques
from tests.svir_core.wire.legal import check_legal

pytestmark = pytest.mark.anyio

TOOLS = [Tool("look", "Look."), Tool("list", "List.")]
ASKED = Request("m", system="Be brief.", tools=TOOLS, effort=Effort.LOW).user("What is here?")
SEEN = (Text("a cat"), Image.data(b"\x89PNG", "image/png"))
PAIRS = list(itertools.permutations(APIS, 2))
CHAINS = list(itertools.permutations(APIS))
NAMES = [f"{here.name}-{there.name}" for here, there in PAIRS]


def answered(request: Request, answer: Completion, *, image: bool = False) -> Request:
    """The conversation with an answer of two calls and their results: one with an image or a text, and an error."""
    look, listing = calls(answer)
    content = SEEN if image else "a cat"
    return request.assistant(answer).tool_results([ToolResult(look.id, content), ToolResult(listing.id, "no", True)])


def check_sent(api: Api, request: Request, body: bytes) -> None:
    """Assert that a body is legal, has all that its API gave, byte for byte, and nothing that another gave."""
    assert check_history(request.messages, api) == ()
    given = opaques(all_parts(request.messages), api.name)
    check_legal(api.name, body, given)
    for other in BY_NAME:
        assert other == api.name or mark(other).encode() not in body, f"{other} was sent to {api.name}"
    for each in given:
        assert each[1:-1].encode() in body


def parsed(parts: Iterable[Part], api: Api) -> list[object]:
    return [json.loads(each) for each in opaques(parts, api.name)]


async def ask(talk: Talk, api: Api, request: Request) -> Completion:
    return await talk.clients[api.name].complete(request)


@pytest.mark.parametrize("send_reasoning", [False, True])
@pytest.mark.parametrize(("here", "there"), PAIRS, ids=NAMES)
async def test_there_and_back(here: Api, there: Api, send_reasoning: bool) -> None:
    image = openai_chat.API not in (here, there)
    replies = {
        here.name: [first_reply(here, 1), refusal(here), Reply.text("done", api=here)],
        there.name: [first_reply(there, 2), Reply.text("well", api=there)],
    }
    request = ASKED.replace(send_reasoning=send_reasoning)
    sent: list[tuple[Api, Request]] = []

    async with talking(replies) as talk:

        async def said(api: Api) -> Completion:
            sent.append((api, request))
            return await ask(talk, api, request)

        first = await said(here)
        assert parsed(first.parts, here) == parsed(answer(here.name, 1), here), "the answer is not what was told"
        assert first.reasoning
        assert first.reasoning[0].text == f"{mark(here.name)} thought"
        assert [(call.name, call.parse(dict[str, int])) for call in first.calls] == [("look", {"a": 1}), ("list", {})]
        request = answered(request, first, image=image)
        refused = await said(here)
        assert refused.text == NO
        assert (refused.finish is FinishReason.REFUSAL) is (here is not gemini.API)
        request = request.assistant(refused).user("Then you.")
        request = answered(request, await said(there), image=image)
        request = request.assistant(await said(there)).user("And now?")
        assert (await said(here)).text == "done"
        bodies = {api.name: iter(talk.bodies(api)) for api in (here, there)}

    by_api: dict[str, list[bytes]] = {here.name: [], there.name: []}
    for api, asked in sent:
        body = next(bodies[api.name])
        check_sent(api, asked, body)
        for before in by_api[api.name]:
            assert_prefix_stable(before, body, api=api)
        by_api[api.name].append(body)
    assert [len(told) for told in by_api.values()] == [3, 2]


@pytest.mark.parametrize(("here", "there"), PAIRS, ids=NAMES)
async def test_the_tools_of_one_api_may_be_answered_to_another(here: Api, there: Api) -> None:
    async with talking({here.name: [first_reply(here, 1)], there.name: [Reply.text("ok", api=there)]}) as talk:
        request = answered(ASKED, await ask(talk, here, ASKED))
        assert (await ask(talk, there, request)).text == "ok"
        (body,) = talk.bodies(there)
    check_sent(there, request, body)


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: "-".join(each.name for each in chain))
async def test_through_all_of_them(chain: tuple[Api, ...]) -> None:
    replies = {api.name: [first_reply(api, number), Reply.text("ok", api=api)] for number, api in enumerate(chain)}
    request = ASKED
    async with talking(replies) as talk:
        for number, api in enumerate(chain):
            request = answered(request, await ask(talk, api, request)).user(f"go on, {number}")
        for api in chain:
            assert (await ask(talk, api, request)).text == "ok"
            body = talk.bodies(api)[-1]
            check_sent(api, request, body)
            assert_prefix_stable(talk.bodies(api)[0], body, api=api)


@pytest.mark.parametrize("there", APIS, ids=lambda api: api.name)
async def test_an_image_that_a_tool_gave_is_refused_by_name_where_no_result_has_one(there: Api) -> None:
    here = anthropic_messages.API if there is not anthropic_messages.API else gemini.API
    async with talking({here.name: [first_reply(here, 1)], there.name: [Reply.text("ok", api=there)]}) as talk:
        request = answered(ASKED, await ask(talk, here, ASKED), image=True)
        if there is openai_chat.API:
            with pytest.raises(UnsupportedError, match=r"messages\[2\]\.parts\[0\]\.content\[1\]: .* an image"):
                await ask(talk, there, request)
            assert talk.bodies(there) == []
        else:
            assert (await ask(talk, there, request)).text == "ok"
            check_sent(there, request, talk.bodies(there)[0])


@pytest.mark.parametrize(("here", "there"), PAIRS, ids=NAMES)
async def test_a_cache_point_is_told_to_the_apis_that_have_one(here: Api, there: Api) -> None:
    if here is gemini.API:
        return
    start = ASKED.replace(messages=()).user("Here is a book.", CachePoint())
    async with talking({here.name: [first_reply(here, 1)], there.name: [Reply.text("ok", api=there)]}) as talk:
        request = answered(start, await ask(talk, here, start))
        if there is gemini.API:
            with pytest.raises(UnsupportedError, match=r"messages\[0\]\.parts\[1\]: .* a cache point"):
                await ask(talk, there, request)
            return
        await ask(talk, there, request)
        (told,), (body,) = talk.bodies(here), talk.bodies(there)
    marks = [b"cache_control" if api is anthropic_messages.API else b"prompt_cache_breakpoint" for api in (here, there)]
    assert [marks[0] in told, marks[1] in body] == [True, True]
    check_sent(there, request, body)


def signatures(body: Json) -> list[object]:
    """What stands beside each call in a body of Gemini."""
    parts: list[Json] = [part for content in body["contents"] for part in content["parts"]]
    return [part.get("thoughtSignature") for part in parts if "functionCall" in part]


async def test_gemini_is_told_that_there_never_was_a_signature() -> None:
    here, there = openai_responses.API, gemini.API
    ok = Reply.text("ok", api=there)
    async with talking({here.name: [first_reply(here, 1)], there.name: [ok, ok]}) as talk:
        request = answered(ASKED, await ask(talk, here, ASKED))
        await ask(talk, there, request)
        async with AsyncClient.gemini(talk.servers[there.name].origin, skip_signatures=True) as client:
            await client.complete(request)
        plain, signed = (json.loads(body) for body in talk.bodies(there))
    assert signatures(plain) == [None, None]
    assert signatures(signed) == ["skip_thought_signature_validator", None]


async def test_an_answer_of_nothing_but_an_apis_own_business_leaves_no_turn_elsewhere() -> None:
    hidden = [part for part in answer("anthropic_messages") if isinstance(part, Opaque)]
    request = ASKED.assistant(Completion(FinishReason.PAUSE, hidden)).user("Go on.")
    for there in APIS:
        async with talking({there.name: [Reply.text("ok", api=there)]}) as talk:
            assert (await ask(talk, there, request)).text == "ok"
            check_sent(there, request, talk.bodies(there)[0])
