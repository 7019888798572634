"""Lenient: all that holds for strict; a good answer is the same as in strict; whatever else is taken is on record."""

from __future__ import annotations

import re

from fuzz.check import Target, require, same
from fuzz.decoding import Seen, check_decoder, options, see
from fuzz.mutate import events
from fuzz.plan import Plan, read

_LONE = re.compile(rb"\\u[dD][89a-fA-F]")


def check(raw: bytes) -> None:
    plan = read(raw)
    lenient = check_decoder(plan, "lenient")
    strict = see([plan.data], {"mode": "strict", **options(plan)})
    if strict.completion is not None:
        same("lenient changed a good answer", lenient.completion, strict.completion)
        same("lenient changed a good answer's events", lenient.events, strict.events)
    elif lenient.completion is not None:
        require(lenient.completion.anomaly_count > 0, "lenient forgave and kept no record", strict.error)
        _surrogates_change_nothing_else(plan, lenient)
    same("lenient lost what strict delivered", lenient.events[: len(strict.events)], strict.events)


def _surrogates_change_nothing_else(plan: Plan, lenient: Seen) -> None:
    """An answer with U+FFFD in place of every surrogate ends the same and has parts of the same kinds, though perhaps
    in another order: half a character waits for the other half."""
    if not _LONE.search(plan.data) or lenient.completion is None or b"\\\\" in plan.data:
        return
    data = re.sub(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}", rb"\\ufffd", plan.data)
    other = see([data], {"mode": "lenient", **options(plan)})
    require(other.completion is not None, "an answer with surrogates, and none without", other.error)
    if other.completion is not None:
        same("another finish", other.completion.finish, lenient.completion.finish)
        kinds = {type(part) for part in lenient.completion.parts}
        same("other parts", {type(part) for part in other.completion.parts}, kinds)
        same("other calls", len(other.completion.calls), len(lenient.completion.calls))


TARGET = Target(check, "streams", events, max_size=768)
