"""What strict refuses and lenient forgives, as data: one decoder, two modes (00 section 2, 11 section B).

Every deviation has a code. Strict raises the error that stands beside it; lenient records the code and
goes on. What is not in this table is refused by both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from svir_core.errors import ProtocolError, SvirError, UnsupportedError
from svir_core.limits import ANOMALIES, ANOMALY_EXCERPT_BYTES
from svir_core.response import Anomaly, AnomalyCode

REFUSED: Final[Mapping[AnomalyCode, tuple[type[SvirError], str]]] = {
    AnomalyCode.UNKNOWN_FIELD: (UnsupportedError, "a line has a field that is not one of server-sent events"),
    AnomalyCode.UNKNOWN_EVENT: (UnsupportedError, "an event has a type that this API does not have"),
    AnomalyCode.INVALID_UTF8: (ProtocolError, "an event is not UTF-8"),
    AnomalyCode.NOT_AN_OBJECT: (ProtocolError, "a payload is not a JSON object"),
    AnomalyCode.PAYLOAD_WITH_COLON: (ProtocolError, "a payload starts with a colon"),
    AnomalyCode.LONE_SURROGATE: (ProtocolError, "a payload holds half of a surrogate pair"),
    AnomalyCode.NUMBER_AS_CONTENT: (ProtocolError, "the content is a number"),
    AnomalyCode.UNKNOWN_DELTA_KEY: (UnsupportedError, "a delta has a key that this API does not have"),
    AnomalyCode.WRONG_TYPE: (ProtocolError, "a known key has a value of the wrong JSON type"),
    AnomalyCode.OTHER_CHOICE: (UnsupportedError, "the server sent several choices, or one that is not index 0"),
    AnomalyCode.NO_CHOICES: (ProtocolError, "a chunk before the finish reason has no choice"),
    AnomalyCode.ID_CHANGED: (ProtocolError, "the id changed within one answer"),
    AnomalyCode.MODEL_CHANGED: (ProtocolError, "the model changed within one answer"),
    AnomalyCode.USAGE_REPEATED: (ProtocolError, "usage was reported twice, with different figures"),
    AnomalyCode.USAGE_INCOMPLETE: (ProtocolError, "a usage report lacks its token counts, or they are no counts"),
    AnomalyCode.WHOLE_DOCUMENT: (UnsupportedError, "the server sent a whole document where a stream was asked for"),
    AnomalyCode.EVENT_NAME: (ProtocolError, "an event is not named after its data"),
    AnomalyCode.OUT_OF_ORDER: (ProtocolError, "an event came where the protocol has no place for it"),
    AnomalyCode.UNKNOWN_FINISH: (ProtocolError, "the answer ended for a reason that this API does not have"),
    AnomalyCode.INDEX_MISSING: (ProtocolError, "an event does not say by its index what it is about"),
    AnomalyCode.TEXT_DIFFERS: (ProtocolError, "a text as a whole is not what came of it in pieces"),
}
"""``UNTERMINATED_EVENT`` is not here: strict drops such an event, and that is no error of its own."""


Forgive = Callable[[AnomalyCode], None]
"""Strict raises what the code stands for; lenient puts it on record."""


class Policy:
    """One decoder's mode, and what it forgave.

    Attributes:
        lenient: whether deviations are forgiven.
        anomalies: the first 100 that were.
        count: how many there were in all.
    """

    __slots__ = ("anomalies", "count", "lenient")

    def __init__(self, lenient: bool) -> None:
        self.lenient = lenient
        self.anomalies: list[Anomaly] = []
        self.count = 0

    def forgive(self, code: AnomalyCode, offset: int, excerpt: bytes) -> None:
        """Record ``code`` in lenient mode; raise the error beside it in strict mode."""
        if not self.lenient:
            error, detail = REFUSED[code]
            raise error(detail)
        self.record(code, offset, excerpt)

    def record(self, code: AnomalyCode, offset: int, excerpt: bytes) -> None:
        """Keep the anomaly, or only count it when there are 100 already."""
        self.count += 1
        if len(self.anomalies) < ANOMALIES:
            self.anomalies.append(Anomaly(code, offset, excerpt[:ANOMALY_EXCERPT_BYTES]))
