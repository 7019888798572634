"""What of an exchange is fit to be kept: by a list of what may be shown, never by a guess at what is secret."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterable, Iterator

WITHHELD = "<withheld>"

SHOWN_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "anthropic-beta",
        "anthropic-version",
        "content-length",
        "content-type",
        "openai-beta",
        "user-agent",
    }
)
"""Request headers whose values are kept. Any other may be a credential under whatever name."""

NO_CREDENTIALS = SHOWN_HEADERS | {"host", "connection", "transfer-encoding"}
"""Request headers whose values are no credentials; what they say may stand in a body as well."""

SHOWN_QUERY = frozenset({"alt", "api-version", "after_id", "before_id", "limit", "pagesize"})
"""Query parameters whose values are kept."""

WITHHELD_RESPONSE_HEADERS = frozenset({"set-cookie", "set-cookie2"})
"""Response headers that hand out a credential; of the others only what repeats one of the request's is one."""

SECRET_CHARACTERS = 6
"""Shorter values stand in any text by chance, and hide nothing."""

Pairs = tuple[tuple[str, str], ...]


def shown_target(target: str) -> str:
    """The target with its path, and with the values of those query parameters that may be shown."""
    path, mark, query = target.partition("?")
    return path + mark + "&".join(_parameter(part) for part in query.split("&")) if mark else target


def _parameter(part: str) -> str:
    name, equals, _ = part.partition("=")
    if name.lower() in SHOWN_QUERY:
        return part
    return name + equals + WITHHELD if equals else WITHHELD


class Mask:
    """Overwrites the credentials of one request, wherever the server repeats them, with as many asterisks."""

    def __init__(self, headers: Iterable[tuple[str, str]], target: str) -> None:
        secrets = {
            form
            for secret in (*_in_headers(headers), *_in_query(target))
            for form in (secret, json.dumps(secret)[1:-1])
            if len(secret) >= SECRET_CHARACTERS
        }
        self._secrets = sorted((secret.encode("utf-8", "replace") for secret in secrets), key=len, reverse=True)

    def data(self, data: bytes) -> bytes:
        """``data`` of the same length, without the credentials."""
        for secret in self._secrets:
            data = data.replace(secret, b"*" * len(secret))
        return data

    def pieces(self, pieces: list[bytes]) -> list[bytes]:
        """The pieces, cut where they were: a credential may stand across two of them."""
        masked, at, result = self.data(b"".join(pieces)), 0, list[bytes]()
        for piece in pieces:
            result.append(masked[at : at + len(piece)])
            at += len(piece)
        return result

    def request_headers(self, headers: Iterable[tuple[str, str]]) -> Pairs:
        """Names of all, values of those that may be shown."""
        return tuple((name, self.text(value) if name.lower() in SHOWN_HEADERS else WITHHELD) for name, value in headers)

    def response_headers(self, headers: Iterable[tuple[str, str]]) -> Pairs:
        """The headers of the response without cookies and without what they repeat."""
        return tuple(
            (name, WITHHELD if name.lower() in WITHHELD_RESPONSE_HEADERS else self.text(value))
            for name, value in headers
        )

    def text(self, text: str) -> str:
        """``text`` of the same length, without the credentials."""
        return self.data(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def _in_headers(headers: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Withheld values: each whole, and the words of it (``Bearer KEY``, ``name=value; name=value``)."""
    for name, value in headers:
        if name.lower() not in NO_CREDENTIALS:
            yield value
            for word in value.replace(";", " ").replace(",", " ").split():
                yield word
                yield word.partition("=")[2]


def _in_query(target: str) -> Iterator[str]:
    for part in target.partition("?")[2].split("&"):
        name, equals, value = part.partition("=")
        if name.lower() not in SHOWN_QUERY:
            secret = value if equals else name
            yield secret
            yield urllib.parse.unquote_plus(secret)
