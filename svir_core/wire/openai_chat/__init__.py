"""OpenAI Chat Completions, as hosted and local servers speak it: decode, encode, and the API as one object."""

from svir_core.wire.openai_chat.api import API, ChatCompletions
from svir_core.wire.openai_chat.decode import Decoder, decode
from svir_core.wire.openai_chat.document_decoder import DocumentDecoder, decode_document
from svir_core.wire.openai_chat.encode import Encoder

__all__ = ("API", "ChatCompletions", "Decoder", "DocumentDecoder", "Encoder", "decode", "decode_document")
