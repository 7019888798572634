"""A body that is one JSON value is an answer only in lenient mode, on record, and the same as when sent as an event."""

from __future__ import annotations

from typing import Final

import orjson

from fuzz.check import Target, require, same
from fuzz.decoding import check_decoder, options, see
from fuzz.mutate import json_body
from fuzz.plan import Plan, read
from svir_core.errors import ResponseLimitError
from svir_core.response import AnomalyCode, Completion

_ONE_LINE: Final = bytes.maketrans(b"\r\n", b"  ")
"""Line ends in JSON are white space: its strings hold none."""


def check(raw: bytes) -> None:
    plan = read(raw)
    if plan.data.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")[:1] not in (b"{", b"["):
        return  # a stream or a page: other targets'
    lenient = check_decoder(plan, "lenient")
    strict = see([plan.data], {"mode": "strict", **options(plan)})
    require(strict.completion is None, "strict took a document")
    require(not strict.events, "strict delivered of a document", strict.events)
    if lenient.completion is not None:
        codes = [anomaly.code for anomaly in lenient.completion.anomalies]
        require(codes[:1] == [AnomalyCode.WHOLE_DOCUMENT], "a document that is not on record", codes)
        _same_as_an_event(plan, lenient.completion)


def _same_as_an_event(plan: Plan, answer: Completion) -> None:
    """The document as one event of a stream is the same answer, where it can stand in one line."""
    text = plan.data.removeprefix(b"\xef\xbb\xbf").strip().translate(_ONE_LINE)
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return  # bytes after the document, or what only the slow reader takes
    chosen = {**options(plan), "mode": "lenient"}
    framed = see([b"data: ", text, b"\n\ndata: [DONE]\n\n"], chosen)
    if framed.completion is None:
        limit = isinstance(framed.error, ResponseLimitError)  # framed it is larger, and an event may be less
        require(limit, "no answer as an event", framed.error)
        return
    same("other parts as an event", framed.completion.parts, answer.parts)
    same("another finish as an event", framed.completion.finish, answer.finish)
    same("another usage as an event", framed.completion.usage, answer.usage)
    same("another extra as an event", framed.completion.extra, answer.extra)


TARGET = Target(check, "bodies", json_body, max_size=512)
