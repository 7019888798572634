"""The secrets that a caller names are strings and keys, several of them."""

from __future__ import annotations

from typing import Any

import pytest

from svir_client.tracing.secrets import secret_texts
from svir_core.errors import ConfigError
from svir_core.secret import Secret

KEY = "sk-canary-7f3a"


def test_secrets_of_the_caller() -> None:
    assert secret_texts([Secret(KEY), "word"]) == [KEY, "word"]
    mistakes: list[Any] = [KEY, Secret(KEY), b"x", 1, [1], [b"x"]]
    for mistake in mistakes:
        with pytest.raises(ConfigError) as caught:
            secret_texts(mistake)
        assert KEY not in str(caught.value)
