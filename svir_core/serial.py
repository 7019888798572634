"""The JSON form of every public type and error: one row per type, in one table (00 section 3).

A value is an object with its ``type`` first, then its fields in the order of the table; a field that
has its default is left out. Bytes are base64, enums are their values, several values are an array
(and come back as a tuple). The form is a contract: fields are added with a default, never renamed.

What holds a credential has no form: ``Secret``, ``Endpoint``, ``HttpRequest`` and ``Retry`` are refused
with ``ConfigError``. So are values of types that are not in the table, subclasses too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from operator import attrgetter
from typing import Any, Final, TypeVar, cast, overload

import attrs
import orjson

from svir_core import (
    call,
    errors,
    event,
    explanation,
    history,
    http_message,
    limits,
    message,
    quirk,
    request,
    response,
    server_profile,
    think,
)
from svir_core.body import Measured
from svir_core.errors import SvirError
from svir_core.json_form import (
    BASE64,
    BOOLEAN,
    FILE_PATH,
    INTEGER,
    JSON,
    NUMBER,
    STRING,
    STRINGS,
    Array,
    Choice,
    Flags,
    Form,
    Optional,
    Path,
    Word,
    fail,
    said,
)
from svir_core.wire import api

T = TypeVar("T")


@attrs.frozen
class _Field:
    """One field: its name in JSON, its form, its default, and how it is read from a value."""

    name: str
    form: Form
    default: Any
    get: Callable[[Any], Any]


@attrs.frozen
class Row:
    """One type: its tag, its fields in the order of its JSON, and what makes it again."""

    cls: type
    tag: str
    fields: tuple[_Field, ...]

    def write(self, value: Any, path: Path) -> dict[str, Any]:
        """``value`` as an object."""
        document: dict[str, Any] = {"type": self.tag}
        for field in self.fields:
            content = field.get(value)
            if not _same(content, field.default):
                document[field.name] = field.form.write(content, (path, field.name))
        return document

    def read(self, document: Mapping[str, Any], path: Path) -> Any:
        """The value that ``document`` stands for."""
        values: dict[str, Any] = {}
        for field in self.fields:
            if field.name in document:
                values[field.name] = field.form.read(document[field.name], (path, field.name))
            elif field.default is attrs.NOTHING:
                fail((path, field.name), "is missing")
        for key in document:
            if key != "type" and key not in values:
                fail((path, str(key)), f"{self.tag!r} has no such field")
        try:
            return self.cls(**values)
        except SvirError as error:
            detail = error.detail
        return fail(path, detail)


def _same(value: Any, default: Any) -> bool:
    """Whether ``value`` may be left out. Keys in another order are another value: prompts are cached by bytes."""
    if type(value) is not type(default) or value != default:
        return False
    return not isinstance(value, dict) or list(cast("dict[str, Any]", value)) == list(default)


def _record(tag: str, cls: type[attrs.AttrsInstance], **forms: Form) -> Row:
    """The row of an attrs class; its defaults are the class's own."""
    fields: list[_Field] = []
    for name, form in forms.items():
        default: Any = getattr(attrs.fields(cls), name).default
        if isinstance(default, cast("type[Any]", attrs.Factory)):
            default = default.factory()
        fields.append(_Field(name, form, default, attrgetter(name)))
    return Row(cls, tag, tuple(fields))


def _word(tag: str, cls: type[Enum]) -> Row:
    """The row of an enum, for a member that stands alone; a field holds its value only."""
    return Row(cls, tag, (_Field("value", Word(cls), attrs.NOTHING, lambda member: member),))


class _Tagged:
    """An object of one of these types, known by its ``type``; without types, any that has a row."""

    __slots__ = ("_classes",)

    def __init__(self, *classes: type) -> None:
        self._classes = classes

    def write(self, value: Any, path: Path) -> dict[str, Any]:
        """What the row of the value's type writes."""
        row = _BY_CLASS.get(cast(object, value).__class__)
        if row is None:
            fail(path, f"{said(value)} has no JSON form")
        return self._expected(row, path).write(value, path)

    def read(self, document: Any, path: Path) -> Any:
        """What the row of the object's ``type`` reads."""
        if not isinstance(document, Mapping):
            fail(path, f"expected an object with a type, got {said(document)}")
        fields = cast("Mapping[str, Any]", document)
        if "type" not in fields:
            fail((path, "type"), "is missing")
        tag = fields["type"]
        row = _BY_TAG.get(tag) if isinstance(tag, str) else None
        if row is None:
            fail((path, "type"), "is not the name of a type")
        return self._expected(row, (path, "type")).read(fields, path)

    def _expected(self, row: Row, path: Path) -> Row:
        if self._classes and row.cls not in self._classes:
            names = " or ".join(repr(_BY_CLASS[cls].tag) for cls in self._classes)
            fail(path, f"expected {names}, got {row.tag!r}")
        return row


_SOURCE: Final = _Tagged(message.PathSource, message.BytesSource, message.UrlSource)
_RESULT_PARTS: Final = (message.Text, message.Image, message.TextFile, message.Media)
_PART: Final = _Tagged(*_RESULT_PARTS, message.Reasoning, message.ToolCall, message.ToolResult, message.Opaque)
_PARTS: Final = Array(_PART)
_OPAQUE: Final = Optional(_Tagged(message.Opaque))
_USAGE: Final = Optional(_Tagged(response.Usage))
_ANOMALIES: Final = Array(_Tagged(response.Anomaly))
_MAYBE_STRING: Final = Optional(STRING)
_MAYBE_INTEGER: Final = Optional(INTEGER)
_MAYBE_NUMBER: Final = Optional(NUMBER)


def _error(tag: str, cls: type[SvirError]) -> Row:
    """The row of an error; the server's message is part of it, as it is of a pickle."""
    fields = (
        _Field("detail", STRING, attrs.NOTHING, attrgetter("detail")),
        _Field("retry_after", _MAYBE_NUMBER, None, attrgetter("retry_after")),
        _Field("status", _MAYBE_INTEGER, None, attrgetter("status")),
        _Field("unsent", BOOLEAN, False, attrgetter("unsent")),
        _Field("partial", Optional(_Tagged(response.Partial)), None, attrgetter("partial")),
        _Field("server_message", _MAYBE_STRING, None, attrgetter("_server_message")),
        _Field("anomalies", _ANOMALIES, (), attrgetter("anomalies")),
        _Field("offset", _MAYBE_INTEGER, None, attrgetter("offset")),
    )
    return Row(cls, tag, fields)


_ERRORS: Final[Mapping[str, type[SvirError]]] = {
    "transport_error": errors.TransportError,
    "response_timeout_error": errors.ResponseTimeoutError,
    "rate_limited_error": errors.RateLimitedError,
    "truncated_stream_error": errors.TruncatedStreamError,
    "authentication_error": errors.AuthenticationError,
    "context_overflow_error": errors.ContextOverflowError,
    "content_filter_error": errors.ContentFilterError,
    "protocol_error": errors.ProtocolError,
    "server_error": errors.ServerError,
    "unsupported_error": errors.UnsupportedError,
    "response_limit_error": errors.ResponseLimitError,
    "attachment_error": errors.AttachmentError,
    "config_error": errors.ConfigError,
}
_EVENT: Final = _Tagged(event.TextDelta, event.ReasoningDelta, event.ToolCallDelta, event.Completed)

TABLE: Final = (
    # messages and their parts
    _word("role", message.Role),
    _record("message", message.Message, role=Word(message.Role), parts=_PARTS),
    _record("text", message.Text, text=STRING),
    _record("image", message.Image, source=_SOURCE, media_type=_MAYBE_STRING),
    _record("text_file", message.TextFile, source=_SOURCE, name=STRING, escaped_length=_MAYBE_INTEGER),
    _record("media", message.Media, source=_SOURCE, media_type=_MAYBE_STRING, name=_MAYBE_STRING),
    _record("reasoning", message.Reasoning, source=STRING, text=STRING, opaque=_OPAQUE),
    _record(
        "tool_call",
        message.ToolCall,
        id=STRING,
        name=STRING,
        arguments=STRING,
        complete=BOOLEAN,
        synthetic_id=BOOLEAN,
        opaque=_OPAQUE,
    ),
    _record(
        "tool_result",
        message.ToolResult,
        call_id=STRING,
        content=Choice(str, str, STRING, Array(_Tagged(*_RESULT_PARTS))),
        is_error=BOOLEAN,
    ),
    _record("opaque", message.Opaque, api=STRING, json=STRING),
    _record("path_source", message.PathSource, path=FILE_PATH),
    _record("bytes_source", message.BytesSource, data=BASE64),
    _record("url_source", message.UrlSource, url=STRING),
    # requests
    _record(
        "request",
        request.Request,
        model=STRING,
        system=_MAYBE_STRING,
        messages=Array(_Tagged(message.Message)),
        tools=Array(_Tagged(request.Tool)),
        tool_choice=_Tagged(request.ToolChoice),
        response_format=Choice(request.ResponseFormat, str, Word(request.ResponseFormat), _Tagged(request.Schema)),
        effort=Optional(Word(request.Effort)),
        max_tokens=_MAYBE_INTEGER,
        temperature=_MAYBE_NUMBER,
        top_p=_MAYBE_NUMBER,
        stop=Array(STRING),
        seed=_MAYBE_INTEGER,
        include_usage=Optional(BOOLEAN),
        send_reasoning=BOOLEAN,
        extra=JSON,
    ),
    _record("tool", request.Tool, name=STRING, description=STRING, schema=JSON, extra=JSON),
    _record("tool_choice", request.ToolChoice, mode=Word(request.ToolMode), name=_MAYBE_STRING),
    _word("tool_mode", request.ToolMode),
    _record("schema", request.Schema, name=STRING, schema=JSON, strict=BOOLEAN),
    _word("response_format", request.ResponseFormat),
    _word("effort", request.Effort),
    # responses
    _record(
        "completion",
        response.Completion,
        finish=Word(response.FinishReason),
        parts=_PARTS,
        usage=_USAGE,
        timing=Optional(_Tagged(response.Timing)),
        model=_MAYBE_STRING,
        id=_MAYBE_STRING,
        anomalies=_ANOMALIES,
        anomaly_count=INTEGER,
        raw_finish=_MAYBE_STRING,
        extra=JSON,
    ),
    _record("partial", response.Partial, parts=_PARTS, usage=_USAGE, model=_MAYBE_STRING, id=_MAYBE_STRING),
    _word("finish_reason", response.FinishReason),
    _record(
        "usage",
        response.Usage,
        input=_MAYBE_INTEGER,
        output=_MAYBE_INTEGER,
        total=_MAYBE_INTEGER,
        reasoning=_MAYBE_INTEGER,
        cache_read=_MAYBE_INTEGER,
        cache_write=_MAYBE_INTEGER,
    ),
    _record("timing", response.Timing, first=_MAYBE_NUMBER, last=_MAYBE_NUMBER, end=NUMBER, visible=INTEGER),
    _record("anomaly", response.Anomaly, code=Word(response.AnomalyCode), offset=INTEGER, excerpt=BASE64),
    _word("anomaly_code", response.AnomalyCode),
    # events
    _record("text_delta", event.TextDelta, text=STRING),
    _record("reasoning_delta", event.ReasoningDelta, source=STRING, text=STRING),
    _record(
        "tool_call_delta",
        event.ToolCallDelta,
        index=INTEGER,
        id=_MAYBE_STRING,
        name=_MAYBE_STRING,
        arguments=_MAYBE_STRING,
    ),
    _record("completed", event.Completed, completion=_Tagged(response.Completion)),
    Row(
        event.Events,
        "events",
        (
            _Field("items", Array(_EVENT), (), lambda events: tuple(events.items)),
            _Field("error", Optional(_Tagged(*_ERRORS.values())), None, attrgetter("error")),
        ),
    ),
    # configuration, and what a transport and the exchange say
    _record("limits", limits.Limits, wire_bytes=INTEGER, event_bytes=INTEGER, tool_calls=INTEGER),
    _record("think", think.Think, start=STRING, markers=Array(STRING, length=2)),
    _word("mode", api.Mode),
    _record(
        "codec_options",
        api.CodecOptions,
        mode=Word(api.Mode),
        think=Choice(str, str, STRING, _Tagged(think.Think)),
        limits=_Tagged(limits.Limits),
        context_tokens=_MAYBE_INTEGER,
        image_tokens=_MAYBE_INTEGER,
        quirks=Flags(quirk.Quirk),
    ),
    _record(
        "profile",
        server_profile.Profile,
        name=STRING,
        seen=STRING,
        quirks=Flags(quirk.Quirk),
        omit=Array(STRING, frozenset),
        rename=STRINGS,
    ),
    Row(quirk.Quirk, "quirk", (_Field("value", Flags(quirk.Quirk), attrs.NOTHING, lambda quirks: quirks),)),
    _record("compat", api.Compat, omit=Array(STRING, frozenset), rename=STRINGS),
    _record("model", api.Model, id=STRING, name=_MAYBE_STRING),
    _record("measured", Measured, size=INTEGER, escaped_length=_MAYBE_INTEGER),
    _record("response_head", http_message.ResponseHead, status=INTEGER, headers=Array(Array(STRING, length=2))),
    _record("read_stream", call.ReadStream),
    _record("read_error", call.ReadError, limit=INTEGER, seconds=_MAYBE_NUMBER),
    # what is found out
    _record(
        "history_fault",
        history.HistoryFault,
        code=Word(history.HistoryFaultCode),
        message=INTEGER,
        part=INTEGER,
        call_id=STRING,
    ),
    _word("history_fault_code", history.HistoryFaultCode),
    _record(
        "explanation",
        explanation.Explanation,
        attempts=Array(_Tagged(explanation.Attempt)),
        findings=Array(_Tagged(explanation.Finding)),
        alternatives=Array(Flags(quirk.Quirk)),
    ),
    _record(
        "attempt",
        explanation.Attempt,
        mode=Word(api.Mode),
        quirks=Flags(quirk.Quirk),
        outcome=_Tagged(response.Completion, *_ERRORS.values()),
    ),
    _record(
        "finding",
        explanation.Finding,
        detail=STRING,
        offset=INTEGER,
        kind=Optional(Word(errors.ErrorKind)),
        lenient=BOOLEAN,
        code=Optional(Word(response.AnomalyCode)),
        count=INTEGER,
        quirks=Flags(quirk.Quirk),
        excerpt=BASE64,
    ),
    # errors
    _word("error_kind", errors.ErrorKind),
    *(_error(tag, cls) for tag, cls in _ERRORS.items()),
)
"""One row per type: its ``type`` in JSON, the class, and the form of each field."""

_BY_CLASS: Final[Mapping[type, Row]] = {row.cls: row for row in TABLE}
_BY_TAG: Final[Mapping[str, Row]] = {row.tag: row for row in TABLE}
_ANY: Final = _Tagged()
_SEVERAL: Final = Array(_ANY)


def to_json(value: Any) -> Any:
    """``value`` as what JSON is made of: ``dict``, ``list``, ``str``, numbers, ``bool``, ``None``.

    ``value`` is of a public type or an error, or a list or tuple of such values. Raises
    ``ConfigError``, naming the path, for anything that has no form: a ``Secret`` and what holds one,
    a value of another type or a field of the wrong type, a file name that is not valid Unicode, and
    caller's JSON that is none, nests deeper than ``NESTING`` or holds an integer beyond 64 bits.
    """
    if isinstance(value, list | tuple):
        return _SEVERAL.write(tuple(cast("list[Any]", value)), None)
    return _ANY.write(value, None)


@overload
def from_json(document: Any) -> Any: ...
@overload
def from_json(document: Any, expected: type[T]) -> T: ...
def from_json(document: Any, expected: type[Any] = object) -> Any:
    """The value that ``document``, parsed JSON, stands for: the inverse of :func:`to_json`.

    An array gives a tuple. Raises ``ConfigError``, naming the path but no value, when the document
    is not the form of a public type, or its value is not an ``expected``.
    """
    value: Any = (_SEVERAL if isinstance(document, list | tuple) else _ANY).read(document, None)
    if not isinstance(value, expected):
        fail(None, f"expected the form of {expected.__name__}, got that of {type(value).__name__}")
    return value


def dumps(value: Any) -> bytes:
    """:func:`to_json` as bytes of JSON: compact UTF-8, the same bytes each time."""
    return orjson.dumps(to_json(value))


@overload
def loads(data: bytes | bytearray | memoryview | str) -> Any: ...
@overload
def loads(data: bytes | bytearray | memoryview | str, expected: type[T]) -> T: ...
def loads(data: bytes | bytearray | memoryview | str, expected: type[Any] = object) -> Any:
    """:func:`from_json` of the JSON in ``data``; data that is no JSON is a ``ConfigError`` too."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        offset = error.pos
    else:
        return from_json(document, expected)
    return fail(None, f"not JSON, at character {offset}")
