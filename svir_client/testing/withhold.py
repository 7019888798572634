"""What of an exchange is fit to be kept.

Headers and query: by a list of what may be shown, never by a guess at what is secret. Bodies: whole, but for what
the request gave as a credential, wherever it is repeated. What is overwritten keeps its length, and a word that the
protocol may be using itself is let stand, so that a recording can be replayed whatever the key was.
"""

from __future__ import annotations

import json
import re
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

CREDENTIAL_NAME = re.compile(
    r"^proxy-|^(sig|code)$|auth|key|token|secret|cookie|passw|credential|signature|session", re.IGNORECASE
)
"""Headers and query parameters that carry a credential: the standard ones, those of the APIs, and their kin
(``sig`` and ``code`` are Azure's)."""

WITHHELD_RESPONSE_HEADERS = frozenset({"set-cookie", "set-cookie2"})
"""Response headers that hand out a credential; of the others only what repeats one of the request's is one."""

SECRET_CHARACTERS = 6
"""Shorter values stand in any text by chance, and hide nothing."""

KEY_CHARACTERS = 16
"""So many without a blank may be a key, whatever header they came in."""

PLAIN_WORD = re.compile(r"[A-Za-z]{1,23}(?:[._][A-Za-z]{1,23})*")
"""What a wire API may call something: ``content``, ``message_start``, ``cachedContentTokenCount``. A key that was
issued has digits, or is longer."""

AMONG_WORDS = (
    rb"(?:(?<=[\s'`(=:])|(?<=\\[nrt]))(?<!^event:)(?<!^event: )%b(?![\w-]|\.\w)"  # after another one
    rb"|(?<![\w./-])(?<!^event:)(?<!^event: )%b(?=[\s'`);])"  # before one
)
"""Where a plain word is one of several in a text. As a whole JSON string, as a part of a longer name or as the name
of an event it may be the protocol's own."""

NUMBER_AMONG_WORDS = rb"(?:(?<=[A-Za-z] )|(?<=[A-Za-z]: )|(?<=['`(=]))(?<!^retry: )%b(?![\w-]|\.\w)"
"""The same for digits alone, which may be a number of the protocol's."""

AUTH_SCHEMES = frozenset({"bearer", "digest", "negotiate"})
"""Words of an ``authorization`` that are no secret, and long enough to be taken for one."""

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
    """Overwrites the credentials of one request, wherever they are repeated, with as many asterisks."""

    def __init__(self, headers: Iterable[tuple[str, str]], target: str) -> None:
        secrets = {
            form
            for secret in (*_in_headers(headers), *_in_query(target))
            for form in (secret, json.dumps(secret)[1:-1])
        }
        longest_first = sorted(secrets, key=len, reverse=True)
        self._patterns = [_pattern(secret) for secret in longest_first]
        self._keys = [_bytes(secret) for secret in longest_first if not _is_plain(secret)]

    def data(self, data: bytes) -> bytes:
        """``data`` of the same length, without the credentials."""
        for pattern in self._patterns:
            data = pattern.sub(_asterisks, data)
        cut = max((_cut_key(data, key) for key in self._keys), default=0)
        return data[: len(data) - cut] + b"*" * cut

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


def _asterisks(match: re.Match[bytes]) -> bytes:
    return b"*" * len(match[0])


def _cut_key(data: bytes, key: bytes) -> int:
    """How many bytes of ``key`` stand at the end of ``data``, which was cut off inside it."""
    return next((size for size in range(len(key) - 1, SECRET_CHARACTERS - 1, -1) if data.endswith(key[:size])), 0)


def _bytes(secret: str) -> bytes:
    return secret.encode("utf-8", "replace")


def _is_number(secret: str) -> bool:
    return secret.isascii() and secret.isdigit()


def _is_plain(secret: str) -> bool:
    return _is_number(secret) or PLAIN_WORD.fullmatch(secret) is not None


def _pattern(secret: str) -> re.Pattern[bytes]:
    """Where ``secret`` is overwritten: everywhere, but what the protocol may be saying itself only among words."""
    word = re.escape(_bytes(secret))
    if not _is_plain(secret):
        return re.compile(word)
    where = NUMBER_AMONG_WORDS if _is_number(secret) else AMONG_WORDS
    return re.compile(where.replace(b"%b", word), re.MULTILINE)


def _in_headers(headers: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Withheld values that can be a credential: each whole, and the words of it (``Bearer KEY``, ``name=value``)."""
    for name, value in headers:
        if name.lower() not in NO_CREDENTIALS:
            least = _least(name)
            if least == SECRET_CHARACTERS:
                yield from _long_enough((value,), least)
            for word in value.replace(";", " ").replace(",", " ").split():
                if word.lower() in AUTH_SCHEMES:
                    continue
                yield from _long_enough((word, word.partition("=")[2]), least)


def _in_query(target: str) -> Iterator[str]:
    for part in target.partition("?")[2].split("&"):
        name, equals, value = part.partition("=")
        if name.lower() not in SHOWN_QUERY:
            secret = value if equals else name
            yield from _long_enough(
                (secret, urllib.parse.unquote_plus(secret)), _least(name) if equals else SECRET_CHARACTERS
            )


def _least(name: str) -> int:
    """How long a value under this name must be to be taken for a credential."""
    return SECRET_CHARACTERS if CREDENTIAL_NAME.search(name) else KEY_CHARACTERS


def _long_enough(values: Iterable[str], least: int) -> Iterator[str]:
    return (value for value in values if len(value) >= least)
