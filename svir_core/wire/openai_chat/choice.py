"""Which choice of a chunk is the answer (10 section 2): index 0; in lenient mode the index first seen.

An index of the wrong type is forgiven in lenient mode: ``"0"`` and ``0.0`` are the number they say, and
anything else says nothing, as if it were missing. Answers of several indices so never mix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from svir_core.errors import UnsupportedError
from svir_core.response import AnomalyCode
from svir_core.wire.json_value import Json, is_array, is_object

INDEX_DIGITS: Final = 9
"""A string of more digits is no index of a choice."""


class Choices:
    """Picks the answer's choice out of each chunk.

    Args:
        forgive: called with what is wrong; raises in strict mode.
        index: the answer's index, or ``None`` when the first seen is to be.

    Attributes:
        index: the answer's index, once it is known.
        place: where in its chunk the choice that was picked last stands.
    """

    __slots__ = ("_forgive", "index", "place")

    def __init__(self, forgive: Callable[[AnomalyCode], None], index: int | None) -> None:
        self._forgive = forgive
        self.index = index
        self.place = 0

    def pick(self, choices: Any, *, finished: bool) -> Json | None:
        """The answer's choice, if it is among ``choices``. None at all is fine once the answer is ``finished``."""
        if choices is None or choices == "" or choices == []:
            if not finished:
                self._forgive(AnomalyCode.NO_CHOICES)
            return None
        if not is_array(choices):
            self._forgive(AnomalyCode.WRONG_TYPE)
            return None
        if len(choices) > 1:
            self._forgive(AnomalyCode.OTHER_CHOICE)
        found: Json | None = None
        for place, choice in enumerate(choices):
            if self._is_answer(choice, alone=len(choices) == 1):
                if found is not None:
                    raise UnsupportedError("a chunk holds the same choice twice")
                found = choice
                self.place = place
        return found

    def each(self, choices: Any, *, finished: bool) -> Iterator[tuple[int, Json]]:
        """Every choice and its index: all belong to the answer (``CHOICES_MERGED``)."""
        if not choices or not is_array(choices):
            self.pick(choices, finished=finished)
            return
        for place, choice in enumerate(choices):
            if is_object(choice):
                self.place = place
                yield self._index(choice) or 0, choice
            else:
                self._forgive(AnomalyCode.WRONG_TYPE)

    def _is_answer(self, choice: Any, *, alone: bool) -> bool:
        if not is_object(choice):
            self._forgive(AnomalyCode.WRONG_TYPE)
            return False
        index = choice.get("index")
        new = alone  # among several, and of the wrong type, it is on record already
        if type(index) is not int:
            index = self._index(choice)
            new = False
        if self.index is None:
            self.index = index or 0
            if self.index and new:  # it stands for index 0
                self._forgive(AnomalyCode.OTHER_CHOICE)
        if index is None or index == self.index:
            return True
        if new:
            self._forgive(AnomalyCode.OTHER_CHOICE)
        return False

    def _index(self, choice: Json) -> int | None:
        """The index of ``choice``; ``None`` when it says none."""
        index = choice.get("index")
        if index is None or type(index) is int:
            return index
        self._forgive(AnomalyCode.WRONG_TYPE)
        return _number(index)


def _number(index: Any) -> int | None:
    if isinstance(index, float) and index.is_integer():
        return int(index)
    if isinstance(index, str) and index.isascii() and index.isdigit() and len(index) <= INDEX_DIGITS:
        return int(index)
    return None
