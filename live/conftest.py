"""The server that the live tests talk to: the one of SVIR_URL, else a real model on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator

import attrs
import pytest

from local_model import LocalModel, Unavailable


@attrs.frozen
class Server:
    """Where the model is, and what is known of it."""

    url: str
    model: str
    context_tokens: int | None
    local: bool


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    url = os.environ.get("SVIR_URL")
    if url:
        model = os.environ.get("SVIR_MODEL")
        if not model:
            pytest.fail("SVIR_MODEL must name the model to ask at SVIR_URL")
        tokens = os.environ.get("SVIR_CONTEXT_TOKENS")
        yield Server(url, model, int(tokens) if tokens else None, local=False)
        return
    try:
        with LocalModel() as local:
            yield Server(local.url, local.model, local.context_tokens, local=True)
    except Unavailable as error:
        pytest.fail(f"no model server: {error}; set SVIR_URL and SVIR_MODEL to use another")
