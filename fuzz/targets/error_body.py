"""Any error body, status and headers, at any cut, are one ``SvirError`` of the right class, our words, within limits.

The right class is that of the status, or on 400, 413 and 422 of what the body says.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from fuzz.check import Target, require, same
from fuzz.mutate import json_body
from fuzz.plan import read
from svir_core.errors import ErrorKind, ProtocolError, ServerError, SvirError
from svir_core.http_message import ResponseHead
from svir_core.limits import RETRY_AFTER_SECONDS
from svir_core.refusal import Refusal, encoded, media_type
from svir_core.status import BODY_VERDICTS, STATUSES, retry_after
from svir_core.wire.failure import Failure
from svir_core.wire.openai_chat.api import API

CODES = (400, 401, 404, 408, 413, 422, 429, 500, 503, 302)
REASON = "the response is not a stream"
NOW = 1_750_000_000.0
BY_BODY = {ErrorKind.UNSUPPORTED, *(error.kind for error in BODY_VERDICTS)}


def refused(pieces: Iterable[bytes], head: ResponseHead, reason: str | None) -> tuple[SvirError, Failure, bool]:
    """What a refusal says of ``pieces``."""
    refusal = Refusal(head, NOW, reason)
    for piece in pieces:
        require(not refusal.push(piece).items and not refusal.done, "a refusal that speaks")
        require(len(refusal._body) <= refusal.limit, "more is kept than the limit says")
    error = refusal.finish().error
    if error is None:
        raise AssertionError
    return error, refusal.failure(), refusal.allows_retry


def check(raw: bytes) -> None:
    plan = read(raw)
    status = CODES[plan.option % len(CODES)]
    line, _, body = plan.data.partition(b"\n") if plan.cut & 1 else (b"", b"", plan.data)
    value = line.decode("latin-1")
    head = ResponseHead(status, (("retry-after", value), ("content-type", value), ("content-encoding", value)))
    if not plan.cut & 1:
        head = ResponseHead(status, ())
    reason = REASON if plan.option & 128 else None
    pieces = attrs.evolve(plan, data=body).pieces()
    whole = refused([body], head, reason)
    same("the cut matters", refused(pieces, head, reason), whole)
    error, failure, retried = whole
    same("a refusal has its status", error.status, None if reason else status)
    require(str(error).isascii() and len(repr(error)) < 200, "an error's words are not ours", str(error))
    require(len((error.server_message() or "").encode()) <= 4096, "a server's message is not cut")
    wait = error.retry_after
    require(wait is None or 0 <= wait <= RETRY_AFTER_SECONDS, "a wait outside its bounds", wait)
    if reason is None:
        _is_of_its_status(error, status)
        require(not retried or status in (400, 422), "a retry after a status that allows none", status)
        require(
            encoded(head) or failure.message is not None or not body.removeprefix(b"\xef\xbb\xbf").strip(), "words lost"
        )
    if plan.cut & 1:
        _headers(value, head)
    _listing(body)


def _is_of_its_status(error: SvirError, status: int) -> None:
    if status in (400, 413, 422):
        require(error.kind in BY_BODY, "not an error of this status", error.kind)
    else:
        kind = STATUSES[status].kind if status in STATUSES else ErrorKind.UNSUPPORTED
        same("not the error of this status", error.kind, kind)


def _headers(value: str, head: ResponseHead) -> None:
    wait = retry_after(value, NOW)
    require(wait is None or 0 <= wait <= RETRY_AFTER_SECONDS, "a wait outside its bounds", wait)
    same("a media type is in lower case", media_type(head), media_type(head).lower())


def _listing(body: bytes) -> None:
    """A model listing is models with ids, or a typed error."""
    try:
        models = API.models(body).models
    except (ProtocolError, ServerError) as error:
        require(str(error).isascii(), "an error's words are not ours", str(error))
    else:
        require(all(model.id for model in models), "a model without an id", models)


TARGET = Target(check, "bodies", json_body, max_size=256)
