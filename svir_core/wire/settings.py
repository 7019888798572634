"""The settings of a request's body, and what ``Request.extra`` adds to them.

Three rules hold for all of it. What the codec wrote is never replaced. An object of ``extra`` adds to an
object of the body (``generationConfig``, ``reasoning``, ``text``), key by key. Lists that the API knows as
lists of tools are joined, those of ``extra`` first: hosted tools come before local ones.
Source: 00-architecture section 3, 10-chat-completions section 10, 50-runtime.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from svir_core.errors import ConfigError, UnsupportedError
from svir_core.request import Request, Tool, ToolMode
from svir_core.wire.json_value import is_array, is_object

TOOLS: Final = "tools"


def with_extra(fields: dict[str, Any], extra: Mapping[str, Any], owned: frozenset[str]) -> dict[str, Any]:
    """``fields`` and what ``extra`` adds; ``owned`` are top-level fields that it may not set, even where they are not.

    Raises ``ConfigError`` that names the field which belongs to the codec.
    """
    merged = dict(fields)
    for key, value in extra.items():
        if key in owned:
            raise _taken(key)
        known = merged.get(key)
        if known is None and key not in merged:
            merged[key] = value
        elif isinstance(known, Mapping) and isinstance(value, Mapping):
            merged[key] = _added(cast("Mapping[str, Any]", known), cast("Mapping[str, Any]", value), key)
        elif key == TOOLS and isinstance(known, list) and isinstance(value, list):
            merged[key] = [*value, *known]
        else:
            raise _taken(key)
    return merged


def _added(known: Mapping[str, Any], further: Mapping[str, Any], where: str) -> dict[str, Any]:
    merged = dict(known)
    for key, value in further.items():
        inner = merged.get(key)
        if key not in merged:
            merged[key] = value
        elif isinstance(inner, Mapping) and isinstance(value, Mapping):
            merged[key] = _added(cast("Mapping[str, Any]", inner), cast("Mapping[str, Any]", value), f"{where}.{key}")
        else:
            raise _taken(f"{where}.{key}")
    return merged


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
