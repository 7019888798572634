"""The client hands its quirks and `extra` to the decoder of every answer, and a profile's habits to the encoder."""

from __future__ import annotations

import anyio
import orjson
import pytest

from svir_client import AsyncClient
from svir_client.testing import Framing, MockServer, Reply
from svir_core import Quirk, Request, TruncatedStreamError, profile

pytestmark = pytest.mark.anyio

CUT = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
REPLY = Reply.stream(CUT, framing=Framing.CHUNKED)


async def test_a_stream_without_its_end_completes_by_the_quirk_only() -> None:
    with anyio.fail_after(20):
        async with MockServer(REPLY, REPLY) as server:
            async with AsyncClient.openai(server.origin, quirks=Quirk.DONE_OPTIONAL) as client:
                assert (await client.complete(Request("m").user("hi"))).text == "Hi"
            async with AsyncClient.openai(server.origin) as client:
                with pytest.raises(TruncatedStreamError):
                    await client.complete(Request("m").user("hi"))


async def test_a_profile_gives_a_client_its_quirks_and_habits() -> None:
    known = profile("openai-reasoning")
    with anyio.fail_after(20):
        async with MockServer(REPLY) as server:
            async with AsyncClient.openai(
                server.origin, quirks=known.quirks | profile("tgi").quirks, compat=known.compatibility()
            ) as client:
                answer = await client.complete(Request("m", system="s", max_tokens=5).user("hi"))
            assert answer.text == "Hi"
            body = orjson.loads(server.requests[0].body)
            assert body["max_completion_tokens"] == 5
            assert body["messages"][0]["role"] == "developer"


@pytest.mark.parametrize("extra", [False, True])
async def test_what_the_server_says_beyond_the_protocol_is_kept_on_demand(extra: bool) -> None:
    stream = CUT.replace(b'{"choices"', b'{"service_tier":"flex","choices"') + b"data: [DONE]\n\n"
    with anyio.fail_after(20):
        async with (
            MockServer(Reply.stream(stream)) as server,
            AsyncClient.openai(server.origin, extra=extra) as client,
        ):
            answer = await client.complete(Request("m").user("hi"))
    assert answer.extra == ({"service_tier": "flex"} if extra else {})
