"""A ``KeyboardInterrupt`` at every line of the blocking client: what was read on is whole, or nothing is."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import svir_client.sync
from svir_client import Client
from svir_client.sync.stream import SyncStream, SyncTextStream
from svir_client.testing import MockServer, Reply
from svir_core.errors import ConfigError
from svir_core.event import TextDelta
from tests.svir_client.chat import REQUEST

FILES = {str(Path(svir_client.sync.__file__).with_name(name)) for name in ("reader.py", "stream.py", "feed.py")}
PIECES = ("a", "b", "c", "d")


class Interrupter:
    """Raises ``KeyboardInterrupt`` at the ``at``-th line of :data:`FILES` that the block executes.

    Finalizers are left out: Python raises nothing there.
    """

    def __init__(self, at: int) -> None:
        self._left = at

    @property
    def raised(self) -> bool:
        return self._left <= 0

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in FILES or _finalizes(frame):
            return None
        if event == "line" and self._left > 0:
            self._left -= 1
            if not self._left:
                raise KeyboardInterrupt
        return self._trace

    def __enter__(self) -> Interrupter:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)


def _finalizes(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def read_on(stream: SyncStream, texts: SyncTextStream | None) -> str:
    """The text, by a caller who goes on after an interruption."""
    got = ""
    while True:
        try:
            if texts is not None:
                got += next(texts)
            elif isinstance(event := next(stream), TextDelta):
                got += event.text
        except KeyboardInterrupt:
            continue
        except StopIteration:
            return got


@pytest.mark.parametrize("as_text", [False, True])
def test_who_reads_on_after_an_interruption_gets_the_whole_answer_or_an_error(as_text: bool) -> None:
    whole, told = 0, list[str]()
    with MockServer(answer=lambda _: Reply.text(*PIECES)).in_thread() as server, Client.openai(server.origin) as client:
        interrupter, at = Interrupter(1), 1
        while at == 1 or interrupter.raised:
            interrupter = Interrupter(at)
            with client.stream(REQUEST) as stream:
                texts = stream.text() if as_text else None
                try:
                    with interrupter:
                        text = read_on(stream, texts)
                    assert text == "".join(PIECES), f"line {at}"
                    whole += 1
                except ConfigError as error:
                    told.append(error.detail)
            at += 1
        assert client.complete(REQUEST).text == "".join(PIECES)
    assert whole > 1
    assert len(told) > 20
    assert set(told) == {"a SyncStream was read after it was closed"}


def test_an_interruption_while_it_is_entered_closes_it_and_says_so() -> None:
    with MockServer(answer=lambda _: Reply.text(*PIECES)).in_thread() as server, Client.openai(server.origin) as client:
        interrupter, at = Interrupter(1), 1
        while at == 1 or interrupter.raised:
            interrupter = Interrupter(at)
            stream = client.stream(REQUEST)
            with interrupter, contextlib.suppress(KeyboardInterrupt):
                stream.__enter__()
            if interrupter.raised and (stream._feed is not None or stream._closed):
                with pytest.raises(ConfigError, match="after it was closed"):
                    next(stream)
            elif interrupter.raised:  # before anything began
                stream.__enter__()
            stream.close()
            at += 1
    assert at > 10


def test_a_stream_whose_making_was_interrupted_is_collected_in_silence() -> None:
    interruptions = 0
    with Client.openai("http://127.0.0.1:1") as client:
        response = client._client.stream(REQUEST)
        for at in range(1, 100):
            with Interrupter(at) as interrupter:
                try:
                    SyncStream(response)
                except KeyboardInterrupt:
                    interruptions += 1
            if not interrupter.raised:
                break
    assert interruptions > 5
