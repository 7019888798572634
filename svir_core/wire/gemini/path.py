"""Where a streamed argument belongs: ``$.ops[0].city``, the JSON paths of RFC 9535 that name one place."""

from __future__ import annotations

import re
from typing import Any, Final

from svir_core.errors import ProtocolError
from svir_core.json_text import NESTING
from svir_core.slow_json import read_any, without_lone_surrogates

Step = str | int
"""A key of an object, or an index of an array."""

_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[\]'"*]+)|\[(?P<index>[0-9]{1,9})\]"""
    r"""|\['(?P<single>(?:[^'\\]|\\.)*)'\]|\["(?P<double>(?:[^"\\]|\\.)*)"\]"""
)


def _quoted(text: str) -> str:
    """The key in quotes: the escapes of JSON, and of the quotes themselves."""
    escaped = re.sub(
        r'\\(.)|"', lambda found: "'" if found[1] == "'" else '\\"' if found[1] is None else found[0], text
    )
    key: Any = read_any(without_lone_surrogates(f'"{escaped}"'))
    if not isinstance(key, str):
        raise _unreadable()
    return key


def _unreadable() -> ProtocolError:
    return ProtocolError("the path of an argument of a tool call cannot be read")


def steps(path: Any) -> tuple[Step, ...]:
    """The steps of ``path``, from the arguments to the place. Raises ``ProtocolError`` for a path that is none, that
    names the arguments themselves, or that is longer than arguments may nest."""
    if not isinstance(path, str) or not path.startswith("$"):
        raise _unreadable()
    found: list[Step] = []
    position = 1
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None or len(found) == NESTING:
            raise _unreadable()
        position = step.end()
        found.append(_step(step))
    if not found:
        raise _unreadable()
    return tuple(found)


def _step(found: re.Match[str]) -> Step:
    if found["index"] is not None:
        return int(found["index"])
    if found["name"] is not None:
        return found["name"]
    return _quoted(found["single"] if found["double"] is None else found["double"])
