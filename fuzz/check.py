"""What a target is, and how it says that an invariant does not hold."""

from __future__ import annotations

from collections.abc import Callable

import attrs

Mutate = Callable[[bytes, int], bytes]
"""Changes an input's bytes blindly: the bytes, the greatest size."""

Mutator = Callable[[bytes, int, int, Mutate], bytes]
"""Changes an input by what it means: the bytes, the greatest size, a seed, and the blind way."""


class Broken(Exception):
    """An invariant does not hold. The words say which, and show both sides."""


@attrs.frozen
class Target:
    """One thing that is fuzzed.

    Attributes:
        check: takes any bytes; raises ``Broken``, or whatever escapes from the code under test, when it finds a fault.
        seeds: which seeds it starts from: a name of ``seeds.SOURCES``.
        mutator: how inputs are changed besides blindly; ``None`` for only that.
        max_size: inputs are at most so many bytes: small ones are many.
    """

    check: Callable[[bytes], None]
    seeds: str
    mutator: Mutator | None
    max_size: int


def require(holds: bool, words: str, *values: object) -> None:
    """Raise ``Broken`` with ``words`` and ``values`` unless it ``holds``."""
    if not holds:
        raise Broken(": ".join([words, *(ascii(value) for value in values)]))


def same(words: str, one: object, other: object) -> None:
    """Raise ``Broken`` unless the two are equal."""
    if one != other:
        raise Broken(f"{words}\n  one:   {one!a}\n  other: {other!a}")
