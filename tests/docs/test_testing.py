"""docs/testing.md says what is true: its tests are run by pytest, its tables name what there is."""

from __future__ import annotations

import pathlib
import re

import pytest

from svir_client import testing
from svir_client.testing import Gate, Pause, Reply, pytest_plugin

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.anyio

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_tests_of_the_page_pass(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(**{f"test_{number}": snippet for number, snippet in enumerate(SNIPPETS)})
    pytester.makeconftest(
        "import pytest\n@pytest.fixture(params=['asyncio', 'trio'])\ndef anyio_backend(request): return request.param"
    )
    plugin = ("-p", pytest_plugin.__name__, "-p", "no:cacheprovider", "-W", "error")
    blocking = sum(len(re.findall(r"^def test_", snippet, re.MULTILINE)) for snippet in SNIPPETS)
    on_both = sum(len(re.findall(r"^async def test_", snippet, re.MULTILINE)) for snippet in SNIPPETS)
    assert on_both >= 5
    pytester.runpytest_subprocess(*plugin).assert_outcomes(passed=blocking + 2 * on_both)


async def test_the_replies_of_the_table_can_be_made() -> None:
    table = PAGE.partition("\n| reply | what happens |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`.*`) \| ", table, re.MULTILINE)
    replies = [reply for row in rows for reply in re.findall(r"`([^`]+)`", row)]
    assert len(replies) >= 9
    names = {**vars(testing), "gate": Gate(), "Pause": Pause}
    for reply in replies:
        made = eval(reply.replace("(...", "('Hello'"), names)
        assert isinstance(made, Reply)


def test_the_table_of_fixtures_is_whole() -> None:
    table = PAGE.partition("\n| fixture | gives | in |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert set(listed) == {"mock_server", "blocking_mock_server", "scripted_transport"}
    assert all(hasattr(pytest_plugin, name) for name in listed)
