"""Requests as the cases write them (13 "Requests"), made into svir's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from conformance.fields import (
    CaseError,
    Fields,
    Json,
    anything,
    flag,
    integer,
    items,
    mapping,
    number,
    one_of,
    text,
)
from svir_core import serial
from svir_core.errors import ConfigError
from svir_core.message import Image, Message, Part, Reasoning, Role, Text, TextFile, ToolCall, ToolResult
from svir_core.request import Effort, Request, ResponseFormat, Schema, Tool, ToolChoice

NO_ARGUMENTS: Mapping[str, Json] = {"type": "object", "properties": {}}

Attach: TypeAlias = Callable[[str, str], Image | TextFile]
"""Gives the part for ("image" or "file", key); ``CaseError`` for a key that the case does not have."""

EFFORTS: Mapping[str, Effort] = {"none": Effort.OFF} | {str(effort): effort for effort in Effort}
FORMATS: Mapping[str, ResponseFormat] = {"text": ResponseFormat.TEXT, "json": ResponseFormat.JSON}
CHOICES: Mapping[str, ToolChoice] = {
    "auto": ToolChoice.AUTO,
    "none": ToolChoice.NONE,
    "required": ToolChoice.REQUIRED,
}


def no_attachments(kind: str, key: str) -> Image | TextFile:
    """The :data:`Attach` of a case without attachments."""
    raise CaseError(f"there is no attachment {key!r}")


def default_request() -> Request:
    """What a transport case asks when it does not say: model ``m``, one user text ``hi``."""
    return Request("m").user("hi")


def request(value: Json, where: str, attach: Attach = no_attachments) -> Request:
    """The request; ``CaseError`` when it is not in the notation. One with a ``type`` is in svir's JSON form."""
    if isinstance(value, dict) and "type" in value:
        return _from_json_form(value, where)
    with Fields(value, where) as fields:
        messages = fields.required("messages", items(lambda item, place: _message(item, place, attach)))
        system, messages = _leading_system(messages)
        effort = fields.optional("reasoning_effort", one_of(*EFFORTS), None)
        return Request(
            fields.required("model", text),
            system=system,
            messages=tuple(messages),
            tools=fields.optional("tools", items(_tool), ()),
            tool_choice=fields.optional("tool_choice", _tool_choice, ToolChoice.AUTO),
            response_format=fields.optional("response_format", _response_format, ResponseFormat.TEXT),
            effort=None if effort is None else EFFORTS[effort],
            max_tokens=fields.optional("max_tokens", integer, None),
            temperature=fields.optional("temperature", number, None),
            include_usage=fields.optional("include_usage", flag, None),
        )


def _from_json_form(value: Json, where: str) -> Request:
    try:
        return serial.from_json(value, Request)
    except ConfigError as error:
        problem = error.detail
    raise CaseError(f"{where}: {problem}")


def _leading_system(messages: list[Message]) -> tuple[str | None, list[Message]]:
    """A leading system message of texts alone is the request's ``system``. One with anything else
    stays a message: refusing it is the encoder's business."""
    if not messages or messages[0].role is not Role.SYSTEM:
        return None, messages
    texts = [part.text for part in messages[0].parts if isinstance(part, Text)]
    if len(texts) != len(messages[0].parts):
        return None, messages
    return "\n\n".join(texts), messages[1:]


def _message(value: Json, where: str, attach: Attach) -> Message:
    with Fields(value, where) as fields:
        role = fields.required("role", one_of(*(str(role) for role in Role)))
        parts = fields.required("parts", items(lambda item, place: _part(item, place, attach)))
        return Message(Role(role), tuple(parts))


def _part(value: Json, where: str, attach: Attach) -> Part:
    with Fields(value, where) as fields:
        kind = fields.only("text", "image", "file", "reasoning", "tool_call", "tool_result")
        if kind == "text":
            return Text(fields.required(kind, text))
        if kind in ("image", "file"):
            return attach(kind, fields.required(kind, text))
        return fields.required(kind, STRUCTURED_PARTS[kind])


def _reasoning(value: Json, where: str) -> Part:
    with Fields(value, where) as fields:
        return Reasoning(fields.required("source", text), fields.required("text", text))


def _tool_call(value: Json, where: str) -> Part:
    with Fields(value, where) as fields:
        return ToolCall(fields.required("id", text), fields.required("name", text), fields.required("arguments", text))


def _tool_result(value: Json, where: str) -> Part:
    with Fields(value, where) as fields:
        return ToolResult(
            fields.required("call_id", text), fields.required("content", text), fields.optional("is_error", flag, False)
        )


STRUCTURED_PARTS: Mapping[str, Callable[[Json, str], Part]] = {
    "reasoning": _reasoning,
    "tool_call": _tool_call,
    "tool_result": _tool_result,
}


def _tool(value: Json, where: str) -> Tool:
    with Fields(value, where) as fields:
        return Tool(
            fields.required("name", text),
            fields.optional("description", text, ""),
            fields.optional("input_schema", mapping(anything), NO_ARGUMENTS),
        )


def _tool_choice(value: Json, where: str) -> ToolChoice:
    if isinstance(value, dict):
        with Fields(value, where) as fields:
            return ToolChoice.tool(fields.required("tool", text))
    return CHOICES[one_of(*CHOICES)(value, where)]


def _response_format(value: Json, where: str) -> ResponseFormat | Schema:
    if isinstance(value, dict):
        with Fields(value, where) as fields:
            return fields.required("schema", _schema)
    return FORMATS[one_of(*FORMATS)(value, where)]


def _schema(value: Json, where: str) -> Schema:
    with Fields(value, where) as fields:
        return Schema(
            fields.required("name", text),
            fields.required("schema", mapping(anything)),
            fields.optional("strict", flag, False),
        )
