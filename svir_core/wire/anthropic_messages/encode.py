"""A request as the body of ``POST /v1/messages``, and of the endpoint that counts its tokens.

Three rules hold for all of it. Only what the request sets is sent, beside ``model``, ``messages``, ``stream`` and
``max_tokens``, which the API demands. The settings come first and the messages last, so that the body of a longer
conversation starts with the bytes of the shorter one, up to the new turn; a system message behind system messages
alone joins those, and stands before all turns. What the API has no field for is refused by name.
Source: 21 sections 2, 4, 5, 6 and 14.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs
import orjson

from svir_core.body import Body, BodyWriter, Measurements
from svir_core.check import at_least, expect
from svir_core.errors import ConfigError, UnsupportedError
from svir_core.json_text import plain
from svir_core.request import Effort, Request, ResponseFormat, Schema, Tool, ToolMode
from svir_core.wire.admission import admit
from svir_core.wire.anthropic_messages.conversation import Conversation
from svir_core.wire.json_value import Json, is_array, is_object
from svir_core.wire.settings import (
    TOOLS,
    check_tool_choice,
    checked_max_tokens,
    offers_tools,
    place,
    with_extra,
    with_tool_extra,
)

MAX_TOKENS: Final = 4096
"""``max_tokens`` of a request that sets none. The API demands one; this is what every model of it can write."""

CACHE_POINTS: Final = 4
"""So many blocks may be marked; ``cache_control`` at the top of a request counts as one (21 section 7)."""

CACHE_CONTROL: Final = "cache_control"

EFFORTS: Final[Mapping[Effort, str]] = {
    Effort.MINIMAL: "low",
    Effort.LOW: "low",
    Effort.MEDIUM: "medium",
    Effort.HIGH: "high",
    Effort.XHIGH: "xhigh",
}
"""``output_config.effort`` for every effort but ``OFF``, which is ``thinking`` of the type ``disabled``."""

MODES: Final[Mapping[ToolMode, str]] = {
    ToolMode.AUTO: "auto",
    ToolMode.NONE: "none",
    ToolMode.REQUIRED: "any",
    ToolMode.NAMED: "tool",
}
"""``tool_choice.type`` for every mode."""

FORCED: Final = frozenset({ToolMode.REQUIRED, ToolMode.NAMED})

EFFORT: Final = "effort"
THINKING: Final = "thinking"
OPTIONAL: Final = (EFFORT, THINKING)
"""What a lean retry leaves out: ``output_config.effort``, and the ``thinking`` that ``Effort.OFF`` turns off."""

RENAMES: Final[Mapping[str, tuple[str, ...]]] = {}
"""Nothing goes by another name."""


def _tool(tool: Tool, where: str) -> Json:
    fields: Json = {"name": tool.name}
    if tool.description:
        fields["description"] = tool.description
    return with_tool_extra({**fields, "input_schema": tool.schema}, tool, where)


def _tools(request: Request) -> list[Json] | None:
    return [_tool(tool, f"tools[{number}]") for number, tool in enumerate(request.tools)] or None


def _tool_choice(request: Request) -> Json | None:
    choice = request.tool_choice
    check_tool_choice(request)
    one_at_most = request.parallel_tools is False and choice.mode is not ToolMode.NONE
    if not offers_tools(request) or (choice.mode is ToolMode.AUTO and not one_at_most):
        return None
    fields: Json = {"type": MODES[choice.mode]}
    if choice.mode is ToolMode.NAMED:
        fields["name"] = choice.name
    if one_at_most:
        fields["disable_parallel_tool_use"] = True
    return fields


def _thinking(request: Request) -> Json | None:
    return {"type": "disabled"} if request.effort is Effort.OFF else None


def _effort(request: Request) -> str | None:
    return None if request.effort is None else EFFORTS.get(request.effort)


def _format(request: Request) -> Json | None:
    wanted = request.response_format
    if isinstance(wanted, Schema):
        return {"type": "json_schema", "schema": wanted.schema}
    if wanted is ResponseFormat.JSON:
        raise UnsupportedError("response_format: Anthropic Messages has no JSON without a schema")
    return None


def _seed(request: Request) -> None:
    if request.seed is not None:
        raise UnsupportedError("seed: Anthropic Messages has none")


def _max_tokens(request: Request) -> int:
    limit = checked_max_tokens(request)
    return MAX_TOKENS if limit is None else limit


Path = tuple[str, ...]

FIELDS: Final[Mapping[Path, Callable[[Request], Any]]] = {
    ("max_tokens",): _max_tokens,
    ("temperature",): lambda request: request.temperature,
    ("top_p",): lambda request: request.top_p,
    ("seed",): _seed,
    ("stop_sequences",): lambda request: request.stop or None,
    (TOOLS,): _tools,
    ("tool_choice",): _tool_choice,
    (THINKING,): _thinking,
    ("output_config", EFFORT): _effort,
    ("output_config", "format"): _format,
}
"""Every setting, where it stands and where its value comes from, in the order they are written; ``None`` is not
sent."""

OWNED: Final = frozenset(
    {"model", "messages", "system", "stream", "max_tokens", "temperature", "top_p", "stop_sequences", "tool_choice"}
)
"""What ``Request.extra`` may not set."""

NOT_COUNTED: Final = frozenset(
    {"stream", "max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "metadata", "service_tier", "container"}
)
"""What the endpoint that counts tokens does not take (21 section 14)."""


def optional_fields(request: Request) -> frozenset[str]:
    """The optional fields that ``request`` asks for: what a lean retry would leave out."""
    return frozenset(path[-1] for path, read in FIELDS.items() if path[-1] in OPTIONAL and read(request) is not None)


def _settings(request: Request, omit: frozenset[str]) -> Json:
    """Every field of the body but the system prompt and the messages, as values that JSON can carry."""
    fields: Json = {"model": plain(request.model, "Request.model"), "stream": True}
    left_out: Json = {}
    for path, read in FIELDS.items():
        value = read(request)
        if value is not None:
            place(left_out if path[-1] in omit else fields, path, plain(value, ".".join(path)))
    merged = with_extra(fields, plain(request.extra, "Request.extra"), OWNED, left_out)
    thinking = merged.get(THINKING)
    if request.tool_choice.mode in FORCED and is_object(thinking) and thinking.get("type") == "enabled":
        raise UnsupportedError("tool_choice: Anthropic Messages forces no call while thinking is enabled")
    return merged


def _marks(settings: Json) -> int:
    """The cache points among the settings."""
    tools = settings.get(TOOLS)
    marked = [tool for tool in (tools if is_array(tools) else ()) if is_object(tool) and tool.get(CACHE_CONTROL)]
    return len(marked) + bool(settings.get(CACHE_CONTROL))


def _omit(names: Iterable[str]) -> frozenset[str]:
    wanted = None if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if wanted is None or not all(isinstance(name, str) for name in wanted):
        raise ConfigError("Encoder.omit is a set of field names")
    return frozenset(wanted).intersection(OPTIONAL)


@attrs.frozen(kw_only=True)
class Encoder:
    """Turns requests into bodies. Immutable, and shared freely.

    Attributes:
        context_tokens: admission: the body's length and ``max_tokens`` together must fit in so many;
            ``None`` is no admission.
        image_tokens: what an image counts at admission; ``None`` is its encoded length.
        omit: optional fields to leave out: "effort", "thinking". Other names are ignored.
    """

    context_tokens: int | None = attrs.field(default=None, validator=attrs.validators.optional(at_least(1)))
    image_tokens: int | None = attrs.field(default=None, validator=attrs.validators.optional(at_least(0)))
    omit: frozenset[str] = attrs.field(factory=frozenset[str], converter=_omit)

    def encode(self, request: Request, measured: Measurements | None = None) -> Body:
        """The body of ``request``; ``measured`` knows its files on disk (``svir_client.files.measure``).

        Raises ``UnsupportedError`` for what Anthropic Messages cannot carry, ``AttachmentError`` for an
        attachment that cannot be planned, ``ContextOverflowError`` when admission refuses, and
        ``ConfigError`` for a setting that is wrong, each naming the place.
        """
        settings = _settings(expect(request, Request, "request"), self.omit)
        body, conversation = _written(request, settings, measured)
        admit(
            body.length,
            settings["max_tokens"],
            conversation.content.counted,
            context_tokens=self.context_tokens,
            image_tokens=self.image_tokens,
        )
        return body

    def encode_count(self, request: Request, measured: Measurements | None = None) -> Body:
        """The body that asks for the tokens of ``request``: without what only an answer needs. Nothing is refused
        for its length. Raises as ``encode`` does."""
        settings = _settings(expect(request, Request, "request"), self.omit)
        counted = {name: value for name, value in settings.items() if name not in NOT_COUNTED}
        return _written(request, counted, measured)[0]


def _written(request: Request, settings: Json, measured: Measurements | None) -> tuple[Body, Conversation]:
    writer = BodyWriter()
    writer.write(orjson.dumps(settings)[:-1])
    conversation = Conversation(writer, measured)
    conversation.write(request.system, request.messages)
    writer.write(b"}")
    marks = _marks(settings) + conversation.content.marks
    if marks > CACHE_POINTS:
        raise UnsupportedError(f"Anthropic Messages takes {CACHE_POINTS} cache points, and the request has {marks}")
    return writer.body(), conversation
