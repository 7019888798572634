"""What is shown of JSON is a part of what comes, never taken back, the same at any cut; the whole is orjson's."""

from __future__ import annotations

import itertools
import json
from typing import Any

import orjson

from fuzz.check import Target, require, same
from fuzz.mutate import json_body
from fuzz.plan import read
from svir_core.errors import ProtocolError
from svir_core.partial_json import PartialJson
from svir_core.slow_json import too_deep
from svir_core.wire.json_value import is_array, is_object

NOTHING = object()


def check(raw: bytes) -> None:
    plan = read(raw)
    text = plan.data.decode("utf-8", "surrogateescape" if plan.flag(0) else "replace")
    cut = [text[start:end] for start, end in _cuts(plan.pieces(), len(text))]
    whole = _fast(text)
    outcome, found = _read([text])
    same("the cut matters", _read(cut), (outcome, found))
    if outcome == "whole":
        same("not what orjson reads", repr(found), repr(whole))
    elif whole is not NOTHING:
        require(too_deep(text), "refused, and orjson takes it", outcome)
    if whole is not NOTHING and not too_deep(text) and _names_differ(text):
        _grows(cut, whole)


def _cuts(pieces: list[bytes], length: int) -> list[tuple[int, int]]:
    """The cut of the bytes, over a text that may be shorter."""
    ends = [0]
    for piece in pieces:
        ends.append(min(ends[-1] + len(piece), length))
    ends[-1] = length
    return list(itertools.pairwise(ends))


def _fast(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return NOTHING


def _read(pieces: list[str]) -> tuple[str, Any]:
    """How it ended, and what was shown."""
    reader = PartialJson()
    try:
        for piece in pieces:
            reader.push(piece)
        reader.finish()
    except ProtocolError as error:
        return error.detail, reader.data
    require(reader.done, "it is not done after its end")
    return "whole", reader.data


def _grows(pieces: list[str], whole: Any) -> None:
    """Each step shows more of the whole, at the place that it says, or says that there is no news."""
    reader = PartialJson()
    before = repr(reader.data)
    for piece in pieces:
        reader.push(piece)
        now = repr(reader.data)
        require(reader.news or now == before, "more is shown without news", before, now)
        before = now
        require(_leads(reader.path, reader.data), "the path leads nowhere", reader.path, reader.data)
        require(reader.data is None or _is_part(reader.data, whole), "what is shown is no part", reader.data, whole)


def _leads(path: tuple[str | int, ...], place: Any) -> bool:
    if not path:
        return True
    step, rest = path[0], path[1:]
    if is_object(place):
        return isinstance(step, str) and step in place and _leads(rest, place[step])
    return is_array(place) and isinstance(step, int) and step < len(place) and _leads(rest, place[step])


def _is_part(part: Any, whole: Any) -> bool:
    """Whether ``part`` may become ``whole``: members subset, items and characters prefix."""
    if is_object(part) and is_object(whole):
        return all(key in whole and _is_part(value, whole[key]) for key, value in part.items())
    if is_array(part) and is_array(whole):
        return len(part) <= len(whole) and all(map(_is_part, part, whole))
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    return repr(part) == repr(whole)


def _names_differ(text: str) -> bool:
    """Whether no object of JSON ``text`` has two members of one name, of which the later one replaces the other."""
    alike: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        alike.extend(name for name in names if names.count(name) > 1)

    json.loads(text, object_pairs_hook=members)
    return not alike


TARGET = Target(check, "bodies", json_body, max_size=256)
