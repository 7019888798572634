from __future__ import annotations

import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import ConfigError, ContextOverflowError, ProtocolError, ServerError, SvirError
from svir_core.limits import Limits
from svir_core.message import Image
from svir_core.quirk import Quirk
from svir_core.request import Effort, Request
from svir_core.secret import Secret
from svir_core.wire import names
from svir_core.wire.api import Api, CodecOptions, Compat, Model, ModelPage
from svir_core.wire.openai_responses import API, Decoder, Responses
from tests.svir_core.wire.openai_responses.streams import said, stream

HI = Request("m").user("hi")


def test_the_api_says_where_and_with_what() -> None:
    api: Api = Responses()
    assert api == API
    assert api.name == "openai_responses"
    assert api.base_url == "https://api.openai.com"
    assert api.path(HI) == "/v1/responses"
    assert api.count_path(HI) == "/v1/responses/input_tokens"
    assert (api.versions, api.matches_by_id, api.headers) == (("/v1",), True, ())
    assert api.key_headers(Secret("sk-1")) == (("authorization", "Bearer sk-1"),)
    assert api.models_path() == api.models_path("x") == "/v1/models"
    assert api.optional_fields(HI) == {"include"}
    assert api.optional_fields(HI.replace(effort=Effort.OFF)) == {"include", "reasoning"} <= names.optional_names()
    assert api.alternatives(HI.replace(max_tokens=5, system="x")) == ()


def test_encoding_takes_what_is_known_and_the_options() -> None:
    request = HI.replace(effort="low", max_tokens=5, system="x")
    body = orjson.loads(bytes(API.encode(request, CodecOptions(), Compat(frozenset({"include", "x"}), {"a": "b"}))))
    assert list(body) == ["model", "stream", "store", "max_output_tokens", "reasoning", "instructions", "input"]
    with pytest.raises(ContextOverflowError):
        API.encode(request, CodecOptions(context_tokens=20), Compat())
    picture = HI.user(Image.data(bytes(3000), "image/png"))
    with pytest.raises(ContextOverflowError):
        API.encode(picture, CodecOptions(context_tokens=2000), Compat())
    assert API.encode(picture, CodecOptions(context_tokens=2000, image_tokens=100), Compat()).length > 4000


def test_counting_asks_with_what_counts() -> None:
    request = HI.replace(
        effort="low",
        max_tokens=5,
        temperature=1.0,
        system="x",
        response_format="json",
        extra={"metadata": {}, "tools": [{"type": "web_search"}], "truncation": "auto"},
    )
    assert orjson.loads(bytes(API.encode_count(request, CodecOptions(), Compat()))) == {
        "model": "m",
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_object"}},
        "instructions": "x",
        "tools": [{"type": "web_search"}],
        "truncation": "auto",
        "input": [{"role": "user", "content": "hi"}],
    }
    assert API.encode_count(request, CodecOptions(context_tokens=1), Compat()).length > 1  # counting refuses no length
    assert API.count(b'{"object":"response.input_tokens","input_tokens":51}') == 51
    for document in (b"{}", b'{"input_tokens":-1}', b"[]"):
        with pytest.raises(ProtocolError):
            API.count(document)


def test_a_decoder_has_the_options_and_the_clock() -> None:
    ticks: list[float] = []

    def clock() -> float:
        ticks.append(1.0)
        return 1.0

    decoder = API.decoder(CodecOptions(mode="lenient", think="inside", limits=Limits(wire_bytes=10)), clock)
    assert isinstance(decoder, Decoder)
    assert ticks
    error = decoder.push(b": a comment of more than ten bytes\n").error
    assert error is not None
    assert "10" in str(error)
    with pytest.raises(ConfigError, match="quirks"):
        API.decoder(CodecOptions(quirks=Quirk.DONE_OPTIONAL), time.monotonic)


def test_think_markers_are_text() -> None:
    decoder = API.decoder(CodecOptions(think="split"), lambda: 0.0)
    decoder.push(stream(said(0, "<think>a</think>b")))
    assert decoder.result().text == "<think>a</think>b"


@pytest.mark.parametrize(
    ("document", "models"),
    [
        ({"object": "list", "data": [{"id": "b", "object": "model"}, {"id": "a", "name": "A"}]}, ("b", "a")),
        ({"data": [], "has_more": True, "last_id": "x"}, ()),
    ],
)
def test_a_listing_is_one_page(document: Any, models: tuple[str, ...]) -> None:
    page = API.models(orjson.dumps(document))
    assert tuple(model.id for model in page.models) == models
    assert page.after is None


@pytest.mark.parametrize("models", [(), (Model("a"), Model("b/c", "A name"))])
def test_a_listing_is_read_back(models: tuple[Model, ...]) -> None:
    assert API.models(API.server.models(models)) == ModelPage(models)


def test_a_failure_in_place_of_a_listing() -> None:
    with pytest.raises(ServerError):
        API.models(b'{"error":{"message":"no"}}')


@given(st.binary())
def test_any_document_is_a_listing_or_a_typed_error(document: bytes) -> None:
    for read in (API.models, API.count):
        try:
            read(document)
        except SvirError as error:
            assert str(error).isascii()  # noqa: PT017  # either outcome is fine
