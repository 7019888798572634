"""What the tools of a session share while the process runs: values by key, each of a known type (51 section 2.2)."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, TypeVar, cast

from svir_client.unique import Unique
from svir_client.watch import expect_callable
from svir_core.check import an, expect
from svir_core.errors import ConfigError

T = TypeVar("T")

_KEY: Final = "the key of a SessionState"


class SessionState(Unique):
    """A cache of one session, for any thread and task. Never stored, never traced, and not in any ``repr``.

    A value comes out as the object that went in, not as a copy of it. Where an ``int`` is asked for, a
    bool is none. A key is a ``str``; anything else is a ``ConfigError``.
    """

    __slots__ = ("_lock", "_owner", "_values")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._values: dict[str, Any] = {}

    def set(self, key: str, value: object) -> None:
        """Keep ``value``, in place of whatever was there."""
        key = expect(key, str, _KEY)
        with self._locked() as values:
            replaced = values.get(key)
            values[key] = value
        del replaced

    def get(self, key: str, kind: type[T]) -> T | None:
        """The value, which must be a ``kind``; ``None`` when there is none. ``ConfigError`` for one of another type."""
        key = expect(key, str, _KEY)
        with self._locked() as values:
            if key not in values:
                return None
            return _typed(values[key], kind, key)

    def update(self, key: str, initial: T, fn: Callable[[T], T]) -> T:
        """Replace the value, or ``initial`` where there is none, by what ``fn`` makes of it, which is returned.

        Nothing else touches the state meanwhile, so ``fn`` is short; one that touches it itself gets a ``ConfigError``,
        and so does one that is async. A thread that ``fn`` waits for must not touch it either. What ``fn`` raises is
        raised, and nothing has changed. The value before and after must be of ``initial``'s type, unless that is
        ``None``: ``ConfigError``.
        """
        key = expect(key, str, _KEY)
        expect_callable(fn, "what SessionState.update() calls")
        kind = cast("type[T]", object if initial is None else type(initial))
        with self._locked() as values:
            made = fn(_typed(values[key], kind, key) if key in values else initial)
            if inspect.iscoroutine(made):
                made.close()
                raise ConfigError("SessionState.update() takes a function that is not async")
            made, replaced = _typed(made, kind, key), values.get(key)
            values[key] = made
        del replaced
        return made

    def contains(self, key: str) -> bool:
        """Whether there is a value."""
        key = expect(key, str, _KEY)
        with self._locked() as values:
            return key in values

    def __contains__(self, key: str) -> bool:
        return self.contains(key)

    def erase(self, key: str) -> bool:
        """Forget the value; whether there was one."""
        key = expect(key, str, _KEY)
        with self._locked() as values:
            there = key in values
            erased = values.pop(key, None)
        del erased
        return there

    def clear(self) -> None:
        """Forget all values."""
        with self._locked() as values:
            erased = list(values.values())
            values.clear()
        del erased

    def __repr__(self) -> str:
        return "<SessionState>"

    @contextmanager
    def _locked(self) -> Generator[dict[str, Any]]:
        """The values, for this thread alone. What is taken out of them is let go of afterwards: its end may run code
        that touches this state."""
        this = threading.get_ident()
        if self._owner == this:  # only this thread sets it to itself, so no lock is needed to see that
            raise ConfigError("a SessionState cannot be touched from inside its own update()")
        with self._lock:
            self._owner = this
            try:
                yield self._values
            finally:
                self._owner = None


def _typed(value: object, kind: type[T], key: str) -> T:
    if not isinstance(cast("Any", kind), type):
        raise ConfigError(f"SessionState[{key!r}]: a type is asked for by its class")
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise ConfigError(f"SessionState[{key!r}] is {an(type(value))}, not {an(kind)}")
