"""A call tells no secret that it was sent with: in no error, and in nothing that stands beside an answer."""

from __future__ import annotations

import pickle
from typing import Any

import attrs
import orjson
import pytest

from svir_core import serial
from svir_core.call import Call, Retry
from svir_core.document_call import Counting, Listing
from svir_core.errors import AuthenticationError, ProtocolError, ServerError, SvirError, TransportError
from svir_core.event import Completed, Events, TextDelta
from svir_core.exchange import Exchange
from svir_core.http_message import Endpoint, Headers, ResponseHead
from svir_core.message import Part, Text, ToolCall
from svir_core.quirk import Quirk
from svir_core.redact import REDACTED, Redactor
from svir_core.redact_call import redact_completion, redact_error, redact_events, redact_head, redact_partial
from svir_core.request import Effort, Request
from svir_core.response import Anomaly, AnomalyCode, Completion, FinishReason, Partial, Usage
from svir_core.secret import Secret
from svir_core.wire import anthropic_messages, openai_chat
from svir_core.wire.api import CodecOptions

KEY = "sk-canary-7f3a"
TOKEN = "canary-session-token"
SAID = f"no: {KEY}, {TOKEN}, blue-team"
LEFT = f"no: {REDACTED}, {REDACTED}, blue-team"
REDACTOR = Redactor([KEY])
HI = Request("m").user("hi")
STREAM = {"content-type": "text/event-stream"}
ENDPOINT = Endpoint.parse("http://127.0.0.1:1", api_key=KEY, headers={"x-session-token": TOKEN, "x-team": "blue-team"})


def excerpt(text: str) -> Anomaly:
    return Anomaly(AnomalyCode.UNKNOWN_FIELD, 3, text.encode("latin-1"))


# --- what is looked at -------------------------------------------------------------------------------


def test_every_field_of_an_error() -> None:
    error = ServerError(
        "ours",
        status=500,
        server_message=f"a {KEY}",
        partial=Partial((Text(KEY),), Usage(1), KEY, f"id-{KEY}"),
        anomalies=(excerpt("\xff"), excerpt(f"\xff{KEY}\xe9")),
        offset=7,
    )
    redact_error(error, REDACTOR)
    assert error == ServerError(
        "ours",
        status=500,
        server_message=f"a {REDACTED}",
        partial=Partial((Text(KEY),), Usage(1), REDACTED, f"id-{REDACTED}"),
        anomalies=(excerpt("\xff"), excerpt(f"\xff{REDACTED}\xe9")),
        offset=7,
    )


def test_every_field_of_a_completion() -> None:
    parts: list[Part] = [Text(KEY), ToolCall(KEY, KEY, f'{{"a": "{KEY}"}}')]
    before = Completion(
        FinishReason.STOP,
        parts,
        Usage(1),
        model=f"m-{KEY}",
        id=KEY,
        anomalies=(excerpt(KEY),),
        anomaly_count=1,
        raw_finish=f"{KEY}-stop",
        extra={KEY: [KEY, {"k": KEY}]},
    )
    assert redact_completion(before, REDACTOR) == Completion(
        FinishReason.STOP,
        parts,
        Usage(1),
        model=f"m-{REDACTED}",
        id=REDACTED,
        anomalies=(excerpt(REDACTED),),
        anomaly_count=1,
        raw_finish=f"{REDACTED}-stop",
        extra={KEY: [REDACTED, {"k": REDACTED}]},
    )
    assert before.extra == {KEY: [KEY, {"k": KEY}]}


def test_an_excerpt_alone_is_found() -> None:
    before = Completion(FinishReason.STOP, model="m", anomalies=(excerpt("a"), excerpt(KEY)), anomaly_count=2)
    after = attrs.evolve(before, anomalies=(excerpt("a"), excerpt(REDACTED)))
    assert redact_completion(before, REDACTOR) == after


def test_events_keep_what_came_before_the_last_and_their_error() -> None:
    deltas = [TextDelta(KEY), TextDelta("b")]
    completion = Completion(FinishReason.STOP, id=KEY)
    error = ServerError("x")
    left = redact_events(Events([*deltas, Completed(completion)], error), REDACTOR)
    assert left.items == (*deltas, Completed(attrs.evolve(completion, id=REDACTED)))
    assert left.error is error


def test_what_holds_text_is_known() -> None:
    """A field that is new is beside the answer, or in it: then it is looked at here."""
    assert {field.name for field in attrs.fields(Completion)} == {
        *("model", "id", "raw_finish", "extra", "anomalies"),
        *("finish", "parts", "usage", "timing", "anomaly_count"),
    }
    assert {field.name for field in attrs.fields(Partial)} == {"model", "id", "parts", "usage"}
    assert {field.name for field in attrs.fields(Anomaly)} == {"excerpt", "code", "offset"}
    assert ServerError("x")._fields().keys() == {
        *("server_message", "anomalies", "partial"),
        *("retry_after", "status", "unsent", "offset", "retryable", "progress"),
    }


@pytest.mark.parametrize("redactor", [REDACTOR, Redactor()])
def test_what_holds_no_secret_is_the_very_same(redactor: Redactor) -> None:
    anomalies = (excerpt("a"), excerpt("b" * 80))
    completion = Completion(FinishReason.STOP, [Text(KEY)], model="m", id="i", anomalies=anomalies, extra={"a": {}})
    events = Events([TextDelta(KEY), Completed(completion)])
    partial = Partial((Text(KEY),), model="m")
    head = ResponseHead(200, [(KEY, "a")])
    error = ServerError("x", server_message="said", partial=partial, anomalies=anomalies)
    redact_error(error, redactor)
    assert error.partial is partial
    assert error.anomalies is anomalies
    assert error.server_message() == "said"
    assert redact_completion(completion, redactor) is completion
    assert redact_events(events, redactor) is events
    assert redact_partial(partial, redactor) is partial
    assert redact_head(head, redactor) is head


def test_a_head_keeps_its_names_its_order_and_what_is_said_twice() -> None:
    head = ResponseHead(401, [(KEY, "a"), ("x-a", f"<{KEY}>"), ("x-a", "b")])
    left = ResponseHead(401, [(KEY, "a"), ("x-a", f"<{REDACTED}>"), ("x-a", "b")])
    assert redact_head(head, REDACTOR) == left


def test_an_excerpt_is_no_longer_than_before_and_keeps_no_half_of_a_secret() -> None:
    cut = excerpt(("." * 70 + KEY)[:80])
    short = excerpt("12345678" * 10)
    error = ServerError("x", anomalies=(cut, short))
    redact_error(error, Redactor([KEY, "12345678"]))
    assert [each.excerpt for each in error.anomalies] == [b"." * 70 + b"[REDACTED]", (b"[REDACTED]" * 10)[:80]]


# --- of a call ---------------------------------------------------------------------------------------


def exchange(request: Request = HI, **options: Any) -> Exchange:
    return Exchange(openai_chat.API, request, ENDPOINT, **options)


def told(error: SvirError | None) -> str | None:
    """What the server said, of an error that holds no secret in any form."""
    assert error is not None
    for form in (pickle.dumps(error), serial.dumps(error), repr(error).encode()):
        assert KEY.encode() not in form
        assert TOKEN.encode() not in form
    return error.server_message()


def refuse(call: Call, said: str = SAID, status: int = 401) -> Events | Retry:
    call.head(status, [("content-type", "application/json"), ("x-request-id", f"r-{KEY}")])
    call.push(orjson.dumps({"error": {"message": said}}))
    return call.finish()


def answer(call: Exchange, *deltas: dict[str, Any] | bytes, **fields: Any) -> Events:
    """Begin an answer, and push these pieces of it; the events of the last."""
    call.head(200, STREAM.items())
    events = Events()
    for each in deltas:
        chunk = (
            {"id": "c", "model": "m", **fields, "choices": [{"index": 0, **each}]} if isinstance(each, dict) else each
        )
        events = call.push(b"data: " + (chunk if isinstance(chunk, bytes) else orjson.dumps(chunk)) + b"\n\n")
    return events


CALLS = {
    "exchange": exchange,
    "listing": lambda: Listing(openai_chat.API, ENDPOINT),
    "counting": lambda: Counting(anthropic_messages.API, HI, ENDPOINT),
}


@pytest.mark.parametrize("make", CALLS.values(), ids=CALLS.keys())
def test_a_refusal(make: Any) -> None:
    call: Call = make()
    assert call.redactor.text(SAID) == SAID
    call.start()
    assert call.redactor.text(SAID) == LEFT
    last = refuse(call)
    assert isinstance(last, Events)
    assert type(last.error) is AuthenticationError
    assert call.error is last.error
    assert told(call.error) == LEFT
    assert call.response is not None
    assert call.response.get("x-request-id") == f"r-{REDACTED}"


def test_a_refusal_that_is_cut_off() -> None:
    call = exchange()
    call.start()
    call.head(401, [])
    call.push(SAID.encode())
    assert told(call.fail(TransportError("cut"))) == LEFT


def test_a_listing_that_is_a_failure() -> None:
    call = Listing(openai_chat.API, ENDPOINT)
    call.start()
    call.head(200, [])
    call.push(orjson.dumps({"error": SAID}))
    last = call.finish()
    assert isinstance(last, Events)
    assert told(last.error) == LEFT


def test_a_listing_is_what_the_server_said() -> None:
    call = Listing(openai_chat.API, ENDPOINT)
    call.start()
    call.head(200, [])
    call.push(orjson.dumps({"data": [{"id": KEY}]}))
    assert call.finish() == Events()
    assert [model.id for model in call.result().models] == [KEY]


def test_a_failure_inside_an_answer() -> None:
    call = exchange()
    call.start()
    failure = orjson.dumps({"error": SAID})
    events = answer(call, {"delta": {"content": KEY}}, failure, id=f"c-{KEY}", model=f"m-{TOKEN}")
    error = events.error
    assert error is call.error
    assert error is not None
    assert error.partial == Partial((Text(KEY),), None, f"m-{REDACTED}", f"c-{REDACTED}")
    error.partial = None
    assert told(error) == LEFT


def test_an_answer_that_is_cut_off() -> None:
    call = exchange()
    call.start()
    answer(call, {"delta": {"content": "a"}}, id=KEY)
    error = call.fail(ProtocolError("cut"))
    assert error.partial == Partial((Text("a"),), None, "m", REDACTED)
    assert told(error) is None


def test_a_failure_that_nobody_iterated_to_is_raised_without_secrets() -> None:
    call = exchange()
    call.start()
    answer(call, orjson.dumps({"error": SAID}))
    with pytest.raises(ServerError) as caught:
        call.push(b"")
    assert told(caught.value) == LEFT


@pytest.mark.parametrize("ending", [[b"[DONE]"], []], ids=["pushed", "finished"])
def test_an_answer(ending: list[bytes]) -> None:
    call = exchange(options=CodecOptions(extra=True, quirks=Quirk.DONE_OPTIONAL))
    call.start()
    said = {"delta": {"content": KEY}, "finish_reason": "stop"}
    events = answer(call, said, *ending, id=f"c-{KEY}", x={KEY: TOKEN})
    if not ending:
        last = call.finish()
        assert isinstance(last, Events)
        events = last
    completion = call.completion
    assert completion is not None
    assert list(events) == [Completed(completion)]
    assert (completion.text, completion.id) == (KEY, f"c-{REDACTED}")
    assert completion.extra == {"x": {KEY: REDACTED}}
    assert call.push(b"") == Events()


def test_the_one_retry_and_the_first_of_two_refusals() -> None:
    call = exchange(HI.replace(effort=Effort.LOW))
    call.start()
    assert isinstance(refuse(call, status=400), Retry)
    last = refuse(call, "later", status=422)
    assert isinstance(last, Events)
    assert told(last.error) == LEFT


class KeyOfEachRequest:
    """An API that sends the key in another way each time, in a header that nobody would take for one."""

    def __init__(self) -> None:
        self.sent = 0

    def key_headers(self, key: Secret) -> Headers:
        return (("x-who", f"who-canary-{self.sent}"),)

    def encode(self, *arguments: Any) -> Any:
        self.sent += 1
        return openai_chat.API.encode(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(openai_chat.API, name)


def test_what_a_retry_is_sent_with_is_known_too() -> None:
    api: Any = KeyOfEachRequest()
    call = Exchange(api, HI.replace(effort=Effort.LOW), ENDPOINT)
    call.start()
    assert isinstance(refuse(call, "no", status=400), Retry)
    events = answer(call, orjson.dumps({"error": f"who-canary-1 who-canary-2 who-canary-3 {KEY}"}))
    assert told(events.error) == f"{REDACTED} {REDACTED} who-canary-3 {REDACTED}"


def test_a_call_without_a_key() -> None:
    call = Exchange(openai_chat.API, HI, Endpoint.parse("http://127.0.0.1:1"))
    call.start()
    last = refuse(call)
    assert isinstance(last, Events)
    assert last.error is not None
    assert last.error.server_message() == SAID


@pytest.mark.parametrize("anomalies", [[excerpt(KEY)], (1,), "x"])
def test_what_is_none_of_ours_on_a_callers_error_stays_as_it_is(anomalies: Any) -> None:
    partial: Any = "nope"
    error = ServerError("x", server_message=f"no: {KEY}", anomalies=anomalies, partial=partial)
    redact_error(error, REDACTOR)
    assert error.server_message() == f"no: {REDACTED}"
    assert error.anomalies is anomalies
    assert error.partial is partial
