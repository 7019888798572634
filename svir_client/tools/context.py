"""Where a call stands: what a tool may know beside its arguments (30 section 4)."""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import TYPE_CHECKING

import attrs

from svir_core.check import instance_of

if TYPE_CHECKING:
    from svir_client.session import SessionState


@attrs.frozen
class ToolContext:
    """Given to a parameter that is annotated with this class, whatever its name; the model does not see it.

    Attributes:
        session_id: the session that the call belongs to; ``None`` outside of one.
        run_id: the generation that asked for the call; ``None`` outside of one.
        call_id: the call's id; set for each call by the toolbox.
        state: the session's cache, never stored and never traced; ``None`` outside of one.
        approved: ids of calls that somebody has approved, so that nobody else is asked.
        on_error: told of an exception that a tool raised, which the model is not; what it raises is raised.
    """

    session_id: str | None = attrs.field(default=None, kw_only=True, validator=instance_of(str, NoneType))
    run_id: str | None = attrs.field(default=None, kw_only=True, validator=instance_of(str, NoneType))
    call_id: str | None = attrs.field(default=None, kw_only=True, validator=instance_of(str, NoneType))
    state: SessionState | None = attrs.field(default=None, kw_only=True, repr=False, eq=False)
    approved: frozenset[str] = attrs.field(default=frozenset[str](), kw_only=True, validator=instance_of(frozenset))
    on_error: Callable[[Exception], object] | None = attrs.field(default=None, kw_only=True, repr=False, eq=False)
