"""Fixtures of the transport's tests: each library in turn, as if it were the only one."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from typing import Any

import pytest
import trustme

from svir_transport.httpx import library


@pytest.fixture(params=["httpx2", "httpx"])
def httpx(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One of the libraries, which is also the one that a transport without a client uses."""
    monkeypatch.setattr(library, "NAMES", (request.param,))
    return importlib.import_module(request.param)


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(autouse=True, scope="module")
def nothing_left_open() -> Iterator[None]:
    """A socket or a generator that nobody closed is a ResourceWarning when it is collected, and so a failure."""
    yield
    gc.collect()
