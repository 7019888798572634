"""The console: one write per event, to any text file."""

from __future__ import annotations

import io
import threading
from typing import Any

import pytest

from svir_client.tracing import ConsoleSink, Content, console
from svir_client.tracing.line import line
from svir_core.errors import ConfigError
from tests.svir_client.tracing.traced import START, end_event


def test_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    sink = console()
    sink.write(START)
    sink.write(end_event(name="a\nb\u2028c\x1b[2J"))
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.splitlines() == [line(START), line(end_event(name="a\nb\u2028c\x1b[2J"))]
    assert 'name="a\\nb\\u2028c\\u001b[2J"' in written.err


def test_a_file_that_knows_ascii_alone() -> None:
    raw = io.BytesIO()
    text = io.TextIOWrapper(raw, encoding="ascii")
    console(text, content=True).write(end_event(Content(system="日本")))
    assert raw.getvalue().endswith(b' system="\\u65e5\\u672c"\n')


def test_one_write_on_any_thread() -> None:
    class Pieces(io.StringIO):
        def write(self, text: str, /) -> int:
            pieces.append(text)
            return len(text)

    pieces: list[str] = []
    sink = console(Pieces())
    threads = [threading.Thread(target=sink.write, args=(START,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert pieces == [line(START) + "\n"] * 8


def test_the_switch() -> None:
    assert not console().content
    assert console(content=True).content
    assert isinstance(console(), ConsoleSink)


@pytest.mark.parametrize("mistake", [1, "path", object()])
def test_what_is_no_text_file(mistake: Any) -> None:
    with pytest.raises(ConfigError, match="console takes a text file"):
        console(mistake)
