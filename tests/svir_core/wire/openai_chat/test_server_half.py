"""What the server half writes, the client half of the same object reads."""

from __future__ import annotations

import orjson
import pytest

from svir_core.errors import ConfigError
from svir_core.event import Completed, TextDelta
from svir_core.message import Text
from svir_core.response import Completion, FinishReason, Usage
from svir_core.wire.api import CodecOptions, Model
from svir_core.wire.openai_chat import API

ANSWER = Completion(FinishReason.STOP, [Text("Hello")], Usage(1, 2, 3), model="m", id="c", raw_finish="stop")
REFUSAL = Completion(FinishReason.REFUSAL, [Text("No.")], model="m", id="c", raw_finish="stop")


@pytest.mark.parametrize(
    ("completion", "include_usage", "usage"),
    [(ANSWER, True, ANSWER.usage), (ANSWER, False, None), (REFUSAL, True, None)],
)
def test_a_stream_is_read_back(completion: Completion, include_usage: bool, usage: Usage | None) -> None:
    refusal = completion.finish is FinishReason.REFUSAL
    encoder = API.server.stream("m", "c", 1, include_usage=include_usage, refusal=refusal)
    data = encoder.push(TextDelta(completion.text)) + encoder.push(Completed(completion)) + encoder.finish()
    assert encoder.done
    decoder = API.decoder(CodecOptions(), lambda: 0.0)
    decoder.push(data)
    decoder.finish()
    told = decoder.result()
    assert (told.finish, told.text, told.usage, told.model, told.id) == (
        completion.finish,
        completion.text,
        usage,
        "m",
        "c",
    )


def test_a_stream_needs_what_its_encoder_needs() -> None:
    with pytest.raises(ConfigError, match="model"):
        API.server.stream("", "c", 1)


@pytest.mark.parametrize("models", [(), (Model("a"), Model("b/c", "A name")), (Model("x\N{GREEK SMALL LETTER PI}"),)])
def test_a_listing_is_read_back(models: tuple[Model, ...]) -> None:
    assert API.models(API.server.models(models)).models == models


def test_a_listing_has_what_the_strictest_client_demands() -> None:
    document = orjson.loads(API.server.models([Model("a\udc80")]))
    assert document["object"] == "list"
    assert document["data"] == [{"id": "a\ufffd", "object": "model", "created": 0, "owned_by": "svir"}]
