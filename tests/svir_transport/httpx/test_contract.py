"""The contract of a transport, clause by clause, over each library."""

from __future__ import annotations

import pytest

from svir_client.testing import check_transport
from svir_transport.httpx import HttpxTransport

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("httpx")]


async def test_a_client_of_our_own_keeps_the_contract() -> None:
    await check_transport(HttpxTransport)
