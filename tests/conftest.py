"""What every test shares: both async backends, and one hypothesis profile."""

from __future__ import annotations

import signal

import hypothesis
import pytest

hypothesis.settings.register_profile("svir", deadline=None, derandomize=True, max_examples=100)
hypothesis.settings.load_profile("svir")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # so a shell starts what it runs in the background, and a child would inherit it: tests of Ctrl-C wait for ever
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)
