"""Anthropic Messages, as Anthropic and compatible servers speak it: decode, encode, and the API as one object."""

from svir_core.wire.anthropic_messages.api import API, AnthropicMessages
from svir_core.wire.anthropic_messages.decode import Decoder, decode
from svir_core.wire.anthropic_messages.document_decoder import DocumentDecoder, decode_document
from svir_core.wire.anthropic_messages.encode import Encoder
from svir_core.wire.anthropic_messages.server import StreamEncoder

__all__ = (
    "API",
    "AnthropicMessages",
    "Decoder",
    "DocumentDecoder",
    "Encoder",
    "StreamEncoder",
    "decode",
    "decode_document",
)
