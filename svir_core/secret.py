"""What must not be seen: keys, and what a caller gives on its way through our frames (00 section 3, 30 section 2)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from svir_core.errors import ConfigError

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")

_KEY = re.compile(r"[\x21-\x7e]+")


class Private:
    """What may hold a credential: it can be copied, and refuses to be pickled (``ConfigError``)."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise ConfigError(f"{type(self).__name__} may hold a credential and is not pickled: make it again where needed")


class Withheld(Private, Generic[T]):
    """A caller's value on its way through our frames, so that a traceback's locals do not show it."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "<withheld>"


def _no_key(value: object) -> str | None:
    """Why ``value`` is no key; ``None`` when it is one."""
    if not isinstance(value, str):
        return f"a key must be str, not {type(value).__name__}"
    if not _KEY.fullmatch(value):
        return "a key must be visible ASCII, without spaces or line ends, and not empty"
    return None


class Secret(Private):
    """A key. Only :meth:`reveal` shows it; ``str``, ``repr`` and ``format`` withhold it.

    It compares and hashes by value and can be copied. It refuses to be pickled, and JSON writers do
    not know it: a key is read anew where it is needed. Raises ``ConfigError`` when the value
    is not a string, is empty, or has a space, a line end or anything else that is not visible ASCII.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        problem = _no_key(value)
        if problem is None:
            self._value = value
        del value  # what is refused may still be most of a key: a traceback's locals do not show it
        if problem is not None:
            raise ConfigError(problem)

    def reveal(self) -> str:
        """The key itself."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(<withheld>)"

    def __str__(self) -> str:
        return "<withheld>"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __eq__(self, other: object) -> bool:
        return self._value == other._value if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash((Secret, self._value))
