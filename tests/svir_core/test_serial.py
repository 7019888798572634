"""The JSON form as a contract: golden documents, round trips of everything, and every fault named."""

from __future__ import annotations

import contextlib
import copy
import inspect
import json
import pathlib
import pickle
import types
from collections.abc import Iterator
from typing import Any, cast

import attrs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import svir_core
from svir_core import errors, serial
from svir_core.body import Measured
from svir_core.call import ReadError, ReadStream
from svir_core.errors import (
    ConfigError,
    ErrorKind,
    MaxRoundsError,
    ProtocolError,
    RateLimitedError,
    ServerError,
    SvirError,
    TransportError,
    TruncatedStreamError,
)
from svir_core.event import Completed, Event, Events, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.explanation import Attempt, Explanation, Finding
from svir_core.generation import Generation, GenerationOutcome, Progress
from svir_core.generation_event import RoundEvent, RoundResults
from svir_core.history import HistoryFault, HistoryFaultCode
from svir_core.http_message import Endpoint, HttpRequest, ResponseHead
from svir_core.json_text import NESTING
from svir_core.limits import Limits
from svir_core.loop import LoopPhase, ToolLoop
from svir_core.loop_limits import LoopLimits
from svir_core.loop_step import AskApproval, CallModel, Finished, RunTools
from svir_core.message import (
    BytesSource,
    CachePoint,
    Image,
    Media,
    Message,
    Opaque,
    PathSource,
    Reasoning,
    Role,
    Text,
    TextFile,
    ToolCall,
    ToolResult,
    UrlSource,
)
from svir_core.price import Prices
from svir_core.quirk import Quirk
from svir_core.request import Effort, Request, ResponseFormat, Schema, Tool, ToolChoice, ToolMode
from svir_core.response import Anomaly, AnomalyCode, Completion, FinishReason, Partial, Timing, Usage
from svir_core.secret import Secret
from svir_core.serial_table import TABLE
from svir_core.server_profile import Profile
from svir_core.think import Think
from svir_core.wire.api import CodecOptions, Compat, Mode, Model, ModelPage

ERRORS: list[type[SvirError]] = [row.cls for row in TABLE if issubclass(row.cls, SvirError)]

CONTRACT = pathlib.Path(__file__).with_name("serial_contract.json")

GOLDEN: dict[str, Any] = {
    "role": Role.USER,
    "message": Message.user("What is this?", Image.path("a/b.png")),
    "message of every part": Message(
        Role.ASSISTANT,
        (
            Text("Grüße \U0001f30d\n"),
            Image.url("https://example.org/a.png"),
            TextFile(PathSource("notes.txt"), "notes", 12),
            Media.data(b"%PDF\x00\xff", "application/pdf", "a.pdf"),
            Reasoning("think", "hm", Opaque("anthropic_messages", '{"signature":"x"}')),
            ToolCall(
                "call_1", "lookup", '{"value": 1}', complete=False, synthetic_id=True, opaque=Opaque("gemini", "{}")
            ),
            ToolResult("call_1", [Text("2"), Image.data(b"\x01\x02\x03", "image/png")], is_error=True),
            Opaque("openai_responses", '{"b":1,"a":2}'),
            CachePoint(),
        ),
    ),
    "text with what an API gave beside it": Text("hi", Opaque("gemini", '{"thoughtSignature":"S"}')),
    "cache point": CachePoint("1h"),
    "tool result of text": ToolResult("call_1", "2"),
    "request": Request("qwen").user("hi"),
    "request with every setting": Request(
        "qwen",
        system="Be precise.",
        messages=[Message.system("s"), Message.user("hi")],
        tools=[
            Tool("f", "does f", {"type": "object", "properties": {"b": {}, "a": {}}}, extra={"strict": True}),
            Tool("g"),
        ],
        tool_choice=ToolChoice.tool("f"),
        parallel_tools=False,
        response_format=Schema("answer", {"type": "object"}, strict=True),
        effort=Effort.LOW,
        max_tokens=10,
        temperature=0.5,
        top_p=1,
        stop=["a", "b"],
        seed=-7,
        include_usage=False,
        send_reasoning=True,
        extra={"z": [1, 2.5, None, True, {"k": "v"}], "a": {}},
    ),
    "request for JSON": Request("m", response_format=ResponseFormat.JSON, tool_choice="required"),
    "completion": Completion(FinishReason.STOP, (Text("hi"),)),
    "completion with everything": Completion(
        FinishReason.TOOL_CALLS,
        (Reasoning("reasoning_content", "so"), ToolCall("c", "f", "{}")),
        usage=Usage(1, 2, 3, 0, 5, 6),
        timing=Timing(0.5, 1.25, 2, 7),
        model="qwen",
        id="chatcmpl-1",
        anomalies=(Anomaly(AnomalyCode.LONE_SURROGATE, 9, b"\xff\x00"),),
        anomaly_count=101,
        raw_finish="stop",
        extra={"service_tier": "flex"},
    ),
    "timing without a visible delta": Timing(None, None, 0.25, 0),
    "usage": Usage(input=0),
    "partial": Partial((Text("ha"),), Usage(output=1), "m", "i"),
    "text delta": TextDelta("a"),
    "reasoning delta": ReasoningDelta("reasoning", "b"),
    "tool call delta": ToolCallDelta(0, "id", "name", ""),
    "tool call delta of arguments": ToolCallDelta(3, None, None, "{"),
    "completed": Completed(Completion(FinishReason.LENGTH)),
    "finish reason": FinishReason.PAUSE,
    "anomaly code": AnomalyCode.UNKNOWN_EVENT,
    "tool choice": ToolChoice.NONE,
    "tool mode": ToolMode.NAMED,
    "response format": ResponseFormat.TEXT,
    "effort": Effort.XHIGH,
    "limits": Limits(event_bytes=1024),
    "think": Think("inside", ("[THINK]", "[/THINK]")),
    "mode": Mode.LENIENT,
    "codec options": CodecOptions(),
    "codec options, all set": CodecOptions(
        Mode.LENIENT,
        Think("inside"),
        Limits(tool_calls=3),
        1000,
        0,
        Quirk.DONE_OPTIONAL | Quirk.TOOL_INDEX_REUSED,
        True,
    ),
    "quirk": Quirk.FINISH_OPEN,
    "quirks": Quirk.CONTENT_PARTS | Quirk.TOOL_INDEX_GAPS,
    "no quirk": Quirk(0),
    "profile": Profile("x", "nowhere", Quirk.FINISH_EARLY, frozenset({"stream_options"}), {"system": "developer"}),
    "compat": Compat(frozenset({"stream_options", "reasoning_effort"}), {"max_tokens": "max_completion_tokens"}),
    "model": Model("qwen", "Qwen 3"),
    "page of models": ModelPage((Model("a"), Model("b")), "b"),
    "measured": Measured(12, 14),
    "response head": ResponseHead(200, [("Content-Type", "text/event-stream")]),
    "events": Events([TextDelta("a"), ReasoningDelta("think", "b")]),
    "events and their error": Events((), TruncatedStreamError("it ended")),
    "read stream": ReadStream(),
    "read error": ReadError(65536, 0.3),
    "history fault": HistoryFault(HistoryFaultCode.ORPHAN_RESULT, 3, 0, "call_1"),
    "history fault code": HistoryFaultCode.WRONG_ROLE,
    "explanation": Explanation(
        [
            Attempt(Mode.STRICT, Quirk(0), ProtocolError("a", offset=7)),
            Attempt(Mode.LENIENT, Quirk.DONE_OPTIONAL, Completion(FinishReason.STOP)),
        ],
        [
            Finding("a", 7, ErrorKind.PROTOCOL, True, AnomalyCode.NO_CHOICES, 2, excerpt=b"data"),
            Finding("b", 9, ErrorKind.TRUNCATED_STREAM, quirks=Quirk.DONE_OPTIONAL),
        ],
        [Quirk.FINISH_OPEN | Quirk.DONE_OPTIONAL],
    ),
    "finding": Finding("a", 0),
    "tool loop": ToolLoop(Request("m").user("hi")),
    "tool loop that failed": ToolLoop(
        Request("m").user("hi"),
        limits=LoopLimits(rounds=1, tool_calls=2, parallel=3, stop_on_tool_error=True),
        requires_approval=["f"],
        phase=LoopPhase.APPROVAL,
        rounds=1,
        tool_calls=1,
        usage=Usage(1, 0),
        completion=Completion(FinishReason.TOOL_CALLS, (ToolCall("c", "f", "{}"),)),
        approvals={"c": True},
        outcome=GenerationOutcome.TOOL_ERROR,
        error=TransportError("refused"),
    ),
    "loop phase": LoopPhase.MODEL,
    "loop limits": LoopLimits(rounds=3),
    "call model": CallModel(Request("m"), 1),
    "run tools": RunTools((ToolCall("c", "f", "{}"),), 2),
    "ask approval": AskApproval((ToolCall("c", "f", "{}"),), 2),
    "finished": Finished(Generation(Completion(FinishReason.STOP))),
    "generation": Generation(
        Completion(FinishReason.STOP),
        [Message.user("hi")],
        Usage(output=0),
        2,
        3,
        GenerationOutcome.AWAITING_APPROVAL,
        [ToolCall("c", "f", "{}")],
    ),
    "generation outcome": GenerationOutcome.ANSWERED,
    "round event": RoundEvent(2, TextDelta("hi")),
    "round results": RoundResults(2, (ToolResult("c", "done"), ToolResult("d", "no", is_error=True))),
    "progress": Progress(Completion(FinishReason.STOP), [Message.user("hi")], Usage(output=0), 2, 3),
    "no progress": Progress(),
    "prices": Prices(input="0.1", output=2, cache_read="0.01", cache_write=0),
    "error of a generation": MaxRoundsError("no", progress=Progress(rounds=8)),
    "error kind": ErrorKind.TIMEOUT,
    "config error": ConfigError("no"),
    "server error": ServerError(
        "the server reported a failure", partial=Partial((Text("ha"),)), server_message="overloaded", offset=120
    ),
    "rate limited error": RateLimitedError(
        "429", retry_after=2.5, status=429, anomalies=(Anomaly(AnomalyCode.WRONG_TYPE, 0, b""),)
    ),
    "transport error": TransportError("refused", unsent=True),
    "several": (Message.user("a"), TextDelta("b")),
    "nothing": (),
}

NO_FORM = {
    "Secret": "a credential",
    "Endpoint": "holds a credential",
    "HttpRequest": "holds a credential",
    "Retry": "holds a credential",
    "Body": "an upload that may stand on disk; it is made anew from its request",
    "Compatibility": "a shared memory that changes, with a JSON of its own; its value is a Compat",
    "Exchange": "a call under way",
    "Listing": "a call under way",
    "Counting": "a call under way",
    "Tap": "a decoder under way",
    "Toolbox": "a protocol; what it offers are Tools",
    "SvirError": "the base: every error is of a kind",
}
"""Public classes without a JSON form, each with its reason. All others must have one."""


def public_classes() -> set[type]:
    """Every class that the face of the core names."""
    named = [getattr(svir_core, name) for name in svir_core.__all__]
    return {value for value in named if inspect.isclass(value)}


def test_every_public_type_has_a_form() -> None:
    have = {row.cls for row in TABLE}
    public = public_classes()
    assert {kind.__name__ for kind in public - have} == set(NO_FORM)
    assert have <= public


def test_every_row_has_all_fields_of_its_class() -> None:
    for row in TABLE:
        if attrs.has(row.cls):
            names = {field.name for field in attrs.fields(row.cls)}
            assert names == {field.name for field in row.fields}, row.tag
    assert len({row.tag for row in TABLE}) == len(TABLE)


def test_golden_documents() -> None:
    documents = json.loads(CONTRACT.read_text("ascii"))
    assert list(documents) == list(GOLDEN)
    for name, value in GOLDEN.items():
        assert serial.dumps(value) == orjson.dumps(documents[name]), name
        assert serial.loads(orjson.dumps(documents[name])) == value, name


def test_golden_documents_name_every_type() -> None:
    tags = {row.tag for row in TABLE if not issubclass(row.cls, SvirError)}
    assert {tag for tag in tags if f'"type": "{tag}"' not in CONTRACT.read_text("ascii")} == set()


def test_timing_has_a_form_though_it_takes_no_part_in_equality() -> None:
    value: Completion = GOLDEN["completion with everything"]
    assert serial.loads(serial.dumps(value), Completion).timing == value.timing


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_comes_back_whole(kind: type[SvirError]) -> None:
    error = kind(
        "where",
        retry_after=1.5,
        status=500,
        unsent=True,
        partial=Partial((Text("ha"), Reasoning("think", "r"), ToolCall("a", "b", "{"))),
        server_message="the key is wrong",
        anomalies=(Anomaly(AnomalyCode.NO_CHOICES, 4, b"{}"),),
        offset=17,
        progress=Progress(rounds=3),
    )
    for again in (serial.loads(serial.dumps(error)), pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert again == error
        assert type(again) is kind
        assert again.server_message() == "the key is wrong"
        assert again.partial == error.partial
    assert "key" not in repr(error) + str(error)


# --- round trips over drawn values -----------------------------------------------------------------

strings = st.text(max_size=12)
maybe_string = st.none() | strings
maybe_integer = st.none() | st.integers(-(2**63), 2**64 - 1)
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**64 - 1)
objects = st.dictionaries(
    strings,
    st.recursive(
        st.none() | st.booleans() | numbers | strings,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)
sources = (
    st.builds(PathSource, st.text(min_size=1, max_size=9).filter(lambda path: "\0" not in path))
    | st.builds(BytesSource, st.binary(max_size=9))
    | st.builds(UrlSource, strings)
)
opaques = st.builds(Opaque, strings, strings)
result_parts = (
    st.builds(Text, strings)
    | st.builds(Image, sources, maybe_string)
    | st.builds(TextFile, sources, strings, maybe_integer)
    | st.builds(Media, sources, maybe_string, maybe_string)
)
parts = (
    result_parts
    | st.builds(Reasoning, strings, strings, st.none() | opaques)
    | st.builds(ToolCall, strings, strings, strings, st.booleans(), st.booleans(), st.none() | opaques)
    | st.builds(ToolResult, strings, strings | st.lists(result_parts, max_size=2), st.booleans())
    | opaques
)
messages = st.builds(Message, st.sampled_from(Role), st.lists(parts, max_size=3))
tools = st.builds(Tool, strings, strings, objects, extra=objects)
tool_choices = st.sampled_from([ToolChoice.AUTO, ToolChoice.NONE, ToolChoice.REQUIRED]) | st.builds(
    ToolChoice.tool, strings
)
requests = st.builds(
    Request,
    strings.filter(bool),
    system=maybe_string,
    messages=st.lists(messages, max_size=3),
    tools=st.lists(tools, max_size=2),
    tool_choice=tool_choices,
    response_format=st.sampled_from(ResponseFormat) | st.builds(Schema, strings, objects, st.booleans()),
    effort=st.none() | st.sampled_from(Effort),
    max_tokens=st.none() | st.integers(0, 2**53),
    temperature=st.none() | numbers,
    top_p=st.none() | numbers,
    stop=st.lists(strings, max_size=2),
    seed=maybe_integer,
    include_usage=st.none() | st.booleans(),
    send_reasoning=st.booleans(),
    extra=objects,
)
counters = st.none() | st.integers(0, 2**64 - 1)
usages = st.builds(Usage, counters, counters, counters, counters, counters, counters)
anomalies = st.builds(Anomaly, st.sampled_from(AnomalyCode), st.integers(0, 2**63), st.binary(max_size=80))
completions = st.builds(
    Completion,
    st.sampled_from(FinishReason),
    st.lists(parts, max_size=3),
    st.none() | usages,
    st.none() | st.builds(Timing, st.none() | numbers, st.none() | numbers, numbers, st.integers(0, 9)),
    maybe_string,
    maybe_string,
    st.lists(anomalies, max_size=2).map(tuple),
    st.integers(0, 999),
    maybe_string,
    objects,
)
events: st.SearchStrategy[Event] = (
    st.builds(TextDelta, strings)
    | st.builds(ReasoningDelta, strings, strings)
    | st.builds(ToolCallDelta, st.integers(0, 63), maybe_string, maybe_string, maybe_string)
    | st.builds(Completed, completions)
)


def failure(kind: type[SvirError], detail: str, fields: dict[str, Any]) -> SvirError:
    return kind(detail, **fields)


failures = st.builds(
    failure,
    st.sampled_from(ERRORS),
    strings,
    st.fixed_dictionaries(
        {},
        optional={
            "retry_after": numbers,
            "status": st.integers(100, 599),
            "unsent": st.booleans(),
            "partial": st.builds(Partial, st.lists(parts, max_size=2).map(tuple), st.none() | usages, maybe_string),
            "server_message": strings,
            "anomalies": st.lists(anomalies, max_size=2).map(tuple),
            "offset": st.integers(0, 2**40),
        },
    ),
)
values = requests | messages | completions | events | failures | tools | parts | usages


@given(values)
def test_round_trip(value: Any) -> None:
    data = serial.dumps(value)
    again = serial.loads(data)
    assert again == value
    assert type(again) is type(value)
    assert serial.dumps(again) == data
    assert serial.from_json(json.loads(data)) == value
    assert pickle.loads(pickle.dumps(value)) == value


@given(st.lists(values, max_size=3))
def test_round_trip_of_several(several: list[Any]) -> None:
    assert serial.loads(serial.dumps(several)) == tuple(several)


@pytest.mark.parametrize("name", GOLDEN)
def test_every_public_type_pickles_and_compares_by_value(name: str) -> None:
    value = GOLDEN[name]
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(value, protocol))
        assert again == value
        assert type(again) is type(value)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_are_a_value_or_a_typed_error(data: bytes) -> None:
    with contextlib.suppress(ConfigError):
        serial.loads(data)


@given(st.data())
def test_any_damage_to_a_document_is_a_value_or_a_typed_error(data: st.DataObject) -> None:
    document = serial.to_json(data.draw(st.sampled_from(list(GOLDEN.values()))))
    spots = list(places(document))
    if not spots:
        return
    holder, key = data.draw(st.sampled_from(spots))
    holder[key] = data.draw(
        st.sampled_from(
            [None, True, -1, 2**70, 1.5, float("nan"), "", "text", [], {}, [1], {"type": "text"}, {"type": 3}]
        )
    )
    with contextlib.suppress(ConfigError):
        serial.from_json(document)


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of ``document``."""
    if isinstance(document, dict | list):
        holder = cast("dict[Any, Any]", document)
        for key in holder if isinstance(document, dict) else range(len(holder)):
            yield holder, key
            yield from places(holder[key])


# --- faults ------------------------------------------------------------------------------------------

TEXT = {"type": "text", "text": "a"}
CALL = {"type": "tool_call", "id": "a", "name": "f", "arguments": "{}"}


def of_user(part: object) -> dict[str, Any]:
    message = {"type": "message", "role": "user", "parts": [TEXT, part]}
    return {"type": "request", "model": "m", "messages": [{"type": "message", "role": "user", "parts": []}, message]}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (5, "$: expected an object with a type, got a number"),
        (None, "$: expected an object with a type, got null"),
        ({}, "$.type: is missing"),
        ({"type": "nonsense"}, "$.type: is not the name of a type"),
        ({"type": ["text"]}, "$.type: is not the name of a type"),
        ([TEXT, 1.5], "$[1]: expected an object with a type, got a number"),
        (of_user(CALL | {"id": 7}), "$.messages[1].parts[1].id: expected a string, got a number"),
        (of_user(CALL | {"complete": "yes"}), "$.messages[1].parts[1].complete: expected a boolean, got a string"),
        ({"type": "quirk", "value": 1}, "$.value: expected an array, got a number"),
        ({"type": "quirk", "value": ["DONE"]}, "$.value[0]: expected one of TOOL_INDEX_MISSING"),
        ({"type": "quirk", "value": [dict[str, int]()]}, "$.value[0]: expected one of TOOL_INDEX_MISSING"),
        (of_user(CALL | {"colour": 1}), "$.messages[1].parts[1].colour: 'tool_call' has no such field"),
        (of_user(CALL | {"x y": 1}), "$.messages[1].parts[1]['x y']: 'tool_call' has no such field"),
        (of_user({"type": "tool_call", "id": "a"}), "$.messages[1].parts[1].name: is missing"),
        (of_user({"type": "usage"}), "$.messages[1].parts[1].type: expected 'text' or 'image' or"),
        (of_user({"type": "image", "source": TEXT}), "$.messages[1].parts[1].source.type: expected 'path_source' or"),
        (
            of_user({"type": "image", "source": {"type": "bytes_source", "data": "a?=="}}),
            "$.messages[1].parts[1].source.data: not base64",
        ),
        (
            of_user({"type": "image", "source": {"type": "bytes_source", "data": "ä"}}),
            "$.messages[1].parts[1].source.data: not base64",
        ),
        ({"type": "message", "role": "user", "parts": "hi"}, "$.parts: expected an array, got a string"),
        ({"type": "message", "role": "judge", "parts": []}, "$.role: expected one of 'system', 'user'"),
        ({"type": "request", "model": "m", "seed": 1.0}, "$.seed: expected an integer, got a number"),
        ({"type": "request", "model": "m", "seed": True}, "$.seed: expected an integer, got a boolean"),
        ({"type": "request", "model": "m", "seed": 2**64}, "$.seed: an integer of more than 64 bits"),
        ({"type": "request", "model": "m", "top_p": "1"}, "$.top_p: expected a number, got a string"),
        ({"type": "request", "model": "m", "top_p": True}, "$.top_p: expected an integer, got a boolean"),
        ({"type": "request", "model": "m", "top_p": float("inf")}, "$.top_p: JSON has no infinity and no NaN"),
        ({"type": "request", "model": "m", "extra": []}, "$.extra: expected an object, got an array"),
        ({"type": "request", "model": "m", "extra": {"a": {1: 2}}}, "$.extra.a: the key of an object must be a string"),
        ({"type": "request", "model": "m", "extra": {"a": b""}}, "$.extra.a: a value of type bytes is not JSON"),
        ({"type": "request", "model": "m", "response_format": 1}, "$.response_format: expected an object with a type"),
        ({"type": "limits", "wire_bytes": 0}, "$: Limits.wire_bytes must be"),
        ({"type": "think", "markers": ["a"]}, "$.markers: expected 2 items, got 1"),
        ({"type": "compat", "rename": {"a": 1}}, "$.rename.a: expected a string, got a number"),
        ({"type": "text", "text": "a", 5: 6}, "$['5']: 'text' has no such field"),
    ],
)
def test_a_wrong_document_is_named_by_path(document: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        serial.from_json(document)
    assert str(caught.value).startswith(words)
    assert caught.value.__context__ is None


# Of no type that a checker knows: what a caller without one may hand in.
WRONG_BYTES: Any = b"hunter2"
WRONG_STRING: Any = "hunter2"
WRONG_LIST: Any = ["hunter2"]
WRONG_PART: Any = Text("hunter2")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Secret("hunter2"), "$: a value of type Secret has no JSON form"),
        (Endpoint.parse("http://localhost", api_key="hunter2"), "$: a value of type Endpoint has no JSON form"),
        (
            HttpRequest("GET", "http", "hunter2", 80, "/", (("host", "h"),)),
            "$: a value of type HttpRequest has no JSON form",
        ),
        (Request("m", extra={"user": [Secret("hunter2")]}), "$.extra.user[0]: a value of type Secret is not JSON"),
        (Completion("stop", extra={"a": float("nan")}), "$.extra.a: JSON has no infinity and no NaN"),
        (Completion("stop", extra={"a": 2**64}), "$.extra.a: an integer of more than 64 bits"),
        (Completion("stop", extra={"\ud800": 1}), "$.extra: the key of an object must be"),
        (PathSource("hunter2\udcff"), "$.path: a file name that is not valid Unicode has no JSON form"),
        (UrlSource, "$: a value of type type has no JSON form"),
        ("hunter2", "$: a string has no JSON form"),
        ([Text("a"), None], "$[1]: null has no JSON form"),
        (TextDelta(WRONG_BYTES), "$.text: expected a string, got a value of type bytes"),
        (Anomaly("wrong_type", 0, WRONG_STRING), "$.excerpt: expected bytes, got a string"),
        (Compat(WRONG_LIST), "$.omit: expected a frozenset, got an array"),
        (Completed(WRONG_PART), "$.completion: expected 'completion', got 'text'"),
        (attrs.evolve(GOLDEN["message"], parts=(Text("a"),)), None),
        (ServerError("a", partial=WRONG_PART), "$.partial: expected 'partial', got 'text'"),
    ],
)
def test_a_wrong_value_is_named_by_path_and_never_shown(value: Any, words: str | None) -> None:
    if words is None:
        assert serial.loads(serial.dumps(value)) == value
        return
    with pytest.raises(ConfigError) as caught:
        serial.dumps(value)
    assert str(caught.value).startswith(words)
    assert "hunter2" not in str(caught.value)


def test_a_member_of_another_enum_is_refused() -> None:
    completion = Completion("stop")
    object.__setattr__(completion, "finish", Role.USER)
    with pytest.raises(ConfigError, match=r"\$\.finish: expected a FinishReason, got a value of type Role"):
        serial.dumps(completion)


def test_quirks_that_are_none_are_refused() -> None:
    options = CodecOptions()
    object.__setattr__(options, "quirks", 3)
    with pytest.raises(ConfigError, match=r"\$\.quirks: expected a Quirk, got a number"):
        serial.dumps(options)


def test_a_subclass_has_no_form() -> None:
    class Shout(Text):
        pass

    with pytest.raises(ConfigError, match="Shout has no JSON form"):
        serial.dumps(Message.user(Shout("a")))


def test_a_long_key_is_cut_in_a_path() -> None:
    with pytest.raises(ConfigError) as caught:
        serial.from_json({"type": "text", "text": "a", "k" * 5000: 1})
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize("data", [b"", b"{", b"[1,", b"\xff", b"nope", "\ud800"])
def test_what_is_no_json_is_a_typed_error(data: bytes | str) -> None:
    with pytest.raises(ConfigError, match=r"^\$: not JSON, at character \d+$") as caught:
        serial.loads(data)
    assert caught.value.__context__ is None


def test_bytes_in_any_form_are_read() -> None:
    data = serial.dumps(Text("a"))
    for form in (bytearray(data), memoryview(data), data.decode()):
        assert serial.loads(form) == Text("a")


def test_an_expected_type_is_checked() -> None:
    data = serial.dumps(Text("a"))
    assert serial.loads(data, Text).text == "a"
    assert serial.from_json(serial.to_json(Text("a")), Text) == Text("a")
    with pytest.raises(ConfigError, match=r"^\$: expected the form of Message, got that of Text$"):
        serial.loads(data, Message)
    with pytest.raises(ConfigError, match="got that of tuple"):
        serial.loads(b"[]", Message)


def nest(levels: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(levels - 1):
        value = [value]
    return {"a": value}


def test_nesting_is_bounded_both_ways() -> None:
    deepest = Request("m", tools=[Tool("f", schema=nest(NESTING))])
    assert serial.loads(serial.dumps(deepest)) == deepest
    with pytest.raises(ConfigError, match=f"nested deeper than {NESTING} levels"):
        serial.dumps(Request("m", extra=nest(NESTING + 1)))
    document = b'{"type":"request","model":"m","extra":{"a":' + b"[" * 900 + b"]" * 900 + b"}}"
    with pytest.raises(ConfigError, match=f"nested deeper than {NESTING} levels"):
        serial.loads(document)
    with pytest.raises(ConfigError, match="not JSON"):
        serial.loads(b"[" * 100_000)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ConfigError, match="nested deeper"):
        serial.dumps(Completion("stop", extra={"a": endless}))


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    assert serial.loads(serial.dumps(Text("a\ud800b\ud83d\ude00"))) == Text("a\ufffdb\U0001f600")
    assert serial.loads(serial.dumps(Request("m", extra={"a": "\udfff"}))) == Request("m", extra={"a": "\ufffd"})


def test_the_order_of_keys_is_kept() -> None:
    schema: dict[str, Any] = {"properties": {}, "type": "object"}
    tool = serial.loads(serial.dumps(Tool("f", schema=schema)), Tool)
    assert list(tool.schema) == ["properties", "type"]
    assert serial.to_json(Tool("f")) == {"type": "tool", "name": "f"}


def test_mappings_and_tuples_in_a_callers_json_become_plain() -> None:
    request = Request("m", extra={"a": types.MappingProxyType({"b": (1, "x")})})
    assert serial.to_json(request)["extra"] == {"a": {"b": [1, "x"]}}


def test_what_is_read_is_a_copy() -> None:
    document: dict[str, Any] = {"type": "request", "model": "m", "extra": {"a": [1]}}
    request = serial.from_json(document, Request)
    document["extra"]["a"].append(2)
    assert request.extra == {"a": [1]}


def test_the_names_of_the_errors_are_those_of_the_tree() -> None:
    tags = {row.tag for row in TABLE if issubclass(row.cls, SvirError)}
    assert len(tags) == len(ErrorKind)
    assert serial.to_json(ProtocolError("x")) == {"type": "protocol_error", "detail": "x"}
    assert all(getattr(errors, "".join(word.title() for word in tag.split("_"))) for tag in tags)
