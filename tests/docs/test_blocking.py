"""docs/blocking.md says what is true: its snippets run, and its figures are those of the code."""

from __future__ import annotations

import pathlib
import re

from svir_client import sync
from svir_client.sync.feed import READS_AHEAD
from svir_client.testing import Framing, Reply
from tests.svir_client.blocking import serving

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "blocking.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
ANSWER = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}]}\n\n',
    b"data: [DONE]\n\n",
)


def test_the_snippets_run() -> None:
    assert SNIPPETS
    for snippet in SNIPPETS:
        with serving(*[Reply.stream(*ANSWER, framing=Framing.CHUNKED) for _ in range(2)]) as peer:
            exec(snippet.replace("http://127.0.0.1:1234", peer.origin), {})
            assert (peer.unscripted, peer.unasked) == (0, 0)


def test_the_bound_is_the_one_of_the_code() -> None:
    assert READS_AHEAD == 4
    assert "at most four reads" in PAGE


def test_every_class_of_the_twin_is_named() -> None:
    for name in sync.__all__:
        assert f"`{name}`" in PAGE or f"`{name}." in PAGE, name
