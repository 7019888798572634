"""One part of a whole answer as the block it was: what this API gave beside it goes out with it.

Another API's opaque data is no business of this one's clients, and stays out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from svir_core.check import an
from svir_core.errors import ConfigError
from svir_core.json_text import sanitize
from svir_core.message import Opaque, Part, Reasoning, Text, ToolCall
from svir_core.slow_json import read_any, read_exact, without_lone_surrogates
from svir_core.wire.anthropic_messages.block import CITATIONS, SIGNATURE
from svir_core.wire.anthropic_messages.event_writer import EventWriter
from svir_core.wire.anthropic_messages.table import API_NAME, SOURCE, TEXT
from svir_core.wire.json_value import Json, is_array, is_object


def trailing(parts: Sequence[Part]) -> Iterator[Part]:
    """The opaque parts behind everything else."""
    last = max((number for number, part in enumerate(parts) if not isinstance(part, Opaque)), default=-1)
    yield from parts[last + 1 :]


def check_parts(parts: Sequence[Part]) -> None:
    """Raise ``ConfigError`` for a part that is none of an answer's, and ``ProtocolError`` for opaque data that nests
    too deep to be written."""
    for part in parts:
        if not isinstance(part, Text | Reasoning | ToolCall | Opaque):
            raise ConfigError(f"{an(type(part))} is no part of an answer")
        _beside(part if isinstance(part, Opaque) else part.opaque)


def write_part(writer: EventWriter, part: Part) -> None:
    """Write one part, which was checked."""
    if isinstance(part, Text):
        _spoken(writer, TEXT, part.text, part.opaque)
    elif isinstance(part, Reasoning):
        _spoken(writer, SOURCE, part.text, part.opaque)
    elif isinstance(part, ToolCall):
        writer.call(part.id, part.name, _beside(part.opaque))
        writer.arguments([part.arguments] if part.arguments else [])
        writer.stop()
    elif isinstance(part, Opaque) and (block := _beside(part)):
        writer.start(block)
        writer.stop()


def _beside(opaque: Opaque | None) -> Json:
    """What this API gave: an object, or nothing."""
    if opaque is None or opaque.api != API_NAME:
        return {}
    text = without_lone_surrogates(sanitize(opaque.json))
    return read_exact(text) if is_object(read_any(text)) else {}


def _spoken(writer: EventWriter, kind: str, text: str, opaque: Opaque | None) -> None:
    """A block of text or thinking: what was said, then its citations or its signature."""
    fields = _beside(opaque)
    if fields.get("type") != kind or fields.get(kind) != text:
        if text:
            writer.speak(kind, text)
            writer.stop()
        return
    citations = fields.get(CITATIONS)
    later: Json = {kind: "", SIGNATURE: ""} | ({CITATIONS: []} if is_array(citations) else {})
    writer.start({key: later.get(key, value) for key, value in fields.items()})
    if text:
        writer.speak(kind, text)
    for citation in citations if is_array(citations) else ():
        writer.delta("citations_delta", "citation", citation)
    if fields.get(SIGNATURE):
        writer.delta("signature_delta", SIGNATURE, fields[SIGNATURE])
    writer.stop()
