"""Wrong arguments of the test kit: a ``ConfigError`` where they are given, which names them."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from svir_client import AsyncClient, Client
from svir_client.testing import (
    MockServer,
    Recorder,
    Reply,
    ScriptedTransport,
    assert_prefix_stable,
    cancelled_at_every_await,
    check_transport,
    load_recording,
)
from svir_core.errors import ConfigError, SvirError
from svir_core.response import Completion
from svir_core.wire import openai_chat
from tests.svir_client.chat import REQUEST

pytestmark = pytest.mark.anyio

ANY: Any = MockServer  # what a caller without a type checker may type
REPLY: Any = Reply
RECORDER: Any = Recorder
SCRIPTED: Any = ScriptedTransport
CLIENT: Any = Client
STABLE: Any = assert_prefix_stable
LOAD: Any = load_recording
NOTHING: Any = None


def keep(_: object) -> None:
    """A function that could keep a recording."""


WRONG: dict[str, tuple[str, Callable[[], object]]] = {
    "a reply that is a number": ("every reply", lambda: ANY(5)),
    "a reply that is the class": ("every reply must be a Reply, not the class Reply", lambda: ANY(Reply)),
    "a reply added": ("every reply", lambda: ANY().add(None)),
    "tls that is a number": ("tls", lambda: ANY(tls=5)),
    "tls of a client": ("tls is a client's", lambda: ANY(tls=ssl.create_default_context())),
    "answer that is a number": ("answer", lambda: ANY(answer=5)),
    "remember that is text": ("remember", lambda: ANY(remember="x")),
    "an outcome that is a number": ("every reply must be a Reply or a SvirError", lambda: SCRIPTED(5)),
    "an answer that is a reply": ("answer", lambda: SCRIPTED(answer=Reply.text("a"))),
    "Client of nothing": ("client", lambda: CLIENT(None)),
    "models of nothing": ("every model", lambda: REPLY.models(None)),
    "a recording of nothing": ("recording", lambda: REPLY.recorded(None)),
    "a completion of nothing": ("completion", lambda: REPLY.completion(None)),
    "a document that is a class": ("document", lambda: REPLY.document(int)),
    "cut that is text": ("Reply.cut", lambda: REPLY(cut="x")),
    "cut of a text": ("Reply.cut", lambda: REPLY.text("a", cut=1.5)),
    "status that is text": ("Reply.status", lambda: REPLY("200")),
    "headers that are a number": ("headers", lambda: REPLY(200, 5)),
    "headers that are no pairs": ("headers", lambda: REPLY(200, [("a",)])),
    "headers that are numbers": ("headers", lambda: REPLY(200, {"a": 1})),
    "a body of bytes": ("every piece of a body", lambda: REPLY(body=b"abc")),
    "a body of text": ("every piece of a body", lambda: REPLY(body=("abc",))),
    "a framing": ("framing", lambda: REPLY(framing="x")),
    "an end": ("end", lambda: REPLY(end=None)),
    "before_head": ("Reply.before_head", lambda: REPLY(before_head=5)),
    "stall_head": ("Reply.stall_head", lambda: REPLY(stall_head="yes")),
    "before_body": ("Reply.before_body", lambda: REPLY(before_body=1)),
    "informational": ("informational", lambda: REPLY(informational=100)),
    "an informational status": ("informational", lambda: REPLY(informational=("x",))),
    "raw": ("Reply.raw", lambda: REPLY(raw="x")),
    "Recorder of nothing": ("transport", lambda: RECORDER(None, keep)),
    "Recorder of a class": ("transport", lambda: RECORDER(ScriptedTransport, keep)),
    "Recorder to a number": ("keep", lambda: RECORDER(ScriptedTransport(), 5)),
    "Recorder to nothing": ("keep", lambda: RECORDER(ScriptedTransport(), None)),
    "Recorder to no path": ("recording cannot be opened", lambda: Recorder(ScriptedTransport(), "\0")),
    "a recording of a descriptor": ("path must be a path", lambda: LOAD(0)),
    "a clock": ("clock", lambda: RECORDER(ScriptedTransport(), keep, clock=5)),
    "an API by its name": ("api must be a wire API", lambda: REPLY.completion(Completion("stop"), api="openai_chat")),
    "an API's module": ("not a module", lambda: REPLY.text("a", api=openai_chat)),
    "a listing of an API's class": ("not a type", lambda: REPLY.models("a", api=type(openai_chat.API))),
    "bodies of an API by its name": ("api must be a wire API", lambda: STABLE(b"", b"", api="openai_chat")),
    "an API of events": ("api must be a wire API", lambda: REPLY.events(api=None)),
    "bodies that are none": ("what is compared", lambda: STABLE(None, None)),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_wrong_argument_is_named_at_once(name: str) -> None:
    words, make = WRONG[name]
    with pytest.raises(ConfigError) as caught:
        make()
    assert words in caught.value.detail


@pytest.mark.parametrize("wrong", [None, Reply, "text"])
async def test_an_answer_that_is_no_reply_is_told_to_the_client_and_raised(wrong: Any) -> None:
    server = await MockServer(answer=lambda _: wrong).__aenter__()
    async with AsyncClient.openai(server.origin) as client:
        with anyio.fail_after(5), pytest.raises(SvirError, match="500"):
            await client.complete(REQUEST)
    with pytest.raises(ConfigError, match="what answer gives must be a Reply"):
        await server.__aexit__(None, None, None)
    transport = ScriptedTransport(answer=lambda _: wrong)
    with pytest.raises(ConfigError, match="what answer gives"):
        await AsyncClient.openai("http://127.0.0.1:1", transport=transport).complete(REQUEST)


async def test_more_than_can_be_counted_is_remembered_without_a_bound(tmp_path: Path) -> None:
    for remember in (sys.maxsize, 10**400):
        assert ScriptedTransport(remember=remember).requests == ()
    await Recorder(ScriptedTransport(), tmp_path / "kept.jsonl").aclose()


async def test_functions_that_are_none() -> None:
    with pytest.raises(ConfigError, match="factory"):
        await check_transport(NOTHING)
    with pytest.raises(ConfigError, match="only"):
        await check_transport(ScriptedTransport, only=NOTHING)
    with pytest.raises(ConfigError, match="attempt"):
        await cancelled_at_every_await(NOTHING)
