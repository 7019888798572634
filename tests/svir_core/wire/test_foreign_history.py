"""A conversation whose answers come from any of the APIs, sent to each of them (50-runtime: an assistant's opaque data
of another API is left out, not an error, so a session may move between providers).

What one API gave is sent to no other, and to it byte for byte. What an API cannot carry is refused by name, and only
what the caller put there: a file, a cache point.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client.testing import assert_prefix_stable
from svir_core.errors import UnsupportedError
from svir_core.history import check_history
from svir_core.message import (
    CachePoint,
    Image,
    Media,
    Message,
    Part,
    Reasoning,
    ResultPart,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from svir_core.request import Request, Tool
from svir_core.wire.api import Api, CodecOptions, Compat
from tests.svir_core.wire.foreign import APIS, BY_NAME, all_parts, answer, mark, opaques
from tests.svir_core.wire.legal import check_legal

REQUEST = Request("m", tools=[Tool("look"), Tool("list")]).user("hi")
PNG = Image.data(b"\x89PNG", "image/png")
WAV = Media.data(b"RIFF", "audio/wav")
PDF = Media.data(b"%PDF", "application/pdf", "a.pdf")

ASKED: Final[Mapping[str, tuple[Part, ...]]] = {
    "text": (Text("go on"),),
    "an image": (Text("see"), PNG),
    "a PDF": (PDF,),
    "audio": (Text("hear"), WAV),
    "a cache point": (Text("go on"), CachePoint()),
}
"""What the user may say, by what is peculiar about it."""

GIVEN: Final[Mapping[str, str | tuple[ResultPart, ...]]] = {
    "text": "42",
    "nothing": "",
    "texts": (Text("4"), Text("2")),
    "a result with an image": (Text("see"), PNG),
}
"""What a call may give."""

REFUSED: Final[Mapping[str, frozenset[str]]] = {
    "openai_chat": frozenset({"a result with an image"}),
    "openai_responses": frozenset({"audio"}),
    "anthropic_messages": frozenset({"audio"}),
    "gemini": frozenset({"a cache point"}),
}
"""What each API has no place for (docs/wire-apis.md)."""


@pytest.fixture(params=APIS, ids=lambda api: api.name)
def api(request: pytest.FixtureRequest) -> Api:
    chosen: Api = request.param
    return chosen


def encoded(api: Api, request: Request) -> bytes:
    return bytes(api.encode(request, CodecOptions(), Compat()))


def results(parts: Iterable[Part], content: str | tuple[ResultPart, ...] = "42") -> Message:
    """A result for each call, every second one an error."""
    calls = [part for part in parts if isinstance(part, ToolCall)]
    return Message.tool(*(ToolResult(call.id, content, number % 2 == 1) for number, call in enumerate(calls)))


def check_sent(api: Api, request: Request, body: bytes) -> None:
    """Assert that a body is legal, and holds nothing of another API."""
    assert check_history(request.messages, api) == ()
    check_legal(api.name, body, opaques(all_parts(request.messages), api.name))
    for other in BY_NAME:
        assert other == api.name or mark(other).encode() not in body, f"{other} was sent to {api.name}"


def check_kept(api: Api, parts: Iterable[Part], body: bytes) -> None:
    """Assert that all this API gave beside ``parts`` goes back, byte for byte."""
    for kept in opaques(parts, api.name):
        assert kept[1:-1].encode() in body


@pytest.mark.parametrize("chain", list(itertools.product(BY_NAME, repeat=3)), ids="-".join)
def test_a_conversation_that_went_from_api_to_api_goes_on_at_each(chain: tuple[str, ...]) -> None:
    request = REQUEST
    for number, name in enumerate(chain):
        parts = answer(name, number)
        request = request.message(Message.assistant(*parts), results(parts)).user("go on")
    for api, send_reasoning in itertools.product(APIS, (False, True)):
        body = encoded(api, request.replace(send_reasoning=send_reasoning))
        check_sent(api, request, body)
        check_kept(api, all_parts(request.messages), body)


def test_reasoning_is_sent_to_the_api_that_it_came_from_when_it_is_asked_for(api: Api) -> None:
    request = REQUEST
    for name in BY_NAME:
        parts = answer(name)
        request = request.message(Message.assistant(*parts), results(parts)).user("go on")
    thought = f"{mark(api.name)} thought".encode()
    always = api.name != "openai_chat"
    assert (thought in encoded(api, request)) is always
    assert thought in encoded(api, request.replace(send_reasoning=True))


# --- drawn histories -----------------------------------------------------------------------------


def changed(part: Part) -> Part:
    """The part as a caller changed it; what the API gave beside it stays."""
    if isinstance(part, Text | Reasoning):
        return attrs.evolve(part, text=f"{part.text}!")
    return attrs.evolve(part, arguments='{"a":2}') if isinstance(part, ToolCall) else part


@attrs.frozen
class Drawn:
    """A history, what is peculiar about it, and which of its parts are as they came."""

    messages: tuple[Message, ...]
    peculiar: frozenset[str]
    untouched: tuple[Part, ...]


@st.composite
def histories(draw: Any) -> Drawn:
    messages: list[Message] = []
    peculiar: set[str] = set()
    untouched: list[Part] = []

    def say(asked: Mapping[str, tuple[Part, ...]]) -> None:
        kind = draw(st.sampled_from(sorted(asked)))
        peculiar.add(kind)
        messages.append(Message.user(*asked[kind]))

    for number in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from(sorted(BY_NAME)))
        came = [part for part in answer(name, number) if draw(st.integers(0, 3))]
        touched = draw(st.booleans())
        parts = [changed(part) if touched and draw(st.booleans()) else part for part in came]
        untouched += [part for part, before in zip(parts, came, strict=True) if part == before]
        messages.append(Message.assistant(*parts))
        kind = draw(st.sampled_from(sorted(GIVEN)))
        given = results(parts, GIVEN[kind]).parts
        if given:
            peculiar.add(kind)
            whole = draw(st.booleans())
            ordered = given if draw(st.booleans()) else given[::-1]
            messages += [Message(Role.TOOL, ordered)] if whole else [Message(Role.TOOL, [each]) for each in ordered]
        if draw(st.booleans()):
            say(ASKED)
        if draw(st.booleans()):
            messages.append(Message.system("be brief"))
    return Drawn(tuple(messages), frozenset(peculiar), tuple(untouched))


@given(drawn=histories(), send_reasoning=st.booleans())
def test_any_history_is_sent_or_refused_for_what_the_caller_put_there(drawn: Drawn, send_reasoning: bool) -> None:
    request = REQUEST.message(*drawn.messages).replace(send_reasoning=send_reasoning)
    for api in APIS:
        if drawn.peculiar & REFUSED[api.name]:
            with pytest.raises(UnsupportedError, match=r"^messages\[\d+\]\.parts\[\d+\]"):
                encoded(api, request)
        else:
            body = encoded(api, request)
            check_sent(api, request, body)
            check_kept(api, drawn.untouched, body)


@given(drawn=histories(), data=st.data())
def test_a_longer_conversation_starts_with_the_bytes_of_the_shorter_one_at_every_api(
    drawn: Drawn, data: st.DataObject
) -> None:
    whole = REQUEST.message(*drawn.messages)
    said = [end for end, message in enumerate(whole.messages, 1) if message.role is Role.USER]
    shorter = whole.replace(messages=whole.messages[: data.draw(st.sampled_from(said))])
    for api in APIS:
        if not drawn.peculiar & REFUSED[api.name]:
            assert_prefix_stable(shorter, whole, api=api)
