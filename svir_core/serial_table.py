"""The table of ``serial``: a row for every public type and error, and the form of each of its fields (00 section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Final

import attrs

from svir_core import (
    call,
    errors,
    event,
    explanation,
    generation,
    generation_event,
    history,
    http_message,
    limits,
    loop,
    loop_limits,
    loop_step,
    message,
    price,
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
    Optional,
    Word,
)
from svir_core.json_record import Field, Row, Rows, record, word
from svir_core.wire import api

_ROWS: Final = Rows()
_tagged: Final = _ROWS.tagged
_SOURCE: Final = _tagged(message.PathSource, message.BytesSource, message.UrlSource)
_RESULT_PARTS: Final = (message.Text, message.Image, message.TextFile, message.Media)
_PART: Final = _tagged(
    *_RESULT_PARTS, message.Reasoning, message.ToolCall, message.ToolResult, message.Opaque, message.CachePoint
)
_PARTS: Final = Array(_PART)
_CALLS: Final = Array(_tagged(message.ToolCall))
_OPAQUE: Final = Optional(_tagged(message.Opaque))
_USAGE: Final = Optional(_tagged(response.Usage))
_ANOMALIES: Final = Array(_tagged(response.Anomaly))
_MAYBE_STRING: Final = Optional(STRING)
_MAYBE_INTEGER: Final = Optional(INTEGER)
_MAYBE_NUMBER: Final = Optional(NUMBER)


def _error(tag: str, cls: type[SvirError]) -> Row:
    """The row of an error; the server's message is part of it, as it is of a pickle."""
    fields = (
        Field("detail", STRING, attrs.NOTHING, attrgetter("detail")),
        Field("retry_after", _MAYBE_NUMBER, None, attrgetter("retry_after")),
        Field("status", _MAYBE_INTEGER, None, attrgetter("status")),
        Field("unsent", BOOLEAN, False, attrgetter("unsent")),
        Field("partial", Optional(_tagged(response.Partial)), None, attrgetter("partial")),
        Field("server_message", _MAYBE_STRING, None, attrgetter("_server_message")),
        Field("anomalies", _ANOMALIES, (), attrgetter("anomalies")),
        Field("offset", _MAYBE_INTEGER, None, attrgetter("offset")),
        Field("retryable", BOOLEAN, cls.retryable, attrgetter("retryable")),
        Field("progress", Optional(_tagged(generation.Progress)), None, attrgetter("progress")),
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
    "max_rounds_error": errors.MaxRoundsError,
    "max_tool_calls_error": errors.MaxToolCallsError,
    "session_in_use_error": errors.SessionInUseError,
    "store_error": errors.StoreError,
    "config_error": errors.ConfigError,
}
_EVENT: Final = _tagged(event.TextDelta, event.ReasoningDelta, event.ToolCallDelta, event.Completed)

TABLE: Final = (
    # messages and their parts
    word("role", message.Role),
    record("message", message.Message, role=Word(message.Role), parts=_PARTS),
    record("text", message.Text, text=STRING, opaque=_OPAQUE),
    record("image", message.Image, source=_SOURCE, media_type=_MAYBE_STRING),
    record("text_file", message.TextFile, source=_SOURCE, name=STRING, escaped_length=_MAYBE_INTEGER),
    record("media", message.Media, source=_SOURCE, media_type=_MAYBE_STRING, name=_MAYBE_STRING),
    record("reasoning", message.Reasoning, source=STRING, text=STRING, opaque=_OPAQUE),
    record(
        "tool_call",
        message.ToolCall,
        id=STRING,
        name=STRING,
        arguments=STRING,
        complete=BOOLEAN,
        synthetic_id=BOOLEAN,
        opaque=_OPAQUE,
    ),
    record(
        "tool_result",
        message.ToolResult,
        call_id=STRING,
        content=Choice(str, str, STRING, Array(_tagged(*_RESULT_PARTS))),
        is_error=BOOLEAN,
    ),
    record("opaque", message.Opaque, api=STRING, json=STRING),
    record("cache_point", message.CachePoint, ttl=_MAYBE_STRING),
    record("path_source", message.PathSource, path=FILE_PATH),
    record("bytes_source", message.BytesSource, data=BASE64),
    record("url_source", message.UrlSource, url=STRING),
    # requests
    record(
        "request",
        request.Request,
        model=STRING,
        system=_MAYBE_STRING,
        messages=Array(_tagged(message.Message)),
        tools=Array(_tagged(request.Tool)),
        tool_choice=_tagged(request.ToolChoice),
        parallel_tools=Optional(BOOLEAN),
        response_format=Choice(request.ResponseFormat, str, Word(request.ResponseFormat), _tagged(request.Schema)),
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
    record("tool", request.Tool, name=STRING, description=STRING, schema=JSON, extra=JSON),
    record("tool_choice", request.ToolChoice, mode=Word(request.ToolMode), name=_MAYBE_STRING),
    word("tool_mode", request.ToolMode),
    record("schema", request.Schema, name=STRING, schema=JSON, strict=BOOLEAN),
    word("response_format", request.ResponseFormat),
    word("effort", request.Effort),
    # responses
    record(
        "completion",
        response.Completion,
        finish=Word(response.FinishReason),
        parts=_PARTS,
        usage=_USAGE,
        timing=Optional(_tagged(response.Timing)),
        model=_MAYBE_STRING,
        id=_MAYBE_STRING,
        anomalies=_ANOMALIES,
        anomaly_count=INTEGER,
        raw_finish=_MAYBE_STRING,
        extra=JSON,
    ),
    record("partial", response.Partial, parts=_PARTS, usage=_USAGE, model=_MAYBE_STRING, id=_MAYBE_STRING),
    word("finish_reason", response.FinishReason),
    record(
        "usage",
        response.Usage,
        input=_MAYBE_INTEGER,
        output=_MAYBE_INTEGER,
        total=_MAYBE_INTEGER,
        reasoning=_MAYBE_INTEGER,
        cache_read=_MAYBE_INTEGER,
        cache_write=_MAYBE_INTEGER,
    ),
    record("timing", response.Timing, first=_MAYBE_NUMBER, last=_MAYBE_NUMBER, end=NUMBER, visible=INTEGER),
    record("anomaly", response.Anomaly, code=Word(response.AnomalyCode), offset=INTEGER, excerpt=BASE64),
    word("anomaly_code", response.AnomalyCode),
    # events
    record("text_delta", event.TextDelta, text=STRING),
    record("reasoning_delta", event.ReasoningDelta, source=STRING, text=STRING),
    record(
        "tool_call_delta",
        event.ToolCallDelta,
        index=INTEGER,
        id=_MAYBE_STRING,
        name=_MAYBE_STRING,
        arguments=_MAYBE_STRING,
    ),
    record("completed", event.Completed, completion=_tagged(response.Completion)),
    Row(
        event.Events,
        "events",
        (
            Field("items", Array(_EVENT), (), lambda events: tuple(events.items)),
            Field("error", Optional(_tagged(*_ERRORS.values())), None, attrgetter("error")),
        ),
    ),
    # configuration, and what a transport and the exchange say
    record("limits", limits.Limits, wire_bytes=INTEGER, event_bytes=INTEGER, tool_calls=INTEGER),
    record("think", think.Think, start=STRING, markers=Array(STRING, length=2)),
    word("mode", api.Mode),
    record(
        "codec_options",
        api.CodecOptions,
        mode=Word(api.Mode),
        think=Choice(str, str, STRING, _tagged(think.Think)),
        limits=_tagged(limits.Limits),
        context_tokens=_MAYBE_INTEGER,
        image_tokens=_MAYBE_INTEGER,
        quirks=Flags(quirk.Quirk),
        extra=BOOLEAN,
    ),
    record(
        "profile",
        server_profile.Profile,
        name=STRING,
        seen=STRING,
        quirks=Flags(quirk.Quirk),
        omit=Array(STRING, frozenset),
        rename=STRINGS,
    ),
    Row(quirk.Quirk, "quirk", (Field("value", Flags(quirk.Quirk), attrs.NOTHING, lambda quirks: quirks),)),
    record("compat", api.Compat, omit=Array(STRING, frozenset), rename=STRINGS),
    record("model", api.Model, id=STRING, name=_MAYBE_STRING),
    record("model_page", api.ModelPage, models=Array(_tagged(api.Model)), after=_MAYBE_STRING),
    record("measured", Measured, size=INTEGER, escaped_length=_MAYBE_INTEGER),
    record("response_head", http_message.ResponseHead, status=INTEGER, headers=Array(Array(STRING, length=2))),
    record("read_stream", call.ReadStream),
    record("read_error", call.ReadError, limit=INTEGER, seconds=_MAYBE_NUMBER),
    # what is found out
    record(
        "history_fault",
        history.HistoryFault,
        code=Word(history.HistoryFaultCode),
        message=INTEGER,
        part=INTEGER,
        call_id=STRING,
    ),
    word("history_fault_code", history.HistoryFaultCode),
    record(
        "explanation",
        explanation.Explanation,
        attempts=Array(_tagged(explanation.Attempt)),
        findings=Array(_tagged(explanation.Finding)),
        alternatives=Array(Flags(quirk.Quirk)),
    ),
    record(
        "attempt",
        explanation.Attempt,
        mode=Word(api.Mode),
        quirks=Flags(quirk.Quirk),
        outcome=_tagged(response.Completion, *_ERRORS.values()),
    ),
    record(
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
    # generations
    record(
        "tool_loop",
        loop.ToolLoop,
        request=_tagged(request.Request),
        limits=_tagged(loop_limits.LoopLimits),
        requires_approval=Array(STRING, frozenset),
        start=_MAYBE_INTEGER,
        phase=Word(loop.LoopPhase),
        rounds=INTEGER,
        tool_calls=INTEGER,
        usage=_tagged(response.Usage),
        completion=Optional(_tagged(response.Completion)),
        approvals=JSON,
        outcome=Word(generation.GenerationOutcome),
        error=Optional(_tagged(*_ERRORS.values())),
    ),
    word("loop_phase", loop.LoopPhase),
    record(
        "loop_limits",
        loop_limits.LoopLimits,
        rounds=INTEGER,
        tool_calls=INTEGER,
        parallel=INTEGER,
        stop_on_tool_error=BOOLEAN,
    ),
    record("call_model", loop_step.CallModel, request=_tagged(request.Request), round=INTEGER),
    record("run_tools", loop_step.RunTools, calls=_CALLS, round=INTEGER),
    record("ask_approval", loop_step.AskApproval, calls=_CALLS, round=INTEGER),
    record("finished", loop_step.Finished, response=_tagged(generation.Generation)),
    record(
        "generation",
        generation.Generation,
        completion=_tagged(response.Completion),
        messages=Array(_tagged(message.Message)),
        usage=_tagged(response.Usage),
        rounds=INTEGER,
        tool_calls=INTEGER,
        outcome=Word(generation.GenerationOutcome),
        awaiting=_CALLS,
    ),
    record(
        "progress",
        generation.Progress,
        completion=Optional(_tagged(response.Completion)),
        messages=Array(_tagged(message.Message)),
        usage=_tagged(response.Usage),
        rounds=INTEGER,
        tool_calls=INTEGER,
    ),
    word("generation_outcome", generation.GenerationOutcome),
    record("round_event", generation_event.RoundEvent, round=INTEGER, event=_EVENT),
    record("round_results", generation_event.RoundResults, round=INTEGER, results=Array(_tagged(message.ToolResult))),
    record("prices", price.Prices, input=STRING, output=STRING, cache_read=_MAYBE_STRING, cache_write=_MAYBE_STRING),
    # errors
    word("error_kind", errors.ErrorKind),
    *(_error(tag, cls) for tag, cls in _ERRORS.items()),
)
"""One row per type: its ``type`` in JSON, the class, and the form of each field."""

_ROWS.fill(TABLE)
ANY: Final = _ROWS.tagged()
"""The form of a value of any type of the table."""
