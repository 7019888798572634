"""Any split of a text equals the unsplit text, and a plain search for the markers; nothing but markers is lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fuzz.check import Target, require, same
from fuzz.plan import read
from svir_core.think import Think, ThinkSplitter

MARKERS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<", ">"),
    ("aab", "aba"),
    ("aa", "aa"),
    ("<<>", "<><"),
    ("\U0001f914", "\U0001f914\ufe0f"),
    ("abcabcabd", "abcabd"),
)

Piece = tuple[bool, str]


def merged(pieces: Iterable[Piece]) -> list[Piece]:
    """``pieces``, neighbours of one kind joined."""
    runs: list[Piece] = []
    for inside, text in pieces:
        if runs and runs[-1][0] is inside:
            runs[-1] = (inside, runs[-1][1] + text)
        else:
            runs.append((inside, text))
    return runs


def split(pieces: Sequence[str], think: Think) -> list[Piece]:
    """What a splitter makes of ``pieces``."""
    splitter = ThinkSplitter(think)
    found: list[Piece] = []
    pushed = told = 0
    for piece in pieces:
        plain = splitter.idle and splitter.trigger not in piece
        said = splitter.push(piece)
        if plain:
            same("a piece that need not be pushed was changed", said, [(False, piece)] if piece else [])
        require(all(text for _, text in said), "an empty piece", said)
        found += said
        pushed += len(piece)
        told += sum(len(text) for _, text in said)
        require(len(splitter._held) < max(map(len, think.markers)), "too much is held back", splitter._held)
        require(told <= pushed, "more was said than pushed", said)
    return found + splitter.finish()


def reference(text: str, think: Think) -> list[Piece]:
    """``text`` split at one marker after the other."""
    inside = think.start == "inside"
    found: list[Piece] = []
    while True:
        before, marker, text = text.partition(think.markers[inside])
        found += [(inside, before)] if before else []
        if not marker:
            return found
        inside = not inside


def check(raw: bytes) -> None:
    plan = read(raw)
    think = Think("inside" if plan.flag(3) else "outside", MARKERS[plan.option & 7])
    text = plan.data.decode("utf-8", "replace")
    expected = merged(reference(text, think))
    same("not the split of the reference", merged(split([text], think)), expected)
    pieces = [piece.decode("utf-8", "replace") for piece in plan.pieces()]
    joined = "".join(pieces)  # a character that was cut is no longer the same
    expected = expected if joined == text else merged(reference(joined, think))
    same("the cut matters", merged(split(pieces, think)), expected)


TARGET = Target(check, "texts", None, max_size=128)
