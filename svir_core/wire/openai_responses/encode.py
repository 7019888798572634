"""A request as the body of ``POST /v1/responses``, and of the endpoint that counts its tokens.

Three rules hold for all of it. Nothing is left with the server: ``store`` is false unless the request says otherwise,
and the whole conversation is sent, with what the server needs to take up its own reasoning. The settings come first
and ``input`` last, so that the body of a longer conversation starts with the bytes of the shorter one, up to the new
turn. What the API has no field for is refused by name.
Source: 20 sections 2, 4, 5, 6 and 13.
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
from svir_core.wire.json_value import Json, is_array
from svir_core.wire.openai_responses.conversation import Conversation
from svir_core.wire.part import ImageCount
from svir_core.wire.settings import (
    TOOLS,
    check_tool_choice,
    checked_max_tokens,
    further_tools,
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
"""``reasoning.effort`` for every effort."""

CUSTOM: Final = "custom"
"""The ``type`` in ``Tool.extra`` of a tool that takes free text."""

INCLUDE: Final = "include"
REASONING: Final = "reasoning"
STORE: Final = "store"
TOOL_CHOICE: Final = "tool_choice"

ENCRYPTED: Final = "reasoning.encrypted_content"
"""What is always asked for: without it reasoning cannot go back to a server that stored nothing."""

ELSEWHERE: Final = frozenset({"previous_response_id", "conversation", "prompt"})
"""Where a conversation may be held in place of ``input``, which may then be empty (20 section 2)."""

NO_ARGUMENTS: Final = Tool("").schema
"""The schema of a tool that was given none."""


def _is_custom(tool: Tool) -> bool:
    return tool.extra.get("type") == CUSTOM


def _tool(tool: Tool, where: str) -> Json:
    named: Json = {"name": tool.name} | ({"description": tool.description} if tool.description else {})
    if _is_custom(tool):
        if tool.schema != NO_ARGUMENTS:
            raise UnsupportedError(f"{where}: a custom tool takes free text, and no schema")
        further = {key: value for key, value in tool.extra.items() if key != "type"}
        return with_tool_extra({"type": CUSTOM, **named}, attrs.evolve(tool, extra=further), where)
    return {"strict": False} | with_tool_extra({"type": "function", **named, "parameters": tool.schema}, tool, where)


def _tools(request: Request) -> list[Json] | None:
    return [_tool(tool, f"tools[{number}]") for number, tool in enumerate(request.tools)] or None


def _tool_choice(request: Request) -> Any:
    choice = request.tool_choice
    check_tool_choice(request)
    if choice.mode is ToolMode.NAMED:
        custom: list[Any] = [tool.name for tool in request.tools if _is_custom(tool)]
        custom += [tool.get("name") for tool in further_tools(request) if tool.get("type") == CUSTOM]
        return {"type": CUSTOM if choice.name in custom else "function", "name": choice.name}
    return choice.mode.value if offers_tools(request) and choice.mode is not ToolMode.AUTO else None


def _parallel(request: Request) -> bool | None:
    return request.parallel_tools if offers_tools(request) else None


def _reasoning(request: Request) -> Json | None:
    return None if request.effort is None else {"effort": EFFORTS[request.effort]}


def _text(request: Request) -> Json | None:
    wanted = request.response_format
    if isinstance(wanted, Schema):
        schema: Json = {"type": "json_schema", "name": wanted.name, "schema": wanted.schema}
        return {"format": schema | ({"strict": True} if wanted.strict else {})}
    return {"format": {"type": "json_object"}} if wanted is ResponseFormat.JSON else None


def _stop(request: Request) -> None:
    if request.stop:
        raise UnsupportedError("stop: OpenAI Responses has no stop sequences")


def _seed(request: Request) -> None:
    if request.seed is not None:
        raise UnsupportedError("seed: OpenAI Responses has none")


FIELDS: Final[Mapping[str, Callable[[Request], Any]]] = {
    "max_output_tokens": checked_max_tokens,
    "temperature": lambda request: request.temperature,
    "top_p": lambda request: request.top_p,
    "stop": _stop,
    "seed": _seed,
    REASONING: _reasoning,
    TOOLS: _tools,
    TOOL_CHOICE: _tool_choice,
    "parallel_tool_calls": _parallel,
    "text": _text,
    "instructions": lambda request: request.system,
}
"""Every setting and where its value comes from, in the order they are written; ``None`` is not sent."""

OPTIONAL: Final = (REASONING, INCLUDE)
"""What a lean retry leaves out: the effort, and the encrypted reasoning that is asked for."""

RENAMES: Final[Mapping[str, tuple[str, ...]]] = {}
"""Nothing goes by another name."""

OWNED: Final = frozenset(
    {
        "model",
        "input",
        "stream",
        "background",
        "max_output_tokens",
        "temperature",
        "top_p",
        "parallel_tool_calls",
        "instructions",
    }
)
"""What ``Request.extra`` may not set. ``tools`` of it come before the request's own, entries of ``include`` and keys
of ``reasoning`` and ``text`` that the codec left open stand beside the codec's; ``store`` is taken, and ``tool_choice``
where the codec has none."""

COUNTED: Final = frozenset(
    {
        "model",
        "instructions",
        TOOLS,
        TOOL_CHOICE,
        "parallel_tool_calls",
        REASONING,
        "text",
        "truncation",
        "previous_response_id",
        "conversation",
        "personality",
    }
)
"""What the endpoint that counts tokens takes beside ``input`` (20 section 13)."""


def optional_fields(request: Request) -> frozenset[str]:
    """The optional fields that ``request`` asks for: what a lean retry would leave out."""
    return frozenset({INCLUDE} if request.effort is None else OPTIONAL)


def _settings(request: Request, omit: frozenset[str]) -> Json:
    """Every field of the body but the conversation, as values that JSON can carry."""
    extra = dict(plain(request.extra, "Request.extra"))
    fields: Json = {"model": plain(request.model, "Request.model"), "stream": True, STORE: extra.pop(STORE, False)}
    include = [] if INCLUDE in omit else [ENCRYPTED]
    asked = extra.pop(INCLUDE, [])
    if not is_array(asked):
        raise ConfigError("Request.extra: 'include' is a list")
    include += [entry for entry in asked if entry not in include]
    if include:
        fields[INCLUDE] = include
    left_out: Json = {}
    for name, read in FIELDS.items():
        value = read(request)
        if value is not None:
            (left_out if name in omit else fields)[name] = plain(value, name)
    return with_extra(fields, extra, OWNED | (fields.keys() & {TOOL_CHOICE}), left_out)


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
        omit: optional fields to leave out: "reasoning" (the effort), "include". Other names are ignored.
    """

    context_tokens: int | None = attrs.field(default=None, validator=attrs.validators.optional(at_least(1)))
    image_tokens: int | None = attrs.field(default=None, validator=attrs.validators.optional(at_least(0)))
    omit: frozenset[str] = attrs.field(factory=frozenset[str], converter=_omit)

    def encode(self, request: Request, measured: Measurements | None = None) -> Body:
        """The body of ``request``; ``measured`` knows its files on disk (``svir_client.files.measure``).

        Raises ``UnsupportedError`` for what OpenAI Responses cannot carry, ``AttachmentError`` for an
        attachment that cannot be planned, ``ContextOverflowError`` when admission refuses, and
        ``ConfigError`` for a setting that is wrong, each naming the place.
        """
        settings = _settings(expect(request, Request, "request"), self.omit)
        body, images = _written(request, measured, settings)
        admit(
            body.length,
            request.max_tokens,
            images,
            context_tokens=self.context_tokens,
            image_tokens=self.image_tokens,
        )
        return body

    def encode_count(self, request: Request, measured: Measurements | None = None) -> Body:
        """The body that asks for the tokens of ``request``; raises as :meth:`encode` does, but for admission."""
        settings = _settings(expect(request, Request, "request"), self.omit)
        return _written(request, measured, {key: value for key, value in settings.items() if key in COUNTED})[0]


def _written(request: Request, measured: Measurements | None, settings: Json) -> tuple[Body, ImageCount]:
    """The body, and what its images count."""
    writer = BodyWriter()
    writer.write(orjson.dumps(settings)[:-1], b',"input":[')
    conversation = Conversation(writer, measured)
    for number, message in enumerate(request.messages):
        conversation.message(message, f"messages[{number}]")
    if conversation.empty and ELSEWHERE.isdisjoint(settings):
        raise UnsupportedError("messages: OpenAI Responses takes no request without a message that says something")
    writer.write(b"]}")
    return writer.body(), conversation.counted
