"""What a function's docstring says: of itself, and of its parameters, in Google's, NumPy's or reST's style."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import attrs


@attrs.frozen
class Described:
    """The words about a function, and those about its parameters by name."""

    words: str = ""
    parameters: Mapping[str, str] = attrs.field(factory=dict[str, str])


def described(function: Callable[..., Any]) -> Described:
    """What the docstring of ``function`` says before its sections, and in that of its arguments."""
    import docstring_parser  # imported late: most programs have no tools

    text = (inspect.getdoc(function) or "").strip()
    try:
        read = docstring_parser.parse(text)
    except Exception:  # noqa: BLE001 - beside its ParseError it raises IndexError for words in no style
        return Described(text)
    words = "\n\n".join(part for part in (read.short_description, read.long_description) if part)
    return Described(words, {each.arg_name: each.description for each in read.params if each.description})
