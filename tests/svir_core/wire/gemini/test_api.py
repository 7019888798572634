"""Gemini as one object: paths, headers, listings, counts."""

from __future__ import annotations

import re
import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import ConfigError, ProtocolError, ServerError, SvirError
from svir_core.limits import Limits
from svir_core.message import Message
from svir_core.quirk import Quirk
from svir_core.request import Request
from svir_core.secret import Secret
from svir_core.url import Url
from svir_core.wire.api import Api, CodecOptions, Compat, Mode, Model, ModelPage
from svir_core.wire.gemini import API, Decoder, Gemini
from tests.svir_core.wire.gemini.streams import chunk, text

VERTEX_PARENT = "projects/p/locations/global/publishers/google/models"
VERTEX = Gemini(version="v1beta1", parent=VERTEX_PARENT, auth="bearer")
HI = Request("m").user("hi")
STREAM = ":streamGenerateContent?alt=sse"


def test_the_api_says_where_and_with_what() -> None:
    api: Api = Gemini()
    assert api == API
    assert api.name == "gemini"
    assert api.path(HI) == "/v1beta/models/m:streamGenerateContent?alt=sse"
    assert api.count_path(HI) == "/v1beta/models/m:countTokens"
    assert api.models_path() == "/v1beta/models?pageSize=1000"
    assert api.models_path("a+b/c\ud800") == "/v1beta/models?pageSize=1000&pageToken=a%2Bb%2Fc%EF%BF%BD"
    assert (api.headers, api.matches_by_id) == ((), False)
    assert api.versions == ("/v1beta1", "/v1alpha", "/v1beta", "/v1")
    assert api.base_url == "https://generativelanguage.googleapis.com"
    assert api.key_headers(Secret("k")) == (("x-goog-api-key", "k"),)
    assert Gemini(auth="bearer").key_headers(Secret("k")) == (("authorization", "Bearer k"),)
    assert Gemini(version="v1").path(HI).startswith("/v1/models/m:")


def test_vertex_says_where() -> None:
    assert VERTEX.path(HI) == f"/v1beta1/{VERTEX_PARENT}/m{STREAM}"
    assert VERTEX.count_path(HI) == f"/v1beta1/{VERTEX_PARENT}/m:countTokens"
    assert VERTEX.models_path() == "/v1beta1/publishers/google/models?pageSize=1000"


DEVELOPER_NAMES = {
    "gemini-x": "models/gemini-x",
    "models/gemini-x": "models/gemini-x",
    "tunedModels/mine": "tunedModels/mine",
    "a b:c?d": "models/a%20b%3Ac%3Fd",
    "a/b": "models/a%2Fb",
    "models/a b": "models/a%20b",
    "\u00e9\ud800": "models/%C3%A9%EF%BF%BD",
}
PROJECT = "projects/p/locations/global"
VERTEX_NAMES = {
    "gemini-x": f"{VERTEX_PARENT}/gemini-x",
    "models/gemini-x": f"{VERTEX_PARENT}/gemini-x",
    "meta/llama 4": f"{PROJECT}/publishers/meta/models/llama%204",
    "publishers/meta/models/llama": f"{PROJECT}/publishers/meta/models/llama",
    "projects/q/locations/l/endpoints/7": "projects/q/locations/l/endpoints/7",
    "a/b/c": f"{VERTEX_PARENT}/a/b/c",
}


@pytest.mark.parametrize(
    ("api", "model", "path"),
    [
        *((Gemini(), model, path) for model, path in DEVELOPER_NAMES.items()),
        *((VERTEX, model, path) for model, path in VERTEX_NAMES.items()),
        (Gemini(parent="publishers/google/models"), "meta/x", "publishers/meta/models/x"),
        (Gemini(parent="proxy/models"), "x", "proxy/models/x"),
    ],
)
def test_the_path_of_a_model(api: Gemini, model: str, path: str) -> None:
    assert api.path(HI.replace(model=model)) == f"/{api.version}/{path}{STREAM}"


@pytest.mark.parametrize("api", [API, VERTEX])
@pytest.mark.parametrize("model", ["", ".", "..", "models/../x", "a//b", "/a", "a/", "models/"])
def test_a_model_that_no_path_can_name(api: Api, model: str) -> None:
    with pytest.raises(ConfigError, match=r"Request\.model"):
        api.path(HI.replace(model=model))


@given(st.text(max_size=20))
def test_any_model_is_one_path_or_refused(model: str) -> None:
    base = Url.parse("https://h.example")
    for api in (API, VERTEX):
        try:
            path = api.path(HI.replace(model=model))
        except ConfigError:
            continue
        assert path.endswith(STREAM)
        assert path.isascii()
        assert path.count("?") == path.count(":") == 1
        assert re.fullmatch(r"(?:[A-Za-z0-9._~/?=:-]|%[0-9A-F]{2})*", path)
        assert base.below(path).path.endswith(":streamGenerateContent")


@pytest.mark.parametrize(
    "options",
    [
        {"version": ""},
        {"version": "v1/x"},
        {"version": 1},
        {"parent": ""},
        {"parent": "/models"},
        {"parent": "models/"},
        {"parent": "a/../b"},
        {"parent": "a?b"},
        {"parent": 5},
        {"auth": "basic"},
        {"auth": None},
        {"skip_signatures": 1},
    ],
)
def test_settings_of_another_kind(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Gemini(**options)


def test_what_a_request_has_that_a_server_may_refuse() -> None:
    assert API.optional_fields(HI) == frozenset()
    assert API.optional_fields(HI.replace(effort="off")) == {"thinkingConfig"}
    assert API.alternatives(HI.replace(max_tokens=5, system="x")) == ()


def test_encoding_takes_what_is_known_and_the_options() -> None:
    request = HI.replace(effort="low", max_tokens=5)
    body = orjson.loads(bytes(API.encode(request, CodecOptions(), Compat(frozenset({"thinkingConfig"})))))
    assert body == {"generationConfig": {"maxOutputTokens": 5}, "contents": [{"role": "user", "parts": [text("hi")]}]}
    with pytest.raises(SvirError, match="the context has 10"):
        API.encode(request, CodecOptions(context_tokens=10), Compat())


def test_counting_sends_the_whole_request() -> None:
    request = HI.replace(max_tokens=5, system="s")
    body = orjson.loads(bytes(API.encode_count(request.replace(model="models/a b"), CodecOptions(), Compat())))
    whole = orjson.loads(bytes(API.encode(request, CodecOptions(), Compat())))
    assert body == {"generateContentRequest": {"model": "models/a b", **whole}}
    assert list(body["generateContentRequest"]) == ["model", "generationConfig", "systemInstruction", "contents"]


def test_counting_on_vertex_sends_what_it_takes() -> None:
    request = HI.replace(max_tokens=5, system="s", extra={"tools": [{"googleSearch": {}}], "labels": {"a": "b"}})
    assert orjson.loads(bytes(VERTEX.encode_count(request, CodecOptions(), Compat()))) == {
        "tools": [{"googleSearch": {}}],
        "systemInstruction": {"parts": [text("s")]},
        "contents": [{"role": "user", "parts": [text("hi")]}],
    }
    assert orjson.loads(bytes(VERTEX.encode_count(HI, CodecOptions(), Compat()))) == {
        "contents": [{"role": "user", "parts": [text("hi")]}]
    }


def test_a_count() -> None:
    assert API.count(b'{"totalTokens":7,"cachedContentTokenCount":1}') == 7
    for document in (b"{}", b'{"totalTokens":-1}', b"[]"):
        with pytest.raises(ProtocolError):
            API.count(document)


def test_decoding_takes_the_options() -> None:
    options = CodecOptions(mode=Mode.LENIENT, limits=Limits(event_bytes=20), extra=True)
    decoder = API.decoder(options, time.monotonic)
    assert isinstance(decoder, Decoder)
    assert decoder.push(chunk(text("a" * 50))).error is not None
    with pytest.raises(ConfigError, match="Gemini has none"):
        API.decoder(CodecOptions(quirks=Quirk.DONE_OPTIONAL), time.monotonic)


LISTING = {
    "models": [{"name": "models/a", "displayName": "A", "version": "1"}, {"name": "tunedModels/b"}],
    "nextPageToken": "t",
}


def test_a_page_of_models() -> None:
    page = API.models(orjson.dumps(LISTING))
    assert page == ModelPage((Model("a", "A"), Model("tunedModels/b")), "t")
    assert API.models(b'{"models":[],"nextPageToken":""}') == ModelPage(())


@pytest.mark.parametrize("document", [b"{}", b'\xef\xbb\xbf{"nextPageToken":null}'])
def test_a_page_without_a_model_leaves_the_list_out(document: bytes) -> None:
    assert API.models(document) == ModelPage(())
    assert API.models(b'{"nextPageToken":"t"}') == ModelPage((), "t")


def test_a_page_of_vertex() -> None:
    names = ["publishers/google/models/a", "publishers/meta/models/b"]
    document = orjson.dumps({"publisherModels": [{"name": name} for name in names]})
    assert VERTEX.models(document) == ModelPage((Model("a"), Model("publishers/meta/models/b")))


def test_what_is_no_page() -> None:
    for document in (b"[]", b'{"x":1}', b'{"models":{}}', b'{"models":[{"displayName":"A"}]}'):
        with pytest.raises(ProtocolError):
            API.models(document)
    with pytest.raises(ServerError):
        API.models(b'{"error":{"message":"no"}}')


@given(
    st.lists(
        st.builds(
            Model, st.text("abc-.", min_size=1, max_size=8), st.none() | st.text("ab\u00e9", min_size=1, max_size=5)
        ),
        max_size=4,
    )
)
def test_what_the_server_half_lists_is_read(models: list[Model]) -> None:
    for api in (API, VERTEX):
        assert api.models(api.server.models(models)) == ModelPage(tuple(models))


def test_a_tuned_model_keeps_its_name() -> None:
    models = (Model("tunedModels/x", "X"),)
    assert API.models(API.server.models(models)).models == models


def test_the_history_goes_by_place() -> None:
    assert API.encode(HI.message(Message.assistant("x")), CodecOptions(), Compat()).length
