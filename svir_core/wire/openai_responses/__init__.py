"""OpenAI Responses: decode, encode, and the API as one object."""

from svir_core.wire.openai_responses.api import API, Responses
from svir_core.wire.openai_responses.decode import Decoder, decode
from svir_core.wire.openai_responses.document_decoder import DocumentDecoder, decode_document
from svir_core.wire.openai_responses.encode import Encoder
from svir_core.wire.openai_responses.server import StreamEncoder

__all__ = (
    "API",
    "Decoder",
    "DocumentDecoder",
    "Encoder",
    "Responses",
    "StreamEncoder",
    "decode",
    "decode_document",
)
