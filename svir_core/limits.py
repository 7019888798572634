"""Every bound, with its reason. A bound that is passed is a typed error, never a silent cut."""

from __future__ import annotations

import attrs

SERVER_MESSAGE_BYTES = 4 * 1024
"""What an error keeps of the server's own words: a paragraph, not a page of HTML (10 section 11)."""

HEAD_BYTES = 256 * 1024
"""A response head is read up to here: Chromium's bound, so that what a browser reads is read here; servers' own
are 8 to 32 KiB."""

BODY_CLOSE_SECONDS = 1.0
"""How long the ``aclose`` of a request's body may take in a call that was cancelled: it may wait for a thread."""

ERROR_BODY_BYTES = 64 * 1024
"""An error body is read up to here: real ones are below 4 KiB; HTML pages of gateways reach 30 KiB."""

ERROR_BODY_SECONDS = 0.3
"""How long an error body is waited for when the status alone already decides the kind."""

DOCUMENT_BYTES = 16 * 1024 * 1024
"""A whole JSON document (a listing, an answer that was not streamed) is read up to here."""

FOREIGN_BODY_BYTES = 200
"""What is kept of a body that is not of the right type: enough to tell a login page (11 section A)."""

RETRY_AFTER_SECONDS = 30.0
"""A server cannot make a caller wait longer than this by one header."""

BLOCK_BYTES = 768 * 1024
"""A body is produced in blocks of about this size: a multiple of 3, so that base64 never pads inside."""

ANOMALIES = 100
"""So many anomalies are kept whole; later ones are only counted."""

ANOMALY_EXCERPT_BYTES = 80
"""What an anomaly shows of the bytes it was found in."""

JSON_DEPTH = 256
"""How deep a payload may nest where the slow JSON reader is needed, and an answer that is shown while it is written;
orjson's own bound is 1,024."""


def _positive(instance: object, attribute: attrs.Attribute[int], value: int) -> None:
    from svir_core.check import at_least  # errors, which check needs, needs this module's constants

    at_least(1)(instance, attribute, value)


@attrs.frozen
class Limits:
    """What one response may cost. Passing a bound raises ``ResponseLimitError``; a bound that is
    not a positive integer is a ``ConfigError``. Source: 10 section 7.

    Attributes:
        wire_bytes: bytes of the whole response body of one attempt (64 MiB: about 250,000 tokens).
        event_bytes: bytes of one server-sent event, its field names and line ends included (256 KiB).
        tool_calls: calls in one answer (64); an index at or over it fails at once.
    """

    wire_bytes: int = attrs.field(default=64 * 1024 * 1024, validator=_positive)
    event_bytes: int = attrs.field(default=256 * 1024, validator=_positive)
    tool_calls: int = attrs.field(default=64, validator=_positive)
