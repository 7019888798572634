"""docs/client.md says what is true: its tables are compared with the code, and its snippets run."""

from __future__ import annotations

import ast
import inspect
import pathlib
import re
import textwrap
from typing import Any

import anyio
import pytest

import svir_client
from svir_client import AsyncClient, Stream
from svir_client.testing import Framing, MockServer, Reply
from svir_core import errors, event, message, request, tap
from svir_core.errors import SvirError
from svir_core.think import THINK_SOURCE
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from svir_core.wire.anthropic_messages import table as anthropic_table
from svir_core.wire.gemini import table as gemini_table
from svir_core.wire.names import optional_names
from svir_core.wire.openai_chat.table import REASONING_KEYS
from svir_core.wire.openai_responses.table import KINDS

pytestmark = pytest.mark.anyio

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ANSWER = (
    b'data: {"choices":[{"index":0,"delta":{"reasoning_content":"hm","content":"Hello"},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_cells(text: str) -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)


def test_every_option_is_in_the_table_in_order() -> None:
    assert first_cells(section("Options")) == list(inspect.signature(AsyncClient.of).parameters)[1:]


CONSTRUCTORS = dict(re.findall(r"^\| `AsyncClient\.(\w+)\([^`]*\)` \| (.*) \|$", PAGE, re.MULTILINE))
APIS = {
    "openai": openai_chat.API,
    "responses": openai_responses.API,
    "anthropic": anthropic_messages.API,
    "gemini": gemini.API,
}


@pytest.mark.parametrize("name", APIS)
def test_every_constructor_is_in_the_table_with_its_own_options(name: str) -> None:
    assert CONSTRUCTORS.keys() == APIS.keys()
    _, address, options = CONSTRUCTORS[name].split(" | ")
    parameters = inspect.signature(getattr(AsyncClient, name)).parameters.values()
    own = {each.name: each.default for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}
    assert {key: ast.literal_eval(value) for key, value in re.findall(r"`(\w+)=([^`]+)`", options)} == own
    assert set(re.findall(r"`(/\w+)`", address)) == set(APIS[name].versions)
    hosted = [] if name == "openai" else [APIS[name].base_url]
    assert re.findall(r"`(https://[^`]+)`", address) == hosted


def test_optional_fields_are_named() -> None:
    text = section("What a server refuses").partition("The first 400")[0]
    named = set(re.findall(r"`(\w+)`", text)) - {"include_usage"}
    assert named == optional_names()


SOURCES = {
    "Chat Completions": {*REASONING_KEYS, THINK_SOURCE, "reasoning_details"},
    "OpenAI Responses": {kind.source for kind in KINDS.values() if kind.source is not None},
    "Anthropic Messages": {anthropic_table.SOURCE},
    "Gemini": {gemini_table.SOURCE},
}


@pytest.mark.parametrize("api", SOURCES)
def test_every_source_of_reasoning_is_named(api: str) -> None:
    (row,) = re.findall(rf"^\| {api} \| (.*) \|$", section("Calls"), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == SOURCES[api]


def test_every_error_is_in_the_table_with_whether_it_is_retryable() -> None:
    table = dict(re.findall(r"^\| `(\w+)` \| (yes|no) \|", section("Errors"), re.MULTILINE))
    kinds = {kind.__name__: kind for kind in SvirError.__subclasses__() if kind.__module__ == SvirError.__module__}
    assert table == {name: "yes" if kind.retryable else "no" for name, kind in kinds.items()}


def test_every_member_of_a_stream_is_in_its_table() -> None:
    listed = set(re.findall(r"stream\.(\w+)", section("Calls")))
    assert listed == {name for name in vars(Stream) | vars(Stream.__mro__[1]) if not name.startswith("_")}


class Browser:
    """Where the page's relay sends its bytes."""

    def __init__(self) -> None:
        self.received = b""

    async def send(self, data: bytes) -> None:
        self.received += data


@pytest.mark.parametrize("snippet", SNIPPETS, ids=[f"snippet {number}" for number in range(len(SNIPPETS))])
async def test_the_snippets_run(snippet: str) -> None:
    with anyio.fail_after(20):
        async with MockServer(Reply.stream(ANSWER, framing=Framing.CHUNKED)) as server:
            async with AsyncClient.openai(server.origin) as client:
                names: dict[str, Any] = {"browser": Browser(), "openai_chat": openai_chat}
                for module in (errors, event, message, request, tap):
                    names.update(vars(module))
                names.update({name: getattr(svir_client, name) for name in svir_client.__all__})
                source = snippet.replace("http://127.0.0.1:1234", server.origin)
                exec("async def snippet(client, request):\n" + textwrap.indent(source, "    "), names)
                await names["snippet"](client, request.Request("m").user("hi"))
            assert server.unscripted == 0


def test_there_are_snippets() -> None:
    assert len(SNIPPETS) >= 5
