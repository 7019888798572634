"""Splitting reasoning out of text: 10-chat-completions section 5."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import ConfigError
from svir_core.think import THINK_SOURCE, Think, ThinkSplitter, resolve

MARKERS = [("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("<thinking>", "</thinking>"), ("aab", "aba"), ("|", "|")]


def splitting(pieces: list[str], think: Think) -> list[tuple[bool, str]]:
    """What a splitter makes of ``pieces``, neighbours of one kind joined; the idle shortcut taken."""
    splitter = ThinkSplitter(think)
    found: list[tuple[bool, str]] = []
    for piece in pieces:
        if splitter.idle and splitter.trigger not in piece:
            found.append((False, piece))
        else:
            found += splitter.push(piece)
    found += splitter.finish()
    assert splitter.finish() == []
    joined: list[tuple[bool, str]] = []
    for kind, text in found:
        if joined and joined[-1][0] == kind:
            joined[-1] = (kind, joined[-1][1] + text)
        elif text:
            joined.append((kind, text))
    return joined


def reference(text: str, think: Think) -> list[tuple[bool, str]]:
    """The same by ``str.partition``, with all the text at hand."""
    inside = think.start == "inside"
    found: list[tuple[bool, str]] = []
    while text:
        before, marker, text = text.partition(think.markers[1 if inside else 0])
        if before:
            found.append((inside, before))
        if not marker:
            break
        inside = not inside
    joined: list[tuple[bool, str]] = []
    for kind, piece in found:
        if joined and joined[-1][0] == kind:
            joined[-1] = (kind, joined[-1][1] + piece)
        else:
            joined.append((kind, piece))
    return joined


@given(data=st.data())
def test_any_split_is_the_same_as_none(data: st.DataObject) -> None:
    markers = data.draw(st.sampled_from(MARKERS))
    think = Think(data.draw(st.sampled_from(["outside", "inside"])), markers)
    alphabet = "".join(dict.fromkeys("".join(markers) + "x"))
    word = st.one_of(st.sampled_from(markers), st.text(alphabet, max_size=6))
    pieces = data.draw(st.lists(word, max_size=10))
    expected = reference("".join(pieces), think)
    assert splitting(pieces, think) == expected
    assert splitting(list("".join(pieces)), think) == expected
    assert splitting(["".join(pieces)], think) == expected


@given(st.lists(st.text("<think>/ x", max_size=8)))
def test_less_than_a_marker_is_held_back(pieces: list[str]) -> None:
    splitter = ThinkSplitter(Think())
    taken = said = 0
    for piece in pieces:
        found = splitter.push(piece)
        assert all(text for _, text in found)
        taken += len(piece)
        said += sum(len(text) for _, text in found)
    held = "".join(text for _, text in splitter.finish())
    assert len(held) < len("</think>")
    assert taken - said - len(held) >= 0


def test_no_piece_is_empty() -> None:
    splitter = ThinkSplitter(Think())
    assert splitter.push("<think></think><think>") == []
    assert splitter.push("a</think>b<think>") == [(True, "a"), (False, "b")]
    assert splitter.push("</thin") == []
    assert splitter.finish() == [(True, "</thin")]


def test_the_source_of_what_was_split_out() -> None:
    assert THINK_SOURCE == "think"


def test_idle_says_when_a_piece_needs_no_splitting() -> None:
    splitter = ThinkSplitter(Think())
    assert (splitter.idle, splitter.trigger) == (True, "<")
    splitter.push("a<")
    assert not splitter.idle
    splitter.push("b")
    assert splitter.idle
    splitter.push("<think>")
    assert not splitter.idle
    splitter.push("</think>")
    assert splitter.idle
    assert not ThinkSplitter(Think(start="inside")).idle


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("split", Think()),
        ("keep", None),
        ("inside", Think(start="inside")),
        (Think(markers=("a", "b")), Think(markers=("a", "b"))),
    ],
)
def test_resolve(value: Think | str, expected: Think | None) -> None:
    assert resolve(value) == expected


@pytest.mark.parametrize("value", ["", "SPLIT", "none", None, 5, ["split"]])
def test_resolve_refuses_anything_else(value: Any) -> None:
    with pytest.raises(ConfigError, match="think must be"):
        resolve(value)


@pytest.mark.parametrize(
    "options",
    [
        {"start": "middle"},
        {"start": None},
        {"markers": ("", "x")},
        {"markers": ("x", "")},
        {"markers": ("x",)},
        {"markers": ("x", 5)},
        {"markers": 5},
        {"markers": "ab"},
    ],
)
def test_a_think_is_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"Think\."):
        Think(**options)


def test_markers_may_be_a_list() -> None:
    assert Think(markers=["a", "b"]) == Think(markers=("a", "b"))  # pyright: ignore[reportArgumentType]
