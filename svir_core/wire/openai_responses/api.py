"""OpenAI Responses as one object: its paths, its headers, its encoder and its decoder (00 section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from svir_core.errors import ConfigError
from svir_core.quirk import NONE
from svir_core.request import Request
from svir_core.wire.api import Alternative, Api, Clock, CodecOptions, Compat, ModelPage
from svir_core.wire.document import model_listing, token_count
from svir_core.wire.openai_responses.decode import Decoder
from svir_core.wire.openai_responses.encode import Encoder, optional_fields
from svir_core.wire.openai_responses.server_half import ServerHalf
from svir_core.wire.openai_responses.table import API_NAME

if TYPE_CHECKING:
    from svir_core.body import Body, Measurements
    from svir_core.secret import Secret


@attrs.frozen
class Responses:
    """The API as the exchange and the client see it; holds no state. See ``wire.api.Api``."""

    name: str = attrs.field(default=API_NAME, init=False)
    base_url: str = attrs.field(default="https://api.openai.com", init=False)
    versions: tuple[str, ...] = attrs.field(default=("/v1",), init=False)
    matches_by_id: bool = attrs.field(default=True, init=False)
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), init=False)
    server: ServerHalf = attrs.field(factory=ServerHalf, init=False)

    def path(self, request: Request) -> str:
        """The same path for every request."""
        return "/v1/responses"

    def models_path(self, after: str | None = None) -> str:
        """The same path always: a listing is one document."""
        return "/v1/models"

    def count_path(self, request: Request) -> str:
        """The same path for every request."""
        return "/v1/responses/input_tokens"

    def key_headers(self, key: Secret) -> tuple[tuple[str, str], ...]:
        """``authorization: Bearer KEY``."""
        return (("authorization", f"Bearer {key.reveal()}"),)

    def optional_fields(self, request: Request) -> frozenset[str]:
        """``include``, and ``reasoning`` where the request asks for an effort."""
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
        """A decoder for one answer. ``think`` plays no part: reasoning has items of its own here.

        Raises ``ConfigError`` for quirks, which are of Chat Completions.
        """
        if options.quirks != NONE:
            raise ConfigError("quirks repair Chat Completions; OpenAI Responses has none")
        return Decoder(mode=options.mode, limits=options.limits, clock=clock, extra=options.extra)

    def models(self, document: bytes) -> ModelPage:
        """The models of ``{"data": [{"id", "name"?}]}``, all on one page. Raises as ``wire.document`` does."""
        return ModelPage(model_listing(document, entries="data", model_id="id", name="name")[1])

    def count(self, document: bytes) -> int:
        """The tokens of ``{"input_tokens"}``. Raises as ``wire.document`` does."""
        return token_count(document, "input_tokens")


def _encoder(options: CodecOptions, compat: Compat) -> Encoder:
    return Encoder(context_tokens=options.context_tokens, image_tokens=options.image_tokens, omit=compat.omit)


API: Final[Api] = Responses()
