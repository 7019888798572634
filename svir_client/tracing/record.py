"""What is reported of a call: one shape for everything that is traced, and its JSON form (50, Tracing).

Three rules hold for all of it. A figure that nobody reported is ``None`` and left out of the JSON, never zero.
Nothing of it was written by the caller or the model but names and ids, cut to 256 characters: no text, no argument,
no header, no address, no word of an error. Content stands in ``content`` alone, which is ``None`` unless it was asked
for twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum, StrEnum
from typing import Any, Final, cast

import attrs
import orjson

from svir_client.tracing.loop_record import LoopAttributes
from svir_core.errors import ErrorKind
from svir_core.response import FinishReason, Usage

NAME_LENGTH: Final = 256
"""Characters of a name or an id that are kept. The longest in use, resource names of clouds, have some 200; a server
may say megabytes."""


class Level(StrEnum):
    """How much an event matters."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class EventType(StrEnum):
    """What has happened."""

    PROVIDER_START = "provider_start"
    """A call of a model begins."""
    PROVIDER_END = "provider_end"
    """It is over, however it ended."""
    GENERATION_START = "generation_start"
    """A generation begins: rounds of a model and its tools."""
    GENERATION_END = "generation_end"
    """It is over, without an error."""
    ERROR = "error"
    """It is over, with one."""
    TOOL_START = "tool_start"
    """A call of a tool begins."""
    TOOL_END = "tool_end"
    """It is over, however it ended."""


class Outcome(StrEnum):
    """How a call ended, of a model or a tool."""

    COMPLETED = "completed"
    """The answer came whole; of a tool: there is a result."""
    FAILED = "failed"
    """With an error."""
    ABANDONED = "abandoned"
    """This side gave it up before its end: it was cancelled, left early, closed, or dropped."""


@attrs.frozen(kw_only=True)
class ProviderStart:
    """A call of a model begins.

    Attributes:
        api: the wire API of the client: ``openai_chat``.
        model: the model that is asked for.
        message_count: messages in the request; its ``system`` is none.
        tool_count: tools in the request.
        round: that of the generation which makes the call; ``None`` for a call by itself.
    """

    api: str
    model: str
    round: int | None = None
    message_count: int
    tool_count: int


@attrs.frozen(kw_only=True)
class ProviderEnd:
    """A call of a model is over.

    Attributes:
        api, model, round: as at the start.
        outcome: how it ended.
        seconds: from the call to when the end of the answer was read, or to its failure, by a monotonic clock;
            repeats and waits of layers inside ``Trace`` included, and what the reader does between two reads.
        retries: requests after the first that layers inside ``Trace`` sent by this client.
        first_token_seconds: from the call to anything of the answer, a piece of a call too.
        tokens_per_second: ``Completion.tokens_per_second``; ``None`` where that would be noise.
        finish_reason: why the answer ended.
        requires_continuation: the server paused, and is to be asked to go on.
        tool_call_count: calls in the answer.
        usage: tokens, as far as they were reported; of a failed call what had come.
        answered_model: the model that answered, as the server calls it.
        response_id: what the server calls the answer.
        provider_request_id: what the server calls the request, by its headers.
        anomaly_count: what a lenient decoder forgave.
        status: the HTTP status of the latest response.
        error_kind: the kind of the error that it failed with; ``None`` for what is no ``SvirError``.
        error_class: the name of its class.
        retryable: whether the same call may succeed when it is made again.
    """

    api: str
    model: str
    round: int | None = None
    outcome: Outcome
    seconds: float
    retries: int
    first_token_seconds: float | None = None
    tokens_per_second: float | None = None
    finish_reason: FinishReason | None = None
    requires_continuation: bool | None = None
    tool_call_count: int | None = None
    usage: Usage | None = None
    answered_model: str | None = None
    response_id: str | None = None
    provider_request_id: str | None = None
    anomaly_count: int | None = None
    status: int | None = None
    error_kind: ErrorKind | None = None
    error_class: str | None = None
    retryable: bool | None = None


@attrs.frozen(kw_only=True)
class Content:
    """What was said, known secrets taken out. Messages and parts have the JSON form that the GenAI semantic
    conventions give them; bytes of files are left out.

    Attributes:
        system: the system instruction.
        input: the messages of the request.
        output: the parts of the answer, or what had come of it.
        server_message: what the server said of its failure.
        arguments: those of a call of a tool, as JSON; as their text when they are none.
        result: what a tool gave: a text, or parts.
        exception: the class and the text of what was raised; of a tool what the model was not told.
    """

    system: str | None = attrs.field(default=None, repr=False)
    input: tuple[Mapping[str, Any], ...] = attrs.field(default=(), repr=False)
    output: tuple[Mapping[str, Any], ...] = attrs.field(default=(), repr=False)
    server_message: str | None = attrs.field(default=None, repr=False)
    arguments: Any = attrs.field(default=None, repr=False)
    result: str | tuple[Mapping[str, Any], ...] | None = attrs.field(default=None, repr=False)
    exception: str | None = attrs.field(default=None, repr=False)

    def document(self) -> dict[str, Any]:
        """The JSON form; what is not there is left out."""
        values: dict[str, Any] = attrs.asdict(self, recurse=False)
        values |= {"input": [*self.input] or None, "output": [*self.output] or None}
        if isinstance(self.result, tuple):
            values["result"] = [*self.result]
        return {name: value for name, value in values.items() if value is not None}


CONTENT_NAMES: Final = tuple(field.name for field in attrs.fields(Content))

Attributes = ProviderStart | ProviderEnd | LoopAttributes


@attrs.frozen(kw_only=True)
class TraceEvent:
    """One event. The union of ``attributes`` may grow: end a ``match`` with ``case _: pass``.

    Attributes:
        level: how much it matters.
        type: what has happened.
        time: when, in seconds since the epoch. That of an end is the start's, and the seconds between by a monotonic
            clock.
        run_id: the same for all events of one generation, or of a call by itself; unique across processes.
        span_id: the same for a start and its end, and no others; unique across processes.
        parent_id: the ``span_id`` of what it is part of: the generation, or the call of a tool that began another one.
        name: the model, or the tool, that it is about.
        attributes: what there is to say, by ``type``.
        session_id: the session that it belongs to.
        operation_id: which of the steps of the run: ``round-1`` for a call of the model, a tool's call by its id.
        content: what was said; ``None`` unless ``Trace(capture=True)`` and the sink's ``content=True`` ask for it.
    """

    level: Level
    type: EventType
    time: float
    run_id: str
    span_id: str
    name: str
    attributes: Attributes
    parent_id: str | None = None
    session_id: str | None = None
    operation_id: str | None = None
    content: Content | None = None

    def document(self) -> dict[str, Any]:
        """The JSON form: names and values, what is ``None`` left out."""
        document: dict[str, Any] = {"timestamp": timestamp(self.time)}
        for name in ("level", "type", "session_id", "run_id", "operation_id", "span_id", "parent_id", "name"):
            value = getattr(self, name)
            if value is not None:
                document[name] = value.value if isinstance(value, Enum) else value
        document["attributes"] = plain(self.attributes)
        if self.content is not None:
            document["content"] = self.content.document()
        return document

    def json(self) -> bytes:
        """The JSON form as one line of UTF-8, without its end. A lone surrogate becomes U+FFFD."""
        return orjson.dumps(sound(self.document()))


def plain(value: attrs.AttrsInstance) -> dict[str, Any]:
    """The fields of a record that are not ``None``, enums as their values."""

    def form(_: object, __: object, item: Any) -> Any:
        return item.value if isinstance(item, Enum) else item

    def kept(_: object, item: Any) -> bool:
        return item is not None

    return attrs.asdict(value, filter=kept, value_serializer=form)


def timestamp(seconds: float) -> str:
    """Seconds since the epoch as RFC 3339 has them: UTC, with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clip(text: str) -> str:
    """As much of a name as is kept."""
    return text[:NAME_LENGTH]


def sound(value: Any) -> Any:
    """A JSON value whose strings are all UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if not value.isascii() else value
    if isinstance(value, dict):
        return {sound(key): sound(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [sound(item) for item in cast("list[Any]", value)]
    return value
