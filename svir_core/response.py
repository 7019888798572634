"""A completion: the whole answer, as data (00 section 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import NoneType
from typing import Any, Final, TypeVar

import attrs

from svir_core.check import choice, instance_of
from svir_core.errors import ConfigError, ProtocolError
from svir_core.message import Part, Reasoning, Text, ToolCall, parts_of

T = TypeVar("T")

MINIMUM_SPEED_SECONDS = 0.05
"""Below this span a rate says more about the network's batching than about the model (10 section 12)."""


class FinishReason(StrEnum):
    """Why the answer ended. ``OTHER`` exists only under a quirk; ``raw_finish`` has its word."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    PAUSE = "pause"
    OTHER = "other"


@attrs.frozen
class Usage:
    """Token counts as the server reported them. ``None`` is *not reported*, never zero."""

    input: int | None = None
    output: int | None = None
    total: int | None = None
    reasoning: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None

    def __attrs_post_init__(self) -> None:
        for name in _COUNTERS:
            value: object = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise ConfigError(f"Usage.{name} must be int or None, not {type(value).__name__}")
            if value is not None and value < 0:
                raise ConfigError(f"Usage.{name} must not be negative")

    def __add__(self, other: Usage) -> Usage:
        """Both together. A counter that one of them does not have is not known of both (50, Loop); zero is a value.

        Neither is one that passes 64 bits, which no JSON form holds.
        """
        if not isinstance(other, Usage):
            return NotImplemented
        pairs = zip(attrs.astuple(self), attrs.astuple(other), strict=True)
        sums = [None if one is None or more is None else one + more for one, more in pairs]
        return Usage(*(None if each is None or each >= 2**64 else each for each in sums))


_COUNTERS: Final = tuple(field.name for field in attrs.fields(Usage))


@attrs.frozen
class Timing:
    """When the answer came, in seconds since the response began.

    Attributes:
        first: the first visible delta (non-empty text or reasoning), or ``None``.
        last: the last visible delta, or ``None``.
        end: when the answer was complete.
        visible: how many visible deltas there were.
    """

    first: float | None
    last: float | None
    end: float
    visible: int


class AnomalyCode(StrEnum):
    """What a lenient decoder forgave. Documented with the servers it was seen on in docs/anomalies.md."""

    UNKNOWN_FIELD = "unknown_field"
    UNKNOWN_EVENT = "unknown_event"
    INVALID_UTF8 = "invalid_utf8"
    NOT_AN_OBJECT = "not_an_object"
    UNKNOWN_DELTA_KEY = "unknown_delta_key"
    WRONG_TYPE = "wrong_type"
    OTHER_CHOICE = "other_choice"
    NO_CHOICES = "no_choices"
    ID_CHANGED = "id_changed"
    MODEL_CHANGED = "model_changed"
    USAGE_REPEATED = "usage_repeated"
    USAGE_INCOMPLETE = "usage_incomplete"
    UNTERMINATED_EVENT = "unterminated_event"
    NUMBER_AS_CONTENT = "number_as_content"
    PAYLOAD_WITH_COLON = "payload_with_colon"
    WHOLE_DOCUMENT = "whole_document"
    LONE_SURROGATE = "lone_surrogate"
    EVENT_NAME = "event_name"
    OUT_OF_ORDER = "out_of_order"
    UNKNOWN_FINISH = "unknown_finish"
    INDEX_MISSING = "index_missing"
    TEXT_DIFFERS = "text_differs"


def _code(value: AnomalyCode | str) -> AnomalyCode:
    return choice(AnomalyCode, value, "Anomaly.code")


@attrs.frozen
class Anomaly:
    """One thing a lenient decoder forgave: what, at which byte of the body, and up to 80 bytes of it."""

    code: AnomalyCode = attrs.field(converter=_code)
    offset: int
    excerpt: bytes = attrs.field(repr=False)


def joined_text(parts: tuple[Part, ...]) -> str:
    """The visible text of ``parts``, as one string."""
    return "".join(part.text for part in parts if isinstance(part, Text))


def merged_reasoning(parts: tuple[Part, ...]) -> tuple[Reasoning, ...]:
    """One ``Reasoning`` per source, in order of first appearance, texts joined; hidden reasoning has no text."""
    texts: dict[str, list[str]] = {}
    for part in parts:
        if isinstance(part, Reasoning) and part.text:
            texts.setdefault(part.source, []).append(part.text)
    return tuple(Reasoning(source, "".join(pieces)) for source, pieces in texts.items())


def _partial_parts(values: Iterable[Part | str] | str) -> tuple[Part, ...]:
    return parts_of(values, "Partial")


@attrs.frozen
class Partial:
    """What had been delivered when a stream failed. Its calls are display data: never run them."""

    parts: tuple[Part, ...] = attrs.field(default=(), converter=_partial_parts)
    usage: Usage | None = attrs.field(default=None, validator=instance_of(Usage, NoneType))
    model: str | None = None
    id: str | None = None

    @property
    def text(self) -> str:
        """The text delivered so far."""
        return joined_text(self.parts)

    @property
    def reasoning(self) -> str:
        """All reasoning delivered so far, in order, whatever its source."""
        return "".join(part.text for part in self.parts if isinstance(part, Reasoning))


def _finish(value: FinishReason | str) -> FinishReason:
    return choice(FinishReason, value, "Completion.finish")


def _completion_parts(values: Iterable[Part | str] | str) -> tuple[Part, ...]:
    return parts_of(values, "Completion")


@attrs.frozen
class Completion:
    """A finished answer. ``parts``, in the order they came, is the data; the rest is derived from it.

    Attributes:
        finish: why it ended.
        parts: text, reasoning and calls in the order they came, ready to be sent back; a plain string stands for one
            ``Text``.
        usage: token counts, or ``None`` when the server reported none.
        timing: when it came; takes no part in equality.
        model, id: as the server named them, or ``None``.
        anomalies: what a lenient decoder forgave, at most 100.
        anomaly_count: how many it forgave in all.
        raw_finish: the server's own word for the finish.
        extra: what the server said beyond the protocol, when the decoder was asked to keep it.
    """

    finish: FinishReason = attrs.field(converter=_finish)
    parts: tuple[Part, ...] = attrs.field(default=(), converter=_completion_parts)
    usage: Usage | None = attrs.field(default=None, validator=instance_of(Usage, NoneType))
    timing: Timing | None = attrs.field(default=None, eq=False)
    model: str | None = None
    id: str | None = None
    anomalies: tuple[Anomaly, ...] = ()
    anomaly_count: int = 0
    raw_finish: str | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict[str, Any])

    @property
    def text(self) -> str:
        """The visible text (a refusal's words too: ``finish`` tells)."""
        return joined_text(self.parts)

    @property
    def reasoning(self) -> tuple[Reasoning, ...]:
        """One entry per source, in order of first appearance."""
        return merged_reasoning(self.parts)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls, in order. Run only those with ``complete``."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens after the first, over the time between the first and the last visible delta.

        ``None`` unless there is more than one token and at least 50 ms: anything else is noise.
        """
        timing = self.timing
        if timing is None or timing.first is None or timing.last is None:
            return None
        reported = None if self.usage is None else self.usage.output
        tokens = timing.visible if reported is None else reported
        seconds = timing.last - timing.first
        if tokens <= 1 or seconds < MINIMUM_SPEED_SECONDS:
            return None
        return (tokens - 1) / seconds

    def parse(self, into: type[T]) -> T:
        """The answer's text as a ``T`` (see :meth:`ToolCall.parse`).

        Only a ``stop`` finish is parsed: any other raises ``ProtocolError`` that names the finish,
        as does text that is not JSON or does not fit ``T``.
        """
        from svir_core.structure import parse_json  # imported late: most programs never parse

        if self.finish is not FinishReason.STOP:
            raise ProtocolError(f"an answer that finished with {self.finish.value!r} is not parsed")
        return parse_json(self.text, into, what="the answer")
