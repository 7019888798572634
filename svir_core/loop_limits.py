"""What a generation may cost, and what happens at each bound (50, Loop)."""

from __future__ import annotations

import attrs

from svir_core.check import at_least, instance_of


@attrs.frozen(kw_only=True)
class LoopLimits:
    """The bounds of one generation.

    | limit | default | when it is reached |
    | --- | --- | --- |
    | ``rounds`` | 8 | ``MaxRoundsError`` when the last answer permitted asks for more; it runs nothing, is not stored |
    | ``tool_calls`` | 64 | ``MaxToolCallsError`` when an answer has more calls than are left; the same |
    | ``parallel`` | 4 | so many calls run at once; when one has ended, the next begins. 1: one after another |
    | ``stop_on_tool_error`` | ``False`` | the generation ends after the calls of an answer, when one of them failed |
    """

    rounds: int = attrs.field(default=8, validator=at_least(1))
    tool_calls: int = attrs.field(default=64, validator=at_least(1))
    parallel: int = attrs.field(default=4, validator=at_least(1))
    stop_on_tool_error: bool = attrs.field(default=False, validator=instance_of(bool))
