"""What was said in a call, as the GenAI semantic conventions write it, known secrets taken out (50, Redaction)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, Final, cast

import orjson

from svir_client.tracing.record import Content, sound
from svir_core.errors import SvirError
from svir_core.message import (
    CachePoint,
    Image,
    Media,
    Message,
    Opaque,
    Part,
    Reasoning,
    Text,
    TextFile,
    ToolCall,
    ToolResult,
)
from svir_core.redact import Redactor
from svir_core.request import Request
from svir_core.response import Completion

DEEPEST: Final = 100
"""Levels of nesting in arguments that are written as JSON: writers of JSON give up at some 250, and Python at 500."""


def content_of(
    request: Request, completion: Completion | None, error: BaseException | None, redactor: Redactor
) -> Content:
    """What ``request`` asked and what came of it. Without bytes, paths and URLs of files, and continuation data."""
    partial = error.partial if isinstance(error, SvirError) else None
    answer = completion or partial
    said = error.server_message() if isinstance(error, SvirError) else None
    return Content(
        system=None if request.system is None else redactor.text(request.system),
        input=tuple(message_form(each, redactor) for each in request.messages),
        output=() if answer is None else tuple(parts_of(answer.parts, redactor)),
        server_message=None if said is None else redactor.text(said),
    )


def message_form(message: Message, redactor: Redactor) -> dict[str, Any]:
    """The JSON form of ``message``."""
    return {"role": message.role.value, "parts": parts_of(message.parts, redactor)}


def arguments_form(call: ToolCall, redactor: Redactor) -> Any:
    """The arguments of ``call`` as the value that they are, else as their text."""
    (form,) = parts_of([call], redactor)
    return call.arguments if form["arguments"] is None else form["arguments"]


def result_form(result: ToolResult, redactor: Redactor) -> str | tuple[dict[str, Any], ...]:
    """What ``result`` holds: its text, or the JSON forms of its parts."""
    if isinstance(result.content, str):
        return redactor.text(result.content)
    return tuple(parts_of(result.content, redactor))


def error_words(error: BaseException) -> str:
    """The class and the text of ``error``; the class alone when the text cannot be had."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a __str__ of the caller's
        text = ""
    return f"{name}: {text}" if text else name


def parts_of(parts: Iterable[Part], redactor: Redactor) -> list[dict[str, Any]]:
    """The JSON form of ``parts``."""
    forms = [_part(part) for part in parts]
    return [redactor.json(_read_arguments(form, redactor)) for form in forms if form is not None]


def _read_arguments(form: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Arguments as the value that they are, so that a secret is found however it is escaped and keys stay; or as
    their text, when they are no JSON, or nested beyond reason."""
    if form["type"] == "tool_call":
        with contextlib.suppress(orjson.JSONDecodeError):
            value = orjson.loads(sound(form["arguments"]))
            if not _deeper(value, DEEPEST):
                form["arguments"] = redactor.json(value)
    return form


def _deeper(value: Any, levels: int) -> bool:
    """Whether a JSON value is nested deeper than so many levels."""
    level: list[Any] = [value]
    while level and levels >= 0:
        objects = [item for each in level if isinstance(each, dict) for item in cast("dict[str, Any]", each).values()]
        level = objects + [item for each in level if isinstance(each, list) for item in cast("Iterable[Any]", each)]
        levels -= 1
    return bool(level)


def _part(part: Part) -> dict[str, Any] | None:
    match part:
        case Text(text=text):
            return {"type": "text", "content": text}
        case Reasoning(text=text):
            return {"type": "reasoning", "content": text}
        case ToolCall(id=id, name=name, arguments=arguments):
            return {"type": "tool_call", "id": id, "name": name, "arguments": arguments}
        case ToolResult(call_id=id, content=content):
            response = content if isinstance(content, str) else [_part(each) for each in content]
            return {"type": "tool_call_response", "id": id, "response": response}
        case Image(media_type=media_type):
            return {"type": "file", "modality": "image", "mime_type": media_type}
        case TextFile(name=name):
            return {"type": "file", "modality": "text", "name": name}
        case Media(media_type=media_type):
            return {"type": "file", "modality": (media_type or "file").partition("/")[0], "mime_type": media_type}
        case Opaque() | CachePoint():
            return None
