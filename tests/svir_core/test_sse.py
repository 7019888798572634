"""Framing: 10-chat-completions section 1, at any cut, in linear work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core import sse
from svir_core.errors import ConfigError, ResponseLimitError
from svir_core.sse import Frame, Framer, Kind, split_field

DONE = b"[DONE]"


def make(limit: int = 1 << 18, types: frozenset[str] | None = frozenset({"message", "error"})) -> Framer:
    return Framer(types=types, terminator=DONE, limit=limit)


def frames(pieces: Iterable[bytes], framer: Framer | None = None) -> list[Frame]:
    framer = framer or make()
    found: list[Frame] = []
    for piece in pieces:
        found += framer.push(piece)
        if framer.ended or framer.error is not None:
            return found
    return found + framer.finish()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"data: a\n\ndata:b\n\n", [(Kind.EVENT, 0, None, b"a"), (Kind.EVENT, 9, None, b"b")]),
        (b"data: a\r\n\r\n", [(Kind.EVENT, 0, None, b"a")]),
        (b"data: a\rdata: b\r\r", [(Kind.EVENT, 0, None, b"a\nb")]),
        (b": c\ndata: a\n\n", [(Kind.EVENT, 4, None, b"a")]),
        (b"data\ndata\n\n", [(Kind.EVENT, 0, None, b"\n")]),
        (b"event: error\n\n", [(Kind.EVENT, 0, "error", b"")]),
        (b"event: error\ndata: a\n\n", [(Kind.EVENT, 0, "error", b"a")]),
        (b"event: odd\ndata: a\n\n", [(Kind.TYPE, 0, None, b"event: odd"), (Kind.DROPPED, 0, "odd", b"a")]),
        (b"event: odd\n\n", [(Kind.TYPE, 0, None, b"event: odd")]),
        (b"event: \xff\n\n", [(Kind.TYPE, 0, None, b"event: \xff")]),
        (b"odd: a\n", [(Kind.FIELD, 0, None, b"odd: a"), (Kind.REST, 0, None, b"")]),
        (b"error: a\n\n", [(Kind.FIELD, 0, None, b"error: a")]),
        (b"id: \xff\n\n", [(Kind.TEXT, 0, None, b"id: \xff")]),
        (b"id: \xc3\xa9\n\n", []),
        (b"retry: 5\n\n", []),
        (b"data: \n\n", []),
        (b"data: [DONE]\n\ndata: x\n\n", [(Kind.EVENT, 0, None, DONE)]),
        (b"data: [DONE]\r\nodd: a\r\n\r\n", [(Kind.EVENT, 0, None, DONE)]),
        (b"event: error\ndata: [DONE]\ndata: x\n\n", [(Kind.EVENT, 0, "error", b"[DONE]\nx")]),
        (b"data: a\ndata: [DONE]\ndata: b\n\n", [(Kind.EVENT, 0, None, b"a\n[DONE]\nb")]),
        (b"data: a\r\ndata: b\n\n", [(Kind.EVENT, 0, None, b"a\nb")]),
        (b"data: a\n\nid: 1\nodd: b\n\n", [(Kind.EVENT, 0, None, b"a"), (Kind.FIELD, 15, None, b"odd: b")]),
        (b"{\n\ndata: a\n\n", [(Kind.BARE, 0, None, b"{\n"), (Kind.EVENT, 3, None, b"a")]),
        (b"data: a\n{\n\n}\n", [(Kind.BARE, 8, None, b"{\n\n}"), (Kind.EVENT, 0, None, b"a")]),
        (b"data: a\n{}\ndata: b\n\n", [(Kind.BARE, 8, None, b"{}"), (Kind.EVENT, 0, None, b"a\nb")]),
        (b"{\nx\n", [(Kind.BARE, 0, None, b"{\nx")]),
        (b"event: odd\ndata: a\n", [(Kind.TYPE, 0, None, b"event: odd"), (Kind.DROPPED, 0, "odd", b"a")]),
        (b"data: a\ndata: b\n", [(Kind.REST, 0, None, b"a\nb")]),
        (b"id: error", []),
        (b"event: message\ndata: a\n\n", [(Kind.EVENT, 0, None, b"a")]),
        (b"event: odd\nevent:\ndata: a\n\n", [(Kind.TYPE, 0, None, b"event: odd"), (Kind.EVENT, 0, None, b"a")]),
        (b"{\nerror: a\n\n", [(Kind.BARE, 0, None, b"{"), (Kind.FIELD, 2, None, b"error: a")]),
        (b"{\nerror: a", [(Kind.BARE, 0, None, b"{"), (Kind.CUT, 2, None, b"error: a")]),
        (b"{\nretry: 5\n\n", [(Kind.BARE, 0, None, b"{")]),
        (b'{"a"}\n', [(Kind.BARE, 0, None, b'{"a"}')]),
        (b"[{\n}\n]\n", [(Kind.BARE, 0, None, b"[{\n}\n]")]),
        (b"[ \n{}]\n", [(Kind.BARE, 0, None, b"[ \n{}]")]),
        (b"[DONE]\n\n", [(Kind.FIELD, 0, None, b"[DONE]")]),
        (b'{"a"', [(Kind.CUT, 0, None, b'{"a"')]),
        (
            b"data: a\n{\n\nx",
            [(Kind.BARE, 8, None, b"{\n\nx"), (Kind.EVENT, 0, None, b"a"), (Kind.CUT, 11, None, b"x")],
        ),
        (b"data: a\nx: y", [(Kind.REST, 0, None, b"a"), (Kind.CUT, 8, None, b"x: y")]),
        (b"ret", []),
        (b"d: x", [(Kind.CUT, 0, None, b"d: x")]),
        (b"rety", [(Kind.CUT, 0, None, b"rety")]),
        (b": x", []),
        (b"{\ndat", [(Kind.BARE, 0, None, b"{")]),
        (b"{\nx", [(Kind.BARE, 0, None, b"{\nx"), (Kind.CUT, 2, None, b"x")]),
        (b"{\ndata: a\n\n", [(Kind.BARE, 0, None, b"{"), (Kind.EVENT, 2, None, b"a")]),
        (b"data: a", [(Kind.REST, 0, None, b"a")]),
        (b"data: a\ndat", [(Kind.REST, 0, None, b"a")]),
        (b"event: error", [(Kind.REST, 0, "error", b"")]),
        (b"event: err", []),
        (b"error: {}", [(Kind.CUT, 0, None, b"error: {}")]),
        (b"data: [DONE]\nodd: a\n\n", [(Kind.EVENT, 0, None, DONE)]),
        (b"data: [DONE]", [(Kind.EVENT, 0, None, DONE)]),
        (b"data: a\ndata: [DONE]\n\n", [(Kind.EVENT, 0, None, b"a\n[DONE]")]),
        (b"", []),
    ],
)
def test_frames(data: bytes, expected: list[Frame]) -> None:
    assert frames([data]) == expected
    for stride in (1, 2, 3, 5):
        assert frames([data[start : start + stride] for start in range(0, len(data), stride)]) == expected


def test_any_type_is_known_when_no_types_are_given() -> None:
    assert frames([b"event: odd\ndata: a\n\n"], make(types=None)) == [(Kind.EVENT, 0, "odd", b"a")]


def test_offsets_count_from_where_the_body_began() -> None:
    framer = make()
    framer.start_at(3)
    assert framer.push(b"data: a\n\n")[0][1] == 3
    assert framer.push(b"odd\n")[0][1] == 12


def test_single_takes_exactly_one_whole_event() -> None:
    framer = make(limit=20)
    assert framer.single(b"data: a\n\n") == b"a"
    assert framer.single(b"data: 123456789012\n\n") == b"123456789012"
    for data in (
        b"data: \n\n",
        b"data: a\n",
        b"data: a\n\ndata: b\n\n",
        b"data: a\ndata: b\n\n",
        b"data: a\r\n\n",
        b"id: 5  \n\n",
        b"data: " + b"x" * 20 + b"\n\n",
    ):
        assert framer.single(data) is None
    assert framer.count == 2
    for pending in (b"da", b"data: x\n", b"{\n", b"data: x\n\r"):
        framer = make()
        framer.push(pending)
        assert framer.single(b"data: a\n\n") is None
    framer = make()
    framer.push(b"data: x\n\n: y\n")
    assert framer.single(b"data: a\n\n") == b"a"


@given(data=st.lists(st.sampled_from([b"data: ", b"a", b"\n", b"\n", b"\r", b"{", b"}", b"id", b":", b"event: odd"])))
def test_single_and_push_agree(data: list[bytes]) -> None:
    mixed, plain = make(), make()
    found: list[Frame] = []
    offset = 0
    pieces = [b"".join(data), b"data: x\n\n", b"data: a\n\ndata: b\n\n", b"data: y\n\n"]
    for piece in pieces:
        payload = mixed.single(piece)
        found += mixed.push(piece) if payload is None else [(Kind.EVENT, offset, None, payload)]
        offset += len(piece)
    expected = [frame for piece in pieces for frame in plain.push(piece)]
    assert found == expected
    assert mixed.count == plain.count


def test_the_limit_ends_the_frames() -> None:
    framer = make(limit=10)
    assert framer.push(b"data: a\n\n" + b"data: " + b"x" * 20 + b"\n\ndata: b\n\n") == [(Kind.EVENT, 0, None, b"a")]
    assert isinstance(framer.error, ResponseLimitError)
    assert framer.error.offset == 9


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_the_size_of_an_event_is_its_lines_and_one_byte_for_each_end(end: bytes) -> None:
    for data, size, last in (
        (b"data: a" + end * 2, 8, 0),
        (b"data: a" + end + b"data: bc" + end * 2, 17, len(b"data: a" + end)),
        (b"id: 5" + end + b"data: a" + end + b"data: b" + end * 2, 22, len(b"id: 5data: a" + end * 2)),
        (b"{" + end + b'"a": 1' + end + b"}" + end, 11, len(b'{"a": 1' + end * 2)),
    ):
        for stride in (len(data), 3, 1):
            pieces = [data[start : start + stride] for start in range(0, len(data), stride)]
            fits, refused = make(limit=size), make(limit=size - 1)
            assert len(frames(pieces * 2, fits)) == 2
            assert fits.error is None
            assert frames(pieces, refused) == []
            assert refused.error is not None
            assert refused.error.offset == last


def test_an_unfinished_line_may_be_as_large_as_the_limit() -> None:
    for pieces in ([b"data: xxxx"], [b"data: ", b"xxxx"], [b"data: xxx", b"x"]):
        framer = make(limit=10)
        framer.start_at(5)
        for piece in pieces:
            assert framer.push(piece) == []
        assert framer.error is None
        assert framer.push(b"x") == []
        assert framer.error is not None
        assert framer.error.offset == 5


def test_after_a_large_line_the_limit_is_as_before() -> None:
    framer = make(limit=5000)
    for piece in (b"data: ", b"x" * 4493, b"y" * 500, b"\n\n"):
        framer.push(piece)
    assert framer.count == 1
    assert framer.push(b"data: ") == framer.push(b"x" * 4994) == []
    assert framer.error is None


def test_blank_lines_in_bare_json_count() -> None:
    framer = make(limit=5)
    framer.push(b"{\n\n\n\n")
    assert framer.error is None
    framer.push(b"\n")
    assert "larger than 5 bytes" in str(framer.error)


def test_nothing_after_the_terminator_is_looked_at() -> None:
    framer = make(limit=20)
    assert framer.push(b"data: [DONE]\n" + b"x" * 50) == [(Kind.EVENT, 0, None, DONE)]
    assert framer.ended
    assert framer.error is None
    framer = make()
    framer.push(b"data: [DONE]\n\n")
    assert (framer.ended, framer.count) == (True, 1)


def test_an_empty_push_changes_nothing() -> None:
    framer = make()
    for piece in (b"data: " + b"x" * 5000, b"", b"y\r", b"", b"\n", b"", b"\n"):
        found = framer.push(piece)
    assert found == [(Kind.EVENT, 0, None, b"x" * 5000 + b"y")]


def test_a_line_end_that_was_cut_is_one_line_end() -> None:
    assert frames([b"data: a\r", b"\n", b"\n"]) == [(Kind.EVENT, 0, None, b"a")]
    assert frames([b"data: a\r", b"\ndata: b\n\n"]) == [(Kind.EVENT, 0, None, b"a\nb")]


def test_a_framer_begins_with_nothing_seen() -> None:
    framer = make()
    assert (framer.count, framer.error, framer.ended) == (0, None, False)


def test_comments_and_events_are_counted() -> None:
    framer = make()
    framer.push(b": a\n:b\ndata: c\n\ndata:\n\n\nid: 1\n\nevent: odd\n\n{\n: d\n}\n")
    assert framer.count == 7


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        (b"data: a", b"data", b"a"),
        (b"data:a", b"data", b"a"),
        (b"data:  a", b"data", b" a"),
        (b"data", b"data", b""),
        (b"a:b:c", b"a", b"b:c"),
    ],
)
def test_split_field(line: bytes, name: bytes, value: bytes) -> None:
    assert split_field(line) == (name, value)


# --- linear work ----------------------------------------------------------------------------------


class Counting(Framer):
    """A framer that counts the bytes its line readers are given to look at."""

    __slots__ = ("work",)

    def __init__(self, limit: int) -> None:
        super().__init__(types=None, terminator=DONE, limit=limit)
        self.work = 0

    def _blocks(self, data: bytes, frames: list[Frame]) -> int:
        self.work += len(data)
        return super()._blocks(data, frames)

    def _lines_from(self, data: bytes, position: int, searched: int, frames: list[Frame]) -> int:
        self.work += len(data) - searched
        return super()._lines_from(data, position, searched, frames)

    def _keep(self, tail: bytes) -> None:
        self.work += len(tail)
        super()._keep(tail)


def work(data: bytes, stride: int) -> int:
    framer = Counting(limit=len(data) + 1)
    count = 0
    for start in range(0, len(data), stride):
        count += len(framer.push(data[start : start + stride]))
    assert count
    return framer.work


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\ndata: more\n\n"])
def test_a_large_line_in_small_pieces_takes_linear_work(end: bytes) -> None:
    small = b"data: " + b"x" * 200_000 + end
    large = b"data: " + b"x" * 400_000 + end
    assert work(large, 16) - work(small, 16) < 5 * 200_000
    assert work(large, 16) < 8 * len(large)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r", b""])
def test_nothing_of_a_large_line_is_lost(end: bytes) -> None:
    value = b"".join(b"%d," % number for number in range(3000))
    data = b"data: " + value + end * 2 + b"data: next" + end * 2
    for stride in (1, 100, 4095, 4096, 4097, len(data)):
        found = frames(data[start : start + stride] for start in range(0, len(data), stride))
        if end:
            assert found == [(Kind.EVENT, 0, None, value), (Kind.EVENT, 6 + len(value + end * 2), None, b"next")]
        else:
            assert found == [(Kind.REST, 0, None, value + b"data: next")]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_many_events_in_one_piece_take_linear_work(newline: bytes) -> None:
    small = (b"data: xxxxxxxx" + newline * 2) * 20_000
    assert work(small * 2, len(small) * 2) <= 2 * work(small, len(small))
    assert work(small, len(small)) <= 3 * len(small)


def test_many_events_in_pieces_of_any_size_take_linear_work() -> None:
    data = b"data: xxxxxxxx\n\n" * 20_000
    for stride in (7, 1000, 65536):
        assert work(data, stride) < 8 * len(data)


def test_a_search_never_begins_before_what_was_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """LF and CR each are looked for once per byte, also where the one is frequent and the other is far away."""
    searched = 0

    def find(data: bytes, byte: bytes, start: int) -> int:
        nonlocal searched
        found = data.find(byte, start)
        end = len(data) if found < 0 else found
        searched += end - start
        return end

    monkeypatch.setattr(sse, "_find", find)
    for data in (b"data: x\r\r" * 20_000 + b"\n", b"data: x\n\n" * 20_000 + b"\r", b"data: x\r\n\r\n" * 20_000):
        searched = 0
        assert len(make().push(data)) == 20_000
        assert searched <= 2 * len(data)


@pytest.mark.parametrize(
    ("argument", "value"), [("types", ["message"]), ("terminator", "[DONE]"), ("limit", 0), ("limit", "1")]
)
def test_a_wrong_argument_is_named(argument: str, value: Any) -> None:
    arguments: dict[str, Any] = {"types": None, "terminator": None, "limit": 1} | {argument: value}
    with pytest.raises(ConfigError, match=rf"^{argument}\b"):
        Framer(**arguments)


def test_the_smallest_framer() -> None:
    assert Framer(types=None, terminator=None, limit=1).push(b"\n") == []


@pytest.mark.parametrize(
    ("data", "unfinished"),
    [
        (b"", False),
        (b"data: a\n\n", False),
        (b"data: a\n\n: b\n", False),
        (b"data: a\n\n{}\n", False),
        (b"data: a\n\nd", True),
        (b"data: a\n\n: b", True),
        (b"data: a\n", True),
        (b"data: a\n\nid: 5\n", True),
        (b"data: a\n\n{\n", True),
        (b"data: a\n\n" + b"x" * 5000, True),
    ],
)
def test_whether_the_input_ended_inside_something(data: bytes, unfinished: bool) -> None:
    framer = Framer(types=None, terminator=None, limit=10_000)
    framer.push(data)
    framer.finish()
    assert framer.unfinished is unfinished
