"""docs/client.md says what is true: its tables are compared with the code, and its snippets run."""

from __future__ import annotations

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
from svir_core.wire import openai_chat

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


def test_every_error_is_in_the_table_with_whether_it_is_retryable() -> None:
    table = dict(re.findall(r"^\| `(\w+)` \| (yes|no) \|", section("Errors"), re.MULTILINE))
    kinds = {kind.__name__: kind for kind in SvirError.__subclasses__()}
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
