"""What stands beside a type in ``Annotated``: words for the model, and constraints, which nothing here checks.

A constraint that was dropped in silence would be one that its author relies on, so it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from svir_core.structure_fault import Unreadable

_LIBRARIES: Final = frozenset({"annotated_types", "msgspec", "pydantic", "pydantic_core"})
"""Those whose notes say what values fit; what another library or a program notes is its own affair."""


def words_of(notes: Iterable[Any]) -> str | None:
    """The description among ``notes``: the first that is a string, or a ``Doc``.

    Raises ``Unreadable`` that names a constraint among them.
    """
    found: str | None = None
    for note in notes:
        words = note if isinstance(note, str) else getattr(note, "documentation", None)
        if isinstance(words, str):
            found = found or words or None
        elif any(base.__module__.partition(".")[0] in _LIBRARIES for base in type(note).__mro__):
            raise Unreadable(f"{type(note).__name__} in Annotated is not checked, but in a class of its library")
    return found
