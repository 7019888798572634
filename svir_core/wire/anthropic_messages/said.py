"""One object of an event at hand, in the readings that a block may need (00 section 2, 11 section B)."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from svir_core.response import AnomalyCode
from svir_core.wire.json_value import Json


@attrs.frozen
class Said:
    """A block or a delta, as it came.

    Attributes:
        fields: the object as the fast reader has it.
        raw: the same, lone surrogates still in it; ``fields`` itself when there are none.
        exact: reads it once more, every number exact.
        forgive: refuses, or puts on record, what deviates.
    """

    fields: Json
    raw: Json
    exact: Callable[[], Json]
    forgive: Callable[[AnomalyCode], None]

    def text(self, key: str) -> str:
        """The string at ``key``, lone surrogates still in it; ``null`` and a missing key are ``""``."""
        value = self.raw.get(key)
        if isinstance(value, str):
            return value
        if value is not None:
            self.forgive(AnomalyCode.WRONG_TYPE)
        return ""
