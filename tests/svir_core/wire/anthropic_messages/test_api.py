from __future__ import annotations

import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import ConfigError, ContextOverflowError, ProtocolError, ServerError, SvirError
from svir_core.limits import Limits
from svir_core.quirk import Quirk
from svir_core.request import Request
from svir_core.secret import Secret
from svir_core.wire.anthropic_messages import API, AnthropicMessages, Decoder
from svir_core.wire.api import Api, CodecOptions, Compat, Model, ModelPage
from tests.svir_core.wire.anthropic_messages.streams import stream, text

HI = Request("m").user("hi")


def test_the_api_says_where_and_with_what() -> None:
    api: Api = AnthropicMessages()
    assert api == API
    assert api.name == "anthropic_messages"
    assert api.base_url == "https://api.anthropic.com"
    assert api.path(HI) == "/v1/messages"
    assert api.count_path(HI) == "/v1/messages/count_tokens"
    assert (api.versions, api.matches_by_id) == (("/v1",), False)
    assert api.headers == (("anthropic-version", "2023-06-01"),)
    assert api.key_headers(Secret("sk-1")) == (("x-api-key", "sk-1"),)
    assert api.models_path() == "/v1/models?limit=1000"
    assert api.models_path("a/b&c") == "/v1/models?limit=1000&after_id=a%2Fb%26c"
    assert api.optional_fields(HI.replace(effort="off")) == {"thinking"}
    assert api.alternatives(HI.replace(max_tokens=5, system="x")) == ()


def test_the_version_and_the_way_of_the_key_are_settings() -> None:
    api = AnthropicMessages(version="2026-10-21", auth="bearer")
    assert api.headers == (("anthropic-version", "2026-10-21"),)
    assert api.key_headers(Secret("sk-1")) == (("authorization", "Bearer sk-1"),)
    assert api != API


@pytest.mark.parametrize("settings", [{"version": ""}, {"version": "a\nb"}, {"version": "\u00e9"}, {"version": 5}])
def test_a_version_is_a_header_value(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="version"):
        AnthropicMessages(**settings)


@pytest.mark.parametrize("auth", ["basic", "", 5, []])
def test_a_way_of_the_key_is_one_of_two(auth: Any) -> None:
    with pytest.raises(ConfigError, match="auth"):
        AnthropicMessages(auth=auth)


def test_encoding_takes_what_is_known_and_the_options() -> None:
    request = HI.replace(effort="low", max_tokens=5)
    body = orjson.loads(bytes(API.encode(request, CodecOptions(), Compat(frozenset({"effort"})))))
    assert body == {"model": "m", "stream": True, "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}
    with pytest.raises(ContextOverflowError):
        API.encode(request, CodecOptions(context_tokens=20), Compat())
    counted = orjson.loads(bytes(API.encode_count(request, CodecOptions(context_tokens=20), Compat())))
    assert counted == {
        "model": "m",
        "output_config": {"effort": "low"},
        "messages": [{"role": "user", "content": "hi"}],
    }


def test_a_decoder_has_the_options_and_the_clock() -> None:
    options = CodecOptions(mode="lenient", limits=Limits(wire_bytes=10), extra=True)
    ticks: list[float] = []

    def clock() -> float:
        ticks.append(1.0)
        return 1.0

    decoder = API.decoder(options, clock)
    assert isinstance(decoder, Decoder)
    assert ticks
    error = decoder.push(b": a comment of more than ten bytes\n").error
    assert error is not None
    assert "10" in str(error)
    kept = API.decoder(CodecOptions(extra=True), time.monotonic)
    kept.push(stream(text(0, "x")))
    assert kept.result().extra == {"usage": {"input_tokens": 3, "output_tokens": 4}}


def test_quirks_are_of_another_api() -> None:
    with pytest.raises(ConfigError, match="quirks"):
        API.decoder(CodecOptions(quirks=Quirk.DONE_OPTIONAL), time.monotonic)


@pytest.mark.parametrize(
    ("document", "page"),
    [
        ({"data": []}, ModelPage(())),
        ({"data": [], "has_more": True, "last_id": "x"}, ModelPage(())),
        ({"data": [{"id": "b", "display_name": "B"}, {"id": "a"}]}, ModelPage((Model("b", "B"), Model("a")))),
        ({"data": [{"id": "a"}], "has_more": False, "last_id": "a"}, ModelPage((Model("a"),))),
        ({"data": [{"id": "a"}], "has_more": True, "last_id": "z"}, ModelPage((Model("a"),), "z")),
        ({"data": [{"id": "a"}], "has_more": True, "last_id": None}, ModelPage((Model("a"),), "a")),
        ({"data": [{"id": "a"}], "has_more": True, "last_id": ""}, ModelPage((Model("a"),), "a")),
    ],
)
def test_a_listing_comes_in_pages(document: Any, page: ModelPage) -> None:
    assert API.models(orjson.dumps(document)) == page


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (b"<html>", ProtocolError),
        (b'{"data": [{}]}', ProtocolError),
        (b'{"type":"error","error":{"type":"api_error","message":"x"}}', ServerError),
    ],
)
def test_what_is_no_listing(document: bytes, kind: type[SvirError]) -> None:
    with pytest.raises(kind):
        API.models(document)


def test_a_count() -> None:
    assert API.count(b'{"input_tokens":32}') == 32
    for document in (b'{"input_tokens":-1}', b'{"input_tokens":"5"}', b"[]", b"{}"):
        with pytest.raises(ProtocolError):
            API.count(document)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["data", "id", "display_name", "has_more", "last_id", "error"]), inner, max_size=3
        )
    ),
)


@given(st.binary() | JSON.map(orjson.dumps))
def test_any_document_is_a_listing_or_a_typed_error(document: bytes) -> None:
    try:
        page = API.models(document)
    except SvirError:
        return
    assert all(model.id for model in page.models)
    assert page.after is None or page.after
