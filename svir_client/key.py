"""Where the API key comes from: given, named in the environment, in a file, or asked for each call."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from svir_core.errors import ConfigError
from svir_core.http_message import Secret

ApiKey = str | Secret | Callable[[], str | Secret | Awaitable[str | Secret]]
"""A key, or a function that gives the current one; it may be async (rotating tokens)."""

KEY_FILE_BYTES: Final = 64 * 1024
"""A larger file is no key: cloud identity tokens reach 8 KiB."""


class KeySource:
    """The key of each call. Its ``repr`` withholds it."""

    __slots__ = ("_fixed", "_provider")

    def __init__(self, key: ApiKey | None) -> None:
        self._fixed: Secret | None = None
        self._provider: Callable[[], str | Secret | Awaitable[str | Secret]] | None = None
        if key is None:
            return
        if isinstance(key, str | Secret):
            self._fixed = _secret(key, "api_key")
        elif callable(key):
            self._provider = key
        else:
            raise ConfigError(f"api_key is a str, a Secret or a function that gives one, not a {type(key).__name__}")

    async def current(self) -> Secret | None:
        """The key for one call. What the caller's function raises passes through as it is; a value that
        is no key is a ``ConfigError``."""
        if self._provider is None:
            return self._fixed
        value = self._provider()
        return _secret(await value if inspect.isawaitable(value) else value, "what the api_key function gave")

    def __repr__(self) -> str:
        return "<KeySource>"


def _secret(value: str | Secret, what: str) -> Secret:
    if isinstance(value, Secret):
        return value
    try:
        return Secret(value)
    except ConfigError as error:
        problem = error.detail
    raise ConfigError(f"{what}: {problem}")


def _from_environment(name: str, environment: Mapping[str, str]) -> Secret:
    if name not in environment:
        raise ConfigError(f"api_key_env: the environment has no variable {name}")
    return _secret(environment[name], f"the environment variable {name}")


def _from_file(path: str | os.PathLike[str]) -> Secret:
    try:
        with open(path, "rb") as file:
            data = file.read(KEY_FILE_BYTES + 1)
        text = data.decode("utf-8").strip()
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or no path at all
        problem = type(error).__name__
    else:
        if len(data) <= KEY_FILE_BYTES:
            return _secret(text, "api_key_file")
        problem = "it is larger than 64 KiB"
    raise ConfigError(f"api_key_file cannot be read: {problem}")


def withhold(key: ApiKey | None) -> ApiKey | None:
    """``key``, as a ``Secret`` when it is a plain string: what a traceback's locals then show."""
    return _secret(key, "api_key") if isinstance(key, str) else key


def key_source(
    api_key: ApiKey | None,
    api_key_env: str | None,
    api_key_file: str | os.PathLike[str] | None,
    environment: Mapping[str, str],
) -> KeySource:
    """The source that the three options name; all ``None`` is no key.

    The environment and the file are read once, now. Raises ``ConfigError`` when more than one option is
    given, or the one given leads to no key: a variable that is not set, a file that cannot be read.
    """
    if sum(option is not None for option in (api_key, api_key_env, api_key_file)) > 1:
        raise ConfigError("give one of api_key, api_key_env and api_key_file")
    if api_key_env is not None:
        return KeySource(_from_environment(api_key_env, environment))
    if api_key_file is not None:
        return KeySource(_from_file(api_key_file))
    return KeySource(api_key)
