from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import ContextOverflowError, SvirError, UnsupportedError
from svir_core.http_message import ResponseHead
from svir_core.limits import ERROR_BODY_BYTES, ERROR_BODY_SECONDS, FOREIGN_BODY_BYTES
from svir_core.refusal import Refusal, encoded, media_type, read_failure
from svir_core.wire.failure import Failure

NOW = 1_796_036_756.0


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        (b"", Failure()),
        (b"  \r\n", Failure()),
        (b'{"error":{"message":"No File","type":"not_found","code":404}}', Failure("No File", None, "not_found")),
        (b'{"error":{"message":"m","code":"c","type":"t","param":"p"}}', Failure("m", "c", "t", "p")),
        (b'{"error": "Invalid JSON"}', Failure("Invalid JSON")),
        (b'{"error": "x", "code": "c", "param": "p"}', Failure("x", "c", None, "p")),
        (b'{"error":{"message":"m"},"detail":"d"}', Failure("m")),
        (b'{"detail":"d"}', Failure("d")),
        (b'{"detail":[{"loc":["body"],"msg":"first"},{"msg":"second"}]}', Failure("first")),
        (b'{"detail":[{"loc":["body","stream_options"],"msg":"m","type":"t"}]}', Failure("m", param="stream_options")),
        (b'{"detail":[{"loc":["body","messages",0,"role"],"msg":"m"}]}', Failure("m", param="messages[0].role")),
        (b'{"detail":[{"loc":["query","body"],"msg":"m"}]}', Failure("m", param="query.body")),
        (b'{"detail":[{"loc":["body",5],"msg":"m"},{"loc":"body","msg":"n"},{"loc":[],"msg":"o"}]}', Failure("m")),
        (
            b'{"detail":[{"loc":["body","a"],"msg":"m"},5,{"loc":["body","b","c"],"msg":"n"}]}',
            Failure("m", param="a", others=(Failure("n", param="b.c"),)),
        ),
        (
            b'{"status":422,"code":"unprocessable_entity","detail":{"loc":["body","a"],"input":1},"message":"m"}',
            Failure("m", "unprocessable_entity", param="a"),
        ),
        (
            b'{"error":{"message":"m","code":"c","details":[{"loc":["body","a"],"msg":"n"}]}}',
            Failure("m", "c", others=(Failure("n", param="a"),)),
        ),
        (
            b'{"object":"error","message":{"detail":[{"loc":["body","a"],"msg":"n"}]}}',
            Failure(
                '{"object":"error","message":{"detail":[{"loc":["body","a"],"msg":"n"}]}}',
                others=(Failure("n", param="a"),),
            ),
        ),
        (
            b'{"error":{"message":"m","param":"p"},"detail":[{"loc":["a"],"msg":"m"}]}',
            Failure("m", param="p", others=(Failure("m", param="a"),)),
        ),
        (b'{"object":"error","message":"m","type":"t","code":400}', Failure("m", None, "t")),
        (b'[{"error":{"message":"m","code":400}}]', Failure("m")),
        (b"\xef\xbb\xbf\n" + b'{"error":"x"}\n', Failure("x")),
        (b"Not Found", Failure("Not Found")),
        (b"\n<html>502</html>\n", Failure("\n<html>502</html>\n")),
        (b"\xff\xfe", Failure("\ufffd\ufffd")),
        (b'{"error":{"message":"cut of', Failure('{"error":{"message":"cut of')),
        (b'"text"', Failure('"text"')),
        (b"[]", Failure("[]")),
        (b"5", Failure("5")),
        (b"null", Failure("null")),
        (b'{"a":1}', Failure('{"a":1}')),
        (b'{"error":{"code":"c","message":""}}', Failure('{"error":{"code":"c","message":""}}', "c")),
        (b'{"error":{"message":"\\ud800","code":"c"}}', Failure("\ufffd", "c")),
        (b'{"error":"\xff"}', Failure("\ufffd")),
        (b"[" * 5000, Failure("[" * 5000)),
    ],
)  # fmt: skip
def test_what_an_error_body_says(body: bytes, failure: Failure) -> None:
    assert read_failure(body) == failure


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "detail", "msg", "loc", "code", "type", "param", "base_resp", "status_msg"]
            ),
            inner,
            max_size=3,
        )
    ),
)


@given(st.binary() | JSON.map(orjson.dumps))
def test_any_body_says_something_unless_it_is_blank(body: bytes) -> None:
    failure = read_failure(body)
    assert (failure.message is None) == (not body.removeprefix(b"\xef\xbb\xbf").strip())


@given(st.integers(200, 599), st.lists(st.binary(max_size=400)), st.none() | st.just("a reason"))
def test_any_refusal_is_a_typed_error(status: int, pieces: list[bytes], reason: str | None) -> None:
    refusal = Refusal(ResponseHead(status), NOW, reason)
    for piece in pieces:
        assert list(refusal.push(piece)) == []
        assert refusal.done is False
    with pytest.raises(SvirError):
        list(refusal.finish())
    said = refusal.error().server_message()
    assert said is None or len(said.encode()) <= 4096


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ""),
        ("", ""),
        ("text/event-stream", "text/event-stream"),
        ("Text/Event-Stream ; charset=UTF-8", "text/event-stream"),
        ("text/event-stream;charset=UTF-8", "text/event-stream"),
        ("application/json", "application/json"),
        ("text/event-streams", "text/event-streams"),
        ("\ttext/event-stream \t", "text/event-stream"),
        ("\xa0text/event-stream", "\xa0text/event-stream"),
        ("XtextX", "xtextx"),
    ],
)
def test_media_type(value: str | None, expected: str) -> None:
    head = ResponseHead(200, [] if value is None else [("Content-Type", value)])
    assert media_type(head) == expected


def test_a_repeated_content_type_counts_once() -> None:
    assert media_type(ResponseHead(200, [("content-type", "text/event-stream")] * 2)) == "text/event-stream"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, False),
        ("", False),
        ("identity", False),
        ("Identity, identity", False),
        ("gzip", True),
        ("identity, br", True),
        ("identity,\tidentity", False),
        ("\xa0identity", True),
        ("XidentityX", True),
    ],
)
def test_content_encoding(value: str | None, expected: bool) -> None:
    assert encoded(ResponseHead(200, [] if value is None else [("content-encoding", value)])) is expected


@pytest.mark.parametrize("status", [*range(300, 600, 7), 400, 413, 422, 429, 500])
def test_how_much_of_a_body_is_waited_for(status: int) -> None:
    refusal = Refusal(ResponseHead(status), NOW)
    assert refusal.limit == ERROR_BODY_BYTES
    assert refusal.seconds == (None if status in (400, 413, 422) else ERROR_BODY_SECONDS)


def test_no_more_than_the_limit_is_kept() -> None:
    refusal = Refusal(ResponseHead(500), NOW)
    data: Any
    for data in (b"x" * 65_000, bytearray(b"y" * 600), memoryview(b"z" * 10), b""):
        refusal.push(data)
    failure = refusal.failure()
    assert failure.message == "x" * 65_000 + "y" * 536


def test_a_success_of_the_wrong_type_shows_how_it_begins() -> None:
    refusal = Refusal(ResponseHead(200), NOW, "the wrong type")
    assert (refusal.limit, refusal.seconds, refusal.allows_retry) == (FOREIGN_BODY_BYTES, ERROR_BODY_SECONDS, False)
    refusal.push(b" <html>" + b"\xc3\xa4" * 300)
    error = refusal.error()
    assert error == UnsupportedError("the wrong type", server_message="<html>" + "ä" * 96 + "\ufffd")
    assert error.status is None
    assert Refusal(ResponseHead(200), NOW, "the wrong type").error().server_message() is None


def test_a_compressed_error_body_is_not_guessed_at() -> None:
    refusal = Refusal(ResponseHead(400, [("content-encoding", "gzip")]), NOW)
    refusal.push(b"context length")
    assert refusal.error().server_message() is None
    assert refusal.allows_retry


def test_an_error_has_what_the_head_said() -> None:
    refusal = Refusal(ResponseHead(429, [("Retry-After", "Mon, 30 Nov 2026 11:06:06 GMT")]), NOW)
    assert refusal.error().retry_after == 10.0
    assert refusal.error().status == 429


@pytest.mark.parametrize(
    ("status", "allowed"), [(400, True), (422, True), (413, False), (401, False), (500, False), (302, False)]
)
def test_which_refusals_allow_a_retry(status: int, allowed: bool) -> None:
    assert Refusal(ResponseHead(status), NOW).allows_retry is allowed


@pytest.mark.parametrize("body", [b"over the context length", b'{"error":{"code":"content_filter","message":"m"}}'])
def test_an_overflow_or_a_filtered_prompt_allows_none(body: bytes) -> None:
    refusal = Refusal(ResponseHead(400), NOW)
    refusal.push(body)
    assert not refusal.allows_retry


def test_an_overflow_is_told_by_words_of_a_body_that_is_no_json() -> None:
    refusal = Refusal(ResponseHead(413), NOW)
    refusal.push(b"The Context Window is too small")
    assert isinstance(refusal.error(), ContextOverflowError)
