"""Gemini, as its Developer API and Vertex speak it: decode, encode, and the API as one object."""

from svir_core.wire.gemini.decode import Decoder, decode
from svir_core.wire.gemini.document_decoder import DocumentDecoder, decode_document

__all__ = ("Decoder", "DocumentDecoder", "decode", "decode_document")
