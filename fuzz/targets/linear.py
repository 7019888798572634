"""Bytes that repeat four times as often take the decoder about four times as long, whatever the bytes and the cut."""

from __future__ import annotations

import time
from typing import Final

from fuzz.check import Broken, Target
from fuzz.mutate import events
from fuzz.plan import Plan, read
from svir_core.limits import Limits
from svir_core.wire.openai_chat.decode import Decoder

SMALL: Final = 1 << 15
LARGE: Final = 1 << 17
MOST: Final = 9.0
"""Linear is 4, quadratic is 16."""
NOISE: Final = 0.004
"""Seconds that a measurement may be wrong by."""
ENDS: Final = (b"DONE", b"finish_reason")
"""What ends an answer is taken out: after it there is no work."""
ATTEMPTS: Final = 5
"""A slow measurement is taken again: only a slow decoder is slow every time."""

LIMITS: Final = Limits(event_bytes=1 << 20, tool_calls=64)


def seconds(plan: Plan, size: int, mode: str) -> float:
    """What the decoder takes for ``size`` bytes: the plan's first half once, then its second half again and again.

    Of processor time, so that another program's work does not count.
    """
    half = len(plan.data) // 2
    unit = plan.data[half:]
    data = plan.data[:half] + unit * (size // len(unit))
    for end in ENDS:
        data = data.replace(end, end[::-1])
    step = 8 << (plan.cut & 7)
    pieces = [data[start : start + step] for start in range(0, len(data), step)] if plan.cut else [data]
    decoder = Decoder(mode=mode, limits=LIMITS)
    started = time.process_time()
    for piece in pieces:
        decoder.push(piece)
        if decoder.done:
            break
    else:
        decoder.finish()
    return time.process_time() - started


def check(raw: bytes) -> None:
    plan = read(raw)
    if not plan.data:
        return
    mode = "lenient" if plan.flag(0) else "strict"
    ratios: list[float] = []
    while len(ratios) < ATTEMPTS:
        small, large = seconds(plan, SMALL, mode), seconds(plan, LARGE, mode)
        if large <= MOST * small + NOISE:
            return
        ratios.append(large / max(small, NOISE))
    raise Broken(f"not linear: {ratios}")


TARGET = Target(check, "streams", events, max_size=384)
