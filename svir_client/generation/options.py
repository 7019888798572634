"""The options of a generation, by name (50, Loop and Options)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypedDict

from svir_client.models import ModelDescriptor
from svir_client.tools.toolbox import Toolbox
from svir_core.errors import ConfigError
from svir_core.loop_limits import LoopLimits
from svir_core.request import Effort, ResponseFormat, Schema, ToolChoice
from svir_core.secret import Withheld

if TYPE_CHECKING:
    from svir_core.http_message import HeadersLike


class RunOptions(TypedDict, total=False):
    """What every generation takes: :func:`svir_client.generate_stream` says what each means."""

    tools: Toolbox | None
    limits: LoopLimits | None
    rollback: bool
    on_tool_error: Callable[[Exception], object] | None
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


HINTS: Final = {
    "approvals": "resume(approvals=...) takes them",
    "messages": "the history is the session's: Session(messages=...)",
    "on_error": "on_tool_error is told of the exceptions of tools",
    "system": "the system instruction is the session's: Session(system=...)",
}
"""What is asked for by a name that is none, and is had in another way."""


Given = Withheld[Mapping[str, Any]]
"""What a caller gave by name, headers among it: a traceback's locals show none of it."""


def check_names(given: Given, known: type) -> None:
    """Refuse, by ``ConfigError``, an option that is none of those ``known``."""
    unknown = sorted(given.value.keys() - known.__annotations__.keys())
    if unknown:
        hints = "".join(f"; {HINTS[name]}" for name in unknown if name in HINTS)
        raise ConfigError(f"a generation has no option named {', '.join(unknown)}{hints}")
