"""The texts of one item: which part an event is about, and whether the item's end says what its events said
(20 section 9).

The parts of a list come one after the other: a part that was followed by another has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from svir_core.errors import ProtocolError
from svir_core.response import AnomalyCode
from svir_core.wire.json_value import Json, is_array, is_object
from svir_core.wire.openai_responses.run import Run
from svir_core.wire.openai_responses.table import AFTER, KINDS, PARTS, Kind, State, Step, taken
from svir_core.wire.policy import Forgive

Say = Callable[[str | None, str], None]
"""Takes the source, ``None`` for what is said, and the text."""

LISTS: Final = ("summary", "content")
"""Where an item has its texts, in the order they are read."""


def texts_of(fields: Json, item: str) -> Iterator[tuple[Kind, int, str, str]]:
    """Every text of a whole item of this type: its kind, where it stands, its part's type, and the text."""
    for name in LISTS:
        parts = fields.get(name)
        for index, part in enumerate(parts if is_array(parts) else ()):
            part_type = part.get("type") if is_object(part) else None
            kind = KINDS.get(part_type) if isinstance(part_type, str) else None
            if kind is not None and kind.item == item and kind.list == name:
                text = part.get(kind.text)
                yield kind, index, part["type"], text if isinstance(text, str) else ""


class Speech:
    """The texts of one item.

    Args:
        item: the item's type.
        forgive: called with what is wrong; raises in strict mode.
        say: called with what there is to deliver.
    """

    __slots__ = ("_forgive", "_item", "_runs", "_say")

    def __init__(self, item: str, forgive: Forgive, say: Say) -> None:
        self._item = item
        self._forgive = forgive
        self._say = say
        self._runs: dict[str, dict[int, Run]] = {name: {} for name in LISTS}  # each in ascending order

    def text(self, source: str | None) -> str:
        """The whole text of a source, ``None`` for what is said."""
        return "".join(
            run.text for runs in self._runs.values() for run in runs.values() if KINDS[run.kind].source == source
        )

    def texts(self, part_type: str) -> list[str]:
        """The text of every part of this type."""
        return [run.text for runs in self._runs.values() for run in runs.values() if run.kind == part_type]

    def part(self, part_type: str, index: Any, step: Step) -> Run | None:
        """The text that an event is about; ``None`` when the event is left out."""
        kind = KINDS[part_type]
        runs = self._runs[kind.list]
        last = next(reversed(runs), None)
        if type(index) is not int or index < 0:
            self._forgive(AnomalyCode.INDEX_MISSING)
            index = (0 if last is None else last) + (step is Step.OPENS and last is not None)
        run = runs.get(index)
        if not taken(PARTS, State.ABSENT if run is None else run.state, step, self._forgive):
            return None
        if run is None:
            return self._open(runs, index, part_type, step)
        if run.kind != part_type:
            raise ProtocolError("an event is about a part of another type")
        if step is Step.GROWS and index != last:
            self._forgive(AnomalyCode.OUT_OF_ORDER)
            return None
        run.state = AFTER[step]
        return run

    def _open(self, runs: dict[int, Run], index: int, part_type: str, step: Step) -> Run:
        last = next(reversed(runs), None)
        if last is not None:
            if index < last:
                raise ProtocolError("a part of an item came after a later one")
            self._release(runs[last])
        run = runs[index] = Run(part_type)
        run.state = AFTER[step]
        return run

    def grow(self, run: Run, piece: str) -> None:
        """A piece of a text."""
        self._deliver(run, piece)

    def settle(self, run: Run, whole: str) -> None:
        """All of a text. Strict raises ``ProtocolError`` when its pieces are not that; lenient delivers what is missing
        where it can still be delivered in its place."""
        self._settle(run, whole, last=run is next(reversed(self._runs[KINDS[run.kind].list].values())))

    def _settle(self, run: Run, whole: str, *, last: bool) -> None:
        said = run.text
        rest = run.rest(whole)
        if rest == "":
            return
        if said or not last:
            self._forgive(AnomalyCode.TEXT_DIFFERS)
        if rest and last:
            self._deliver(run, rest)

    def close(self, fields: Json) -> None:
        """The item has ended, and is ``fields``."""
        wholes: dict[str, dict[int, tuple[str, str]]] = {name: {} for name in LISTS}
        for kind, index, part_type, text in texts_of(fields, self._item):
            wholes[kind.list][index] = (part_type, text)
        for name, runs in self._runs.items():
            self._close(runs, wholes[name])

    def _close(self, runs: dict[int, Run], wholes: dict[int, tuple[str, str]]) -> None:
        spoken = max((index for index, run in runs.items() if run.text), default=-1)
        before = dict(runs)
        runs.clear()
        unsaid = {index: (run.kind, "") for index, run in before.items()}
        for index, (part_type, whole) in sorted((unsaid | wholes).items()):
            run = runs[index] = before.get(index) or Run(part_type)
            run.kind = part_type
            self._settle(run, whole, last=index >= spoken)

    def release(self) -> None:
        """The item has ended, and nobody says what it is: what waited is delivered."""
        for runs in self._runs.values():
            for run in runs.values():
                self._release(run)

    def _release(self, run: Run) -> None:
        half = run.release()
        if half:
            self._say(KINDS[run.kind].source, half)

    def _deliver(self, run: Run, piece: str) -> None:
        text = run.push(piece)
        if text:
            self._say(KINDS[run.kind].source, text)
