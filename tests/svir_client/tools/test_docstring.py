"""What a docstring says, whatever its style; any text at all is a docstring."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client.tools.docstring import Described, described


def with_doc(text: str | None) -> Described:
    def function() -> None: ...

    function.__doc__ = text
    return described(function)


@pytest.mark.parametrize(
    "text",
    [
        "Look up.\n\nMore\nof it.\n\n"
        "Args:\n    a: the value,\n        and more\n    b (int): another\n\nReturns:\n    x",
        "Look up.\n\nMore\nof it.\n\nParameters\n----------\na : int\n    the value,\n    and more\nb\n    another\n",
        "Look up.\n\nMore\nof it.\n\n:param a: the value,\n    and more\n:param int b: another\n:returns: x",
    ],
    ids=["google", "numpy", "rest"],
)
def test_styles(text: str) -> None:
    assert with_doc(text) == Described("Look up.\n\nMore\nof it.", {"a": "the value,\nand more", "b": "another"})


@pytest.mark.parametrize(
    ("text", "words"), [(None, ""), ("", ""), ("  One line. ", "One line."), (":param", ":param"), (":x y", ":x y")]
)
def test_without_sections(text: str | None, words: str) -> None:
    assert with_doc(text) == Described(words)


@given(
    st.text()
    | st.lists(st.sampled_from([":param", " a", ":", "\n", "Args:", "    ", "--", "x", "Parameters"])).map("".join)
)
def test_any_text(text: str) -> None:
    found = with_doc(text)
    assert isinstance(found.words, str)
    assert all(isinstance(words, str) for words in found.parameters.values())
