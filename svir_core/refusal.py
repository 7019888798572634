"""A response that is no answer: what of its body is read, and which error it is (10 section 11)."""

from __future__ import annotations

import codecs
from typing import Final

import attrs

from svir_core.check import as_bytes
from svir_core.errors import ContentFilterError, ContextOverflowError, SvirError, UnsupportedError
from svir_core.event import Events
from svir_core.http_message import ResponseHead
from svir_core.limits import ERROR_BODY_BYTES, ERROR_BODY_SECONDS, FOREIGN_BODY_BYTES
from svir_core.slow_json import loosely
from svir_core.status import JUDGED_BY_BODY, RETRIED_LEAN, retry_after_of, status_error
from svir_core.wire.failure import Failure, describe_body

BOM: Final = codecs.BOM_UTF8
EVENT_STREAM: Final = "text/event-stream"
JSON: Final = "application/json"


def media_type(head: ResponseHead) -> str:
    """The media type of a response in lower case, without parameters; ``""`` when it has none."""
    value = head.get("content-type") or ""
    return value.partition(";")[0].partition(",")[0].strip(" \t").lower()


def encoded(head: ResponseHead) -> bool:
    """Whether the body has a content-encoding that svir never asked for."""
    value = head.get("content-encoding") or ""
    return any(coding.strip(" \t").lower() not in ("", "identity") for coding in value.split(","))


def read_failure(body: bytes) -> Failure:
    """What an error body says: by the shapes of ``wire.failure``; else the body as it is, when there is any."""
    text = body.removeprefix(BOM).strip()
    failure = describe_body(loosely(text))
    if failure.message is None and text:
        return attrs.evolve(failure, message=body.decode("utf-8", "replace"))
    return failure


class Refusal:
    """One response that is no answer: a status that is no success, or a success of the wrong type.

    Attributes:
        limit: how many bytes of the body are wanted; further ones are dropped.
        seconds: how long the body is worth waiting for; ``None`` is as long as for any response.
    """

    def __init__(self, head: ResponseHead, now: float, reason: str | None = None) -> None:
        """``reason`` says what is wrong with a success; ``now`` is the time of day (seconds since the epoch)."""
        self._head = head
        self._now = now
        self._reason = reason
        self._body = bytearray()
        self.limit = ERROR_BODY_BYTES if reason is None else FOREIGN_BODY_BYTES
        self.seconds = None if head.status in JUDGED_BY_BODY else ERROR_BODY_SECONDS

    @property
    def allows_retry(self) -> bool:
        """Whether a request without its optional fields may escape: by status, and not for an overflow or a filter."""
        if self._head.status not in RETRIED_LEAN:
            return False
        return not isinstance(self.error(), ContextOverflowError | ContentFilterError)

    @property
    def done(self) -> bool:
        """Never: the end of the body, or of its time, is told by ``finish``."""
        return False

    def push(self, data: bytes | bytearray | memoryview) -> Events:
        """Keep what is still wanted of ``data``; there are no events in it."""
        self._body += as_bytes(data)[: self.limit - len(self._body)]
        return Events()

    def finish(self) -> Events:
        """The error, as events."""
        return Events((), self.error())

    def failure(self) -> Failure:
        """What the body says; nothing when it is compressed."""
        return Failure() if encoded(self._head) else read_failure(bytes(self._body))

    def error(self) -> SvirError:
        """The error that this response is."""
        if self._reason is not None:
            text = bytes(self._body).strip().decode("utf-8", "replace")
            return UnsupportedError(self._reason, server_message=text or None)
        return status_error(self._head.status, self.failure(), retry_after_of(self._head, self._now))
