"""A response that was asked for with ``stream: false``."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from svir_core.errors import ProtocolError, RateLimitedError, ServerError, TruncatedStreamError, UnsupportedError
from svir_core.refusal import read_failure
from svir_core.response import FinishReason, Usage
from svir_core.wire.openai_responses import DocumentDecoder, decode_document
from tests.svir_core.wire.openai_responses.streams import CASES, MODES, USAGE, call, created, message, reasoning


def document(*output: Any, **fields: Any) -> bytes:
    base = {"id": "resp_1", "object": "response", "model": "m", "status": "completed", "error": None, "usage": USAGE}
    return orjson.dumps({**base, "output": list(output), **fields})


@pytest.mark.parametrize("mode", MODES)
def test_a_whole_answer(mode: str) -> None:
    data = document(reasoning("hm"), message("Hi"), call("{}"), output_text="Hi", service_tier="flex")
    answer = decode_document(data, mode=mode, extra=True)
    assert (answer.text, answer.finish, answer.usage) == ("Hi", FinishReason.TOOL_CALLS, Usage(3, 2, 5))
    assert (answer.model, answer.id, answer.anomaly_count) == ("m", "resp_1", 0)
    assert answer.extra == {"service_tier": "flex", "usage": USAGE}
    decoder = DocumentDecoder(mode=mode)
    for place in range(len(data)):
        decoder.push(data[place : place + 1])
    assert decoder.result().parts == answer.parts


@pytest.mark.parametrize("mode", MODES)
def test_what_is_no_answer(mode: str) -> None:
    whole = document(message("Hi"))
    for end in range(len(whole)):
        with pytest.raises(TruncatedStreamError):
            decode_document(whole[:end], mode=mode)
    for data in (b"<html>", created(), b'{"hello":1}', b"[]"):
        with pytest.raises(UnsupportedError):
            decode_document(data, mode=mode)
    failed = {"code": "rate_limit_exceeded", "message": "x"}
    with pytest.raises(RateLimitedError):
        decode_document(document(status="failed", error=failed), mode=mode)
    with pytest.raises(RateLimitedError) as caught:
        decode_document(orjson.dumps({"type": "error", **failed}), mode=mode)
    assert caught.value.server_message() == "x"
    nested = orjson.dumps({"error": failed})
    assert read_failure(orjson.dumps(failed)) == read_failure(nested)  # of a status
    for status in ("failed", "cancelled"):
        with pytest.raises(ServerError):
            decode_document(document(status=status), mode=mode)


def test_an_end_that_nobody_knows() -> None:
    data = document(message("Hi"), status="dreaming")
    with pytest.raises(ProtocolError):
        decode_document(data)
    answer = decode_document(data, mode="lenient")
    assert (answer.finish, answer.raw_finish) == (FinishReason.OTHER, "dreaming")


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_an_answer_that_is_under_way(status: str) -> None:
    assert decode_document(document(status=status, usage=None)).finish is FinishReason.PAUSE


@pytest.mark.parametrize("name", ["llamacpp__responses_nostream", "llamacpp-think__xr_tools_nostream"])
def test_recorded_documents(name: str) -> None:
    answer = decode_document((CASES / "recorded" / f"{name}.sse").read_bytes())
    assert answer.parts
    assert answer.usage is not None
