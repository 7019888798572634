"""Fixtures of the test kit, found by pytest wherever svir-client is installed. Only pytest imports this module."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Generator

import pytest

from svir_client.testing.scripted import ScriptedTransport
from svir_client.testing.server import MockServer
from svir_client.testing.threaded import ThreadedMockServer


@pytest.fixture
async def mock_server(anyio_backend: object, request: pytest.FixtureRequest) -> AsyncGenerator[MockServer]:
    """A running ``MockServer`` without a script, in the event loop of a test that anyio's plugin runs."""
    if not inspect.iscoroutinefunction(request.function):
        pytest.fail("mock_server runs in the event loop of an async test; this one needs blocking_mock_server")
    async with MockServer() as server:
        yield server


@pytest.fixture
def blocking_mock_server() -> Generator[ThreadedMockServer]:
    """A running ``MockServer`` without a script, in a thread of its own, for a test of any kind."""
    with MockServer().in_thread() as server:
        yield server


@pytest.fixture
def scripted_transport() -> ScriptedTransport:
    """A ``ScriptedTransport`` without a script."""
    return ScriptedTransport()
