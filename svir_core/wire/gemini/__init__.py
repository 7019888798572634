"""Gemini, as its Developer API and Vertex speak it: decode, encode, and the API as one object."""

from svir_core.wire.gemini.api import API, Gemini
from svir_core.wire.gemini.decode import Decoder, decode
from svir_core.wire.gemini.document_decoder import DocumentDecoder, decode_document
from svir_core.wire.gemini.encode import Encoder

__all__ = ("API", "Decoder", "DocumentDecoder", "Encoder", "Gemini", "decode", "decode_document")
