"""The options of a generation, checked: what was given by name as what a plan is made of (50, Loop and Options)."""

from __future__ import annotations

from collections.abc import Mapping

from svir_client.async_function import expect_blocking
from svir_client.generation.options import SETTINGS, Given
from svir_client.generation.plan import Common
from svir_client.models import ModelDescriptor
from svir_client.tools.toolbox import Toolbox, approval_of
from svir_core.check import an, expect, seconds
from svir_core.errors import ConfigError
from svir_core.http_message import caller_headers
from svir_core.loop import checked_decisions
from svir_core.loop_limits import LoopLimits
from svir_core.request import Request
from svir_core.secret import Withheld


def name_of(model: str | ModelDescriptor) -> str:
    """What the server calls ``model``; ``ConfigError`` for what names none."""
    name = model.id if isinstance(model, ModelDescriptor) else expect(model, str, "model")
    if not name:
        raise ConfigError("model is empty: it is the name of a model, or its description")
    return name


def toolbox_of(tools: Toolbox | None) -> Toolbox | None:
    """``tools``; ``ConfigError`` for what is no toolbox."""
    if tools is None or isinstance(tools, Toolbox):
        approval_of(tools)
        return tools
    raise ConfigError(f"tools is {an(type(tools))}, not a Toolbox: make a registry, Tools(), and add functions to it")


def limits_of(given: Given) -> LoopLimits | None:
    """The limits that were given; ``ConfigError`` for what is none."""
    limits = given.value.get("limits")
    return None if limits is None else expect(limits, LoopLimits, "limits")


def approvals_of(given: Given) -> Mapping[str, bool] | None:
    """What was said of calls that wait; ``ConfigError`` for what is no yes or no by their ids."""
    approvals = given.value.get("approvals")
    return None if approvals is None else checked_decisions(approvals, "approvals")


def common(given: Given) -> Common:
    """The options that every generation takes, but for its limits, checked."""
    on_tool_error, idle_timeout = given.value.get("on_tool_error"), given.value.get("idle_timeout")
    return Common(
        tools=toolbox_of(given.value.get("tools")),
        rollback=expect(given.value.get("rollback", False), bool, "rollback"),
        on_tool_error=None if on_tool_error is None else expect_blocking(on_tool_error, "on_tool_error"),
        headers=Withheld(None if given.value.get("headers") is None else caller_headers(given.value["headers"])),
        idle_timeout=None if idle_timeout is None else seconds(idle_timeout, "idle_timeout"),
    )


def request_of(model: str | ModelDescriptor, given: Given) -> Request:
    """The request of a turn to ``model`` that was given, without instruction and messages.

    ``ConfigError`` for settings that are wrong, and for those by which no model could answer (51 section 1.5 B).
    """
    settings = {name: value for name, value in given.value.items() if name in SETTINGS}
    settings["tools"] = toolbox_of(given.value.get("tools")) or ()
    name = name_of(model)
    request = model.request(**settings) if isinstance(model, ModelDescriptor) else Request(name, **settings)
    if request.max_tokens is not None and request.max_tokens < 1:
        raise ConfigError(f"max_tokens is {request.max_tokens}: no room for an answer")
    if request.temperature is not None and request.temperature < 0:
        raise ConfigError("temperature must be 0 or more")
    return request
