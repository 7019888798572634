"""The pages hold what they say: links lead somewhere, snippets are Python, and those of embedding.md run."""

from __future__ import annotations

import ast
import inspect
import pathlib
import re
from typing import Any

import pytest

from svir_core.wire import openai_chat

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", *sorted(ROOT.glob("svir_*/**/README.md"))]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
ANSWER = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}]}\n\n',
    b"data: [DONE]\n\n",
)
DOCUMENT = b'{"choices":[{"index":0,"message":{"content":"Hello"},"finish_reason":"stop"}]}'


def snippets(page: pathlib.Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page: pathlib.Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_files_and_folders_named_in_backticks_exist(page: pathlib.Path) -> None:
    for name in re.findall(r"`((?:decoder|encoder|transport)/[\w-]+|tests/[\w/.]+)`", page.read_text(encoding="utf-8")):
        assert (ROOT / name).exists() or (ROOT / "conformance" / name).exists(), name


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_snippets_are_python(page: pathlib.Path) -> None:
    for snippet in snippets(page):
        compile(snippet, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def test_the_snippets_of_embedding_run(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"pieces": ANSWER, "document": DOCUMENT}
    for snippet in snippets(ROOT / "docs" / "embedding.md"):
        exec(snippet, names)
    assert capsys.readouterr().out.startswith("Hello")
    assert names["answer"].text == "Hello"
    assert names["tap"].outcome == names["answer"]


def test_every_option_of_the_decoder_is_in_its_table() -> None:
    page = (ROOT / "docs" / "embedding.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \| `[^|]*` \|", page, re.MULTILINE)
    assert listed == [name for name in inspect.signature(openai_chat.Decoder.__init__).parameters if name != "self"]
