"""Anthropic Messages as one object: its paths, its headers, its encoder and its decoder (00 section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import attrs

from svir_core.check import instance_of
from svir_core.errors import ConfigError
from svir_core.quirk import NONE
from svir_core.request import Request
from svir_core.wire.anthropic_messages.decode import Decoder
from svir_core.wire.anthropic_messages.encode import Encoder, optional_fields
from svir_core.wire.anthropic_messages.server_half import ServerHalf
from svir_core.wire.anthropic_messages.table import API_NAME
from svir_core.wire.api import Alternative, Clock, CodecOptions, Compat, ModelPage
from svir_core.wire.document import model_listing, token_count

if TYPE_CHECKING:
    from svir_core.body import Body, Measurements
    from svir_core.secret import Secret

VERSION: Final = "2023-06-01"
"""The version that every server of this API takes (21 section 1)."""

AUTH: Final[Mapping[str, tuple[str, str]]] = {"x-api-key": ("x-api-key", ""), "bearer": ("authorization", "Bearer ")}
"""How the key is sent: the header, and what stands before the key."""

PAGE: Final = 1000
"""The most models that one page holds."""


def _version(instance: object, attribute: attrs.Attribute[str], value: str) -> None:
    instance_of(str)(instance, attribute, value)
    if not value or not value.isascii() or not value.isprintable():
        raise ConfigError("AnthropicMessages.version is a date, such as '2023-06-01'")


def _auth(_instance: object, _attribute: attrs.Attribute[str], value: str) -> None:
    if not isinstance(value, str) or value not in AUTH:
        raise ConfigError("AnthropicMessages.auth is one of 'x-api-key', 'bearer'")


def _headers(api: AnthropicMessages) -> tuple[tuple[str, str], ...]:
    return (("anthropic-version", api.version),)


@attrs.frozen
class AnthropicMessages:
    """The API as the exchange and the client see it; holds no state. See ``wire.api.Api``.

    Attributes:
        version: the ``anthropic-version`` header.
        auth: how the key is sent: "x-api-key", or "bearer" (``authorization``).
    """

    version: str = attrs.field(default=VERSION, kw_only=True, validator=_version)
    auth: str = attrs.field(default="x-api-key", kw_only=True, validator=_auth)
    name: str = attrs.field(default=API_NAME, init=False)
    base_url: str = attrs.field(default="https://api.anthropic.com", init=False)
    versions: tuple[str, ...] = attrs.field(default=("/v1",), init=False)
    matches_by_id: bool = attrs.field(default=False, init=False)
    headers: tuple[tuple[str, str], ...] = attrs.field(
        init=False, repr=False, default=attrs.Factory(_headers, takes_self=True)
    )
    server: ServerHalf = attrs.field(factory=ServerHalf, init=False)

    def path(self, request: Request) -> str:
        """The same path for every request."""
        return "/v1/messages"

    def models_path(self, after: str | None = None) -> str:
        """A page of the listing, after the model of the id ``after``."""
        page = f"/v1/models?limit={PAGE}"
        return page if after is None else f"{page}&after_id={quote(after, safe='')}"

    def count_path(self, request: Request) -> str:
        """The same path for every request."""
        return "/v1/messages/count_tokens"

    def key_headers(self, key: Secret) -> tuple[tuple[str, str], ...]:
        """``x-api-key: KEY`` or ``authorization: Bearer KEY``."""
        name, before = AUTH[self.auth]
        return ((name, before + key.reveal()),)

    def optional_fields(self, request: Request) -> frozenset[str]:
        """``effort`` or ``thinking``, where the request asks for an effort."""
        return optional_fields(request)

    def alternatives(self, request: Request) -> tuple[Alternative, ...]:
        """None: nothing goes by another name."""
        return ()

    def encode(
        self, request: Request, options: CodecOptions, compat: Compat, measured: Measurements | None = None
    ) -> Body:
        """The body of ``request``; raises as ``Encoder.encode`` does."""
        return _encoder(options, compat).encode(request, measured)

    def encode_count(
        self, request: Request, options: CodecOptions, compat: Compat, measured: Measurements | None = None
    ) -> Body:
        """The body that asks for the tokens of ``request``; raises as ``Encoder.encode_count`` does."""
        return _encoder(options, compat).encode_count(request, measured)

    def decoder(self, options: CodecOptions, clock: Clock) -> Decoder:
        """A decoder for one answer. ``think`` plays no part: thinking has blocks of its own here.

        Raises ``ConfigError`` for quirks, which are of Chat Completions.
        """
        if options.quirks != NONE:
            raise ConfigError("quirks repair Chat Completions; Anthropic Messages has none")
        return Decoder(mode=options.mode, limits=options.limits, clock=clock, extra=options.extra)

    def models(self, document: bytes) -> ModelPage:
        """A page of ``{"data": [{"id", "display_name"}], "has_more", "last_id"}``. Raises as ``wire.document`` does."""
        listing, models = model_listing(document, entries="data", model_id="id", name="display_name")
        if not listing.get("has_more") or not models:
            return ModelPage(models)
        last = listing.get("last_id")
        return ModelPage(models, last if isinstance(last, str) and last else models[-1].id)

    def count(self, document: bytes) -> int:
        """The tokens of ``{"input_tokens"}``. Raises as ``wire.document`` does."""
        return token_count(document, "input_tokens")


def _encoder(options: CodecOptions, compat: Compat) -> Encoder:
    return Encoder(context_tokens=options.context_tokens, image_tokens=options.image_tokens, omit=compat.omit)


API: Final = AnthropicMessages()
