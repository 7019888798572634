"""The options of a generation, by name (50, Loop and Options)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypedDict

from svir_core.errors import ConfigError
from svir_core.loop_limits import LoopLimits
from svir_core.request import Effort, ResponseFormat, Schema, ToolChoice

if TYPE_CHECKING:
    from svir_client.models import ModelDescriptor
    from svir_client.tools.toolbox import Toolbox
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
    model: ModelDescriptor | None


SETTINGS: Final = TurnOptions.__annotations__.keys() - RunOptions.__annotations__.keys()
"""The options of a turn that are the request's."""


def check_names(options: Mapping[str, Any], known: type) -> None:
    """Refuse, by ``ConfigError``, an option that is none of those ``known``."""
    unknown = sorted(options.keys() - known.__annotations__.keys())
    if unknown:
        raise ConfigError(f"a generation has no option named {', '.join(unknown)}")


def settings_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the request among ``options``; ``ConfigError`` for what no model can do (51 section 1.5 B)."""
    settings = {name: value for name, value in options.items() if name in SETTINGS}
    if settings.get("max_tokens") == 0:
        raise ConfigError("max_tokens is 0: no room for an answer")
    temperature = settings.get("temperature")
    if isinstance(temperature, int | float) and temperature < 0:
        raise ConfigError("temperature must be 0 or more")
    return settings
