"""The contract of a transport, clause by clause, over each library."""

from __future__ import annotations

from typing import Any

import pytest

from svir_client.testing import check_transport
from svir_transport.httpx import HttpxTransport

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("httpx")]

DISTURBED = (
    "request_is_sent_as_given",
    "nothing_is_added_to_a_request",
    "nothing_is_kept_between_calls",
    "redirects_are_not_followed",
    "refusals_are_not_repeated",
    "body_is_not_decoded",
    "idle_timeout_bounds_the_head",
    "connect_timeout_bounds_tls",
    "cancelled_read",
)


async def test_a_client_of_our_own_keeps_the_contract() -> None:
    await check_transport(HttpxTransport)


async def test_a_given_client_keeps_what_a_client_could_disturb(httpx: Any) -> None:
    clients: list[Any] = []

    def around_a_client() -> HttpxTransport:
        clients.append(httpx.AsyncClient(follow_redirects=True, headers={"x-client": "1"}))
        return HttpxTransport(clients[-1])

    try:
        await check_transport(around_a_client, only=DISTURBED)
    finally:
        for client in clients:
            await client.aclose()
