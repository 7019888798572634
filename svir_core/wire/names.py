"""The body fields that may be left out or go by another name, over all wire APIs: collected from their tables.

A memory of a server is stored without its API, so what it may hold is what any encoder acts on. A new
API is one more row. The encoders are imported when somebody asks: most programs speak one API.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping


@functools.cache
def _tables() -> tuple[tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]], ...]:
    """Of each API: its optional fields; svir's name of a field or a role, and what servers may call it."""
    from svir_core.wire.anthropic_messages import encode as anthropic_messages
    from svir_core.wire.gemini import encode as gemini
    from svir_core.wire.openai_chat import encode as openai_chat
    from svir_core.wire.openai_responses import encode as openai_responses

    tables = (openai_chat, openai_responses, anthropic_messages, gemini)
    return tuple((table.OPTIONAL, table.RENAMES) for table in tables)


@functools.cache
def optional_names() -> frozenset[str]:
    """What a lean retry may leave out; nothing else is ever dropped (30 section 2)."""
    return frozenset(name for optional, _ in _tables() for name in optional)


@functools.cache
def other_names() -> Mapping[str, frozenset[str]]:
    """What may go by another name, and by which."""
    names: dict[str, frozenset[str]] = {}
    for _, renames in _tables():
        for name, others in renames.items():
            names[name] = names.get(name, frozenset()).union(others)
    return names
