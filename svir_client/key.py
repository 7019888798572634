"""Where the API key comes from: given, named in the environment, in a file, or asked for each call."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final

from svir_core.check import an, expect
from svir_core.errors import ConfigError
from svir_core.secret import Secret, Withheld

KeyFunction = Callable[[], str | Secret | Awaitable[str | Secret]]
ApiKey = str | Secret | KeyFunction
"""A key, or a function that gives the current one; it may be async (rotating tokens)."""

KEY_FILE_BYTES: Final = 64 * 1024
"""A larger file is no key: cloud identity tokens reach 8 KiB."""


class KeySource:
    """The key of each call. Making one checks nothing, so that a caller can let go of a plain key before
    anything is raised: a traceback's locals then show this object, and its ``repr`` withholds the key.
    """

    __slots__ = ("_file", "_function", "_given", "_key", "_variable")

    def __init__(
        self,
        api_key: ApiKey | None = None,
        api_key_env: str | None = None,
        api_key_file: str | os.PathLike[str] | None = None,
    ) -> None:
        self._given = api_key
        self._variable = api_key_env
        self._file = api_key_file
        self._key: Secret | None = None
        self._function: KeyFunction | None = None

    def read(self, environment: Withheld[Mapping[str, str]]) -> None:
        """Find the key where the options say; all ``None`` is no key. A variable and a file are read now.

        Raises ``ConfigError`` when more than one option is given, or the one given leads to no key.
        """
        if sum(option is not None for option in (self._given, self._variable, self._file)) > 1:
            raise ConfigError("give one of api_key, api_key_env and api_key_file")
        if self._variable is not None:
            self._key = _from_environment(self._variable, environment)
        elif self._file is not None:
            self._key = _from_file(self._file)
        elif callable(self._given):
            self._function = self._given
        elif self._given is not None:
            self._key = _secret(self._given, "api_key")
        self._given = None

    @property
    def known(self) -> Secret | None:
        """The key, unless there is none or a function is asked for it at each call."""
        return self._key

    async def current(self) -> Secret | None:
        """The key for one call. What the caller's function raises passes through as it is; a value that
        is no key is a ``ConfigError``."""
        if self._function is None:
            return self._key
        return _secret(await _resolved(self._function()), "what the api_key function gave")

    def __repr__(self) -> str:
        return "<KeySource>"


async def _resolved(value: str | Secret | Awaitable[str | Secret]) -> str | Secret:
    return await value if inspect.isawaitable(value) else value


def _secret(value: str | Secret, what: str) -> Secret:
    if isinstance(value, Secret):
        return value
    try:
        return Secret(value)
    except ConfigError as error:
        problem = error.detail
    del value  # what is refused may still be most of a key
    raise ConfigError(f"{what}: {problem}")


def _from_environment(name: str, environment: Withheld[Mapping[str, str]]) -> Secret:
    expect(name, str, "api_key_env")
    value = None
    with suppress(UnicodeError):  # a name that the system's encoding cannot spell
        value = environment.value.get(name)
    if value is None:
        raise ConfigError(f"api_key_env: the environment has no variable {name!r}")
    given = Withheld(value)
    del value
    return _secret(given.value, f"the environment variable {name!r}")


def _from_file(path: str | os.PathLike[str]) -> Secret:
    if not isinstance(path, str | os.PathLike):  # a number would be read as an open descriptor
        raise ConfigError(f"api_key_file must be a path, not {an(type(path))}")
    try:
        return _secret(_read(path), "api_key_file")
    except ConfigError:
        raise
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or no path at all
        problem = type(error).__name__
    raise ConfigError(f"api_key_file cannot be read: {problem}")


def _read(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as file:
        data = file.read(KEY_FILE_BYTES + 1)
    if len(data) > KEY_FILE_BYTES:
        raise OSError("no key is as long as this")
    return data.decode("utf-8").strip()
