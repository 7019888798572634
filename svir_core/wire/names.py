"""The body fields that may be left out or go by another name, over all wire APIs: collected from their tables.

A memory of a server is stored without its API, so what it may hold is what any encoder acts on. A new
API is one more row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from svir_core.wire.anthropic_messages import encode as anthropic_messages
from svir_core.wire.gemini import encode as gemini
from svir_core.wire.openai_chat import encode as openai_chat
from svir_core.wire.openai_responses import encode as openai_responses

_TABLES: Final = tuple(
    (table.OPTIONAL, table.RENAMES) for table in (openai_chat, openai_responses, anthropic_messages, gemini)
)
"""Of each API: its optional fields; svir's name of a field or a role, and what servers may call it."""

OPTIONAL_FIELDS: Final = frozenset(name for optional, _ in _TABLES for name in optional)
"""What a lean retry may leave out; nothing else is ever dropped (30 section 2)."""


def _renames() -> dict[str, frozenset[str]]:
    names: dict[str, frozenset[str]] = {}
    for _, renames in _TABLES:
        for name, others in renames.items():
            names[name] = names.get(name, frozenset()).union(others)
    return names


RENAMES: Final[Mapping[str, frozenset[str]]] = _renames()
"""What may go by another name, and by which."""
