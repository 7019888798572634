"""What a wire API is to the exchange and the client: one object that knows its paths, its encoder
and its decoder (00 section 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from svir_core.check import at_least, choice, instance_of
from svir_core.limits import Limits
from svir_core.quirk import NONE, Quirk
from svir_core.think import Think, resolve

if TYPE_CHECKING:
    from svir_core.body import Body, Measurements
    from svir_core.errors import SvirError
    from svir_core.event import Event, Events
    from svir_core.request import Request
    from svir_core.response import Completion, Partial
    from svir_core.secret import Secret

Clock = Callable[[], float]


class Mode(StrEnum):
    """How a decoder takes what the protocol does not allow (00 section 2)."""

    STRICT = "strict"
    LENIENT = "lenient"


def _mode(value: Mode | str) -> Mode:
    return choice(Mode, value, "mode")


def _think(_instance: object, _attribute: attrs.Attribute[Any], value: Any) -> None:
    resolve(value)  # refuses what it does not know


@attrs.frozen
class CodecOptions:
    """How requests are encoded and answers decoded; the same for every API.

    Attributes:
        mode: strict refuses what the protocol does not allow; lenient forgives and records it.
        think: how ``<think>`` tags in the text are read: "split", "keep", "inside", or a ``Think``.
        limits: what one response may cost.
        context_tokens: admission: the model's context, or ``None`` for no admission.
        image_tokens: what one image counts at admission, or ``None`` for its encoded length.
        quirks: repairs for a server known to need them; none by default.
        extra: keep what the server says beyond the protocol on ``completion.extra``.
    """

    mode: Mode = attrs.field(default=Mode.STRICT, converter=_mode)
    think: Think | str = attrs.field(default="split", validator=_think)
    limits: Limits = attrs.field(factory=Limits, validator=instance_of(Limits))
    context_tokens: int | None = attrs.field(default=None, validator=attrs.validators.optional(at_least(1)))
    image_tokens: int | None = attrs.field(default=None, validator=attrs.validators.optional(at_least(0)))
    quirks: Quirk = attrs.field(default=NONE, validator=instance_of(Quirk))
    extra: bool = attrs.field(default=False, validator=instance_of(bool))


@attrs.frozen
class Compat:
    """What one server is known to refuse, as the encoder needs it.

    Attributes:
        omit: optional body fields to leave out, by the names of ``Api.optional_fields``: "reasoning_effort" and
            "stream_options" of Chat Completions, "reasoning" and "include" of Responses, "effort" and "thinking" of
            Anthropic Messages, "thinkingConfig" of Gemini.
        rename: body fields and roles under another name ({"max_tokens": "max_completion_tokens"}).
    """

    omit: frozenset[str] = frozenset()
    rename: Mapping[str, str] = attrs.field(factory=dict[str, str])


@attrs.frozen
class Alternative:
    """A body field or a role that some servers take under another name only.

    Attributes:
        name: svir's name ("max_tokens", "system"); it is what ``Compat.rename`` maps.
        other: the other name ("max_completion_tokens", "developer").
        about: a word that a refusal must hold too, where the names are everyday words ("role").
    """

    name: str
    other: str
    about: str | None = None


@attrs.frozen
class Model:
    """A model that a server lists: its id, and a name to show when the server gives one."""

    id: str
    name: str | None = None


@attrs.frozen
class ModelPage:
    """One document of a listing: its models in server order, and what asks for the next one, or ``None``."""

    models: tuple[Model, ...]
    after: str | None = None


class Decoder(Protocol):
    """Bytes in, events out; after an error or ``Completed`` it is done and never speaks again."""

    @property
    def done(self) -> bool:
        """Whether the answer, or its failure, has been told."""
        ...

    @property
    def error(self) -> SvirError | None:
        """The error this decoder ended with, if it did."""
        ...

    @property
    def completion(self) -> Completion | None:
        """The whole answer, once ``Completed`` was told."""
        ...

    @property
    def partial(self) -> Partial:
        """What has been delivered so far."""
        ...

    @property
    def bytes_seen(self) -> int:
        """Bytes pushed so far."""
        ...

    @property
    def events_seen(self) -> int:
        """Server-sent events seen so far, comments and heartbeats included."""
        ...

    @property
    def output_seen(self) -> int:
        """Deltas delivered so far: text, reasoning and pieces of calls."""
        ...

    def push(self, data: bytes | bytearray | memoryview) -> Events:
        """The events that ``data`` completes."""
        ...

    def finish(self) -> Events:
        """The input ended: the last events, or why there is no answer."""
        ...

    def result(self) -> Completion:
        """The completion; raises the error when there is one."""
        ...


class StreamEncoder(Protocol):
    """Events in, the bytes of one streamed answer out; after ``Completed`` or an error it is done."""

    @property
    def done(self) -> bool:
        """Whether the stream has ended: nothing may follow."""
        ...

    def push(self, event: Event) -> bytes:
        """The bytes of ``event``, or none; see the API's ``StreamEncoder`` for what it refuses."""
        ...

    def fail(self, error: SvirError | str) -> bytes:
        """The bytes that end the stream with an error."""
        ...

    def finish(self) -> bytes:
        """The events have ended: the bytes that say so, none when the stream has already ended."""
        ...


class ServerHalf(Protocol):
    """What a server of this API writes (00 section 7)."""

    def stream(
        self, model: str, id: str, created: int, *, include_usage: bool = True, refusal: bool = False
    ) -> StreamEncoder:
        """A fresh encoder for one streamed answer.

        ``created`` is in whole seconds of Unix time. ``include_usage`` and ``refusal`` matter to an API
        whose client asks for usage, or whose refusal must be known before its text; others ignore them.
        """
        ...

    def models(self, models: Iterable[Model]) -> bytes:
        """The document that lists ``models``: what ``Api.models`` reads."""
        ...


class Api(Protocol):
    """One wire API."""

    @property
    def name(self) -> str:
        """The name of the package: ``openai_chat``."""
        ...

    @property
    def base_url(self) -> str:
        """Where the API is hosted by who made it: ``https://api.openai.com``."""
        ...

    @property
    def versions(self) -> tuple[str, ...]:
        """Path segments that end a base URL as some people write it, and that ``path`` brings itself: ``/v1``."""
        ...

    @property
    def matches_by_id(self) -> bool:
        """Whether results are matched to calls by id, wherever they stand; else they follow the calls directly."""
        ...

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers that go with every request, beside the key: ``anthropic-version``."""
        ...

    def path(self, request: Request) -> str:
        """The path, and query, below the base URL that takes ``request``: ``/v1/chat/completions``."""
        ...

    def models_path(self, after: str | None = None) -> str:
        """The path, and query, below the base URL that lists models, from the start or after an earlier page."""
        ...

    def count_path(self, request: Request) -> str:
        """The path below the base URL that counts the tokens of ``request``.

        Raises ``UnsupportedError`` when the API has none, as the two methods that go with it do.
        """
        ...

    def key_headers(self, key: Secret) -> tuple[tuple[str, str], ...]:
        """The headers that carry the key."""
        ...

    def optional_fields(self, request: Request) -> frozenset[str]:
        """The optional body fields that ``request`` asks for and a lean retry leaves out."""
        ...

    def alternatives(self, request: Request) -> tuple[Alternative, ...]:
        """The fields and roles of ``request`` that a server may want under another name."""
        ...

    def encode(
        self, request: Request, options: CodecOptions, compat: Compat, measured: Measurements | None = None
    ) -> Body:
        """The body of ``request``; see the API's ``Encoder`` for what it raises."""
        ...

    def encode_count(
        self, request: Request, options: CodecOptions, compat: Compat, measured: Measurements | None = None
    ) -> Body:
        """The body that asks for the tokens of ``request``; raises as ``encode`` does, but for admission."""
        ...

    def decoder(self, options: CodecOptions, clock: Clock) -> Decoder:
        """A fresh decoder for one streamed answer."""
        ...

    def models(self, document: bytes) -> ModelPage:
        """One page of a listing; ``ProtocolError`` when it is no listing."""
        ...

    def count(self, document: bytes) -> int:
        """The tokens that ``document`` counts; ``ProtocolError`` when it counts none."""
        ...

    @property
    def server(self) -> ServerHalf:
        """The other side of the API: what a server of it writes."""
        ...
