"""Fixtures of the transport's tests: a server by plain TCP, by TLS, or both in turn."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import trustme

from tests.svir_transport.h11.peer import Web


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(params=["http", "https"])
def web(request: pytest.FixtureRequest, authority: trustme.CA) -> Web:
    return Web(authority if request.param == "https" else None)


@pytest.fixture
def plain() -> Web:
    return Web(None)


@pytest.fixture
def tls(authority: trustme.CA) -> Web:
    return Web(authority)


@pytest.fixture(autouse=True, scope="module")
def nothing_left_open() -> Iterator[None]:
    """A socket that nobody closed is a ResourceWarning when it is collected, and so a failure."""
    yield
    gc.collect()
