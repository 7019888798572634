"""Outcomes: what a case expects, what happened, and how the two differ (13 "Decoder cases")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

import attrs

from conformance.fields import (
    CaseError,
    Fields,
    Json,
    anything,
    flag,
    integer,
    items,
    nullable,
    number,
    one_of,
    text,
)
from svir_core import serial
from svir_core.errors import ErrorKind, SvirError
from svir_core.event import Event, ReasoningDelta, TextDelta
from svir_core.message import ToolCall
from svir_core.response import Completion, FinishReason, Usage
from svir_core.wire.api import Model

SHOWN_CHARACTERS = 400
"""A difference is shown up to here."""


@attrs.define
class Actual:
    """What happened: the events delivered, in order, and how it ended."""

    events: list[Event] = attrs.field(factory=list[Event])
    visible_by_chunk: list[bool] = attrs.field(factory=list[bool])
    completion: Completion | None = None
    error: SvirError | None = None
    cancelled: bool = False
    models: Sequence[Model] | None = None
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """The text delivered."""
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def reasoning(self) -> str:
        """The reasoning delivered, whatever its source."""
        return "".join(event.text for event in self.events if isinstance(event, ReasoningDelta))

    @property
    def over(self) -> bool:
        """Whether it completed or failed."""
        return self.completion is not None or self.error is not None

    def describe(self) -> str:
        """How it ended, in one line."""
        if self.error is not None:
            return f"error {self.error.kind} ({self.error.detail})"
        if self.completion is not None:
            return f"completion {self.completion.finish}"
        if self.models is not None:
            return "models"
        return "cancelled" if self.cancelled else "no outcome"


def visible(events: Sequence[Event]) -> bool:
    """Whether a non-empty text or reasoning delta is among them."""
    return any(isinstance(event, TextDelta | ReasoningDelta) and bool(event.text) for event in events)


# --- what a case expects -------------------------------------------------------------------------

Check: TypeAlias = Callable[[Actual], list[str]]


@attrs.frozen
class Expectation:
    """One outcome as a case writes it; ``visible_by_chunk`` and ``within_ms`` apart from it."""

    check: Check
    visible_by_chunk: tuple[bool, ...] | None = None
    within_ms: float | None = None

    def problems(self, actual: Actual) -> list[str]:
        """Every difference, in words; none when it is as expected."""
        problems = self.check(actual) + inconsistencies(actual)
        if self.visible_by_chunk is not None:
            expected = list(self.visible_by_chunk)
            length = max(len(expected), len(actual.visible_by_chunk))
            if _padded(expected, length) != _padded(actual.visible_by_chunk, length):
                problems.append(_difference("visible_by_chunk", expected, actual.visible_by_chunk))
        if self.within_ms is not None and actual.seconds * 1000 > self.within_ms:
            problems.append(f"took {actual.seconds * 1000:.0f} ms, at most {self.within_ms:g} ms are allowed")
        return problems


def expectation(value: Json, where: str) -> Expectation:
    """An outcome of the notation; ``CaseError`` when it is none."""
    with Fields(value, where) as fields:
        kind = fields.only("completion", "error", "cancelled", "models", "open")
        check = OUTCOMES[kind](fields)
        visible_by_chunk = fields.optional("visible_by_chunk", items(flag), None)
        within_ms = fields.optional("within_ms", number, None)
        return Expectation(check, None if visible_by_chunk is None else tuple(visible_by_chunk), within_ms)


def _open(fields: Fields) -> Check:
    fields.required("open", text)
    return lambda actual: []


def _completion(fields: Fields) -> Check:
    expected = fields.required("completion", _completion_fields)

    def check(actual: Actual) -> list[str]:
        if actual.completion is None:
            return [f"expected a completion, got {actual.describe()}"]
        return _differences(expected, _completion_values(actual.completion, expected))

    return check


def _error(fields: Fields) -> Check:
    kind = fields.required("error", one_of(*(str(kind) for kind in ErrorKind)))
    expected: dict[str, Json] = {"error": kind}
    for name, read in ERROR_FIELDS.items():
        if name in fields:
            expected[name] = fields.required(name, read)
    expected |= fields.optional("partial", _partial_fields, dict[str, Json]())

    def check(actual: Actual) -> list[str]:
        if actual.error is None:
            return [f"expected the error {kind}, got {actual.describe()}"]
        return _differences(expected, {name: ERROR_VALUES[name](actual, actual.error) for name in expected})

    return check


def _cancelled(fields: Fields) -> Check:
    if not fields.required("cancelled", flag):
        raise CaseError(f"{fields.where}.cancelled: only true means something")
    expected = fields.optional("partial", _partial_fields, dict[str, Json]())

    def check(actual: Actual) -> list[str]:
        if not actual.cancelled:
            return [f"expected a cancelled call, got {actual.describe()}"]
        return _differences(expected, {name: PARTIAL_VALUES[name](actual) for name in expected})

    return check


def _models(fields: Fields) -> Check:
    expected = fields.required("models", items(_model))

    def check(actual: Actual) -> list[str]:
        if actual.models is None:
            return [f"expected a list of models, got {actual.describe()}"]
        return _differences({"models": expected}, {"models": [[model.id, model.name] for model in actual.models]})

    return check


OUTCOMES: Mapping[str, Callable[[Fields], Check]] = {
    "completion": _completion,
    "error": _error,
    "cancelled": _cancelled,
    "models": _models,
    "open": _open,
}


def _model(value: Json, where: str) -> Json:
    with Fields(value, where) as fields:
        return [fields.required("id", text), fields.optional("name", nullable(text), None)]


# --- completions ---------------------------------------------------------------------------------


def _completion_fields(value: Json, where: str) -> dict[str, Json]:
    """The fields a completion is compared by: the notation's own with their defaults, others when named."""
    with Fields(value, where) as fields:
        expected: dict[str, Json] = {
            "finish": fields.required("finish", one_of(*(str(finish) for finish in FinishReason))),
            "text": fields.optional("text", text, ""),
            "reasoning": [*fields.optional("reasoning", items(_reasoning_entry), ())],
            "calls": [*fields.optional("calls", items(_call), ())],
            "usage": fields.optional("usage", nullable(_usage), None),
        }
        for name in NAMED_COMPLETION_FIELDS:
            if name in fields:
                expected[name] = fields.required(name, anything)
        return expected


def _reasoning_entry(value: Json, where: str) -> Json:
    with Fields(value, where) as fields:
        return {"source": fields.required("source", text), "text": fields.required("text", text)}


def _call(value: Json, where: str) -> Json:
    with Fields(value, where) as fields:
        call: dict[str, Json] = {name: fields.required(name, text) for name in ("id", "name", "arguments")}
        if "complete" in fields:
            call["complete"] = fields.required("complete", flag)
        return call


def _usage(value: Json, where: str) -> Json:
    with Fields(value, where) as fields:
        usage: dict[str, Json] = {
            name: fields.optional(name, nullable(integer), None) for name in ("input", "output", "total", "reasoning")
        }
        for name in ("cache_read", "cache_write"):
            if name in fields:
                usage[name] = fields.required(name, nullable(integer))
        return usage


NAMED_COMPLETION_FIELDS: Mapping[str, Callable[[Completion], Json]] = {
    "id": lambda completion: completion.id,
    "model": lambda completion: completion.model,
    "raw_finish": lambda completion: completion.raw_finish,
    "anomalies": lambda completion: [str(anomaly.code) for anomaly in completion.anomalies],
    "parts": lambda completion: cast("Json", serial.to_json(completion.parts)),
}
"""What our completions have beyond the notation: compared only when the case names it."""


def _completion_values(completion: Completion, expected: Mapping[str, Json]) -> dict[str, Json]:
    calls = expected["calls"]
    values: dict[str, Json] = {
        "finish": str(completion.finish),
        "text": completion.text,
        "reasoning": [{"source": entry.source, "text": entry.text} for entry in completion.reasoning],
        "calls": [
            _call_values(call, calls[index] if isinstance(calls, list) and index < len(calls) else None)
            for index, call in enumerate(completion.calls)
        ],
        "usage": _usage_values(completion.usage, expected["usage"]),
    }
    for name, value in NAMED_COMPLETION_FIELDS.items():
        if name in expected:
            values[name] = value(completion)
    return values


def _call_values(call: ToolCall, expected: Json) -> Json:
    values: dict[str, Json] = {"id": call.id, "name": call.name, "arguments": call.arguments}
    if isinstance(expected, dict) and "complete" in expected:
        values["complete"] = call.complete
    return values


def _usage_values(usage: Usage | None, expected: Json) -> Json:
    if usage is None:
        return None
    values: dict[str, Json] = {
        "input": usage.input,
        "output": usage.output,
        "total": usage.total,
        "reasoning": usage.reasoning,
    }
    if isinstance(expected, dict):
        cached: dict[str, Json] = {"cache_read": usage.cache_read, "cache_write": usage.cache_write}
        values |= {name: value for name, value in cached.items() if name in expected}
    return values


# --- errors --------------------------------------------------------------------------------------


def _partial_fields(value: Json, where: str) -> dict[str, Json]:
    with Fields(value, where) as fields:
        return {f"partial.{name}": fields.required(name, text) for name in ("text", "reasoning") if name in fields}


ERROR_FIELDS: Mapping[str, Callable[[Json, str], Json]] = {
    "message": nullable(text),
    "retryable": nullable(flag),
    "retry_after_ms": nullable(number),
    "status": nullable(integer),
}
"""Compared only when the case has them; null means null."""

PARTIAL_VALUES: Mapping[str, Callable[[Actual], Json]] = {
    "partial.text": lambda actual: actual.text,
    "partial.reasoning": lambda actual: actual.reasoning,
}

ERROR_VALUES: Mapping[str, Callable[[Actual, SvirError], Json]] = {
    "error": lambda actual, error: str(error.kind),
    "message": lambda actual, error: error.server_message(),
    "retryable": lambda actual, error: error.retryable,
    "retry_after_ms": lambda actual, error: None if error.retry_after is None else round(error.retry_after * 1000, 3),
    "status": lambda actual, error: error.status,
    "partial.text": lambda actual, error: actual.text,
    "partial.reasoning": lambda actual, error: actual.reasoning,
}


def inconsistencies(actual: Actual) -> list[str]:
    """Where the outcome contradicts the events that were delivered before it."""
    delivered: dict[str, Json] = {"text": actual.text}
    if actual.completion is not None:
        sources: dict[str, Json] = {}
        for event in actual.events:
            if isinstance(event, ReasoningDelta):
                sources[event.source] = f"{sources.get(event.source, '')}{event.text}"
        told: dict[str, Json] = {
            "text": actual.completion.text,
            "reasoning": {entry.source: entry.text for entry in actual.completion.reasoning},
        }
        problems = _differences(delivered | {"reasoning": sources}, told)
    elif actual.error is not None and actual.error.partial is not None:
        partial = actual.error.partial
        told = {"text": partial.text, "reasoning": partial.reasoning}
        problems = _differences(delivered | {"reasoning": actual.reasoning}, told)
    else:
        problems = []
    return [f"the outcome is not what the events delivered: {problem}" for problem in problems]


# --- comparing -----------------------------------------------------------------------------------


def equal(left: Json, right: Json) -> bool:
    """Equal as JSON: true is not 1, and 1.0 is 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(value, right[name]) for name, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(equal(one, other) for one, other in zip(left, right, strict=True))
    return left == right


def _differences(expected: Mapping[str, Json], values: Mapping[str, Json]) -> list[str]:
    return [
        _difference(name, value, values[name]) for name, value in expected.items() if not equal(value, values[name])
    ]


def _difference(name: str, expected: object, got: object) -> str:
    return f"{name}: expected {shown(expected)}, got {shown(got)}"


def shown(value: object) -> str:
    """``value`` in ASCII, cut to a length that a terminal bears."""
    words = ascii(value)
    return words if len(words) <= SHOWN_CHARACTERS else f"{words[:SHOWN_CHARACTERS]}... ({len(words)} characters)"


def _padded(flags: Sequence[bool], length: int) -> list[bool]:
    """A piece that was never pushed delivered nothing."""
    return [*flags, *[False] * (length - len(flags))]
