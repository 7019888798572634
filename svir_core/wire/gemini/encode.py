"""A request as the body of Gemini's ``streamGenerateContent``, and of the endpoint that counts its tokens.

Three rules hold for all of it. Only what the request sets is sent, in camelCase; the model stands in the URL. The
settings come first and the contents last, so that the body of a longer conversation starts with the bytes of the
shorter one, up to the new turn. What the API has no field for is refused by name.
Source: 22 sections 2 to 6 and 12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs
import orjson

from svir_core.body import Body, BodyWriter, Measurements
from svir_core.check import at_least, expect, instance_of
from svir_core.errors import ConfigError, UnsupportedError
from svir_core.json_text import plain
from svir_core.request import Effort, Request, ResponseFormat, Schema, Tool, ToolMode
from svir_core.wire.admission import admit
from svir_core.wire.gemini.conversation import Conversation
from svir_core.wire.json_value import Json, is_array, is_object
from svir_core.wire.settings import TOOLS, check_tool_choice, checked_max_tokens, place, with_extra, with_tool_extra

CONFIG: Final = "generationConfig"
THINKING: Final = "thinkingConfig"
DECLARATIONS: Final = "functionDeclarations"
JSON_TYPE: Final = "application/json"

EFFORTS: Final[Mapping[Effort, Json]] = {
    Effort.OFF: {"thinkingBudget": 0},
    **{
        effort: {"includeThoughts": True, "thinkingLevel": effort.name}
        for effort in (Effort.MINIMAL, Effort.LOW, Effort.MEDIUM, Effort.HIGH, Effort.XHIGH)
    },
}
"""``thinkingConfig`` for every effort. Who asks for thinking is shown it: only summaries ever come."""

MODES: Final[Mapping[ToolMode, str]] = {
    ToolMode.NONE: "NONE",
    ToolMode.REQUIRED: "ANY",
    ToolMode.NAMED: "ANY",
}
"""``functionCallingConfig.mode`` for every mode but ``AUTO``, which is the default and never sent."""

OPTIONAL: Final = (THINKING,)
"""What a lean retry leaves out: models that do not think, or not by level or by budget, refuse it."""

RENAMES: Final[Mapping[str, tuple[str, ...]]] = {}
"""Nothing goes by another name."""

EMPTY_SCHEMA_KEYS: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "title", "description", "$schema"}
)
"""What the schema of a tool without arguments may have; it is left out (22 section 4)."""

EXCLUSIVE: Final = (
    ("thinkingLevel", "thinkingBudget"),
    ("responseSchema", "responseJsonSchema"),
    ("parameters", "parametersJsonSchema"),
)
"""Keys that the API refuses beside each other."""


def _takes_nothing(schema: Mapping[str, Any]) -> bool:
    says = any(schema.get(key) for key in ("properties", "required", "additionalProperties"))
    return not says and schema.keys() <= EMPTY_SCHEMA_KEYS


def _tool(tool: Tool, where: str) -> Json:
    fields: Json = {"name": tool.name}
    if tool.description:
        fields["description"] = tool.description
    if not _takes_nothing(tool.schema):
        fields["parametersJsonSchema"] = tool.schema
    fields = with_tool_extra(fields, tool, where)
    _check_exclusive(fields, where)
    return fields


def _tools(request: Request) -> list[Json] | None:
    declared = [_tool(tool, f"tools[{number}]") for number, tool in enumerate(request.tools)]
    return [{DECLARATIONS: declared}] if declared else None


def _calling(request: Request) -> Json | None:
    choice = request.tool_choice
    check_tool_choice(request)
    if request.tools and request.parallel_tools is False:
        raise UnsupportedError("parallel_tools: Gemini cannot be kept to one call at a time")
    if choice.mode is ToolMode.AUTO or (choice.mode is ToolMode.NONE and not request.tools):
        return None
    names: Json = {} if choice.name is None else {"allowedFunctionNames": [choice.name]}
    return {"mode": MODES[choice.mode], **names}


def _type(request: Request) -> str | None:
    return None if request.response_format is ResponseFormat.TEXT else JSON_TYPE


def _schema(request: Request) -> Any:
    wanted = request.response_format
    return wanted.schema if isinstance(wanted, Schema) else None


def _thinking(request: Request) -> Json | None:
    return None if request.effort is None else EFFORTS[request.effort]


Path = tuple[str, ...]

FIELDS: Final[Mapping[Path, Callable[[Request], Any]]] = {
    (CONFIG, "maxOutputTokens"): checked_max_tokens,
    (CONFIG, "temperature"): lambda request: request.temperature,
    (CONFIG, "topP"): lambda request: request.top_p,
    (CONFIG, "stopSequences"): lambda request: request.stop or None,
    (CONFIG, "seed"): lambda request: request.seed,
    (CONFIG, "responseMimeType"): _type,
    (CONFIG, "responseJsonSchema"): _schema,
    (CONFIG, THINKING): _thinking,
    (TOOLS,): _tools,
    ("toolConfig", "functionCallingConfig"): _calling,
}
"""Every setting, where it stands and where its value comes from, in the order they are written; ``None`` is not
sent."""

OWNED: Final = frozenset(
    {"model", "stream", "contents", "systemInstruction", "system_instruction", "generation_config", "tool_config"}
)
"""What ``Request.extra`` may not set: what the codec writes, and other spellings of it."""


SPELLED: Final[tuple[Path, ...]] = (
    (CONFIG,),
    (CONFIG, THINKING),
    (TOOLS,),
    (TOOLS, DECLARATIONS),
    ("toolConfig",),
    ("toolConfig", "functionCallingConfig"),
)
"""The objects of ``Request.extra`` that join the codec's own, in which the API would take another spelling for a second
value of the same key."""


def optional_fields(request: Request) -> frozenset[str]:
    """The optional fields that ``request`` asks for: what a lean retry would leave out."""
    return frozenset(OPTIONAL) if request.effort is not None else frozenset()


def _check_spelling(value: Any, path: Path, where: str) -> None:
    """Refuse a second spelling of a key in the object, or the list of objects, that ``path`` leads to."""
    for number, each in enumerate(value) if is_array(value) else ():
        _check_spelling(each, path, f"{where}[{number}]")
    if is_object(value):
        if path:
            _check_spelling(value.get(path[0]), path[1:], f"{where}.{path[0]}")
        else:
            other = next((key for key in value if "_" in key), None)
            if other is not None:
                raise ConfigError(f"{where} may not set {other!r}: Gemini's keys are written in camelCase")


def _check_exclusive(fields: Json, where: str) -> None:
    for one, other in EXCLUSIVE:
        if one in fields and other in fields:
            raise ConfigError(f"{where}: Gemini does not take {one!r} and {other!r} together")


def _settings(request: Request, omit: frozenset[str]) -> Json:
    """Every field of the body but the system prompt and the contents, as values that JSON can carry."""
    fields: Json = {}
    left_out: Json = {}
    for path, read in FIELDS.items():
        value = read(request)
        if value is not None:
            place(left_out if path[-1] in omit else fields, path, plain(value, ".".join(path)))
    extra = plain(request.extra, "Request.extra")
    for path in SPELLED:
        _check_spelling(extra, path, "Request.extra")
    merged = with_extra(fields, extra, OWNED, left_out)
    config = merged.get(CONFIG)
    if is_object(config):
        _check_exclusive(config, CONFIG)
        thinking = config.get(THINKING)
        if is_object(thinking):
            _check_exclusive(thinking, f"{CONFIG}.{THINKING}")
    return _in_one_entry(merged)


def _in_one_entry(fields: Json) -> Json:
    """``fields`` with all declarations in one entry of the tools, the last: the API takes no second one."""
    tools = fields.get(TOOLS)
    if not is_array(tools):
        return fields
    declared = [tool[DECLARATIONS] for tool in tools if is_object(tool) and is_array(tool.get(DECLARATIONS))]
    if len(declared) < 2:
        return fields
    others = [tool for tool in tools if not (is_object(tool) and is_array(tool.get(DECLARATIONS)))]
    return {**fields, TOOLS: [*others, {DECLARATIONS: [each for group in declared for each in group]}]}


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
        omit: optional fields to leave out: "thinkingConfig". Other names are ignored.
        skip_signatures: send the documented stand-in for a signature with the first call of each answer that has
            none, so that Gemini 3 takes a history from elsewhere (22 section 6).
    """

    context_tokens: int | None = attrs.field(default=None, validator=attrs.validators.optional(at_least(1)))
    image_tokens: int | None = attrs.field(default=None, validator=attrs.validators.optional(at_least(0)))
    omit: frozenset[str] = attrs.field(factory=frozenset[str], converter=_omit)
    skip_signatures: bool = attrs.field(default=False, validator=instance_of(bool))

    def encode(self, request: Request, measured: Measurements | None = None) -> Body:
        """The body of ``request``; ``measured`` knows its files on disk (``svir_client.files.measure``).

        Raises ``UnsupportedError`` for what Gemini cannot carry, ``AttachmentError`` for an attachment that cannot be
        planned, ``ContextOverflowError`` when admission refuses, and ``ConfigError`` for a setting that is wrong, each
        naming the place.
        """
        expect(request, Request, "request")
        writer = BodyWriter()
        conversation = self._write(writer, _settings(request, self.omit), request, measured)
        body = writer.body()
        admit(
            body.length,
            request.max_tokens,
            conversation.content.counted,
            context_tokens=self.context_tokens,
            image_tokens=self.image_tokens,
        )
        return body

    def encode_count(self, request: Request, measured: Measurements | None = None, *, model: str | None = None) -> Body:
        """The body that asks for the tokens of ``request``: the whole request under the name of its ``model``
        ("models/m"), or, without one, as Vertex takes it: the conversation and the tools. Raises as ``encode`` does,
        but for admission."""
        expect(request, Request, "request")
        settings = _settings(request, self.omit)
        writer = BodyWriter()
        if model is None:
            counted = {key: value for key, value in settings.items() if key == TOOLS}
            self._write(writer, counted, request, measured)
        else:
            writer.write(b'{"generateContentRequest":')
            self._write(writer, {"model": plain(model, "model"), **settings}, request, measured)
            writer.write(b"}")
        return writer.body()

    def _write(
        self, writer: BodyWriter, settings: Json, request: Request, measured: Measurements | None
    ) -> Conversation:
        writer.write(orjson.dumps(settings)[:-1], b"," if settings else b"")
        conversation = Conversation(writer, measured, skip_signatures=self.skip_signatures)
        conversation.write(request.system, request.messages)
        writer.write(b"}")
        return conversation
