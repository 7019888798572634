"""Calls that one document answers: listings, and counts of tokens (30 section 2)."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from svir_core.body import Body, BodyWriter, Measurements
from svir_core.document_call import Counting, DocumentCall, Listing
from svir_core.errors import (
    ConfigError,
    ProtocolError,
    ResponseLimitError,
    ServerError,
    TransportError,
    UnsupportedError,
)
from svir_core.event import Events
from svir_core.exchange import READ_STREAM, ReadError
from svir_core.http_message import Endpoint, Headers
from svir_core.limits import DOCUMENT_BYTES, ERROR_BODY_BYTES
from svir_core.request import Request
from svir_core.wire import openai_chat
from svir_core.wire.api import CodecOptions, Compat, Model, ModelPage
from svir_core.wire.document import model_listing, token_count
from svir_core.wire.openai_chat.api import ChatCompletions

ENDPOINT = Endpoint.parse("http://127.0.0.1:1234/v1", api_key="sk-private", headers={"x-a": "private"})
JSON = {"Content-Type": "application/json; charset=utf-8"}
HI = Request("m").user("hi")


@attrs.frozen
class Paged(ChatCompletions):
    """An API that lists page by page, counts tokens, and has a header of its own."""

    headers: Headers = (("x-version", "1"),)

    def models_path(self, after: str | None = None) -> str:
        return "/v1/models?limit=2" + ("" if after is None else f"&after={after}")

    def models(self, document: bytes) -> ModelPage:
        listing, models = model_listing(document, entries="data", model_id="id", name="name")
        return ModelPage(models, listing.get("next"))

    def count_path(self, request: Request) -> str:
        return "/v1/count"

    def encode_count(
        self, request: Request, options: CodecOptions, compat: Compat, measured: Measurements | None = None
    ) -> Body:
        writer = BodyWriter()
        writer.write(b"{}")
        return writer.body()

    def count(self, document: bytes) -> int:
        return token_count(document, "tokens")


def finished(call: DocumentCall[Any]) -> Events:
    last = call.finish()
    assert isinstance(last, Events)
    return last


def no_answer(call: DocumentCall[Any]) -> bool:
    with pytest.raises(ConfigError, match="has no answer"):
        call.result()
    return True


def answered(call: DocumentCall[Any], document: bytes) -> Events:
    call.start()
    assert call.head(200, JSON.items()) is READ_STREAM
    call.push(document)
    return finished(call)


def listing(endpoint: Endpoint = ENDPOINT, **options: Any) -> Listing:
    return Listing(openai_chat.API, endpoint, **options)


def test_a_listing() -> None:
    call = listing(headers={"x-b": "2"})
    request = call.start()
    assert (request.method, request.target, request.body) == ("GET", "/v1/models", None)
    headers = dict(request.headers)
    assert headers["accept"] == "application/json"
    assert headers["authorization"] == "Bearer sk-private"
    assert (headers["x-a"], headers["x-b"]) == ("private", "2")
    assert "content-type" not in headers
    assert no_answer(call)
    assert call.head(200, JSON.items()) is READ_STREAM
    assert no_answer(call)
    for byte in b'{"data": [{"id": "a", "name": "A"}, {"id": "b"}]}':
        assert call.push(bytes([byte])) == Events()
    assert call.finish() == Events()
    assert call.result() == ModelPage((Model("a", "A"), Model("b")))
    assert call.done
    assert call.push(b"more") == Events()


def test_a_listing_of_any_content_type_is_read() -> None:
    call = listing()
    call.start()
    call.head(200, [])
    call.push(b'{"data": []}')
    assert finished(call).error is None
    assert call.result() == ModelPage(())


def test_a_listing_fails_like_any_call() -> None:
    call = listing()
    call.start()
    assert call.head(400, []) == ReadError(ERROR_BODY_BYTES, None)
    call.push(b"reasoning_effort")
    error = finished(call).error
    assert isinstance(error, UnsupportedError)
    assert error.server_message() == "reasoning_effort"
    call = listing()
    call.start()
    call.head(200, [("content-encoding", "br")])
    assert isinstance(finished(call).error, UnsupportedError)
    call = listing()
    call.start()
    call.head(200, JSON.items())
    call.push(b"<html>")
    last = finished(call)
    assert isinstance(last.error, ProtocolError)
    assert last.items == ()
    assert no_answer(call)
    call = listing()
    call.start()
    call.head(200, JSON.items())
    assert call.fail(TransportError("cut")).partial is None


def test_a_listing_is_bounded() -> None:
    call = listing()
    call.start()
    call.head(200, JSON.items())
    assert call.push(b" " * DOCUMENT_BYTES).error is None
    last = call.push(b" ")
    assert isinstance(last.error, ResponseLimitError)
    assert str(DOCUMENT_BYTES) in str(last.error)
    assert last.items == ()
    assert call.error is last.error


def test_no_base_url_no_listing() -> None:
    call = listing(Endpoint.parse(None, url="https://h/x"))
    with pytest.raises(ConfigError, match="no base URL"):
        call.start()
    assert call.done


def test_a_page_of_a_listing() -> None:
    first = Listing(Paged(), ENDPOINT)
    assert first.start().target == "/v1/models?limit=2"
    request = Listing(Paged(), ENDPOINT, after="b").start()
    assert request.target == "/v1/models?limit=2&after=b"
    assert request.get("x-version") == "1"
    call = Listing(Paged(), ENDPOINT)
    assert answered(call, b'{"data": [{"id": "a"}], "next": "a"}').error is None
    assert call.result() == ModelPage((Model("a"),), "a")


def test_a_call_wants_an_endpoint() -> None:
    url: Any = "http://127.0.0.1"
    with pytest.raises(ConfigError, match="endpoint must be"):
        Listing(openai_chat.API, url)
    with pytest.raises(ConfigError, match="endpoint must be"):
        Counting(Paged(), HI, url)


def test_bytes_are_bytes() -> None:
    call = listing()
    call.start()
    call.head(200, [])
    word: Any = "200"
    with pytest.raises(ConfigError, match="takes bytes"):
        call.push(word)
    assert repr(call) == "Listing(state='answer')"


# --- counting ------------------------------------------------------------------------------------


def test_counting() -> None:
    call = Counting(Paged(), HI, ENDPOINT, headers={"x-b": "2"})
    request = call.start()
    assert (request.method, request.target) == ("POST", "/v1/count")
    assert bytes(request.body or b"") == b"{}"
    assert (request.get("x-b"), request.get("x-version"), request.get("content-length")) == ("2", "1", "2")
    call.head(200, JSON.items())
    call.push(b'{"tokens": 5}')
    assert no_answer(call)
    assert finished(call).error is None
    assert call.result() == 5


def test_an_api_without_counting_says_so() -> None:
    call = Counting(openai_chat.API, HI, ENDPOINT)
    with pytest.raises(UnsupportedError, match="counts tokens"):
        call.start()
    for ask in (
        lambda: openai_chat.API.encode_count(HI, CodecOptions(), Compat()),
        lambda: openai_chat.API.count(b"{}"),
    ):
        with pytest.raises(UnsupportedError, match="counts tokens"):
            ask()


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (b'{"tokens": -1}', ProtocolError),
        (b'{"tokens": true}', ProtocolError),
        (b'{"tokens": 1.5}', ProtocolError),
        (b"{}", ProtocolError),
        (b"[]", ProtocolError),
        (b"<html>", ProtocolError),
        (b'{"error": {"message": "no"}}', ServerError),
    ],
)
def test_what_is_no_count(document: bytes, kind: type[Exception]) -> None:
    call = Counting(Paged(), HI, ENDPOINT)
    error = answered(call, document).error
    assert type(error) is kind
    assert no_answer(call)


@pytest.mark.parametrize("name", ["request", "known", "options"])
def test_an_argument_of_another_type_is_refused_at_once(name: str) -> None:
    arguments: dict[str, Any] = {"request": HI, "endpoint": ENDPOINT}
    arguments[name] = "x"
    with pytest.raises(ConfigError, match=f"{name} must be"):
        Counting(Paged(), **arguments)
