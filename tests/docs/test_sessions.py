"""docs/sessions.md: its snippets run, one after the other, and its tables name what there is."""

from __future__ import annotations

import ast
import inspect
import pathlib
import re
from typing import Any

import anyio
import pytest

from svir_client import Client, FunctionModel, Session, SessionState
from svir_client.session import SessionClaim, SessionLease, SessionStore, SqliteStore, opened
from svir_client.testing import check_store
from svir_core import Request

pytestmark = pytest.mark.anyio

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "sessions.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


async def model(request: Request) -> str:
    return "Ada."


async def test_the_snippets_run(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page", "client": FunctionModel(model)}
    assert len(SNIPPETS) == 8
    with anyio.fail_after(60):
        for number, snippet in enumerate(SNIPPETS):
            code = compile(snippet, f"snippet {number}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            waiting = eval(code, names)
            if inspect.iscoroutine(waiting):
                await waiting
        assert capsys.readouterr().out.splitlines() == ["4", "('alice',)", "True"]
        assert names["answer"].text == "Ada."
        assert names["copy"].system == "Be brief."
        assert names["session"].state.get("calls", int) == 1
        answer = await anyio.to_thread.run_sync(names["turn"], names["store"], Client(names["client"]), "And mine?")
        assert answer.text == "Ada."
        stored = await SqliteStore("conversations.db").load("bob")
        assert stored is not None
        assert len(stored.messages) == 2


async def test_a_store_that_the_page_shows_as_broken_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's own store is held to the contract: without its check of the claim it breaks it."""
    (snippet,) = [snippet for snippet in SNIPPETS if "class DictStore" in snippet]
    names: dict[str, Any] = {"__name__": "page"}
    exec(snippet.replace("is not self:", "is not self and False:"), names)
    store = names["DictStore"]()
    with pytest.raises(AssertionError, match="nothing_is_written_after_the_release"):
        await check_store(lambda: store)


def test_the_tables_have_every_method() -> None:
    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert public(Session) - {"loads"} == set(re.findall(r"`session\.(\w+)", PAGE))
    assert public(SessionLease) - {"session"} == set(re.findall(r"\blease\.(\w+)\(", PAGE))
    assert public(SessionState) == {name for name in public(SessionState) if re.search(rf"\b{name}\b", PAGE)}
    assert public(SessionStore) == set(re.findall(r"`(?:await )?store\.(\w+)", PAGE))
    assert public(SessionClaim) == set(re.findall(r"`await claim\.(\w+)", PAGE))


def test_the_figures_are_those_of_the_code() -> None:
    assert f"at most {opened.LEAVING_SECONDS:g} s each" in " ".join(PAGE.split())
