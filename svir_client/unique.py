"""What is open is one of a kind: a copy would read, or close, what the other one does."""

from __future__ import annotations

from typing import NoReturn

from svir_core.check import an
from svir_core.errors import ConfigError


class Unique:
    """Refuses to be copied and to be pickled, by ``ConfigError``."""

    __slots__ = ()

    def __copy__(self) -> NoReturn:
        raise _one_of_a_kind(self)

    def __deepcopy__(self, memo: dict[int, object]) -> NoReturn:
        raise _one_of_a_kind(self)

    def __reduce__(self) -> NoReturn:
        raise _one_of_a_kind(self)


def _one_of_a_kind(value: object) -> ConfigError:
    return ConfigError(f"{an(type(value))} is one of a kind: it is neither copied nor pickled")
