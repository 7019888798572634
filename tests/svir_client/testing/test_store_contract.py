"""Two stores keep the contract, on every event loop; broken ones are caught by the clauses meant for them."""

from __future__ import annotations

import pathlib
from typing import Any

import anyio
import pytest

from svir_client import SqliteStore
from svir_client.testing import STORE_CLAUSES, ContractError, check_store
from svir_client.testing.contract import bench
from svir_core import ConfigError
from tests.svir_client.session.memory_store import MemoryData, MemoryStore
from tests.svir_client.testing.broken_store import CASES, Case

pytestmark = pytest.mark.anyio


async def test_a_store_in_memory_keeps_the_contract() -> None:
    data = MemoryData()
    with anyio.fail_after(60):
        await check_store(lambda: MemoryStore(data))
    assert data == MemoryData()


async def test_sqlite_keeps_the_contract(tmp_path: pathlib.Path) -> None:
    with anyio.fail_after(60):
        await check_store(lambda: SqliteStore(tmp_path / "sessions.db"))
        assert await SqliteStore(tmp_path / "sessions.db").ids() == ()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.store.__name__)
async def test_a_broken_store_is_caught(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "SOON", 0.3)
    data = MemoryData()
    with anyio.fail_after(60), pytest.raises(ContractError) as caught:
        await check_store(lambda: case.store(data), only=case.clauses)
    assert {violation.clause for violation in caught.value.violations} == set(case.clauses)
    assert str(caught.value).startswith(f"the store breaks {len(case.clauses)} of {len(case.clauses)} clauses\n- ")


async def test_every_clause_can_fail() -> None:
    assert {clause for case in CASES for clause in case.clauses} == set(STORE_CLAUSES)


async def test_wrong_arguments() -> None:
    wrong: Any = MemoryStore(MemoryData())
    with pytest.raises(ConfigError, match="make must be a function"):
        await check_store(wrong)
    with pytest.raises(ConfigError, match=f"no such clause: nothing; there are {', '.join(STORE_CLAUSES)}$"):
        await check_store(lambda: wrong, only=["nothing"])
