"""The secrets that a caller names for a trace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from svir_core.errors import ConfigError
from svir_core.secret import Secret


def secret_texts(secrets: Iterable[str | Secret]) -> list[str]:
    """``secrets`` as strings; ``ConfigError``, which shows none, for what is neither."""
    given: object = secrets
    if isinstance(given, str | bytes | Secret) or not isinstance(given, Iterable):
        raise ConfigError("secrets is a collection of strings and Secrets")
    values: list[object] = list(cast("Iterable[object]", given))
    if not all(isinstance(value, str | Secret) for value in values):
        raise ConfigError("each of secrets must be a string or a Secret")
    return [value.reveal() if isinstance(value, Secret) else str(value) for value in values]
