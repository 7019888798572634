"""The settings of a request's body, and what ``Request.extra`` adds to them.

Three rules hold for all of it. A typed setting wins over ``extra``: a top-level field that belongs to the codec is
refused there, and inside an object that both write (``generationConfig``, ``reasoning``, ``text``) ``extra`` adds the
keys that the codec left open, and those it wrote stay. A setting that a lean retry leaves out stays out. Lists that the
API knows as lists of tools are joined, those of ``extra`` first: hosted tools come before local ones.
Source: 00-architecture section 3, 10-chat-completions section 10, 50-runtime.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from svir_core.errors import ConfigError, UnsupportedError
from svir_core.request import Request, Tool, ToolMode
from svir_core.wire.json_value import Json, is_array, is_object

TOOLS: Final = "tools"

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def place(fields: Json, path: tuple[str, ...], value: Any) -> None:
    """Write ``value`` where ``path`` leads to in ``fields``, objects on the way included."""
    for key in path[:-1]:
        fields = fields.setdefault(key, {})
    fields[path[-1]] = value


def with_extra(
    fields: Json, extra: Json, owned: frozenset[str], left_out: Mapping[str, Any] = NOTHING
) -> dict[str, Any]:
    """``fields`` and what ``extra`` adds; ``owned`` are top-level fields that it may not set, even where they are not.

    Inside an object of both the values of ``fields`` win, silently: a model's habits are merged under typed settings,
    so a collision there is no mistake. ``left_out`` is what would stand in ``fields`` but for a lean retry: there it
    wins too, so that the retry does not say what ``extra`` had to yield before.

    Raises ``ConfigError`` that names the top-level field which belongs to the codec.
    """
    merged = dict(fields)
    for key, value in _yielding(extra, left_out).items():
        if key in owned:
            raise _taken(key)
        known = merged.get(key)
        if key not in merged:
            merged[key] = value
        elif is_object(known) and is_object(value):
            merged[key] = _added(known, value) if _of_one_kind(known, value) else known
        elif key == TOOLS and is_array(known) and is_array(value):
            merged[key] = [*value, *known]
        else:
            raise _taken(key)
    return merged


def _of_one_kind(known: Any, further: Any) -> bool:
    """Whether both are objects whose keys may stand together: an API tells kinds of objects apart by ``type``."""
    if not (is_object(known) and is_object(further)):
        return False
    return not {"type"} <= known.keys() & further.keys() or known["type"] == further["type"]


def _added(known: Json, further: Json) -> Json:
    merged = dict(known)
    for key, value in further.items():
        if key not in known:
            merged[key] = value
        elif _of_one_kind(known[key], value):
            merged[key] = _added(known[key], value)
    return merged


def _yielding(extra: Json, left_out: Mapping[str, Any]) -> Json:
    """``extra`` without the values that those of ``left_out`` would win over."""
    kept: Json = {}
    for key, value in extra.items():
        if key not in left_out:
            kept[key] = value
        elif _of_one_kind(left_out[key], value) and (rest := _yielding(value, left_out[key])):
            kept[key] = rest
    return kept


def _taken(key: str) -> ConfigError:
    return ConfigError(f"Request.extra may not set {key!r}, which belongs to the codec")


def with_tool_extra(fields: dict[str, Any], tool: Tool, where: str) -> dict[str, Any]:
    """``fields`` of a tool and what ``Tool.extra`` adds; ``ConfigError`` for a key that is there."""
    for key in tool.extra:
        if key in fields:
            raise ConfigError(f"{where}.extra may not set {key!r}")
    return {**fields, **tool.extra}


def further_tools(request: Request) -> tuple[Mapping[str, Any], ...]:
    """The tools that ``Request.extra`` offers beside the request's own: hosted ones, as the API has them."""
    tools = request.extra.get(TOOLS)
    return tuple(tool for tool in tools if is_object(tool)) if is_array(tools) else ()


def offers_tools(request: Request) -> bool:
    """Whether ``request`` offers a tool: one of its own, or one of ``Request.extra``."""
    return bool(request.tools or further_tools(request))


def _names(tool: Mapping[str, Any]) -> Iterator[Any]:
    """What a tool of ``extra`` goes by: its ``name``, its ``function.name``, those of its ``functionDeclarations``."""
    declared = tool.get("functionDeclarations")
    for named in (tool, tool.get("function"), *(declared if is_array(declared) else ())):
        if is_object(named):
            yield named.get("name")


def check_tool_choice(request: Request) -> None:
    """Refuse, by ``UnsupportedError``, a tool choice that the tools on offer cannot meet. Those of ``Request.extra``
    count: any of them for a call that is required, and one that has the name for a call of that name."""
    choice = request.tool_choice
    if choice.mode is ToolMode.REQUIRED and not offers_tools(request):
        raise UnsupportedError("tool_choice: a tool is required and none is offered")
    names = [tool.name for tool in request.tools] + [name for tool in further_tools(request) for name in _names(tool)]
    if choice.mode is ToolMode.NAMED and choice.name not in names:
        raise UnsupportedError(f"tool_choice: the tool {choice.name!r} is not offered")


def checked_max_tokens(request: Request) -> int | None:
    """``max_tokens``; ``ConfigError`` when it is negative."""
    if request.max_tokens is not None and request.max_tokens < 0:
        raise ConfigError("Request.max_tokens must not be negative; None is no limit")
    return request.max_tokens
