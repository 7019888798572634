"""Known secrets, taken out of what is told or recorded: exactly, and from values only (50, Redaction)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from svir_core.http_message import Headers
from svir_core.limits import ANOMALY_EXCERPT_BYTES
from svir_core.secret import Private, Secret

REDACTED: Final = "[REDACTED]"

SHORTEST_SECRET: Final = 8
"""Characters. What is shorter stands in ordinary words, and taking it out of them would wreck the record."""

SENSITIVE: Final = re.compile(r"authorization|api-?key|secret|credential|password|cookie|-token\Z")
"""Found in the name of a header, in lower case, whose value is a secret."""


class Redactor(Private):
    """Takes its secrets out of texts. Shows none of them in its ``repr``."""

    __slots__ = ("_secrets",)

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {secret for secret in secrets if len(secret) >= SHORTEST_SECRET}
        self._secrets = tuple(sorted(known, key=lambda secret: (-len(secret), secret)))

    @classmethod
    def of_headers(cls, *sent: Headers, key: Secret | None = None, key_headers: Headers = ()) -> Redactor:
        """What requests with these headers were sent with: ``key``, the values of the headers that carry it, and those
        of sensitive ones. Of ``Bearer ...`` the part after the blank is one too."""
        secrets = [] if key is None else [key.reveal()]
        for name, value in key_headers:
            secrets += _secrets_in(name, value)
        for headers in sent:
            for name, value in headers:
                if is_sensitive(name):
                    secrets += _secrets_in(name, value)
        return cls(secrets)

    def __or__(self, other: Redactor) -> Redactor:
        """One that takes out the secrets of both."""
        return Redactor([*self._secrets, *other._secrets])

    def text(self, text: str) -> str:
        """``text`` without the secrets, the longest first; the very same when there is none in it."""
        return _without(text, self._secrets) if self._in(text) else text

    def cut(self, text: str) -> str:
        """As :meth:`text`, of one that may have been cut inside a secret: then what is left of that goes too, where it
        has 8 characters. What is shorter than 80 bytes was not cut: an anomaly's excerpt is the shortest bound."""
        size = len(text.encode("utf-8", "replace"))
        text = self.text(text)
        return self._ends_whole(text) if size >= ANOMALY_EXCERPT_BYTES else text

    def json(self, value: Any) -> Any:
        """A copy of a JSON value, however deep, without the secrets in its strings; the keys of its objects stay."""
        whole: list[Any] = [value]
        waiting: list[tuple[Any, Any]] = [(whole, 0)]
        while waiting:
            holder, place = waiting.pop()
            item: Any = holder[place]
            if isinstance(item, str):
                holder[place] = self.text(item)
            elif isinstance(item, Mapping):
                copied = holder[place] = dict(cast("Mapping[str, Any]", item))
                waiting += [(copied, key) for key in copied]
            elif isinstance(item, list | tuple):
                items = holder[place] = list(cast("Iterable[Any]", item))
                waiting += [(items, number) for number in range(len(items))]
        return whole[0]

    def finds(self, value: Any) -> bool:
        """Whether :meth:`json` would take anything out of a JSON value."""
        waiting: list[Any] = [value] if self._secrets else []
        while waiting:
            item = waiting.pop()
            if isinstance(item, str):
                if self._in(item):
                    return True
            elif isinstance(item, Mapping):
                waiting += cast("Mapping[str, Any]", item).values()
            elif isinstance(item, list | tuple):
                waiting += cast("Iterable[Any]", item)
        return False

    def _in(self, text: str) -> bool:
        return any(map(text.__contains__, self._secrets))

    def _ends_whole(self, text: str) -> str:
        for secret in self._secrets:
            for size in reversed(range(SHORTEST_SECRET, len(secret))):
                if text.endswith(secret[:size]):
                    return text[:-size] + REDACTED
        return text

    def __repr__(self) -> str:
        return f"<Redactor of {len(self._secrets)}>"


def is_sensitive(name: str) -> bool:
    """Whether a header of this name, in lower case, holds a secret."""
    return SENSITIVE.search(name) is not None


def _secrets_in(name: str, value: str) -> tuple[str, ...]:
    """The secrets that a header's value is: itself, and what stands behind a scheme; none when that is too short to be
    one, since ``Bearer s`` stands in ordinary words too."""
    credential = value.partition(" ")[2].strip()
    if credential and "authorization" in name and len(credential) < SHORTEST_SECRET:
        return ()
    return value, credential


def _without(text: str, secrets: tuple[str, ...]) -> str:
    """One pass: what was put in place of a secret is not looked at again."""
    if not secrets:
        return text
    return REDACTED.join(_without(piece, secrets[1:]) for piece in text.split(secrets[0]))
