"""Which block an event belongs to, and what may be said in it (21 section 9).

Three rules hold for all of it. A block is named by its index, and an index names one block for good. Strict takes
the indices from 0 without a gap; lenient takes any, in the order in which they come. What is said in one kind of
block comes in the order of the blocks: two texts never mix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from svir_core.errors import ProtocolError, ResponseLimitError
from svir_core.event import ToolCallDelta
from svir_core.message import Part
from svir_core.response import AnomalyCode
from svir_core.wire.anthropic_messages.block import Block, Call, Kept, Spoken, known_type, named
from svir_core.wire.anthropic_messages.said import Said
from svir_core.wire.anthropic_messages.table import CALL, DELTAS, SOURCE, TEXT

Say = Callable[[str], None]

SPOKEN: Final = (TEXT, SOURCE)
SPEAKING: Final = ("text_delta", "thinking_delta")


class Blocks:
    """The blocks of one answer, in the order they came.

    Args:
        limit: how many calls an answer may hold.
        say: what delivers text, and what delivers thinking, by the type of the block.
        call: what delivers a piece of a call.

    Attributes:
        open: how many have not ended.
    """

    __slots__ = ("_by_index", "_call", "_ids", "_last", "_limit", "_say", "open")

    def __init__(self, limit: int, say: dict[str, Say], call: Callable[[ToolCallDelta], None]) -> None:
        self._limit = limit
        self._say = say
        self._call = call
        self._by_index: dict[int, Block] = {}  # in the order they came
        self._ids: set[str] = set()
        self._last: dict[str, Spoken] = {}  # of each kind, the block that spoke last
        self.open = 0

    def __len__(self) -> int:
        return len(self._by_index)

    def find(self, index: int) -> Block | None:
        """The block of this index, whether it has ended or not."""
        return self._by_index.get(index)

    def speaker(self, index: int) -> Spoken | None:
        """The block of this index when its next piece can be delivered as it is: it spoke last of its kind, goes on,
        and holds nothing back."""
        block = self._by_index[index]
        if isinstance(block, Spoken) and self._last.get(block.kind) is block and not block.waits:
            return block
        return None

    def start(self, index: int, block: Said) -> None:
        """A block begins. Raises ``ProtocolError`` when there was one of this index, and for a call without an id or a
        name or with another's id; ``ResponseLimitError`` for one call too many."""
        if index in self._by_index:
            raise ProtocolError(f"block {index} begins twice")
        if index != len(self._by_index):
            block.forgive(AnomalyCode.OUT_OF_ORDER)
        self._by_index[index] = self._made(known_type(block.fields), block)
        self.open += 1

    def _made(self, kind: str, block: Said) -> Block:
        place = len(self._by_index)
        if kind == CALL:
            return Call(place, block, self._number(named(block.fields, "id")), self._call)
        if kind not in SPOKEN:
            return Kept(kind, place, block)
        spoken = Spoken(kind, place, block, self._say[kind])
        if spoken.pieces:
            self._last[kind] = spoken
        return spoken

    def _number(self, call_id: str) -> int:
        """How many calls came before the one of this id."""
        number = len(self._ids)
        if number >= self._limit:
            raise ResponseLimitError(f"the answer has more than {self._limit} tool calls")
        if call_id in self._ids:
            raise ProtocolError("two tool calls have the same id")
        self._ids.add(call_id)
        return number

    def push(self, index: int, kind: str, delta: Said) -> None:
        """A delta of a block that has begun; one of a type that nobody knows says nothing."""
        block = self._by_index[index]
        if block.stopped:
            raise ProtocolError(f"block {index} goes on after its end")
        if not isinstance(block, Kept):
            belongs = DELTAS.get(kind)
            if belongs is None:
                return
            if belongs != block.kind:
                raise ProtocolError("a delta does not fit its block")
        if isinstance(block, Spoken) and kind in SPEAKING:
            self._turn(block)
        block.push(kind, delta)

    def _turn(self, block: Spoken) -> None:
        """It is the turn of ``block`` to speak; ``ProtocolError`` when a later one of its kind has spoken."""
        last = self._last.get(block.kind, block)
        if last.place > block.place:
            raise ProtocolError("two blocks of one kind speak at the same time")
        self._last[block.kind] = block

    def stop(self, index: int) -> None:
        """The open block of this index ends."""
        block = self._by_index[index]
        if isinstance(block, Spoken) and block.waits:
            self._turn(block)
        block.stop()
        self.open -= 1

    def end(self) -> None:
        """The answer has ended, and with it every block."""
        for index, block in self._by_index.items():
            if not block.stopped:
                block.left_open = True
                self.stop(index)

    def parts(self, *, cut: bool) -> tuple[Part, ...]:
        """What the blocks are; ``cut`` when more of the last one could have come."""
        last = len(self._by_index) - 1
        parts = [block.part(cut=cut and block.place == last) for block in self._by_index.values()]
        return tuple(part for part in parts if part is not None)
