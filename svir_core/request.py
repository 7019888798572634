"""A request: what the caller wants, independent of the API that will carry it (00 section 3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import attrs

from svir_core.check import an, choice, finite, instance_of
from svir_core.errors import ConfigError
from svir_core.message import Message, Part, ResultPart, ToolResult

if TYPE_CHECKING:
    from typing import Self

    from svir_core.response import Completion


class Effort(StrEnum):
    """How much a model may think. Optional: a server that refuses it is remembered (10 section 11)."""

    OFF = "off"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"


def _no_arguments() -> dict[str, Any]:
    return {"type": "object", "properties": {}}


@attrs.frozen
class Tool:
    """A function the model may call: its name, what it does, and a JSON Schema of its arguments."""

    name: str = attrs.field(validator=instance_of(str))
    description: str = attrs.field(default="", validator=instance_of(str))
    schema: Mapping[str, Any] = attrs.field(factory=_no_arguments, validator=instance_of(Mapping))
    extra: Mapping[str, Any] = attrs.field(factory=dict[str, Any], kw_only=True, validator=instance_of(Mapping))


@runtime_checkable
class Toolbox(Protocol):
    """Anything that can list tools."""

    def tools(self) -> Iterable[Tool]:
        """The tools, in a stable order."""
        ...


class ToolMode(StrEnum):
    """Whether the model may, must, or must not call a tool."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"
    NAMED = "named"


def _tool_mode(value: ToolMode | str) -> ToolMode:
    return choice(ToolMode, value, "ToolChoice.mode")


@attrs.frozen
class ToolChoice:
    """``ToolChoice.AUTO``, ``.NONE``, ``.REQUIRED``, or ``ToolChoice.tool(name)``."""

    AUTO: ClassVar[ToolChoice]
    NONE: ClassVar[ToolChoice]
    REQUIRED: ClassVar[ToolChoice]

    mode: ToolMode = attrs.field(converter=_tool_mode)
    name: str | None = attrs.field(default=None, validator=instance_of(str, NoneType))

    def __attrs_post_init__(self) -> None:
        if (self.mode is ToolMode.NAMED) != (self.name is not None):
            raise ConfigError("ToolChoice has a name when its mode is 'named', and only then")

    @classmethod
    def tool(cls, name: str) -> Self:
        """The model must call this tool."""
        return cls(ToolMode.NAMED, name)


ToolChoice.AUTO = ToolChoice(ToolMode.AUTO)
ToolChoice.NONE = ToolChoice(ToolMode.NONE)
ToolChoice.REQUIRED = ToolChoice(ToolMode.REQUIRED)


def _schema_name(kind: Any) -> str:
    """The name of a type in the alphabet that APIs take."""
    name = getattr(kind, "__name__", None)
    legal = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:64] if isinstance(name, str) else ""
    return legal or "answer"


@attrs.frozen
class Schema:
    """The answer must be JSON that fits ``schema`` (a JSON Schema).

    ``strict`` asks the server to hold the answer to it, where the API knows that; its form is the caller's.
    """

    name: str = attrs.field(validator=instance_of(str))
    schema: Mapping[str, Any] = attrs.field(validator=instance_of(Mapping))
    strict: bool = attrs.field(default=False, validator=instance_of(bool))

    @classmethod
    def of(cls, kind: Any, *, name: str | None = None, strict: bool = False) -> Self:
        """The schema of a type that ``Completion.parse(kind)`` reads: attrs, dataclass, TypedDict, NamedTuple, msgspec,
        pydantic, and what typing makes of them.

        ``strict`` makes it in the form that strict modes take: every property is required, those with a default
        too. ``name`` is the type's own unless it is given. Raises ``ConfigError`` for a type that JSON cannot be
        read into.
        """
        from svir_core.structure_schema import json_schema  # imported late: most programs never ask for a type
        from svir_core.structure_strict import strict_schema

        schema = json_schema(kind)
        return cls(_schema_name(kind) if name is None else name, strict_schema(schema) if strict else schema, strict)


class ResponseFormat(StrEnum):
    """What the answer must look like, when it is not a :class:`Schema`."""

    TEXT = "text"
    JSON = "json"


def _tools(value: Iterable[Tool] | Toolbox) -> tuple[Tool, ...]:
    offered = value.tools() if isinstance(value, Toolbox) else value
    if not isinstance(offered, Iterable):
        raise ConfigError("Request.tools is a sequence of Tool, or a Toolbox")
    tools = tuple(offered)
    given: tuple[object, ...] = tools
    for number, tool in enumerate(given):
        if not isinstance(tool, Tool):
            hint = ": Tools() of svir_client makes one of a function" if callable(tool) else ""
            raise ConfigError(f"Request.tools[{number}] is {an(type(tool))}, not a Tool{hint}")
    return tools


def _tool_choice(value: ToolChoice | str) -> ToolChoice:
    if isinstance(value, ToolChoice):
        return value
    if value in ("auto", "none", "required"):
        return ToolChoice(ToolMode(value))
    raise ConfigError("Request.tool_choice is a ToolChoice, or one of 'auto', 'none', 'required'")


def _response_format(value: ResponseFormat | Schema | str) -> ResponseFormat | Schema:
    return value if isinstance(value, Schema) else choice(ResponseFormat, value, "Request.response_format")


def _effort(value: Effort | str | None) -> Effort | None:
    return None if value is None else choice(Effort, value, "Request.effort")


def _stop(value: str | Iterable[str]) -> tuple[str, ...]:
    words = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (value,)
    if not all(isinstance(word, str) for word in words):
        raise ConfigError("Request.stop is a string or a sequence of strings")
    return words


def _extra(value: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ConfigError("Request.extra is a mapping with strings as keys")
    return dict(value)


def _messages(value: Iterable[Message]) -> tuple[Message, ...]:
    if not isinstance(value, Iterable):
        raise ConfigError("Request.messages is a sequence of Message")
    messages = tuple(value)
    for number, message in enumerate(messages):
        if not isinstance(message, Message):
            raise ConfigError(f"Request.messages[{number}] is {an(type(message))}, not a Message")
    return messages


@attrs.frozen
class Request:
    """What to ask. Immutable: change a setting with :meth:`replace`, append with the other methods.

    ``None`` everywhere means *not set*: the field is not sent, and the server's default holds.

    Attributes:
        model: the server's name for the model.
        system: the system prompt, sent first.
        messages: the conversation so far.
        tools: the tools offered (a sequence, or a :class:`Toolbox`).
        tool_choice: whether a tool must be called; a requirement, never dropped.
        parallel_tools: whether the model may ask for several calls at once; a requirement, never dropped.
        response_format: what the answer must look like; a requirement, never dropped.
        effort: how much the model may think; optional (10 section 11).
        max_tokens: the most tokens the answer may have.
        temperature, top_p, stop, seed: sampling, as the server understands them.
        include_usage: ask for token counts; ``None`` leaves it to the client; optional.
        send_reasoning: send earlier reasoning back under the key it came with.
        extra: further top-level fields of the body; may not name one that the codec owns. Inside an object that both
            write, typed settings win over ``extra``; ``tools`` of it come before the request's own.
    """

    model: str = attrs.field(validator=instance_of(str))
    system: str | None = attrs.field(default=None, kw_only=True, validator=instance_of(str, NoneType))
    messages: tuple[Message, ...] = attrs.field(default=(), kw_only=True, converter=_messages)
    tools: tuple[Tool, ...] = attrs.field(default=(), kw_only=True, converter=_tools)
    tool_choice: ToolChoice = attrs.field(default=ToolChoice.AUTO, kw_only=True, converter=_tool_choice)
    parallel_tools: bool | None = attrs.field(default=None, kw_only=True, validator=instance_of(bool, NoneType))
    response_format: ResponseFormat | Schema = attrs.field(
        default=ResponseFormat.TEXT, kw_only=True, converter=_response_format
    )
    effort: Effort | None = attrs.field(default=None, kw_only=True, converter=_effort)
    max_tokens: int | None = attrs.field(default=None, kw_only=True, validator=instance_of(int, NoneType))
    temperature: float | None = attrs.field(default=None, kw_only=True, validator=finite)
    top_p: float | None = attrs.field(default=None, kw_only=True, validator=finite)
    stop: tuple[str, ...] = attrs.field(default=(), kw_only=True, converter=_stop)
    seed: int | None = attrs.field(default=None, kw_only=True, validator=instance_of(int, NoneType))
    include_usage: bool | None = attrs.field(default=None, kw_only=True, validator=instance_of(bool, NoneType))
    send_reasoning: bool = attrs.field(default=False, kw_only=True, validator=instance_of(bool))
    extra: Mapping[str, Any] = attrs.field(factory=dict[str, Any], kw_only=True, converter=_extra)

    def replace(self, **settings: Any) -> Request:
        """The same request with other settings; an unknown name is a ``ConfigError``."""
        try:
            return attrs.evolve(self, **settings)
        except TypeError:
            known = {field.name for field in attrs.fields(Request)}
            unknown = ", ".join(sorted(set(settings) - known))
            if not unknown:
                raise
        raise ConfigError(f"Request has no setting named {unknown}")

    def message(self, *messages: Message) -> Request:
        """The same request with further messages at the end."""
        return attrs.evolve(self, messages=(*self.messages, *messages))

    def user(self, *parts: Part | str) -> Request:
        """The same request with a message of the user at the end."""
        return self.message(Message.user(*parts))

    def assistant(self, completion: Completion) -> Request:
        """The same request with the model's answer at the end, its parts in the order they came."""
        return self.message(Message.assistant(*completion.parts))

    def tool_result(self, call_id: str, content: str | Sequence[ResultPart], *, is_error: bool = False) -> Request:
        """The same request with the result of one call at the end."""
        return self.tool_results([ToolResult(call_id, content, is_error)])

    def tool_results(self, results: Iterable[ToolResult]) -> Request:
        """The same request with the results of calls at the end, in the order given."""
        return self.message(Message.tool(*results))
