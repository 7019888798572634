"""Chat Completions as one object: its paths, its headers, its encoder and its decoder (00 section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from svir_core.errors import UnsupportedError
from svir_core.message import Role
from svir_core.request import Request
from svir_core.wire.api import Alternative, Api, Clock, CodecOptions, Compat, ModelPage
from svir_core.wire.document import model_listing
from svir_core.wire.openai_chat.decode import Decoder
from svir_core.wire.openai_chat.encode import RENAMES, Encoder, optional_fields
from svir_core.wire.openai_chat.server_half import ServerHalf
from svir_core.wire.openai_chat.table import API_NAME

if TYPE_CHECKING:
    from svir_core.body import Body, Measurements
    from svir_core.secret import Secret


def _alternative(name: str, about: str | None = None) -> Alternative:
    own, other = RENAMES[name]
    return Alternative(own, other, about)


_MAX_TOKENS: Final = _alternative("max_tokens")
_SYSTEM: Final = _alternative("system", about="role")


def _counts_none() -> UnsupportedError:
    return UnsupportedError("Chat Completions has no endpoint that counts tokens")


@attrs.frozen
class ChatCompletions:
    """The API as the exchange and the client see it; holds no state. See ``wire.api.Api``."""

    name: str = attrs.field(default=API_NAME, init=False)
    base_url: str = attrs.field(default="https://api.openai.com", init=False)
    versions: tuple[str, ...] = attrs.field(default=("/v1",), init=False)
    matches_by_id: bool = attrs.field(default=False, init=False)
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), init=False)
    server: ServerHalf = attrs.field(factory=ServerHalf, init=False)

    def path(self, request: Request) -> str:
        """The same path for every request."""
        return "/v1/chat/completions"

    def models_path(self, after: str | None = None) -> str:
        """The same path always: a listing is one document."""
        return "/v1/models"

    def count_path(self, request: Request) -> str:
        """Raises ``UnsupportedError``: this API counts no tokens."""
        raise _counts_none()

    def key_headers(self, key: Secret) -> tuple[tuple[str, str], ...]:
        """``authorization: Bearer KEY``."""
        return (("authorization", f"Bearer {key.reveal()}"),)

    def optional_fields(self, request: Request) -> frozenset[str]:
        """``reasoning_effort`` and ``stream_options``, where the request asks for them."""
        return optional_fields(request)

    def alternatives(self, request: Request) -> tuple[Alternative, ...]:
        """``max_tokens`` and the role ``system``, where the request has them (30 section 2)."""
        has_system = request.system is not None or any(message.role is Role.SYSTEM for message in request.messages)
        chosen = ((_MAX_TOKENS, request.max_tokens is not None), (_SYSTEM, has_system))
        return tuple(alternative for alternative, used in chosen if used)

    def encode(
        self, request: Request, options: CodecOptions, compat: Compat, measured: Measurements | None = None
    ) -> Body:
        """The body of ``request``; raises as ``Encoder.encode`` does."""
        encoder = Encoder(
            context_tokens=options.context_tokens,
            image_tokens=options.image_tokens,
            omit=compat.omit,
            rename=compat.rename,
        )
        return encoder.encode(request, measured)

    def decoder(self, options: CodecOptions, clock: Clock) -> Decoder:
        """A decoder for one answer."""
        return Decoder(
            mode=options.mode,
            think=options.think,
            limits=options.limits,
            clock=clock,
            extra=options.extra,
            quirks=options.quirks,
        )

    def models(self, document: bytes) -> ModelPage:
        """The models of ``{"data": [{"id", "name"?}]}``, all on one page. Raises as ``wire.document`` does."""
        return ModelPage(model_listing(document, entries="data", model_id="id", name="name")[1])

    def encode_count(
        self, request: Request, options: CodecOptions, compat: Compat, measured: Measurements | None = None
    ) -> Body:
        """Raises ``UnsupportedError``: this API counts no tokens."""
        raise _counts_none()

    def count(self, document: bytes) -> int:
        """Raises ``UnsupportedError``: this API counts no tokens."""
        raise _counts_none()


API: Final[Api] = ChatCompletions()
