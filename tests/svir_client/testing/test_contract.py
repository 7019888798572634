"""The transports keep the contract, on every event loop; broken ones are caught by the clause that is meant for it."""

from __future__ import annotations

import pytest

from svir_client.testing import check_transport
from svir_transport.h11 import H11Transport

pytestmark = pytest.mark.anyio


async def test_h11_keeps_the_contract() -> None:
    await check_transport(H11Transport)
