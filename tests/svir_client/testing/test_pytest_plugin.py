"""The fixtures, as a user's pytest runs them: in a process of its own, with and without anyio's plugin."""

from __future__ import annotations

import os
import pathlib
import tomllib

import pytest

pytest_plugins = ["pytester"]

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def this_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))


PLUGIN = ("-p", "svir_client.testing.pytest_plugin", "-p", "no:cacheprovider", "-W", "error")

ASYNC = """
import anyio
import pytest
from svir_client import AsyncClient
from svir_client.testing import Reply
from svir_core import Request

pytestmark = pytest.mark.anyio

@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param

async def test_over_sockets(mock_server):
    mock_server.add(Reply.text("Hel", "lo"))
    with anyio.fail_after(20):
        async with AsyncClient.openai(mock_server.origin) as client:
            assert (await client.complete(Request("m").user("hi"))).text == "Hello"
        await mock_server.wait_closed()

async def test_in_memory(scripted_transport):
    scripted_transport.add(Reply.text("Hello"))
    async with AsyncClient.openai("http://127.0.0.1:1", transport=scripted_transport) as client:
        assert (await client.complete(Request("m").user("hi"))).text == "Hello"

async def test_each_test_has_its_own(mock_server, scripted_transport):
    assert mock_server.request_count == scripted_transport.request_count == 0
"""

BLOCKING = """
import urllib.request
from svir_client.testing import Reply

def test_without_an_event_loop(blocking_mock_server):
    blocking_mock_server.add(Reply.models("a"))
    with urllib.request.urlopen(blocking_mock_server.origin + "/v1/models", timeout=10) as response:
        assert b'"a"' in response.read()
    assert blocking_mock_server.requests[0].target == "/v1/models"
"""


def test_pytest_finds_it_by_the_entry_point() -> None:
    project = tomllib.loads((ROOT / "svir_client" / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["entry-points"] == {"pytest11": {"svir": PLUGIN[1]}}


def test_async_tests_get_a_server_on_both_backends(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ASYNC)
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=6)


def test_blocking_tests_need_no_async_plugin(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(BLOCKING)
    pytester.runpytest_subprocess(*PLUGIN, "-p", "no:anyio").assert_outcomes(passed=1)


def test_a_blocking_test_is_told_which_fixture_it_needs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(mock_server): pass")
    result = pytester.runpytest_subprocess(*PLUGIN, "-k", "asyncio")
    result.stdout.fnmatch_lines(["*this one needs blocking_mock_server*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_the_fixtures_are_listed_with_what_they_are(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("")
    result = pytester.runpytest_subprocess(*PLUGIN, "--fixtures", "-q")
    for name in ("mock_server", "blocking_mock_server", "scripted_transport"):
        result.stdout.fnmatch_lines([f"{name} -- *", "    A *"], consecutive=True)
