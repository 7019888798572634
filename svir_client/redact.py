"""Known secrets, taken out of what is recorded: exactly, and from values only (50, Redaction)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from svir_client.unique import Unique
from svir_core.errors import ConfigError
from svir_core.http_message import Headers
from svir_core.secret import Secret

REDACTED: Final = "[REDACTED]"

SHORTEST_SECRET: Final = 8
"""Characters. What is shorter stands in ordinary words, and taking it out of them would wreck the record."""

SENSITIVE: Final = re.compile(r"authorization|api-?key|secret|credential|password|cookie|-token\Z")
"""Found in the name of a header, in lower case, whose value is a secret."""


class Redactor(Unique):
    """Takes its secrets out of texts. Shows none of them in its ``repr``."""

    __slots__ = ("_secrets",)

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {secret for secret in secrets if len(secret) >= SHORTEST_SECRET}
        self._secrets = sorted(known, key=lambda secret: (-len(secret), secret))

    @classmethod
    def of_headers(cls, *sent: Headers) -> Redactor:
        """What requests with these headers were sent with: keys, and the values of sensitive headers. Of
        ``Bearer ...`` the part after the blank is one too."""
        values = [value for headers in sent for name, value in headers if is_sensitive(name)]
        return cls([*values, *(value.partition(" ")[2].strip() for value in values)])

    def __or__(self, other: Redactor) -> Redactor:
        """One that takes out the secrets of both."""
        return Redactor([*self._secrets, *other._secrets])

    def text(self, text: str) -> str:
        """``text`` without the secrets, the longest first."""
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        return text

    def json(self, value: Any) -> Any:
        """A copy of a JSON value without the secrets in its strings; the keys of its objects stay as they are."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.json(item) for key, item in cast("Mapping[str, Any]", value).items()}
        if isinstance(value, list | tuple):
            return [self.json(item) for item in cast("list[Any]", value)]
        return value

    def __repr__(self) -> str:
        return f"<Redactor of {len(self._secrets)}>"


def is_sensitive(name: str) -> bool:
    """Whether a header of this name, in lower case, holds a secret."""
    return SENSITIVE.search(name) is not None


def secret_texts(secrets: Iterable[str | Secret]) -> list[str]:
    """``secrets`` as strings; ``ConfigError``, which shows none, for what is neither."""
    given: object = secrets
    if isinstance(given, str | bytes | Secret) or not isinstance(given, Iterable):
        raise ConfigError("secrets is a collection of strings and Secrets")
    values: list[object] = list(cast("Iterable[object]", given))
    if not all(isinstance(value, str | Secret) for value in values):
        raise ConfigError("each of secrets must be a string or a Secret")
    return [value.reveal() if isinstance(value, Secret) else str(value) for value in values]
