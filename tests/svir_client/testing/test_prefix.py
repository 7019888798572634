"""``assert_prefix_stable`` passes honest appending, and says where anything else parts."""

from __future__ import annotations

import pathlib

import pytest

from svir_client.testing import assert_prefix_stable
from svir_core.message import Image, Message, TextFile, ToolCall, ToolResult
from svir_core.request import Request, Tool
from svir_core.wire import openai_chat

ASKED = Request("m", system="Be brief.", tools=[Tool("f")]).user("What changed?")
CALLED = ASKED.message(Message.assistant("so", ToolCall("a", "f", "")))


@pytest.mark.parametrize(
    ("previous", "following"),
    [
        (Request("m"), Request("m").user("hi")),
        (Request("m"), Request("m")),
        (ASKED, ASKED),
        (ASKED, CALLED),
        (CALLED, CALLED.tool_results([ToolResult("a", "1")]).user("and now?")),
        (ASKED, ASKED.user(Image.data(b"\x89PNG", "image/png"), TextFile.data("x", "x.txt"))),
    ],
)
def test_appending_keeps_the_bytes(previous: Request, following: Request) -> None:
    assert_prefix_stable(previous, following)
    encode = openai_chat.Encoder().encode
    assert_prefix_stable(encode(previous), bytes(encode(following)), api=openai_chat.API)


def test_files_on_disk_are_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "diff.patch"
    path.write_text("+ a\n", encoding="utf-8")
    asked = Request("m").user(TextFile.path(path))
    assert_prefix_stable(asked, asked.user("and?"))


@pytest.mark.parametrize(
    ("previous", "following", "words"),
    [
        (ASKED, ASKED.replace(system="Be long.").user("x"), r"part at byte \d+ of \d+, after .*Be '.*brief.*long"),
        (ASKED, ASKED.replace(messages=[]), r"What changed\?.* became b'\]\}'"),
        (ASKED.user("a"), ASKED.user("b").user("c"), r"b'a\"\}\]\}' became b'b\""),
        (b'{"messages":[{"a":1}]}', b'{"messages":[{"a":1', r"at byte 19 of 22, .*'\}\]\}' became b''"),
        (b'{"messages":[{"a":1}]}', b'{"messages":[{"a":1}]}more', r"at byte 20 of 22, .*'\]\}' became b'\]\}more'"),
        (b'{"messages":[]}', b'{"messages":[,{"a":1}]}', r"at byte 13 of 15"),
        (b'{"messages":[],"model":"m"}', b"{}", "does not end with its messages"),
    ],
)
def test_what_parts_is_named(previous: Request | bytes, following: Request | bytes, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        assert_prefix_stable(previous, following)
