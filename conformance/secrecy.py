"""No key, header value, URL or server message in any str or repr of what svir shows (13, 10 section 11)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from conformance.outcome import Actual
from svir_client.testing import MockServer
from svir_core.errors import SvirError

if TYPE_CHECKING:
    from typing import Self

SECRET_CHARACTERS = 5
"""Shorter keys and header values ("1", "yes") stand in any text by chance."""

HEADS_LOGGED = "receive_response_headers.complete"
"""What httpcore's loggers say of every response head at DEBUG: the server's words, which svir cannot keep from them."""

MESSAGE_CHARACTERS = 8
"""Shorter messages ("error", "failed") are words that our own details use as well."""


class Watch(logging.Handler):
    """Looks for secrets in errors, events, the configuration and every log record while it is entered."""

    def __init__(self, secrets: Sequence[str | None], server: MockServer) -> None:
        super().__init__(logging.DEBUG)
        self._secrets = {secret for secret in secrets if secret is not None and len(secret) >= SECRET_CHARACTERS}
        self._secrets.add(server.origin.removeprefix("http://"))
        self._log: list[str] = []
        self.problems: list[str] = []

    def __enter__(self) -> Self:
        root = logging.getLogger()
        self._level = root.level
        root.setLevel(logging.DEBUG)
        root.addHandler(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        root = logging.getLogger()
        root.removeHandler(self)
        root.setLevel(self._level)
        self._search("a log record", self._log)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what was logged until the case is over and every secret known."""
        message = record.getMessage()
        if not (record.name.startswith("httpcore") and message.startswith(HEADS_LOGGED)):
            self._log.append(message)

    def configuration(self, client: object) -> None:
        """Look at the client and everything it holds."""
        held = [text for value in vars(client).values() for text in _texts(value)]
        self._search("the configuration", [*_texts(client), *held])

    def error(self, error: SvirError) -> None:
        """Look at an error, and at the errors it came from."""
        message = error.server_message()
        if message is not None and len(message) >= MESSAGE_CHARACTERS:
            self._secrets.add(message)
        self._search("an error", [text for one in _chain(error) for text in (*_texts(one), repr(one.args))])

    def outcome(self, actual: Actual) -> None:
        """Look at the events and the error of one call."""
        if actual.error is not None:
            self.error(actual.error)
        self._search("an event", [text for event in actual.events for text in _texts(event)])

    def _search(self, where: str, texts: Sequence[str]) -> None:
        found = any(secret in text for secret in self._secrets for text in texts)
        if found:
            self.problems.append(f"{where} shows a key, a header value, the server's address or its message")


def _texts(value: object) -> tuple[str, str]:
    return (str(value), repr(value))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
