"""What an answer says of itself beside its blocks: id, model, usage, why it ended, and what no rule reads.

Source: 21 sections 9 to 12.
"""

from __future__ import annotations

from typing import Any, Final

from svir_core.errors import ProtocolError
from svir_core.response import AnomalyCode, FinishReason, Usage
from svir_core.wire.anthropic_messages import usage
from svir_core.wire.anthropic_messages.said import Path, Reading
from svir_core.wire.anthropic_messages.table import EVENT_KEYS, FINISHES, MESSAGE_KEYS
from svir_core.wire.json_value import Json, is_object
from svir_core.wire.policy import Forgive

ABSENT: Final = (None, "")
"""What of a stop reason is as good as none."""


class Envelope:
    """The envelope of one answer.

    Args:
        forgive: refuses, or puts on record, what deviates.
        extra: whether what no rule reads is kept.

    Attributes:
        id, model: as the server named them, or ``None``.
        word: the stop reason, or ``None`` before it.
        finish: what it means.
        reading: the event at hand.
    """

    __slots__ = ("_began", "_extra", "_forgive", "_usage", "finish", "id", "model", "reading", "word")

    def __init__(self, forgive: Forgive, *, extra: bool) -> None:
        self._forgive = forgive
        self._began = False
        self._usage: Json = {}
        self._extra: Json | None = {} if extra else None
        self.id: str | None = None
        self.model: str | None = None
        self.word: str | None = None
        self.finish = FinishReason.OTHER
        self.reading = Reading(forgive)

    @property
    def usage(self) -> Usage | None:
        """The usage so far."""
        return usage.read(self._usage)

    @property
    def extra(self) -> Json:
        """What was kept, the server's own usage too."""
        if self._extra is None:
            return {}
        return {**self._extra, "usage": self._usage} if self._usage else self._extra

    # --- events ----------------------------------------------------------------------------------

    def begin(self, message: Json, path: Path, *, goes_on: bool) -> None:
        """The message, at ``path``, as it begins. A second one is ignored; ``ProtocolError`` when another answer began
        with it while this one ``goes_on``."""
        model = self._string(message, "model")
        message_id = self._string(message, "id")
        if not self._began:
            self._began = True
            self.id = message_id
            self.model = self.model or model
            later = dict(self._usage)
            self._report(message, path)
            usage.merge(self._usage, later)
            self._keep(message, path, MESSAGE_KEYS)
        elif message_id is not None and message_id != self.id:
            if goes_on:
                raise ProtocolError("another answer began in the middle of this one")
            self._forgive(AnomalyCode.ID_CHANGED)

    def fall_back(self, block: Json) -> None:
        """A ``fallback`` block: another model goes on."""
        self.model = self._string(self.object(block, "to"), "model") or self.model

    def delta(self, event: Json, delta: Json) -> None:
        """``message_delta``."""
        self.finished(delta.get("stop_reason"))
        self._report(event, ())
        self._keep(event, (), EVENT_KEYS)
        self._keep(delta, ("delta",), MESSAGE_KEYS)

    def finished(self, word: Any) -> None:
        """Why the answer ended, if ``word`` says so."""
        if word in ABSENT:
            return
        if not isinstance(word, str):
            raise ProtocolError("the stop reason is not a string")
        if self.word is not None and word != self.word:
            raise ProtocolError("the answer ended for two reasons")
        if self.word is None and word not in FINISHES:
            self._forgive(AnomalyCode.UNKNOWN_FINISH)
        self.word = word
        self.finish = FINISHES.get(word, FinishReason.OTHER)

    # --- what events hold ------------------------------------------------------------------------

    def object(self, fields: Json, key: str) -> Json:
        """The object at ``key``; nothing when there is none."""
        value = fields.get(key)
        if is_object(value):
            return value
        if value is not None:
            self._forgive(AnomalyCode.WRONG_TYPE)
        return {}

    def _string(self, fields: Json, key: str) -> str | None:
        value = fields.get(key)
        if isinstance(value, str):
            return value or None
        if value is not None:
            self._forgive(AnomalyCode.WRONG_TYPE)
        return None

    def _report(self, fields: Json, path: Path) -> None:
        report = self.object(self.reading.plain(fields, path), "usage")
        if usage.is_report(report):
            usage.merge(self._usage, report)
        else:
            self._forgive(AnomalyCode.USAGE_INCOMPLETE)

    def _keep(self, fields: Json, path: Path, known: frozenset[str]) -> None:
        if self._extra is not None:
            said = self.reading.plain(fields, path)
            self._extra.update((key, value) for key, value in said.items() if value is not None and key not in known)
