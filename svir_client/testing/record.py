"""What a scripted server saw: requests as they came, and the end of each connection."""

from __future__ import annotations

import json
from typing import Any

import anyio
import attrs

from svir_client.testing.withhold import shown_target


@attrs.define
class RecordedRequest:
    """One request.

    Attributes:
        method, target: the request line; the target as it was sent, query included (withheld in ``repr``).
        headers: pairs in the order they came, names in lower case.
        body: the body without its framing (withheld in ``repr``).
        connection: which connection it came on, counted from 0.
        complete: whether the whole body had arrived; false only for a reply sent ``before_body``.
    """

    method: str
    target: str = attrs.field(repr=shown_target)
    headers: tuple[tuple[str, str], ...] = attrs.field(repr=False)
    body: bytes = attrs.field(default=b"", repr=False)
    connection: int = 0
    complete: bool = False

    def header(self, name: str) -> str | None:
        """The value of a header (the first one of that name), or ``None``; the name in any case."""
        return next((value for key, value in self.headers if key == name.lower()), None)

    def header_values(self, name: str) -> tuple[str, ...]:
        """Every value of a header, in order; the name in any case."""
        return tuple(value for key, value in self.headers if key == name.lower())

    def json(self) -> Any:
        """The body as JSON; raises ``ValueError`` when it is not."""
        return json.loads(self.body)


@attrs.define(eq=False)
class RecordedConnection:
    """One connection.

    Attributes:
        number: counted from 0.
        closed: set as soon as the server sees that the client closed or reset it, or after the
            server itself reset it.
        trailing: bytes the client sent that belong to no request.
        fault: why the bytes were no HTTP request, or no TLS, or ``None``.
    """

    number: int
    closed: anyio.Event = attrs.field(factory=anyio.Event, repr=False)
    trailing: int = 0
    fault: str | None = None
