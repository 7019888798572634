"""What every test shares: both async backends, and one hypothesis profile."""

from __future__ import annotations

import hypothesis
import pytest

hypothesis.settings.register_profile("svir", deadline=None, derandomize=True, max_examples=100)
hypothesis.settings.load_profile("svir")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)
