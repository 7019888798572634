"""What spans and measurements of OpenTelemetry say, made from events (30 section 5)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from svir_client.tracing import genai
from svir_client.tracing.loop_record import GenerationEnd, GenerationFailure, GenerationStart, ToolEnd, ToolStart
from svir_client.tracing.record import (
    Attributes,
    Content,
    Outcome,
    ProviderEnd,
    ProviderStart,
    TraceEvent,
    plain,
    sound,
)
from svir_core.response import FinishReason

Values = dict[str, str | int | float | bool | list[str]]
Start = ProviderStart | GenerationStart | ToolStart
End = ProviderEnd | GenerationEnd | GenerationFailure | ToolEnd

TOOL_ERROR: Final = "tool_error"
"""The error type of a result that is flagged as an error: what the conventions for MCP call it."""


def span_name(values: Values) -> str:
    """What a span with these attributes is called. A generation has no name of its own: its agent has none."""
    operation = str(values[genai.OPERATION_NAME])
    if operation == genai.LOOP_OPERATIONS["generation"]:
        return operation
    return f"{operation} {values.get(genai.TOOL_NAME) or values[genai.REQUEST_MODEL]}"


def about(api: str, model: str, operation: str | None = None) -> Values:
    """What every span and every measurement of a model says."""
    return {
        genai.OPERATION_NAME: genai.OPERATIONS.get(api, "chat") if operation is None else operation,
        genai.PROVIDER_NAME: genai.PROVIDERS.get(api, api),
        genai.REQUEST_MODEL: sound(model),
    }


def began(event: TraceEvent, start: Start) -> Values:
    """What a span says at its start."""
    values: dict[str, Any]
    match start:
        case ProviderStart():
            values = {**about(start.api, start.model), genai.REQUEST_STREAM: True, genai.ROUND: start.round}
        case GenerationStart():
            values = {**about(start.api, start.model, genai.LOOP_OPERATIONS["generation"])}
        case ToolStart():
            values = {
                genai.OPERATION_NAME: genai.LOOP_OPERATIONS["tool"],
                genai.TOOL_NAME: event.name,
                genai.TOOL_CALL_ID: event.operation_id,
                genai.TOOL_TYPE: "function",
                genai.ROUND: start.round,
            }
    return optional({**values, genai.CONVERSATION_ID: event.session_id})


def error_type(end: End) -> str | None:
    """The kind of an error of ours, else the class of what was raised; ``None`` when it went well."""
    match end:
        case GenerationFailure():
            return end.error_class if end.error_kind is None else end.error_kind.value
        case GenerationEnd():
            return end.outcome.value if end.outcome is Outcome.ABANDONED else None
        case ToolEnd(outcome=Outcome.COMPLETED):
            return TOOL_ERROR if end.is_error else None
        case ToolEnd():
            return end.error_class or end.outcome.value
        case ProviderEnd(outcome=Outcome.COMPLETED):
            return None
        case ProviderEnd():
            return end.error_class or end.outcome.value if end.error_kind is None else end.error_kind.value


def is_failure(end: End) -> bool:
    """Whether the status of the span is an error."""
    match end:
        case GenerationFailure():
            return True
        case ToolEnd(is_error=True):
            return True
        case _:
            return end.outcome is Outcome.FAILED


def ended(end: End) -> Values:
    """What a span says at its end."""
    outcome = Outcome.FAILED if isinstance(end, GenerationFailure) else end.outcome
    values: dict[str, Any] = {genai.OUTCOME: outcome.value, genai.ERROR_TYPE: error_type(end)}
    if isinstance(end, ToolEnd):
        return optional(values)
    tokens = {} if end.usage is None else plain(end.usage)
    values |= {name: tokens.get(field) for field, name in genai.USAGE.items()}
    if isinstance(end, ProviderEnd):
        values |= _of_provider(end)
    else:
        values |= {genai.MODEL_ROUNDS: end.model_rounds, genai.TOOL_CALLS: end.tool_calls}
    reason = finish_reason(end)
    return optional(values | {genai.RESPONSE_FINISH_REASONS: None if reason is None else [reason.value]})


def _of_provider(end: ProviderEnd) -> dict[str, Any]:
    return {
        genai.RESPONSE_MODEL: end.answered_model,
        genai.RESPONSE_ID: end.response_id,
        genai.RESPONSE_TIME_TO_FIRST_CHUNK: end.first_token_seconds,
        genai.HTTP_STATUS: end.status,
        genai.RESEND_COUNT: end.retries or None,
        genai.REQUEST_ID: end.provider_request_id,
        genai.TOKENS_PER_SECOND: end.tokens_per_second,
    }


def finish_reason(attributes: Attributes) -> FinishReason | None:
    """Why the answer of an end ended; ``None`` where there is none."""
    return attributes.finish_reason if isinstance(attributes, ProviderEnd | GenerationEnd) else None


def said(content: Content, attributes: Attributes) -> Values:
    """What was said, as JSON. Of the words of servers and exceptions the conventions know nothing."""
    answer: dict[str, Any] = {"role": "assistant", "parts": list(content.output)}
    reason = finish_reason(attributes)
    if reason is not None:
        answer["finish_reason"] = reason.value
    return optional(
        {
            genai.SYSTEM_INSTRUCTIONS: _json([{"type": "text", "content": content.system}] if content.system else None),
            genai.INPUT_MESSAGES: _json(list(content.input) or None),
            genai.OUTPUT_MESSAGES: _json([answer] if content.output else None),
            genai.TOOL_CALL_ARGUMENTS: _json(content.arguments),
            genai.TOOL_CALL_RESULT: _json(content.result),
            genai.SERVER_MESSAGE: content.server_message,
            genai.EXCEPTION: content.exception,
        }
    )


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value)


def optional(values: Mapping[str, Any]) -> Values:
    """Those that are there, as strings that an exporter can write."""
    return {name: sound(value) for name, value in values.items() if value is not None}
