"""The transports keep the contract, on every event loop; broken ones are caught by the clauses meant for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import anyio
import pytest

from svir_client.testing import CLAUSES, ContractError, check_transport
from svir_client.testing.contract import bench, run
from svir_core import ConfigError
from svir_transport.h11 import H11Transport
from tests.svir_client.testing.around import MADE, Around
from tests.svir_client.testing.broken import CASES, LEAKED, Case
from tests.svir_client.testing.broken_open import RaisesForeignErrors
from tests.svir_client.testing.broken_response import SwallowsFailures

pytestmark = pytest.mark.anyio


@pytest.fixture
async def no_leaks() -> AsyncIterator[None]:
    """Close what broken transports have left open."""
    yield
    for transport in MADE:
        for response in transport.responses:
            await response.aclose()
        await transport.inner.aclose()
    for leaked in LEAKED:
        leaked.close()
    MADE.clear()
    LEAKED.clear()


async def test_h11_keeps_the_contract() -> None:
    await check_transport(H11Transport)


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_broken_transport_is_caught(case: Case, monkeypatch: pytest.MonkeyPatch, anyio_backend: str) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(bench, "SOON", 0.3)  # it is what most of them are waited for
        if case.patch is not None:
            case.patch(patch)
        with pytest.raises(ContractError) as caught:
            await check_transport(case.factory, only=case.clauses)
    assert {violation.clause for violation in caught.value.violations} == {
        clause for clause in case.clauses if anyio_backend == "asyncio" or clause != "cancelled_task_of_asyncio"
    }


async def test_every_clause_can_fail() -> None:
    assert {clause for case in CASES for clause in case.clauses} == set(CLAUSES)


@pytest.mark.usefixtures("no_leaks")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_wrapper_that_breaks_nothing_keeps_the_contract() -> None:
    await check_transport(Around)


@pytest.mark.usefixtures("no_leaks")
async def test_the_error_tells_every_broken_clause_and_what_was_seen() -> None:
    clauses = ("bytes_that_are_no_http", "request_is_sent_as_given", "refused_connection_is_unsent")
    with pytest.raises(ContractError) as caught:
        await check_transport(RaisesForeignErrors, only=clauses)
    assert str(caught.value).splitlines() == [
        "the transport breaks 2 of 3 clauses",
        "- refused_connection_is_unsent: Nobody listens: ``TransportError``, unsent.",
        "    seen: a foreign exception came out: builtins.ConnectionError",
        "- bytes_that_are_no_http: An answer that is no HTTP: ``ProtocolError`` or ``TransportError``, not unsent, and "
        "the connection is closed.",
        "    seen: a foreign exception came out: builtins.ConnectionError",
    ]
    with pytest.raises(ContractError) as caught:
        await check_transport(partial(Around, SwallowsFailures), only=["closed_body_is_no_end"])
    (violation,) = caught.value.violations
    assert violation.seen == "a foreign exception came out: builtins.StopAsyncIteration"


async def test_a_clause_that_does_not_end_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(_: object) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(run, "CLAUSE_SECONDS", 0.05)
    monkeypatch.setattr(run, "CLAUSES", {"endless": endless})
    with pytest.raises(ContractError, match="it was not over within") as caught:
        await check_transport(H11Transport)
    assert [violation.clause for violation in caught.value.violations] == ["endless"]


async def test_a_clause_that_there_is_not() -> None:
    with pytest.raises(ConfigError, match=r"no such clause: a, b; there are .*, redirects_are_not_followed"):
        await check_transport(H11Transport, only=["b", "a", "redirects_are_not_followed"])


def test_every_clause_says_what_it_asks_for() -> None:
    assert all((clause.__doc__ or "").endswith(".") for clause in CLAUSES.values())
