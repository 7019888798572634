"""Failures that a server reports as JSON: one sniffer for streams and error bodies of every wire API.

Three rules hold for all of it. A failure is known by its shape, before any other rule of the
protocol looks at the payload. The words are kept as the server sent them. Whether it is a context
overflow is decided by the tables below and nowhere else.
Source: 11-quirks section A, 10-chat-completions sections 7, 9 and 11.
"""

from __future__ import annotations

import re
from typing import Any, Final

import attrs

from svir_core.wire.failure_detail import read_detail
from svir_core.wire.json_value import Json, is_array, is_object, text_of

OVERFLOW_CODES: Final = frozenset(
    {"context_length_exceeded", "context_window_exceeded", "exceed_context_size_error", "request_too_large"}
)
"""``error.code`` or ``error.type`` of an overflow (10 section 9). Seen on OpenAI, llama.cpp and Anthropic."""

OVERFLOW_WORDS: Final = re.compile(
    r"context (?:length|size|window|budget|limit)|compacted context"
    r"|prompt is too long|input token count \([0-9]+\) exceeds",
    re.IGNORECASE,
)
"""An overflow in words: LM Studio, mlx-vlm, vLLM (10 section 9), Anthropic (21 section 13), Google (22 section 11).
New wordings are added here."""

BODY: Final = "body"
"""Where the ``loc`` of a FastAPI server begins: vLLM, SGLang, Mistral, Azure's model inference."""


def tells_overflow(words: str) -> bool:
    """Whether ``words`` speak of a context overflow."""
    return OVERFLOW_WORDS.search(words) is not None


@attrs.frozen
class Failure:
    """What a server said went wrong. ``message`` is ``None`` when the shape has no words of its own:
    the payload as sent then stands for it. ``param`` names the request field at fault, where given;
    ``others`` are further fields at fault, each with its own words; ``reason`` is a word more special than
    ``code``, and ``retry_after`` the seconds to wait, both from the ``details``."""

    message: str | None = None
    code: str | None = None
    type: str | None = None
    param: str | None = None
    others: tuple[Failure, ...] = ()
    reason: str | None = None
    retry_after: float | None = None

    @property
    def overflow(self) -> bool:
        """Whether this is a context overflow, by code, type or words."""
        return self.code in OVERFLOW_CODES or self.type in OVERFLOW_CODES or tells_overflow(self.message or "")


def _entries(detail: Any) -> list[Any]:
    """The faults of a ``detail``: pydantic's list, or one alone."""
    return detail if is_array(detail) else [detail]


def _detail(value: Any) -> str | None:
    """FastAPI's ``detail``: a string, or a list whose first entry has ``msg``."""
    first = next(iter(_entries(value)), None)
    return text_of(first.get("msg")) if is_object(first) else text_of(value)


def _field(loc: Any) -> str | None:
    """The request field of pydantic's ``loc``: ``["body", "messages", 0, "role"]`` is ``messages[0].role``."""
    steps = loc[1:] if is_array(loc) and loc and loc[0] == BODY else loc
    if not is_array(steps) or not steps or not isinstance(steps[0], str):
        return None
    return steps[0] + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps[1:])


def _located(document: Json) -> list[Failure]:
    """Every field that the ``detail`` of a failure names, wherever servers put it."""
    places = (document, document.get("error"), document.get("message"))
    details = [place[key] for place in places if is_object(place) for key in ("detail", "details") if key in place]
    entries = [entry for detail in details for entry in _entries(detail) if is_object(entry)]
    faults = [Failure(text_of(entry.get("msg")), param=_field(entry.get("loc"))) for entry in entries]
    return [fault for fault in faults if fault.param is not None]


def describe(document: Json) -> Failure:
    """What ``document``, known to be a failure, says: ``error.message``, ``error`` when a string, a
    top-level ``message``, ``detail`` (a string, or the first entry's ``msg``), ``base_resp.status_msg``.

    The type is ``error.type``, or Google's ``error.status``. The field at fault is ``error.param``; else the
    ``loc`` of a ``detail``, further ones in ``others``; else what the ``details`` name."""
    error = document.get("error")
    base = document.get("base_resp")
    source = error if is_object(error) and error else document
    message = (
        (text_of(source.get("message")) if source is error else text_of(error))
        or text_of(document.get("message"))
        or _detail(document.get("detail"))
        or (text_of(base.get("status_msg")) if is_object(base) else None)
    )
    param = text_of(source.get("param"))
    others = tuple(_located(document))
    if param is None and others and others[0].message in (None, message):
        param, others = others[0].param, others[1:]
    detail = read_detail(source.get("details"))
    return Failure(
        message,
        text_of(source.get("code")),
        text_of(source.get("type")) or text_of(source.get("status")),
        param or detail.param,
        others,
        detail.reason,
        detail.retry_after,
    )


def sniff(document: Json) -> Failure | None:
    """The failure that ``document`` is, in any of the shapes of 11 A; ``None`` when it is none."""
    if document.get("error"):
        return describe(document)
    if document.get("object") == "error" and "message" in document:
        return describe(document)
    choices = document.get("choices")
    if choices:
        for choice in choices if is_array(choices) else ():
            if is_object(choice):
                if choice.get("error"):
                    return describe({**document, "error": choice["error"]})
                if choice.get("finish_reason") == "error":
                    return describe(document)
    elif document.get("detail"):
        return describe(document)
    base = document.get("base_resp")
    if is_object(base) and base.get("status_code") and base["status_code"] != "0":
        return describe(document)
    return None


def _object(body: Any) -> Json | None:
    """The object that a whole JSON body is; Google's compatible endpoints wrap it in a list."""
    value = body[0] if is_array(body) and body else body
    return value if is_object(value) else None


def sniff_body(body: Any) -> Failure | None:
    """The failure that a whole JSON body is; ``None`` when it is none."""
    document = _object(body)
    return None if document is None else sniff(document)


def describe_body(body: Any) -> Failure:
    """What a whole JSON body, known to be a failure, says; nothing when it is no object."""
    document = _object(body)
    return Failure() if document is None else describe(document)
