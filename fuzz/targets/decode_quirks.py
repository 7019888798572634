"""Any set of quirks: all that holds for strict and lenient; a good answer is the same with those that only repair.

``CONTENT_CUMULATIVE`` and ``USAGE_INCREMENTS`` are for streams that look right and are not: they may change one. So may
``TOOL_NAME_REPEATED``: a name that came as the same piece twice looks like a name that was repeated.
"""

from __future__ import annotations

from typing import Final

from fuzz.check import Target, same
from fuzz.decoding import check_decoder, options, see
from fuzz.mutate import events
from fuzz.plan import Plan, read
from svir_core.quirk import Quirk
from svir_core.response import Completion

ALL: Final = ~Quirk(0)
CHANGING: Final = Quirk.CONTENT_CUMULATIVE | Quirk.USAGE_INCREMENTS | Quirk.TOOL_NAME_REPEATED


def quirks_of(plan: Plan) -> Quirk:
    """All quirks, those that only repair, or some."""
    if plan.flag(7):
        return ALL if plan.cut & 1 else ALL & ~CHANGING
    return Quirk(plan.cut * 0x9E3779B1 >> 8 & ALL.value)


def _is_good(answer: Completion) -> bool:
    """Whether nothing is wrong with an answer: in a call that is not complete a quirk may see another fault."""
    return not answer.anomaly_count and all(call.complete for call in answer.calls)


def check(raw: bytes) -> None:
    plan = read(raw)
    mode = "lenient" if plan.flag(6) else "strict"
    quirks = quirks_of(plan)
    repaired = check_decoder(plan, mode, quirks)
    if not quirks & CHANGING:
        plain = see([plan.data], {"mode": mode, **options(plan)})
        if plain.completion is not None and _is_good(plain.completion):
            same("quirks changed a good answer", repaired.completion, plain.completion)
            same("quirks changed a good answer's events", repaired.events, plain.events)


TARGET = Target(check, "streams", events, max_size=768)
