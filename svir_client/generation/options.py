"""The options of a generation, by name (50, Loop and Options)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypedDict

from svir_client.models import ModelDescriptor
from svir_client.tools.toolbox import Toolbox
from svir_core.check import expect
from svir_core.errors import ConfigError
from svir_core.loop_limits import LoopLimits
from svir_core.request import Effort, Request, ResponseFormat, Schema, ToolChoice

if TYPE_CHECKING:
    from svir_core.http_message import HeadersLike


class RunOptions(TypedDict, total=False):
    """What every generation takes: :func:`svir_client.generate_stream` says what each means."""

    tools: Toolbox | None
    limits: LoopLimits | None
    rollback: bool
    on_error: Callable[[Exception], object] | None
    headers: HeadersLike | None
    idle_timeout: float | None


class TurnOptions(RunOptions, total=False):
    """What a new turn takes beside them: the settings of ``Request``, which says what each means."""

    tool_choice: ToolChoice | str
    parallel_tools: bool | None
    response_format: ResponseFormat | Schema | str
    effort: Effort | str | None
    max_tokens: int | None
    temperature: float | None
    top_p: float | None
    stop: str | Iterable[str]
    seed: int | None
    include_usage: bool | None
    send_reasoning: bool
    extra: Mapping[str, Any]


class ResumeOptions(RunOptions, total=False):
    """What one that goes on takes beside them: :func:`svir_client.resume_stream` says what each means."""

    approvals: Mapping[str, bool] | None
    model: str | ModelDescriptor | None


SETTINGS: Final = TurnOptions.__annotations__.keys() - RunOptions.__annotations__.keys()
"""The options of a turn that are the request's."""


def check_names(options: Mapping[str, Any], known: type) -> None:
    """Refuse, by ``ConfigError``, an option that is none of those ``known``."""
    unknown = sorted(options.keys() - known.__annotations__.keys())
    if unknown:
        raise ConfigError(f"a generation has no option named {', '.join(unknown)}")


def name_of(model: str | ModelDescriptor) -> str:
    """What the server calls ``model``."""
    return model.id if isinstance(model, ModelDescriptor) else expect(model, str, "model")


def toolbox_of(tools: Toolbox | None) -> Toolbox | None:
    """``tools``; ``ConfigError`` for what is no toolbox."""
    if tools is None or isinstance(tools, Toolbox):
        return tools
    raise ConfigError(f"tools is a {type(tools).__name__}, not a Toolbox: tools() and async call(call, context)")


def request_of(model: str | ModelDescriptor, options: Mapping[str, Any]) -> Request:
    """The request of a turn to ``model`` that ``options`` make, without instruction and messages.

    ``ConfigError`` for settings that are wrong, and for those by which no model could answer (51 section 1.5 B).
    """
    settings = {name: value for name, value in options.items() if name in SETTINGS}
    settings["tools"] = toolbox_of(options.get("tools")) or ()
    name = name_of(model)
    request = model.request(**settings) if isinstance(model, ModelDescriptor) else Request(name, **settings)
    if request.max_tokens is not None and request.max_tokens < 1:
        raise ConfigError(f"max_tokens is {request.max_tokens}: no room for an answer")
    if request.temperature is not None and request.temperature < 0:
        raise ConfigError("temperature must be 0 or more")
    return request
