"""A request as the body of ``POST /v1/chat/completions``.

Three rules hold for all of it. Only what the request sets is sent, beside ``model``, ``messages`` and
``stream``. The settings come first and the messages last, so that the body of a longer conversation
starts with the bytes of the shorter one, up to the new turn. What is wrong is found before a byte is
sent, and named.
Source: 10-chat-completions section 10, 11-quirks section D.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs
import orjson

from svir_core.body import Body, BodyWriter, Measurements
from svir_core.check import at_least, expect
from svir_core.errors import ConfigError
from svir_core.json_text import plain
from svir_core.request import Effort, Request, ResponseFormat, Schema, Tool, ToolMode
from svir_core.wire.admission import admit
from svir_core.wire.openai_chat.conversation import Conversation
from svir_core.wire.settings import (
    TOOLS,
    check_tool_choice,
    checked_max_tokens,
    offers_tools,
    with_extra,
    with_tool_extra,
)

EFFORTS: Final[Mapping[Effort, str]] = {
    Effort.OFF: "none",
    Effort.MINIMAL: "minimal",
    Effort.LOW: "low",
    Effort.MEDIUM: "medium",
    Effort.HIGH: "high",
    Effort.XHIGH: "xhigh",
}
"""``reasoning_effort`` for every effort."""


def _effort(request: Request) -> str | None:
    return None if request.effort is None else EFFORTS[request.effort]


def _stream_options(request: Request) -> dict[str, Any] | None:
    return {"include_usage": True} if request.include_usage else None


def _tool(tool: Tool, where: str) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": with_tool_extra(function, tool, where)}


def _tools(request: Request) -> list[dict[str, Any]] | None:
    return [_tool(tool, f"tools[{number}]") for number, tool in enumerate(request.tools)] or None


def _tool_choice(request: Request) -> Any:
    choice = request.tool_choice
    check_tool_choice(request)
    if choice.mode is ToolMode.NAMED:
        return {"type": "function", "function": {"name": choice.name}}
    # "none" without a tool on offer says nothing, and some servers refuse it
    return choice.mode.value if offers_tools(request) and choice.mode is not ToolMode.AUTO else None


def _parallel(request: Request) -> bool | None:
    return request.parallel_tools if offers_tools(request) else None  # the API takes the field beside tools only


def _response_format(request: Request) -> dict[str, Any] | None:
    wanted = request.response_format
    if isinstance(wanted, Schema):
        schema: dict[str, Any] = {"name": wanted.name, "schema": wanted.schema}
        if wanted.strict:
            schema["strict"] = True
        return {"type": "json_schema", "json_schema": schema}
    return {"type": "json_object"} if wanted is ResponseFormat.JSON else None


FIELDS: Final[Mapping[str, Callable[[Request], Any]]] = {
    "max_tokens": checked_max_tokens,
    "temperature": lambda request: request.temperature,
    "top_p": lambda request: request.top_p,
    "stop": lambda request: request.stop or None,
    "seed": lambda request: request.seed,
    "reasoning_effort": _effort,
    "stream_options": _stream_options,
    TOOLS: _tools,
    "tool_choice": _tool_choice,
    "parallel_tool_calls": _parallel,
    "response_format": _response_format,
}
"""Every setting and where its value comes from, in the order they are written; ``None`` is not sent."""

OPTIONAL: Final = ("reasoning_effort", "stream_options")
"""The settings that a lean retry leaves out (10 section 11)."""

OWNED: Final = frozenset({"model", "messages", "stream", "background", "max_completion_tokens", *FIELDS}) - {TOOLS}
"""What ``Request.extra`` may not set. ``tools`` of it come before the request's own: some servers host tools."""

RENAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "max_tokens": ("max_tokens", "max_completion_tokens"),
    "system": ("system", "developer"),
}
"""What may go by another name, and by which; the first is the default."""


def optional_fields(request: Request) -> frozenset[str]:
    """The optional fields that ``request`` asks for: what a lean retry would leave out."""
    return frozenset(name for name in OPTIONAL if FIELDS[name](request) is not None)


def _settings(request: Request, omit: frozenset[str], names: Mapping[str, str]) -> dict[str, Any]:
    """Every field of the body but the messages, as values that JSON can carry."""
    fields: dict[str, Any] = {"model": plain(request.model, "Request.model"), "stream": True}
    for name, read in FIELDS.items():
        value = None if name in omit else read(request)
        if value is not None:
            fields[names.get(name, name)] = plain(value, name)
    return with_extra(fields, plain(request.extra, "Request.extra"), OWNED)


def _omit(names: Iterable[str]) -> frozenset[str]:
    wanted = None if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if wanted is None or not all(isinstance(name, str) for name in wanted):
        raise ConfigError("Encoder.omit is a set of field names")
    return frozenset(wanted).intersection(OPTIONAL)


def _rename(names: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(names, Mapping):
        raise ConfigError("Encoder.rename maps field names to others")
    chosen = {name: names.get(name, name) for name in RENAMES}
    for name, other in chosen.items():
        if other not in RENAMES[name]:
            raise ConfigError(f"Encoder.rename: {name!r} may be one of {', '.join(map(repr, RENAMES[name]))}")
    return chosen


@attrs.frozen(kw_only=True)
class Encoder:
    """Turns requests into bodies. Immutable, and shared freely.

    Attributes:
        context_tokens: admission: the body's length and ``max_tokens`` together must fit in so many;
            ``None`` is no admission.
        image_tokens: what an image counts at admission; ``None`` is its encoded length.
        omit: optional fields to leave out. Other names are ignored: nothing else is ever left out.
        rename: ``{"max_tokens": "max_completion_tokens", "system": "developer"}`` or either of the two
            (12 section 1); other keys are ignored.
    """

    context_tokens: int | None = attrs.field(default=None, validator=attrs.validators.optional(at_least(1)))
    image_tokens: int | None = attrs.field(default=None, validator=attrs.validators.optional(at_least(0)))
    omit: frozenset[str] = attrs.field(factory=frozenset[str], converter=_omit)
    rename: Mapping[str, str] = attrs.field(factory=dict[str, str], converter=_rename)

    def encode(self, request: Request, measured: Measurements | None = None) -> Body:
        """The body of ``request``; ``measured`` knows its files on disk (``svir_client.files.measure``).

        Raises ``UnsupportedError`` for what Chat Completions cannot carry, ``AttachmentError`` for an
        attachment that cannot be planned, ``ContextOverflowError`` when admission refuses, and
        ``ConfigError`` for a setting that is wrong, each naming the place.
        """
        expect(request, Request, "request")
        writer = BodyWriter()
        writer.write(orjson.dumps(_settings(request, self.omit, self.rename))[:-1], b',"messages":[')
        conversation = Conversation(
            writer, measured, system_role=self.rename["system"], send_reasoning=request.send_reasoning
        )
        if request.system is not None:
            conversation.system(request.system)
        for number, message in enumerate(request.messages):
            conversation.message(message, f"messages[{number}]")
        writer.write(b"]}")
        body = writer.body()
        admit(
            body.length,
            request.max_tokens,
            conversation.counted,
            context_tokens=self.context_tokens,
            image_tokens=self.image_tokens,
        )
        return body
