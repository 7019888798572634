"""The whole contract: a table of clauses, run one after the other, each on a transport of its own."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final, Protocol, TypeVar, cast

import anyio
import attrs

from svir_client.testing.contract import cancellation, clock, connection, fault, request, response
from svir_client.testing.contract.bench import Bench, Broken
from svir_client.testing.given import every, function
from svir_client.transport import Transport
from svir_core.errors import ConfigError, SvirError

Clause = Callable[[Bench], Awaitable[None]]

CLAUSES: Final[Mapping[str, Clause]] = MappingProxyType(
    {
        clause.__name__: clause
        for theme in (request, response, clock, fault, connection, cancellation)
        for clause in theme.CLAUSES
    }
)
"""Every clause by its name, which is what :class:`ContractError` shows and ``only`` takes."""

CLAUSE_SECONDS: Final = 20.0
"""For one clause: the longest takes two, and none may keep a test from ending."""


@attrs.frozen
class Violation:
    """One clause that does not hold.

    Attributes:
        clause: its name.
        rule: what it asks for.
        seen: what happened instead.
    """

    clause: str
    rule: str
    seen: str

    def __str__(self) -> str:
        return f"{self.clause}: {self.rule}\n    seen: {self.seen}"


class ContractError(AssertionError):
    """A transport or a store that does not keep its contract: ``violations`` has every clause that it broke."""

    def __init__(self, subject: str, violations: tuple[Violation, ...], checked: int) -> None:
        lines = [f"{subject} breaks {len(violations)} of {checked} clauses", *(f"- {one}" for one in violations)]
        super().__init__("\n".join(lines))
        self.violations = violations


async def check_transport(factory: Callable[[], Transport], *, only: Collection[str] = ()) -> None:
    """Hold a transport to the contract of :class:`svir_client.Transport`, against servers on 127.0.0.1.

    ``factory`` makes the transport, anew for each clause, inside the running event loop (asyncio or trio); it
    must take plain ``http``, at least 50 connections at once, and keep them for a later call. ``only`` names the
    clauses to check, by default all. It takes some seconds, since clocks are among what it looks at.

    Raises :class:`ContractError` with every clause that is broken and what was seen, after all have run;
    ``ConfigError`` for a ``factory`` that is no function, and a name in ``only`` that no clause has.
    Source: 30 section 1, 00 section 5.
    """
    function(factory, "factory")
    await check_clauses("the transport", CLAUSES, lambda: Bench(factory), only)


class Closable(Protocol):
    """What clauses work with."""

    async def aclose(self) -> None:
        """Leave nothing behind."""
        ...


B = TypeVar("B", bound=Closable)


async def check_clauses(
    subject: str,
    clauses: Mapping[str, Callable[[B], Awaitable[None]]],
    bench: Callable[[], B],
    only: Collection[str],
) -> None:
    """Run the ``clauses`` that ``only`` names, by default all, each on a bench of its own; ``ContractError`` when some
    do not hold for ``subject``, ``ConfigError`` that lists them for a name that is none."""
    every(only, (str,), "every name in only")
    unknown = sorted(set(only) - set(clauses))
    if unknown:
        raise ConfigError(f"no such clause: {', '.join(unknown)}; there are {', '.join(clauses)}")
    chosen = [name for name in clauses if not only or name in only]
    violations: list[Violation] = []
    for name in chosen:
        seen = await _run(clauses[name], bench())
        if seen is not None:
            rule = inspect.cleandoc(clauses[name].__doc__ or "")
            violations.append(Violation(name, rule, seen))
    if violations:
        raise ContractError(subject, tuple(violations), len(chosen))


async def _run(clause: Callable[[B], Awaitable[None]], bench: B) -> str | None:
    """What was seen of a clause that is broken, or ``None``."""
    seen: str | None = None
    with anyio.move_on_after(CLAUSE_SECONDS) as scope:
        try:
            await clause(bench)
        except Exception as error:  # noqa: BLE001 - whatever is raised is what was seen
            seen = _words(error)
    if scope.cancelled_caught:
        seen = f"it was not over within {CLAUSE_SECONDS:g} s"
    with anyio.move_on_after(CLAUSE_SECONDS) as scope:
        try:
            await bench.aclose()
        except Exception as error:  # noqa: BLE001 - as above
            seen = seen or f"closing what was left: {_words(error)}"
    if scope.cancelled_caught:
        seen = seen or f"closing what was left was not over within {CLAUSE_SECONDS:g} s"
    return seen


def _words(error: Exception) -> str:
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        return "; ".join(dict.fromkeys(_words(one) for one in group.exceptions))
    if isinstance(error, Broken):
        return str(error)
    kind = type(error).__name__ if isinstance(error, SvirError) else f"the foreign {type(error).__qualname__}"
    return f"{kind} was raised: {error}"
