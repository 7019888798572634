"""What strict refuses, whole; and what lenient keeps of what it forgives."""

from __future__ import annotations

import pytest

from svir_core.errors import ProtocolError, SvirError, UnsupportedError
from svir_core.limits import ANOMALIES, ANOMALY_EXCERPT_BYTES
from svir_core.response import Anomaly, AnomalyCode
from svir_core.wire.policy import REFUSED, Policy

EXPECTED: dict[AnomalyCode, tuple[type[SvirError], str]] = {
    AnomalyCode.UNKNOWN_FIELD: (UnsupportedError, "a line has a field"),
    AnomalyCode.UNKNOWN_EVENT: (UnsupportedError, "an event has a type"),
    AnomalyCode.INVALID_UTF8: (ProtocolError, "not UTF-8"),
    AnomalyCode.NOT_AN_OBJECT: (ProtocolError, "not a JSON object"),
    AnomalyCode.PAYLOAD_WITH_COLON: (ProtocolError, "a colon"),
    AnomalyCode.LONE_SURROGATE: (ProtocolError, "surrogate"),
    AnomalyCode.NUMBER_AS_CONTENT: (ProtocolError, "a number"),
    AnomalyCode.UNKNOWN_DELTA_KEY: (UnsupportedError, "a delta has a key"),
    AnomalyCode.WRONG_TYPE: (ProtocolError, "the wrong JSON type"),
    AnomalyCode.OTHER_CHOICE: (UnsupportedError, "several choices"),
    AnomalyCode.NO_CHOICES: (ProtocolError, "has no choice"),
    AnomalyCode.ID_CHANGED: (ProtocolError, "the id changed"),
    AnomalyCode.MODEL_CHANGED: (ProtocolError, "the model changed"),
    AnomalyCode.USAGE_REPEATED: (ProtocolError, "twice"),
    AnomalyCode.USAGE_INCOMPLETE: (ProtocolError, "lacks its token counts"),
    AnomalyCode.WHOLE_DOCUMENT: (UnsupportedError, "a whole document"),
    AnomalyCode.EVENT_NAME: (ProtocolError, "not named after its data"),
    AnomalyCode.OUT_OF_ORDER: (ProtocolError, "has no place for it"),
    AnomalyCode.UNKNOWN_FINISH: (ProtocolError, "a reason that this API does not have"),
    AnomalyCode.INDEX_MISSING: (ProtocolError, "by its index"),
    AnomalyCode.TEXT_DIFFERS: (ProtocolError, "what came of it in pieces"),
}


def test_every_code_but_one_is_refused() -> None:
    assert set(EXPECTED) == set(REFUSED) == set(AnomalyCode) - {AnomalyCode.UNTERMINATED_EVENT}


@pytest.mark.parametrize("code", EXPECTED)
def test_strict_refuses_with_the_error_of_the_code(code: AnomalyCode) -> None:
    policy = Policy(False)
    error, words = EXPECTED[code]
    with pytest.raises(error, match=words) as caught:
        policy.forgive(code, 5, b"x")
    assert type(caught.value) is error
    assert (policy.count, policy.anomalies) == (0, [])


def test_lenient_keeps_the_first_and_counts_all() -> None:
    policy = Policy(True)
    assert (policy.lenient, policy.count, policy.anomalies) == (True, 0, [])
    for offset in range(ANOMALIES + 5):
        policy.forgive(AnomalyCode.WRONG_TYPE, offset, b"x" * 1000)
    assert policy.count == ANOMALIES + 5
    excerpt = b"x" * ANOMALY_EXCERPT_BYTES
    assert policy.anomalies == [Anomaly(AnomalyCode.WRONG_TYPE, offset, excerpt) for offset in range(ANOMALIES)]


def test_what_is_recorded_is_no_refusal_in_either_mode() -> None:
    policy = Policy(False)
    policy.record(AnomalyCode.UNTERMINATED_EVENT, 7, b"data: x")
    assert policy.anomalies == [Anomaly(AnomalyCode.UNTERMINATED_EVENT, 7, b"data: x")]
    assert policy.count == 1
