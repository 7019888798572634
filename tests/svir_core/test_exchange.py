from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.body import Measured
from svir_core.compat import Compatibility
from svir_core.document_call import Listing
from svir_core.errors import (
    AttachmentError,
    AuthenticationError,
    ConfigError,
    ContentFilterError,
    ContextOverflowError,
    ProtocolError,
    RateLimitedError,
    ResponseLimitError,
    ResponseTimeoutError,
    ServerError,
    SvirError,
    TransportError,
    TruncatedStreamError,
    UnsupportedError,
)
from svir_core.event import Completed, Event, Events, TextDelta
from svir_core.exchange import READ_STREAM, Exchange, ReadError, ReadStream, Retry
from svir_core.exchange_table import State
from svir_core.http_message import Endpoint, HttpRequest, ResponseHead
from svir_core.limits import DOCUMENT_BYTES, ERROR_BODY_BYTES, Limits
from svir_core.message import Image, Message
from svir_core.refusal import media_type
from svir_core.request import Effort, Request
from svir_core.response import FinishReason
from svir_core.wire import openai_chat
from svir_core.wire.api import CodecOptions, Compat
from svir_core.wire.openai_chat.api import ChatCompletions

ENDPOINT = Endpoint.parse("http://127.0.0.1:1234/v1", api_key="sk-private", headers={"x-a": "private"})
STREAM = {"content-type": "text/event-stream"}
JSON = {"Content-Type": "application/json; charset=utf-8"}
HI = Request("m").user("hi")
BOTH = HI.replace(effort=Effort.LOW, include_usage=True)
RENAMED = {"error": {"message": "use max_completion_tokens", "param": "max_tokens"}}


def chunk(content: str | None = None, finish: str | None = None) -> bytes:
    delta = {} if content is None else {"content": content}
    return b"data: %s\n\n" % orjson.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


ANSWER = chunk("hello") + chunk(finish="stop") + b"data: [DONE]\n\n"


def sent(request: HttpRequest) -> dict[str, Any]:
    assert request.body is not None
    data = bytes(request.body)
    assert request.get("content-length") == str(len(data))
    body: dict[str, Any] = orjson.loads(data)
    return body


class Server:
    """Answers in order; keeps the bodies it was sent."""

    def __init__(self, *replies: tuple[int, dict[str, str], bytes]) -> None:
        self.replies = list(replies)
        self.bodies: list[dict[str, Any]] = []

    def ask(self, exchange: Exchange) -> list[Event]:
        events: list[Event] = []
        request = exchange.start()
        while True:
            self.bodies.append(sent(request))
            status, headers, body = self.replies.pop(0)
            exchange.head(status, headers.items())
            for place in range(0, len(body), 7):
                events += exchange.push(body[place : place + 7])
            last = exchange.finish()
            if not isinstance(last, Retry):
                events += last
                return events
            request = last.http_request


def refused(status: int = 400, error: Any = "no") -> tuple[int, dict[str, str], bytes]:
    return status, JSON, orjson.dumps(error if isinstance(error, dict) else {"error": error})


ANSWERED = (200, STREAM, ANSWER)


def exchange(request: Request = HI, compat: Compatibility | None = None, **options: Any) -> Exchange:
    return Exchange(openai_chat.API, request, ENDPOINT, compat, **options)


def accepted(**options: Any) -> Exchange:
    made = exchange(**options)
    made.start()
    assert made.head(200, STREAM.items()) is READ_STREAM
    return made


# --- the way of an answer ------------------------------------------------------------------------


def test_an_answer() -> None:
    call = exchange()
    assert (call.state, call.done, call.raw_success) == (State.READY, False, False)
    assert (call.error, call.response, call.decoder, call.completion) == (None, None, None, None)
    server = Server(ANSWERED)
    events = server.ask(call)
    assert events[0] == TextDelta("hello")
    assert isinstance(events[-1], Completed)
    assert events[-1].completion is call.completion
    assert call.completion is not None
    assert call.completion.text == "hello"
    assert call.done
    assert call.raw_success
    assert call.error is None
    assert call.decoder is not None
    assert call.decoder.bytes_seen == len(ANSWER)
    assert call.response is not None
    assert call.response.status == 200
    assert server.bodies == [{"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}]


def test_the_request_that_is_sent() -> None:
    request = exchange(headers={"X-B": "2"}).start()
    assert (request.method, request.host, request.port) == ("POST", "127.0.0.1", 1234)
    assert request.target == "/v1/chat/completions"
    headers = dict(request.headers)
    assert headers.pop("user-agent").startswith("svir/")
    assert headers.pop("content-length").isdigit()
    assert headers == {
        "host": "127.0.0.1:1234",
        "accept": "text/event-stream",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "authorization": "Bearer sk-private",
        "x-a": "private",
        "x-b": "2",
    }


class ByModel(ChatCompletions):
    """An API that has the model in its path."""

    def path(self, request: Request) -> str:
        return f"/v1/{request.model}/answers"


def test_the_path_may_depend_on_the_request() -> None:
    assert Exchange(ByModel(), HI, ENDPOINT).start().target == "/v1/m/answers"


def test_what_was_measured_is_for_the_encoder() -> None:
    request = HI.message(Message.user(Image.path("a.png")))
    body = exchange(request, measured={"a.png": Measured(3)}).start().body
    assert body is not None
    assert body.on_disk


def test_a_call_shows_its_state() -> None:
    assert repr(exchange()) == "Exchange(state='ready')"


def test_where_a_success_ends() -> None:
    call = accepted()
    assert call.state is State.ANSWER
    call = started()
    assert call.head(999, STREAM.items()) == ReadError(ERROR_BODY_BYTES, 0.3)
    for headers in (STREAM, JSON):
        call = started()
        assert call.head(300, headers.items()) == ReadError(ERROR_BODY_BYTES, 0.3)
        assert not call.raw_success
        error = finished(call).error
        assert error is not None
        assert error.status == 300


@pytest.mark.parametrize("status", [-1, 0, 1, 199, 1000, True])
def test_a_status_of_no_final_response(status: int) -> None:
    with pytest.raises(ConfigError, match="from 200 to 999"):
        started().head(status, [])


def test_without_a_key_there_is_no_authorization() -> None:
    request = Exchange(openai_chat.API, HI, Endpoint.parse("https://h")).start()
    assert request.get("authorization") is None


@pytest.mark.parametrize(
    ("asked", "default", "expected"),
    [(None, None, False), (None, True, True), (None, False, False), (False, True, False), (True, False, True)],
)
def test_usage_is_asked_for_by_the_request_then_by_the_default(asked: Any, default: Any, expected: bool) -> None:
    body = sent(exchange(HI.replace(include_usage=asked), include_usage=default).start())
    assert ("stream_options" in body) is expected


@pytest.mark.parametrize("value", ["text/event-stream", "Text/Event-Stream", "text/event-stream;charset=UTF-8"])
@pytest.mark.parametrize("status", [200, 201, 299])
def test_any_2xx_event_stream_is_a_success(value: str, status: int) -> None:
    call = exchange()
    call.start()
    assert call.head(status, [(b"Content-Type", value.encode()), ("content-encoding", "Identity")]) == ReadStream()


@pytest.mark.parametrize(
    ("headers", "body", "said"),
    [
        ({}, b"", None),
        ({"content-type": ""}, b"hm", "hm"),
        ({"content-type": "application/json"}, b'{"choices": []}', '{"choices": []}'),
        ({"content-type": "text/html"}, b"<html>" + b"x" * 500, "<html>" + "x" * 194),
        ({"content-type": "text/event-streams"}, ANSWER, ANSWER[:200].decode().strip()),
        ({"content-type": "application/json, text/event-stream"}, b"x", "x"),
        ({**STREAM, "content-encoding": "gzip"}, b"\x1f\x8b", "\x1f\ufffd"),
    ],
)
def test_a_success_of_another_type_is_unsupported(headers: dict[str, str], body: bytes, said: str | None) -> None:
    call = exchange()
    call.start()
    assert call.head(200, headers.items()) == ReadError(200, 0.3)
    assert not call.raw_success
    assert list(call.push(body)) == []
    if media_type(ResponseHead(200, headers.items())):
        words = "a content-encoding" if "content-encoding" in headers else "something else than an event stream"
    else:
        words = "without a content-type"
    with pytest.raises(UnsupportedError, match=words) as caught:
        list(finished(call))
    assert caught.value.status is None
    assert caught.value.server_message() == said
    assert caught.value is call.error
    assert call.completion is None


def finished(call: Exchange) -> Events:
    last = call.finish()
    assert isinstance(last, Events)
    return last


LENIENT = CodecOptions(mode="lenient")
DOCUMENT = orjson.dumps({"choices": [{"index": 0, "message": {"content": "hello"}, "finish_reason": "stop"}]})


def test_a_lenient_exchange_reads_a_whole_document() -> None:
    call = exchange(options=LENIENT)
    last = Server((200, JSON, DOCUMENT)).ask(call)[-1]
    assert isinstance(last, Completed)
    assert last.completion is call.completion
    assert call.completion is not None
    assert call.completion.text == "hello"
    assert call.raw_success


def test_a_lenient_exchange_bounds_a_document() -> None:
    call = exchange(
        options=CodecOptions(
            mode="lenient", limits=Limits(event_bytes=2 * DOCUMENT_BYTES, wire_bytes=2 * DOCUMENT_BYTES)
        )
    )
    call.start()
    call.head(200, JSON.items())
    call.push(b'{"a":"')
    pushed = 0
    while (error := call.push(bytes(1 << 20)).error) is None:
        pushed += 1
        assert pushed < 17
    assert isinstance(error, ResponseLimitError)
    assert pushed >= 15
    assert call.error is error


def test_a_lenient_exchange_takes_no_other_type() -> None:
    call = exchange(options=LENIENT)
    with pytest.raises(UnsupportedError):
        Server((200, {"content-type": "text/plain"}, DOCUMENT)).ask(call)


def test_what_is_wrong_with_a_request_is_raised_before_a_byte() -> None:
    cases: list[tuple[type[SvirError], Exchange]] = [
        (ConfigError, exchange(headers={"Host": "x"})),
        (ConfigError, exchange(HI.replace(extra={"stream": False}))),
        (UnsupportedError, exchange(HI.replace(tool_choice="required"))),
        (AttachmentError, exchange(HI.message(Message.user(Image.path("a.png"))))),
        (ContextOverflowError, exchange(options=CodecOptions(context_tokens=1))),
    ]
    for kind, call in cases:
        with pytest.raises(kind) as caught:
            call.start()
        assert call.done
        assert call.error is caught.value
        with pytest.raises(ConfigError):
            call.start()
        assert call.error is caught.value


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "kind", "seconds"),
    [
        (400, b'{"error": "no"}', UnsupportedError, None),
        (413, b'{"error": "no"}', UnsupportedError, None),
        (400, b'{"error": {"message": "no", "code": "content_filter"}}', ContentFilterError, None),
        (422, b'{"detail": [{"msg": "over the context budget"}]}', ContextOverflowError, None),
        (500, b"over the context length", TransportError, 0.3),
        (401, b"", AuthenticationError, 0.3),
        (404, b"x" * 100_000, UnsupportedError, 0.3),
        (408, b"", ResponseTimeoutError, 0.3),
        (302, b"", UnsupportedError, 0.3),
    ],
)
def test_a_refusal(status: int, body: bytes, kind: type[SvirError], seconds: float | None) -> None:
    call = exchange()
    call.start()
    assert call.head(status, JSON.items()) == ReadError(ERROR_BODY_BYTES, seconds)
    assert call.state is State.REFUSAL
    assert list(call.push(body)) == []
    last = finished(call)
    assert last.items == ()
    error = last.error
    assert error is not None
    assert type(error) is kind
    assert error.status == status
    assert error.partial is None
    with pytest.raises(kind):
        call.push(b"more")
    assert call.push(b"more") == Events()
    assert call.finish() == Events()


def test_retry_after_is_read_against_the_time_of_day() -> None:
    call = exchange(now=lambda: 1_796_036_756.0)
    call.start()
    call.head(429, [("Retry-After", "Mon, 30 Nov 2026 11:06:06 GMT")])
    error = finished(call).error
    assert isinstance(error, RateLimitedError)
    assert error.retry_after == 10.0


def test_no_error_shows_what_is_private() -> None:
    call = exchange()
    call.start()
    call.head(400, [("x-private", "private"), ("location", "private")])
    call.push(b'{"error": "private"}')
    last = finished(call)
    shown = f"{call!r} {call} {last!r} {last.error} {last.error!r} {ENDPOINT!r} {call.response!r}"
    assert "private" not in shown.replace("x-private: <withheld>", "")
    assert last.error is not None
    assert last.error.server_message() == "private"


# --- the lean retry ------------------------------------------------------------------------------


def keys(server: Server, *names: str) -> list[set[str]]:
    return [set(names) & body.keys() for body in server.bodies]


OPTIONAL = ("reasoning_effort", "stream_options")


@pytest.mark.parametrize("status", [400, 422])
def test_a_request_goes_out_lean_once_and_the_server_is_remembered(status: int) -> None:
    compat = Compatibility()
    server = Server(refused(status), ANSWERED, ANSWERED)
    server.ask(exchange(BOTH, compat))
    assert keys(server, *OPTIONAL) == [set(OPTIONAL), set()]
    assert compat.known() == Compat(frozenset(OPTIONAL))
    server.ask(exchange(BOTH, compat))
    assert keys(server, *OPTIONAL) == [set(OPTIONAL), set(), set()]


def test_only_a_named_field_is_remembered_though_the_retry_leaves_out_all() -> None:
    compat = Compatibility()
    server = Server(refused(error={"error": {"message": "no", "param": "reasoning_effort"}}), ANSWERED, ANSWERED)
    server.ask(exchange(BOTH, compat))
    server.ask(exchange(BOTH, compat))
    assert keys(server, *OPTIONAL) == [set(OPTIONAL), set(), {"stream_options"}]
    assert compat.known() == Compat(frozenset({"reasoning_effort"}))


def test_a_server_is_remembered_at_the_head_of_the_retry() -> None:
    compat = Compatibility()
    call = exchange(BOTH, compat)
    call.start()
    call.head(400, [])
    assert isinstance(call.finish(), Retry)
    assert compat == Compatibility()
    call.head(200, STREAM.items())
    assert compat != Compatibility()
    error = finished(call).error
    assert isinstance(error, TruncatedStreamError)


@pytest.mark.parametrize(
    "second", [refused(400, "second"), refused(500, "second"), (200, JSON, b"second"), (200, {}, b""), (302, {}, b"")]
)
def test_when_the_retry_fails_too_the_first_error_counts_and_nothing_is_learned(second: Any) -> None:
    compat = Compatibility()
    server = Server(refused(422, "first"), second)
    with pytest.raises(UnsupportedError) as caught:
        server.ask(exchange(BOTH, compat))
    assert caught.value.status == 422
    assert caught.value.server_message() == "first"
    assert compat == Compatibility()
    assert len(server.bodies) == 2


@pytest.mark.parametrize("when", ["before the head", "in the error body"])
def test_when_the_retrys_connection_fails_the_first_error_counts(when: str) -> None:
    compat = Compatibility()
    call = exchange(BOTH, compat)
    call.start()
    call.head(400, [])
    call.push(b"first")
    assert isinstance(call.finish(), Retry)
    if when == "in the error body":
        call.head(500, [])
    error = call.fail(TransportError("connection lost"))
    assert error.server_message() == "first"
    assert error is call.error
    assert compat == Compatibility()


def test_a_retrys_own_stream_error_is_its_own() -> None:
    call = exchange(BOTH)
    server = Server(refused(), (200, STREAM, chunk("hel")))
    with pytest.raises(TruncatedStreamError) as caught:
        server.ask(call)
    assert caught.value.partial is not None
    assert caught.value.partial.text == "hel"


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (HI, refused()),
        (HI.replace(effort=None, include_usage=False), refused(422)),
        (HI.replace(response_format="json", max_tokens=5), refused()),
        (BOTH, refused(413)),
        (BOTH, refused(500)),
        (BOTH, refused(404)),
        (BOTH, refused(error={"error": {"message": "x", "code": "context_length_exceeded"}})),
        (BOTH, refused(error="above the context window")),
        (BOTH, refused(error={"error": {"message": "reasoning_effort", "code": "content_filter"}})),
        (BOTH, (200, JSON, b'{"error": "reasoning_effort"}')),
    ],
)
def test_when_there_is_no_retry(request_: Request, reply: Any) -> None:
    server = Server(reply)
    with pytest.raises(SvirError):
        server.ask(exchange(request_))
    assert len(server.bodies) == 1


def test_there_is_no_retry_without_a_field_that_is_already_left_out() -> None:
    compat = Compatibility()
    compat.learn(omit=["reasoning_effort"])
    server = Server(refused())
    with pytest.raises(UnsupportedError):
        server.ask(exchange(HI.replace(effort="low"), compat))
    assert keys(server, *OPTIONAL) == [set()]
    server = Server(refused(), ANSWERED)
    server.ask(exchange(BOTH, compat))
    assert keys(server, *OPTIONAL) == [{"stream_options"}, set()]


def test_a_retry_has_the_headers_of_the_first_request() -> None:
    call = exchange(BOTH, headers=iter([("x-b", "2")]))
    first = call.start()
    call.head(400, [])
    retry = call.finish()
    assert isinstance(retry, Retry)
    assert (first.get("x-b"), retry.http_request.get("x-b")) == ("2", "2")
    changed = dict(first.headers).items() ^ dict(retry.http_request.headers).items()
    assert {name for name, _ in changed} == {"content-length"}


def test_requirements_are_never_left_out() -> None:
    compat = Compatibility()
    compat.learn(omit=["response_format", "max_tokens", "messages"])
    server = Server(refused(), ANSWERED)
    server.ask(exchange(BOTH.replace(response_format="json", max_tokens=5), compat))
    assert (
        keys(server, "response_format", "max_tokens", "messages") == [{"response_format", "max_tokens", "messages"}] * 2
    )


def test_max_tokens_is_renamed_when_the_server_says_so() -> None:
    compat = Compatibility()
    server = Server(refused(error=RENAMED), ANSWERED, ANSWERED)
    server.ask(exchange(HI.replace(max_tokens=5), compat))
    server.ask(exchange(BOTH.replace(max_tokens=5), compat))
    assert keys(server, "max_tokens", "max_completion_tokens", *OPTIONAL) == [
        {"max_tokens"},
        {"max_completion_tokens"},
        {"max_completion_tokens", *OPTIONAL},
    ]
    assert compat.known() == Compat(frozenset(), {"max_tokens": "max_completion_tokens"})


def test_a_rename_takes_the_place_of_the_one_retry_which_is_lean_too() -> None:
    compat = Compatibility()
    server = Server(refused(error=RENAMED), ANSWERED)
    server.ask(exchange(BOTH.replace(max_tokens=5), compat))
    assert keys(server, "max_completion_tokens", *OPTIONAL) == [set(OPTIONAL), {"max_completion_tokens"}]
    assert compat.known() == Compat(frozenset(), {"max_tokens": "max_completion_tokens"})


def test_a_rename_is_taken_back_when_the_server_says_so() -> None:
    compat = Compatibility()
    compat.learn(rename={"max_tokens": "max_completion_tokens", "system": "developer"})
    old = {"error": {"message": "developer is not one of ['system', 'user'] - 'messages.0.role'"}}
    server = Server(refused(error=old), ANSWERED)
    server.ask(exchange(HI.replace(system="x", max_tokens=5), compat))
    assert [body["messages"][0]["role"] for body in server.bodies] == ["developer", "system"]
    assert keys(server, "max_completion_tokens") == [{"max_completion_tokens"}] * 2
    assert compat.known() == Compat(frozenset(), {"max_tokens": "max_completion_tokens"})


def test_a_rename_that_no_longer_fits_leaves_the_refusal() -> None:
    length = len(bytes(openai_chat.Encoder().encode(HI.replace(max_tokens=5))))
    server = Server(refused(error=RENAMED))
    with pytest.raises(UnsupportedError):
        server.ask(exchange(HI.replace(max_tokens=5), options=CodecOptions(context_tokens=length + 5)))


# --- failures of the driver's side ---------------------------------------------------------------


def test_a_failure_before_the_head_is_told_as_it_is() -> None:
    for started in (False, True):
        call = exchange()
        if started:
            call.start()
        error = TransportError("connection refused", unsent=True)
        assert call.fail(error) is error
        assert call.error is error
        assert error.partial is None
        assert call.push(b"x") == call.finish() == Events()


def test_a_failure_within_an_answer_has_what_was_delivered() -> None:
    call = accepted()
    assert list(call.push(chunk("hel"))) == [TextDelta("hel")]
    error = call.fail(ResponseTimeoutError("idle"))
    assert error.partial is not None
    assert error.partial.text == "hel"
    assert call.done
    assert call.push(chunk("lo")) == Events()


def test_a_partial_that_an_error_brings_is_kept() -> None:
    call = accepted()
    call.push(chunk("hel"))
    known = call.decoder
    assert known is not None
    partial = known.partial
    call.push(chunk("lo"))
    assert call.fail(TransportError("x", partial=partial)).partial is partial


def test_a_failure_within_an_error_body_is_the_servers_refusal() -> None:
    call = exchange(BOTH)
    call.start()
    call.head(400, [])
    call.push(b"no")
    error = call.fail(TransportError("cut"))
    assert error.status == 400
    assert error.server_message() == "no"


@pytest.mark.parametrize("error", [AttachmentError("changed"), ConfigError("wrong")])
def test_a_fault_of_this_side_is_told_even_after_a_refusal(error: SvirError) -> None:
    call = exchange(BOTH)
    call.start()
    call.head(400, [])
    assert isinstance(call.finish(), Retry)
    assert call.fail(error) is error


def test_a_failure_after_the_end_changes_nothing() -> None:
    call = accepted()
    call.push(ANSWER)
    error = TransportError("late")
    assert call.fail(error) is error
    assert call.error is None
    assert call.completion is not None
    call = accepted()
    broken = call.push(b"data: x\n\n")
    assert isinstance(broken.error, ProtocolError)
    assert call.fail(error) is broken.error


def test_bytes_after_the_answer_are_not_read() -> None:
    call = accepted()
    call.push(ANSWER + b"data: junk")
    assert call.done
    assert call.push(b"data: junk\n\n") == Events()
    assert call.finish() == Events()
    assert call.error is None


def test_an_error_nobody_iterated_to_is_raised_by_the_next_call() -> None:
    call = accepted()
    call.push(b"data: x\n\n")
    with pytest.raises(ProtocolError):
        call.finish()
    assert call.finish() == Events()
    call = accepted()
    with pytest.raises(ProtocolError):
        list(call.push(b"data: x\n\n"))
    assert call.finish() == Events()


def test_an_error_event_in_a_stream_is_the_servers() -> None:
    call = accepted()
    with pytest.raises(ServerError) as caught:
        list(call.push(b'data: {"error": {"message": "no"}}\n\n'))
    assert caught.value.status is None


def test_a_cut_stream_is_truncated() -> None:
    call = accepted()
    list(call.push(chunk("hel")))
    error = finished(call).error
    assert isinstance(error, TruncatedStreamError)
    assert call.error is error


@pytest.mark.parametrize("name", ["request", "endpoint", "compat", "options"])
def test_an_argument_of_another_type_is_refused_at_once(name: str) -> None:
    arguments: dict[str, Any] = {"request": HI, "endpoint": ENDPOINT}
    arguments[name] = "x"
    with pytest.raises(ConfigError, match=f"{name} must be"):
        Exchange(openai_chat.API, **arguments)


def test_an_api_that_is_none_is_refused_at_once() -> None:
    name: Any = "openai_chat"
    with pytest.raises(ConfigError, match="api must be a wire API"):
        Exchange(name, HI, ENDPOINT)
    with pytest.raises(ConfigError, match="api must be a wire API"):
        Listing(name, ENDPOINT)


# --- out of turn ---------------------------------------------------------------------------------

WORD: Any = "200"
MISUSES: dict[str, Callable[[], Any]] = {
    "head first": lambda: exchange().head(200, []),
    "push first": lambda: exchange().push(b""),
    "finish first": lambda: exchange().finish(),
    "push before the head": lambda: started().push(b"x"),
    "finish before the head": lambda: started().finish(),
    "start twice": lambda: started().start(),
    "head twice": lambda: accepted().head(200, STREAM.items()),
    "another head twice": lambda: accepted().head(500, []),
    "a head that is no number": lambda: started().head(WORD, []),
    "a head that is a bool": lambda: started().head(True, []),
    "an interim head": lambda: started().head(100, []),
    "a status too large": lambda: started().head(1000, []),
    "a head without headers": lambda: started().head(200, WORD),
    "text in place of bytes": lambda: accepted().push(WORD),
    "text in place of a refusal's bytes": lambda: refusal_begun().push(WORD),
}


def started() -> Exchange:
    call = exchange()
    call.start()
    return call


def refusal_begun() -> Exchange:
    call = started()
    call.head(400, [])
    return call


@pytest.mark.parametrize("misuse", MISUSES.values(), ids=MISUSES.keys())
def test_out_of_turn_is_a_config_error(misuse: Callable[[], Any]) -> None:
    with pytest.raises(ConfigError):
        misuse()


@pytest.mark.parametrize(("method", "arguments"), [("push", (b"x",)), ("head", (200, WORD)), ("head", (100, ()))])
def test_after_a_misuse_the_call_is_over(method: str, arguments: tuple[Any, ...]) -> None:
    call = started()
    with pytest.raises(ConfigError) as caught:
        getattr(call, method)(*arguments)
    assert call.done
    assert call.error is caught.value
    assert call.push(b"x") == call.finish() == Events()


def test_a_misuse_after_the_end_leaves_the_answer() -> None:
    call = accepted()
    call.push(ANSWER)
    for misuse in (call.start, lambda: call.head(200, []), lambda: call.head(1, [])):
        with pytest.raises(ConfigError):
            misuse()
    assert call.error is None
    assert call.completion is not None


STEPS: dict[str, Callable[[Exchange], Any]] = {
    "start": lambda call: call.start(),
    "answer": lambda call: call.head(200, STREAM.items()),
    "refuse": lambda call: call.head(400, JSON.items()),
    "reject": lambda call: call.head(500, []),
    "page": lambda call: call.head(200, []),
    "good": lambda call: list(call.push(chunk("x"))),
    "bad": lambda call: call.push(b"data: x\n\n"),
    "whole": lambda call: call.push(ANSWER),
    "finish": lambda call: call.finish(),
    "fail": lambda call: call.fail(TransportError("x")),
}


@given(st.lists(st.sampled_from(sorted(STEPS)), max_size=12))
def test_any_order_of_calls_is_answered_or_a_typed_error(steps: Iterable[str]) -> None:
    call = exchange(BOTH)
    retries = 0
    raised: list[SvirError] = []
    over: tuple[Any, Any] | None = None
    for step in steps:
        before = call.state
        try:
            answer = STEPS[step](call)
        except SvirError as error:
            raised.append(error)
            answer = None
        else:
            assert not isinstance(answer, Events) or before is not State.OVER or answer == Events()
        retries += isinstance(answer, Retry)
        assert retries <= 1
        assert all(error is call.error or isinstance(error, ConfigError) for error in raised)
        assert call.done or not raised
        assert call.done is (call.state is State.OVER)
        if over is not None:
            assert (call.error, call.completion) == over
        elif call.done:
            over = (call.error, call.completion)
            assert call.error is not None or call.completion is not None


@given(st.lists(st.integers(1, len(ANSWER)), max_size=6))
def test_any_cut_of_the_bytes_gives_the_same_answer(cuts: list[int]) -> None:
    call = accepted()
    events: list[Event] = []
    places = [0, *sorted(cuts), len(ANSWER)]
    for start, end in itertools.pairwise(places):
        events += call.push(ANSWER[start:end])
    events += finished(call)
    assert events[0] == TextDelta("hello")
    assert call.completion is not None
    assert call.completion.finish is FinishReason.STOP


@given(st.integers(200, 599), st.sampled_from(["", "text/event-stream", "application/json", "x"]), st.binary())
def test_any_response_is_an_answer_or_a_typed_error(status: int, kind: str, body: bytes) -> None:
    for options in (CodecOptions(), LENIENT):
        call = exchange(options=options)
        call.start()
        call.head(status, [("content-type", kind)])
        first = call.push(body)
        if first.error is None:
            last = finished(call)
            assert (last.error is None) is (call.completion is not None)
        assert call.done
        assert (call.error is None) is (call.completion is not None)
