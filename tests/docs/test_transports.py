"""docs/transports.md: its classes have the shape that the protocols ask for, and its clauses exist."""

from __future__ import annotations

import inspect
import pathlib
import re
from typing import Any

from svir_client import Transport, TransportResponse
from svir_client.testing import CLAUSES

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "transports.md").read_text(encoding="utf-8")


def _shape(kind: type[Any]) -> dict[str, list[tuple[str, object, object]] | str]:
    """Its methods with their arguments, kinds and defaults; ``property`` for what is one."""
    shape: dict[str, list[tuple[str, object, object]] | str] = {}
    for name, member in vars(kind).items():
        if isinstance(member, property):
            shape[name] = "property"
        elif inspect.isfunction(member) and (name == "__aiter__" or not name.startswith("_")):
            arguments = inspect.signature(member).parameters.values()
            shape[name] = [(argument.name, argument.kind, argument.default) for argument in arguments]
    return shape


def test_the_classes_to_write_have_the_shape_of_the_protocols() -> None:
    snippet = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[0]
    names: dict[str, Any] = {}
    exec(snippet, names)
    assert _shape(names["YourTransport"]) == _shape(Transport)
    assert _shape(names["YourResponse"]) == _shape(TransportResponse)


def test_the_clauses_it_shows_are_there_and_say_what_it_shows() -> None:
    shown = re.findall(r"^- (\w+): (.*)$", PAGE, re.MULTILINE)
    assert shown
    for name, rule in shown:
        assert CLAUSES[name].__doc__ == rule
    assert f"of {len(CLAUSES)} clauses" in PAGE
