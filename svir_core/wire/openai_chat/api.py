"""Chat Completions as one object: its paths, its headers, its encoder and its decoder (00 section 4)."""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import TYPE_CHECKING, Any, Final

import attrs

from svir_core.errors import ProtocolError, ServerError
from svir_core.message import Role
from svir_core.request import Request
from svir_core.slow_json import loosely
from svir_core.wire.api import Alternative, Api, Clock, CodecOptions, Compat, Model
from svir_core.wire.failure import sniff
from svir_core.wire.json_value import is_array, is_object
from svir_core.wire.openai_chat.decode import Decoder
from svir_core.wire.openai_chat.encode import RENAMES, Encoder, optional_fields
from svir_core.wire.openai_chat.server_half import ServerHalf
from svir_core.wire.openai_chat.table import API_NAME

if TYPE_CHECKING:
    from svir_core.body import Body, Measurements
    from svir_core.http_message import Secret


def _alternative(name: str, about: str | None = None) -> Alternative:
    own, other = RENAMES[name]
    return Alternative(own, other, about)


_MAX_TOKENS: Final = _alternative("max_tokens")
_SYSTEM: Final = _alternative("system", about="role")


def _model(entry: Any, number: int) -> Model:
    if is_object(entry):
        model_id, name = entry.get("id"), entry.get("name")
        if isinstance(model_id, str) and model_id:
            return Model(model_id, name if isinstance(name, str) and name else None)
    raise ProtocolError(f"entry {number} of the model listing has no id")


@attrs.frozen
class ChatCompletions:
    """The API as the exchange and the client see it; holds no state. See ``wire.api.Api``."""

    name: str = attrs.field(default=API_NAME, init=False)
    models_path: str = attrs.field(default="/v1/models", init=False)
    server: ServerHalf = attrs.field(factory=ServerHalf, init=False)

    def path(self, request: Request) -> str:
        """The same path for every request."""
        return "/v1/chat/completions"

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

    def models(self, document: bytes) -> tuple[Model, ...]:
        """The models of ``{"data": [{"id", "name"?}]}``, in the server's order, none left out.

        Raises ``ServerError`` for a failure in place of a listing, ``ProtocolError`` for anything else
        that is no listing; both keep what the server sent behind ``server_message()``.
        """
        text = document.removeprefix(BOM_UTF8)
        shown = text.decode("utf-8", "replace")
        listing = loosely(text)
        if not is_object(listing):
            raise ProtocolError("the model listing is not a JSON object", server_message=shown)
        data = listing.get("data")
        if is_array(data):
            return tuple(_model(entry, number) for number, entry in enumerate(data))
        failure = sniff(listing)
        if failure is not None:
            raise ServerError("the server listed a failure in place of models", server_message=failure.message or shown)
        raise ProtocolError("the model listing has no list named 'data'", server_message=shown)


API: Final[Api] = ChatCompletions()
