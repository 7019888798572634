"""Strict: any bytes at any cut are the same events and then an answer or one ``SvirError``, and after that silence.

An answer has nothing forgiven, and its parts are its events.
"""

from __future__ import annotations

from fuzz.check import Target, require
from fuzz.decoding import check_decoder
from fuzz.mutate import events
from fuzz.plan import read


def check(raw: bytes) -> None:
    seen = check_decoder(read(raw), "strict")
    if seen.completion is not None:
        require(not seen.completion.anomaly_count, "strict forgave", seen.completion.anomalies)
    elif seen.error is not None:
        require(not seen.error.anomalies, "strict forgave before it failed", seen.error.anomalies)


TARGET = Target(check, "streams", events, max_size=768)
