"""The items of one answer: which one an event is about, in what order their texts are delivered, and which items of
the final response came before (20 section 9).

Three rules hold for all of it. ``output_index`` names an item and its place, so items open in ascending order. Texts
are delivered in the order of their items, reasoning in that of its own: while an item is open, those of later ones are
held. The final response brings only what was not streamed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from svir_core.errors import ProtocolError, ResponseLimitError
from svir_core.event import ToolCallDelta
from svir_core.response import AnomalyCode
from svir_core.wire.json_value import Json
from svir_core.wire.openai_responses.call import Call, string
from svir_core.wire.openai_responses.item import Deliver, Item, Key
from svir_core.wire.openai_responses.speech import Speech, texts_of
from svir_core.wire.openai_responses.table import (
    CALL_TEXTS,
    FUNCTION,
    ITEMS,
    MESSAGE,
    REASONING,
    State,
    Step,
    taken,
)
from svir_core.wire.policy import Forgive

QUEUED: Final = (MESSAGE, REASONING)
"""The items whose texts are delivered in their order."""


def id_of(fields: Json) -> str | None:
    """The id of an item; absent when it is empty or no string."""
    value = fields.get("id")
    return value if isinstance(value, str) and value else None


class Output:
    """The items of one answer.

    Args:
        limit: how many calls an answer may hold.
        forgive: called with what is wrong; raises in strict mode.
        deliver: called with a text and its source.
        called: called with a piece of a call.

    Attributes:
        items: all of them, in the order they opened.
    """

    __slots__ = ("_by_id", "_by_index", "_called", "_calls", "_deliver", "_forgive", "_limit", "_queues", "items")

    def __init__(self, limit: int, forgive: Forgive, deliver: Deliver, called: Callable[[ToolCallDelta], None]) -> None:
        self.items: list[Item] = []
        self._limit = limit
        self._forgive = forgive
        self._deliver = deliver
        self._called = called
        self._calls = 0
        self._by_index: dict[int, Item] = {}
        self._by_id: dict[str, Item] = {}
        self._queues: dict[str, deque[Item]] = {kind: deque() for kind in QUEUED}

    # --- which item ------------------------------------------------------------------------------

    def open(self, index: Any, fields: Json) -> Item:
        """An item begins."""
        place = self._place(index)
        if place is None:
            place = self._next()
        item = self._by_index.get(place)
        taken(ITEMS, State.ABSENT if item is None else item.state, Step.OPENS, self._forgive)
        return self._open((place, 0), fields["type"], fields)

    def about(self, index: Any, item_id: Any, kind: str) -> Item | None:
        """The item of this type that a piece is about; ``None`` when the piece is left out.

        Raises ``ProtocolError`` when the item is of another type.
        """
        known = item_id if isinstance(item_id, str) and item_id else None
        item, place = self._find(index, known, kind)
        if not taken(ITEMS, State.ABSENT if item is None else item.state, Step.GROWS, self._forgive):
            return None
        return self._identified(item, place, known, kind)

    def ending(self, index: Any, fields: Json) -> Item:
        """The item that has ended, and is ``fields``; raises as :meth:`about` does. It may have ended before."""
        known, kind = id_of(fields), fields["type"]
        item, place = self._find(index, known, kind)
        taken(ITEMS, State.ABSENT if item is None else item.state, Step.CLOSES, self._forgive)
        return self._identified(item, place, known, kind)

    def _find(self, index: Any, item_id: str | None, kind: str) -> tuple[Item | None, int | None]:
        """The item of an event, and its place, where either is known."""
        place = self._place(index)
        item = self._guess(item_id, kind) if place is None else self._by_index.get(place)
        if item is not None and item.type != kind:
            raise ProtocolError("an event is about an item of another type")
        return item, place

    def _identified(self, item: Item | None, place: int | None, item_id: str | None, kind: str) -> Item:
        """The item, opened where there is none, its id checked."""
        if item is None:
            item = self._open((self._next() if place is None else place, 0), kind, {"type": kind})
        self._check_id(item, item_id)
        return item

    def _place(self, index: Any) -> int | None:
        if type(index) is int and index >= 0:
            return index
        self._forgive(AnomalyCode.INDEX_MISSING)
        return None

    def _next(self) -> int:
        return self.items[-1].key[0] + 1 if self.items else 0

    def _guess(self, item_id: str | None, kind: str) -> Item | None:
        """The item of an event without an index: by its id, else the one opened last, if it is open and of the type
        (llama.cpp sends ids and no index)."""
        if item_id is not None and item_id in self._by_id:
            return self._by_id[item_id]
        last = self.items[-1] if self.items else None
        return last if last is not None and last.type == kind and last.state is State.OPEN else None

    def _check_id(self, item: Item, item_id: str | None) -> None:
        """An item's id stays; some relays give every event another (20 section 9)."""
        if item_id is None or item_id == item.id:
            return
        if item.id is not None:
            self._forgive(AnomalyCode.ID_CHANGED)
        else:
            item.id = item_id
            self._by_id.setdefault(item_id, item)

    def _open(self, key: Key, kind: str, fields: Json) -> Item:
        if self.items and key < self.items[-1].key:
            raise ProtocolError("an item of the output came after a later one")
        item = Item(key, kind, fields, self._deliver)
        self.items.append(item)
        self._by_index[key[0]] = item
        self._check_id(item, id_of(fields))
        self._equip(item)
        return item

    def _equip(self, item: Item) -> None:
        """Give an item what makes it the text or the call that it is."""
        if item.type in QUEUED:
            item.speech = Speech(item.type, self._forgive, item.say)
            queue = self._queues[item.type]
            item.live = not queue
            queue.append(item)
        elif item.type in CALL_TEXTS:
            if self._calls >= self._limit:
                raise ResponseLimitError(f"the answer has more than {self._limit} tool calls")
            item.call = Call(item.type, self._calls, self._forgive, self._called)
            self._calls += 1
            item.call.open(item.fields)

    # --- ends ------------------------------------------------------------------------------------

    def close(self, item: Item, fields: Json, json: str) -> None:
        """``item`` has ended, and is ``fields``, as ``json`` in full."""
        if item.state is State.CLOSED:
            if item.call is not None:
                item.call.repeat(fields)
            return
        item.state = State.CLOSED
        item.fields = fields
        item.json = json
        if item.speech is not None:
            item.speech.close(fields)
            self._advance(self._queues[item.type])
        elif item.call is not None:
            item.call.close(fields)

    def _advance(self, queue: deque[Item]) -> None:
        """Deliver what is due: an item's texts when all before it have ended."""
        while queue and queue[0].state is State.CLOSED:
            queue.popleft()
            if queue:
                queue[0].go_live()

    def finish(self, final: Sequence[tuple[int, Json]], copy: Callable[[int], str]) -> None:
        """The answer has ended; ``final`` are the items of the final response, each with its number there, and ``copy``
        gives one in full. What of it was not streamed is delivered now.

        Raises ``ProtocolError`` when that stands before what was delivered after it.
        """
        unseen: list[tuple[Key, Json, int]] = []
        before = -1
        for (number, fields), item in zip(final, _paired(self.items, [fields for _, fields in final]), strict=True):
            if item is None:
                unseen.append(((before, number + 1), fields, number))
                continue
            before = item.key[0]
            self._check_id(item, id_of(fields))
            if item.state is not State.CLOSED:
                self.close(item, fields, copy(number))
        self._release()
        last = {_lane(item.type): item.key for item in self.items if item.speaks}
        for key, fields, number in unseen:
            if key < last.get(_lane(fields["type"]), key) and _brings(fields):
                raise ProtocolError("the final response has an item before others that came earlier")
            self._add(key, fields, copy(number))
        self.items.sort(key=lambda item: item.key)

    def _release(self) -> None:
        for item in self.items:
            if item.state is not State.CLOSED:
                if item.speech is not None:
                    item.speech.release()
                elif item.call is not None:
                    item.call.release()
        for queue in self._queues.values():
            for item in queue:
                item.go_live()
            queue.clear()

    def _add(self, key: Key, fields: Json, json: str) -> None:
        """An item that was not streamed."""
        item = Item(key, fields["type"], fields, self._deliver)
        self._equip(item)
        self.close(item, fields, json)
        self.items.append(item)


def _lane(kind: str) -> str:
    """Items of one lane are delivered in their order: those of one type, and calls of either."""
    return FUNCTION if kind in CALL_TEXTS else kind


def _brings(fields: Json) -> bool:
    """Whether a whole item brings a text or a call."""
    return fields["type"] in CALL_TEXTS or any(text for *_, text in texts_of(fields, fields["type"]))


Identity = tuple[str, str | None]


def _identity(fields: Json) -> Identity:
    """What two copies of one item have alike, their ids aside."""
    kind = fields["type"]
    return kind, string(fields, "call_id") if kind in CALL_TEXTS else None


def _paired(items: Sequence[Item], final: Sequence[Json]) -> list[Item | None]:
    """The streamed item that each item of the final response is: one of the same type (of a call: the same
    ``call_id``) and id; else, in order, one of the same type whose id the final response does not have."""
    found: list[Item | None] = [None] * len(final)
    seen: set[int] = set()
    for by_id in (True, False):
        waiting: dict[tuple[Identity, str | None], deque[Item]] = {}
        for item in items:
            if id(item) not in seen:
                identity = (item.type, None if item.call is None else item.call.id)
                waiting.setdefault((identity, item.id if by_id else None), deque()).append(item)
        for number, fields in enumerate(final):
            queue = waiting.get((_identity(fields), id_of(fields) if by_id else None))
            if queue and found[number] is None:
                found[number] = item = queue.popleft()
                seen.add(id(item))
    return found
