"""The whole contract of a store: a table of clauses, run one after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType
from typing import Final

from svir_client.session.store import SessionStore
from svir_client.testing.contract.run import check_clauses
from svir_client.testing.given import function
from svir_client.testing.store import cancellation, claimed, stored
from svir_client.testing.store.bench import StoreBench

StoreClause = Callable[[StoreBench], Awaitable[None]]

STORE_CLAUSES: Final[Mapping[str, StoreClause]] = MappingProxyType(
    {clause.__name__: clause for theme in (stored, claimed, cancellation) for clause in theme.CLAUSES}
)
"""Every clause of a store by its name, which is what ``ContractError`` shows and ``only`` takes."""


async def check_store(make: Callable[[], SessionStore], *, only: Collection[str] = ()) -> None:
    """Hold a store to the contract of :class:`svir_client.SessionStore`.

    ``make`` gives a store inside the running event loop (asyncio or trio), each time another over the same data, as
    another process would have it. The ids that are used begin with ``check-``, and are deleted again. ``only`` names
    the clauses to check, by default all. That a claim ends with its process is not among them: nothing here is killed.

    Raises :class:`ContractError` with every clause that is broken and what was seen, after all have run;
    ``ConfigError`` for a ``make`` that is no function, and a name in ``only`` that no clause has.
    Source: 50, Session.
    """
    function(make, "make")
    await check_clauses("the store", STORE_CLAUSES, lambda: StoreBench(make), only)
