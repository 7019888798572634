"""The tools that most generations are offered."""

from __future__ import annotations

import pytest

from svir_client import Tools
from tests.svir_client.generation.generations import some_tools


@pytest.fixture
def tools() -> Tools:
    return some_tools()
