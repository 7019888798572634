"""A case that was read: its variants, each a run that says what was wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs


@attrs.frozen
class Variant:
    """One run of a case: what sets it apart from the others, and the run itself, which gives every
    difference in words, none when all is as expected."""

    labels: tuple[str, ...]
    run: Callable[[], list[str]]


@attrs.frozen
class Case:
    """One case. With ``open`` notes a failure is *pending*: the specification has not decided yet."""

    variants: Sequence[Variant]
    open: Sequence[str] = ()
