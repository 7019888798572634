"""What a store keeps of a session: JSON texts that it need not understand."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from svir_core.check import at_least, instance_of
from svir_core.errors import ConfigError


def _texts(values: Iterable[str]) -> tuple[str, ...]:
    texts = values if isinstance(values, str) or not isinstance(values, Iterable) else tuple(values)
    if not isinstance(texts, tuple) or not all(isinstance(text, str) for text in texts):
        raise ConfigError("the messages of a session are stored as several JSON texts")
    return texts


@attrs.frozen
class SessionRecord:
    """A session as it is stored (its texts are withheld in ``repr``).

    Attributes:
        head: JSON text: the system instruction, and the generation that did not finish.
        messages: one JSON text for each message, the oldest first.
    """

    head: str = attrs.field(repr=False, validator=instance_of(str))
    messages: tuple[str, ...] = attrs.field(default=(), repr=False, converter=_texts)


@attrs.frozen
class SessionChange:
    """What becomes of a stored session, all at once or not at all.

    The first ``keep`` messages that are stored stay, those after them go, and ``append`` comes behind. Made a second
    time it changes nothing more.

    Attributes:
        keep: 0 or more; a store that has fewer messages refuses the change.
        append: JSON texts of messages (withheld in ``repr``).
        head: the JSON text that replaces the one that is stored (withheld in ``repr``).
    """

    keep: int = attrs.field(validator=at_least(0))
    append: tuple[str, ...] = attrs.field(repr=False, converter=_texts)
    head: str = attrs.field(repr=False, validator=instance_of(str))
