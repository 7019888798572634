"""The settings of a request's body, and what ``Request.extra`` adds to them.

Three rules hold for all of it. What the codec wrote is never replaced. An object of ``extra`` adds to an
object of the body (``generationConfig``, ``reasoning``, ``text``), key by key. Lists that the API knows as
lists of tools are joined, those of ``extra`` first: hosted tools come before local ones.
Source: 00-architecture section 3, 10-chat-completions section 10, 50-runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from svir_core.errors import ConfigError, UnsupportedError
from svir_core.request import Request, Tool, ToolMode

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


def check_tool_choice(request: Request) -> None:
    """Refuse, by ``UnsupportedError``, a tool choice that the tools on offer cannot meet."""
    choice = request.tool_choice
    if choice.mode is ToolMode.REQUIRED and not request.tools:
        raise UnsupportedError("tool_choice: a tool is required and none is offered")
    if choice.mode is ToolMode.NAMED and all(tool.name != choice.name for tool in request.tools):
        raise UnsupportedError(f"tool_choice: the tool {choice.name!r} is not offered")


def checked_max_tokens(request: Request) -> int | None:
    """``max_tokens``; ``ConfigError`` when it is negative."""
    if request.max_tokens is not None and request.max_tokens < 0:
        raise ConfigError("Request.max_tokens must not be negative; None is no limit")
    return request.max_tokens
