"""docs/layers.md says what the docstrings say, and its snippets run."""

from __future__ import annotations

import inspect
import pathlib
import re
import textwrap
from typing import Any

import anyio
import pytest

import svir_client
from svir_client import Fallback, Limit, Retry, Stream, Timeout
from svir_client.layers.fallback import ELSEWHERE
from svir_client.testing import MockServer, Reply
from svir_core import errors, request, response
from tests.svir_client.chat import HELLO, hello

pytestmark = pytest.mark.anyio

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "layers.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def table_rows(text: str) -> list[str]:
    return [line.strip().replace("``", "`") for line in text.splitlines() if line.strip().startswith("| ")]


@pytest.mark.parametrize("layer", [Retry, Timeout, Fallback, Limit])
def test_the_tables_are_those_of_the_docstrings(layer: type) -> None:
    rows = table_rows(inspect.getdoc(layer) or "")
    assert len(rows) > 3
    assert rows == table_rows(section(layer.__name__))


def test_every_way_to_shape_a_stream_is_in_the_table() -> None:
    named = set(re.findall(r"^\| `(?:await )?(\w+)\(", section("A layer of your own"), re.MULTILINE))
    others = {"text", "partial", "completion", "error", "aclose"}
    assert named == {name for name in vars(Stream) if not name.startswith("_")} - others


def test_the_kinds_of_a_fallback() -> None:
    listed = section("Fallback").partition("by default")[2].partition(". The error")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == {kind.value for kind in ELSEWHERE}


@pytest.mark.parametrize("snippet", SNIPPETS, ids=[f"snippet {number}" for number in range(len(SNIPPETS))])
async def test_the_snippets_run(snippet: str, capsys: pytest.CaptureFixture[str]) -> None:
    with anyio.fail_after(20):
        async with MockServer(answer=lambda _: hello()) as server:
            names: dict[str, Any] = {}
            for module in (errors, request, response):
                names.update(vars(module))
            names.update({name: getattr(svir_client, name) for name in svir_client.__all__})
            source = snippet.replace("http://127.0.0.1:1234", server.origin)
            exec(f"async def snippet():\n{textwrap.indent(source, '    ')}\n    return locals()", names)
            made = await names["snippet"]()
            client = made.get("client")
            if client is None:
                async with svir_client.AsyncClient.openai(server.origin) as client:
                    answer = await made["ask"](client, request.Request("m").user("hi"))
            elif "answer" in made:
                answer = made["answer"]
            else:
                answer = await client.complete(request.Request("m").user("hi"))
                await client.aclose()
                assert capsys.readouterr().out.splitlines()[-1] == "closed 200 1"
            assert answer.text == "Hello"


async def test_an_application_repeats_what_no_layer_does() -> None:
    (snippet,) = [snippet for snippet in SNIPPETS if "TruncatedStreamError" in snippet]
    names: dict[str, Any] = {**vars(errors), **vars(request), **vars(response), "AsyncClient": svir_client.AsyncClient}
    exec(snippet, names)
    cut = Reply.stream(HELLO[0])
    with anyio.fail_after(20):
        async with MockServer(cut, hello()) as server, svir_client.AsyncClient.openai(server.origin) as client:
            assert (await names["ask"](client, request.Request("m").user("hi"))).text == "Hello"
