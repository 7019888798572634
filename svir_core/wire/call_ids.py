"""The ids of calls as they are sent where each may stand once in the whole conversation (20 section 3.2, 21 section 3).

Three rules hold for all of it. These APIs refuse an id that two answers of a conversation have, and some servers count
theirs afresh in every answer. The first answer with an id keeps it; a later one gets one made of the id and of how
often it was taken, which no turn after it changes. A result has the id of the latest call before it.
"""

from __future__ import annotations

from collections.abc import Callable

from svir_core.tool_id import portable_tool_id


class CallIds:
    """The ids of one conversation, asked for in its order.

    Args:
        spell: how an id that is still free is sent: in the alphabet of the API.
    """

    __slots__ = ("_here", "_latest", "_spell", "_taken", "_times")

    def __init__(self, spell: Callable[[str], str]) -> None:
        self._spell = spell
        self._latest: dict[str, str] = {}  # what each id was sent as
        self._here: dict[str, str] = {}  # ... in the answer at hand
        self._taken: set[str] = set()  # all that was sent
        self._times: dict[str, int] = {}  # how often each id was taken already

    def answer(self) -> None:
        """An answer begins."""
        self._here = {}

    def call(self, call_id: str) -> str:
        """The id of a call of the answer at hand. One that an answer has twice stays twice: no result could tell
        which of them it is of."""
        if call_id not in self._here:
            sent = self._free(call_id)
            self._here[call_id] = self._latest[call_id] = sent
            self._taken.add(sent)
        return self._here[call_id]

    def _free(self, call_id: str) -> str:
        sent = self._spell(call_id)
        while sent in self._taken:
            times = self._times[call_id] = self._times.get(call_id, 0) + 1
            sent = portable_tool_id(f"{call_id}\n{times}")
        return sent

    def result(self, call_id: str) -> str:
        """The id of the call that a result is of."""
        return self._latest.get(call_id) or self._spell(call_id)
