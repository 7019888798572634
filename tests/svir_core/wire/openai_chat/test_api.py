from __future__ import annotations

import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import ContextOverflowError, ProtocolError, ServerError, SvirError
from svir_core.limits import Limits
from svir_core.message import Image, Message
from svir_core.request import Request
from svir_core.secret import Secret
from svir_core.wire.api import Alternative, Api, CodecOptions, Compat, Mode, Model, ModelPage
from svir_core.wire.openai_chat import API, ChatCompletions, Decoder

HI = Request("m").user("hi")
MAX_TOKENS = Alternative("max_tokens", "max_completion_tokens")
SYSTEM = Alternative("system", "developer", "role")


def test_the_api_says_where_and_with_what() -> None:
    api: Api = ChatCompletions()
    assert api == API
    assert api.name == "openai_chat"
    assert api.path(HI) == "/v1/chat/completions"
    assert api.models_path() == api.models_path("x") == "/v1/models"
    assert (api.headers, api.versions, api.matches_by_id) == ((), ("/v1",), False)
    assert api.base_url == "https://api.openai.com"
    assert api.key_headers(Secret("sk-1")) == (("authorization", "Bearer sk-1"),)


REFUSABLE: list[tuple[Request, set[str], tuple[Alternative, ...]]] = [
    (HI, set(), ()),
    (HI.replace(effort="low"), {"reasoning_effort"}, ()),
    (HI.replace(include_usage=True, max_tokens=0), {"stream_options"}, (MAX_TOKENS,)),
    (HI.replace(include_usage=False, system=""), set(), (SYSTEM,)),
    (HI.message(Message.system("x")), set(), (SYSTEM,)),
    (HI.replace(system="x", max_tokens=5), set(), (MAX_TOKENS, SYSTEM)),
]


@pytest.mark.parametrize(("request_", "optional", "alternatives"), REFUSABLE)
def test_what_a_request_has_that_a_server_may_refuse(
    request_: Request, optional: set[str], alternatives: tuple[Alternative, ...]
) -> None:
    assert API.optional_fields(request_) == optional
    assert API.alternatives(request_) == alternatives


def test_encoding_takes_what_is_known_and_the_options() -> None:
    request = HI.replace(effort="low", include_usage=True, max_tokens=5, system="x")
    known = Compat(frozenset({"stream_options"}), {"max_tokens": "max_completion_tokens", "system": "developer"})
    body = orjson.loads(bytes(API.encode(request, CodecOptions(), known)))
    assert body == {
        "model": "m",
        "stream": True,
        "max_completion_tokens": 5,
        "reasoning_effort": "low",
        "messages": [{"role": "developer", "content": "x"}, {"role": "user", "content": "hi"}],
    }
    with pytest.raises(ContextOverflowError):
        API.encode(request, CodecOptions(context_tokens=20), Compat())
    picture = HI.user(Image.data(bytes(3000), "image/png"))
    with pytest.raises(ContextOverflowError):
        API.encode(picture, CodecOptions(context_tokens=2000), Compat())
    assert API.encode(picture, CodecOptions(context_tokens=2000, image_tokens=100), Compat()).length > 4000


def test_a_decoder_has_the_options_and_the_clock() -> None:
    options = CodecOptions(mode="lenient", think="keep", limits=Limits(wire_bytes=10))
    assert options.mode is Mode.LENIENT
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
    assert API.decoder(CodecOptions(), time.monotonic).done is False


@pytest.mark.parametrize(
    ("document", "models"),
    [
        ({"data": []}, ()),
        ({"object": "list", "data": [{"id": "b"}, {"id": "a", "name": "A"}]}, (Model("b"), Model("a", "A"))),
        ({"data": [{"id": "a", "name": ""}, {"id": "a", "name": 5}]}, (Model("a"), Model("a"))),
        ({"data": [{"id": "a"}], "models": [{"name": "x"}], "error": None}, (Model("a"),)),
    ],
)
def test_a_listing(document: Any, models: tuple[Model, ...]) -> None:
    assert API.models(orjson.dumps(document)) == ModelPage(models)
    assert API.models(b"\xef\xbb\xbf" + orjson.dumps(document)) == ModelPage(models)


@pytest.mark.parametrize(
    ("document", "kind", "said"),
    [
        (b"", ProtocolError, ""),
        (b"<html>", ProtocolError, "<html>"),
        (b"\xff", ProtocolError, "\ufffd"),
        (b"[]", ProtocolError, "[]"),
        (b"null", ProtocolError, "null"),
        (b"{}", ProtocolError, "{}"),
        (b'{"data": {}}', ProtocolError, '{"data": {}}'),
        (b'{"data": [5]}', ProtocolError, None),
        (b'{"data": [{}]}', ProtocolError, None),
        (b'{"data": [{"id": ""}]}', ProtocolError, None),
        (b'{"data": [{"id": "a"}, {"id": 5}]}', ProtocolError, None),
        (b'{"error": "Unexpected endpoint"}', ServerError, "Unexpected endpoint"),
        (b'{"error": {"code": 5}}', ServerError, '{"error": {"code": 5}}'),
    ],
)
def test_what_is_no_listing(document: bytes, kind: type[SvirError], said: str | None) -> None:
    with pytest.raises(kind) as caught:
        API.models(document)
    assert caught.value.server_message() == said
    assert caught.value.__context__ is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["data", "id", "name", "error", "detail", "x"]), inner, max_size=3)
    ),
)


@given(st.binary() | JSON.map(orjson.dumps))
def test_any_document_is_a_listing_or_a_typed_error(document: bytes) -> None:
    try:
        models = API.models(document).models
    except SvirError:
        return
    assert all(model.id for model in models)


@pytest.mark.parametrize("extra", [False, True])
def test_what_a_server_says_beyond_the_protocol_is_kept_when_asked(extra: bool) -> None:
    decoder = API.decoder(CodecOptions(extra=extra), lambda: 0.0)
    decoder.push(
        b'data: {"service_tier":"flex","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n'
        b"data: [DONE]\n\n"
    )
    assert decoder.result().extra == ({"service_tier": "flex"} if extra else {})
