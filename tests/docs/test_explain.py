"""docs/explain.md says what is true: its snippets run, and its report is the one of a real explanation."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import attrs
import pytest

from svir_core import Explanation, Finding

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "explain.md").read_text(encoding="utf-8")
CHUNK = (
    b'data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m",'
    b'"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}\n\n'
)
RECORDING = (
    CHUNK
    + CHUNK.replace(b'"content":"Hello"', b'"content":"!","mood":"good"')
    + CHUNK.replace(b'{"content":"Hello"}', b"{}").replace(b"null", b'"stop"')
)


def test_the_snippets_run_and_the_report_is_real(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"recording": RECORDING}
    for snippet in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        exec(snippet, names)
    (report,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert capsys.readouterr().out == report


def test_every_field_is_named() -> None:
    named = set(re.findall(r"`explanation\.(\w+)`", PAGE))
    assert named == {"attempts", "findings", "alternatives", "outcome", "mode", "quirks"}
    assert all(hasattr(Explanation, name) for name in named)
    for field in attrs.fields(Finding):
        assert f"`{field.name}`" in PAGE
