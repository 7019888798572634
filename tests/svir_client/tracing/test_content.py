"""What was said, with both switches alone, without known secrets; and nothing of it without them."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import socket
from typing import Any

import orjson
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from svir_client import Retry, Trace
from svir_client.testing import End, Reply
from svir_client.tracing import Content, TraceEvent, console, file, function, memory, opentelemetry, syslog
from svir_client.tracing.content import content_of
from svir_client.tracing.line import line
from svir_core.errors import ServerError, SvirError
from svir_core.message import (
    CachePoint,
    Image,
    Media,
    Message,
    Opaque,
    Reasoning,
    Text,
    TextFile,
    ToolCall,
    ToolResult,
)
from svir_core.redact import REDACTED, Redactor
from svir_core.request import Request
from svir_core.response import Completion, FinishReason, Partial
from svir_core.secret import Secret
from tests.svir_client.chat import DONE, chunk, text
from tests.svir_client.layers.calls import Clock, read, scripted
from tests.svir_client.tracing.traced import end_event

pytestmark = pytest.mark.anyio

KEY = "sk-canary-key-7f3a"
HEADER = "canary-header-7f3a"
PLAIN_HEADER = "canary-plain-7f3a"
PROMPT = "canary-prompt-7f3a"
ANSWER = "canary-answer-7f3a"
ARGUMENT = "canary-argument-7f3a"
SERVER = "canary-server-7f3a"
PATH = "canary-path-7f3a"
CANARIES = (KEY, HEADER, PLAIN_HEADER, PROMPT, ANSWER, ARGUMENT, SERVER, PATH)

CALL = {"index": 0, "id": "t", "type": "function", "function": {"name": "f", "arguments": json.dumps({"a": ARGUMENT})}}
ANSWERED = Reply.stream(text(ANSWER), text(KEY), chunk({"tool_calls": [CALL]}), chunk({}, "tool_calls"), DONE)
REFUSED = Reply.document({"error": {"message": f"{SERVER}: wrong key {KEY}"}}, status=500)
CUT = Reply.stream(text(ANSWER), end=End.RESET)
KAPUT = Reply.stream(text(ANSWER), b'data: {"error":{"message":"' + SERVER.encode() + b'"}}\n\n')
REQUEST = Request("m", system=PROMPT).user(f"{PROMPT} {KEY} {HEADER} {PLAIN_HEADER}")
HEADERS = {"x-client-secret": HEADER, "x-plain": PLAIN_HEADER}


class Everywhere:
    """One sink of every kind, and all that they were told as one text."""

    def __init__(self, folder: pathlib.Path, content: bool) -> None:
        self._path = folder / "trace.jsonl"
        self._console = io.StringIO()
        self._told: list[str] = []
        self._logged = ""
        self._spans = InMemorySpanExporter()
        self._daemon = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._daemon.bind(str(folder / "log"))
        self._daemon.setblocking(False)
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.memory = memory(content=content)
        self._file = file(self._path, content=content)
        self._syslog = syslog(str(folder / "log"))
        self.sinks: list[Any] = [
            console(self._console, content=content),
            self.memory,
            function(self._take, content=content),
            opentelemetry(tracer_provider=tracers, content=content),
            self._file,
            self._syslog,
        ]

    def _take(self, event: TraceEvent) -> None:
        self._told.append(f"{event!r} {event.document()}")
        self._drain()  # a socket holds some ten datagrams

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self._logged += self._daemon.recv(65536).decode()

    def texts(self) -> dict[str, str]:
        self._drain()
        self._daemon.close()
        self._file.close()
        self._syslog.close()
        return {
            "console": self._console.getvalue(),
            "memory": repr([event.document() for event in self.memory.events]),
            "function": "".join(self._told),
            "spans": "".join(span.to_json() for span in self._spans.get_finished_spans()),
            "file": self._path.read_text(encoding="utf-8"),
            "syslog": self._logged,
        }


@pytest.mark.parametrize(("capture", "content"), [(False, False), (True, False), (False, True), (True, True)])
async def test_canaries(capture: bool, content: bool, tmp_path: pathlib.Path) -> None:
    everywhere = Everywhere(tmp_path, content)
    trace = Trace(*everywhere.sinks, capture=capture)
    layers: list[Any] = [trace, Retry.transient(1, sleep=Clock().sleep)]
    endpoint = f"http://127.0.0.1:1/{PATH}"
    options: dict[str, Any] = {"layers": layers, "api_key": KEY, "headers": HEADERS, "endpoint": endpoint}
    async with scripted(REFUSED, ANSWERED, REFUSED, REFUSED, CUT, KAPUT, **options) as (_, client):
        for _ in range(4):
            await read(client, REQUEST)
    assert trace.failures == 0
    for sink, told in everywhere.texts().items():
        found = {canary for canary in CANARIES if canary in told}
        shown = capture and content and sink != "syslog"
        said = {PROMPT, ANSWER, ARGUMENT, SERVER, PLAIN_HEADER} if shown else set[str]()
        assert found == said, sink
        assert told.count("provider_end") == (0 if sink == "spans" else told.count("provider_start")), sink
        assert (REDACTED in told) is bool(said), sink


async def test_of_a_call_answered_and_of_one_refused() -> None:
    sink = memory(content=True)
    async with scripted(ANSWERED, REFUSED, layers=[Trace(sink, capture=True)], api_key=KEY) as (_, client):
        await read(client, REQUEST)
        await read(client, REQUEST)
    contents = [event.content for event in sink.events]
    said = ({"role": "user", "parts": [{"type": "text", "content": f"{PROMPT} {REDACTED} {HEADER} {PLAIN_HEADER}"}]},)
    assert contents == [
        None,
        Content(
            system=PROMPT,
            input=said,
            output=(
                {"type": "text", "content": f"{ANSWER}{REDACTED}"},
                {"type": "tool_call", "id": "t", "name": "f", "arguments": {"a": ARGUMENT}},
            ),
        ),
        None,
        Content(system=PROMPT, input=said, server_message=f"{SERVER}: wrong key {REDACTED}"),
    ]


async def test_secrets_that_the_caller_names() -> None:
    sink = memory(content=True)
    trace = Trace(sink, capture=True, secrets=[ANSWER, Secret(PROMPT), "canary"])
    async with scripted(CUT, layers=[trace]) as (_, client):
        await read(client, REQUEST)
    assert sink.events[-1].content is not None
    document = json.dumps(sink.events[-1].content.document())
    assert ANSWER not in document
    assert PROMPT not in document
    assert "canary" in document


async def test_a_secret_in_what_the_server_calls_things() -> None:
    sink = memory()
    document = {"id": KEY, "model": KEY, "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]}
    reply = Reply.stream(b"data: " + json.dumps(document).encode() + b"\n\n", DONE, headers={"x-request-id": KEY})
    async with scripted(reply, layers=[Trace(sink)], api_key=KEY) as (_, client):
        await read(client)
    attributes = sink.events[-1].document()["attributes"]
    assert [attributes[n] for n in ("answered_model", "response_id", "provider_request_id")] == [REDACTED] * 3


def content(*parts: Any, error: SvirError | None = None, secrets: tuple[str, ...] = (KEY,)) -> Content:
    completion = Completion(FinishReason.STOP, parts) if error is None else None
    return content_of(REQUEST, completion, error, Redactor(secrets))


def test_every_part_has_a_form_or_none() -> None:
    parts = (
        Text("a"),
        Reasoning("think", "b"),
        Image.data(b"canary-bytes", "image/png"),
        Image.path("/canary/path.png"),
        TextFile.data("canary", "notes.txt"),
        Media.data(b"canary-bytes", "audio/mpeg"),
        Media.path("/canary/path"),
        ToolResult("t", "done"),
        ToolResult("t", [Text("x"), Image.url("http://canary.invalid/")]),
        Opaque("openai_chat", '"canary"'),
        CachePoint(),
    )
    request = Request("m").message(Message.user(*parts))
    (message,) = content_of(request, None, None, Redactor([KEY])).input
    assert message["parts"] == [
        {"type": "text", "content": "a"},
        {"type": "reasoning", "content": "b"},
        {"type": "file", "modality": "image", "mime_type": "image/png"},
        {"type": "file", "modality": "image", "mime_type": "image/png"},
        {"type": "file", "modality": "text", "name": "notes.txt"},
        {"type": "file", "modality": "audio", "mime_type": "audio/mpeg"},
        {"type": "file", "modality": "file", "mime_type": None},
        {"type": "tool_call_response", "id": "t", "response": "done"},
        {
            "type": "tool_call_response",
            "id": "t",
            "response": [
                {"type": "text", "content": "x"},
                {"type": "file", "modality": "image", "mime_type": None},
            ],
        },
    ]


@pytest.mark.parametrize(
    ("arguments", "form"),
    [
        ('{"sk-canary-key-7f3a": ["sk-canary-key-7f3a", 1]}', {KEY: [REDACTED, 1]}),
        ('{"a": "\\u0073k-canary-key-7f3a"}', {"a": REDACTED}),
        ('{"a": "sk-canary-key-7f3a', '{"a": "[REDACTED]'),
        ("", ""),
        ('"\ud800"', "\ufffd\ufffd\ufffd"),
        ("[" * 101 + "0" + "]" * 101, "[" * 101 + "0" + "]" * 101),
        ("[" * 900 + '"sk-canary-key-7f3a"' + "]" * 900, "[" * 900 + '"[REDACTED]"' + "]" * 900),
    ],
)
def test_arguments_are_read_so_that_values_alone_are_redacted(arguments: str, form: Any) -> None:
    (part,) = content(ToolCall("t", "f", arguments)).output
    assert part["arguments"] == form


def test_arguments_as_deep_as_is_written_are_a_value_that_every_sink_takes() -> None:
    (part,) = content(ToolCall("t", "f", "[" * 100 + "0" + "]" * 100)).output
    assert isinstance(part["arguments"], list)
    event = end_event(Content(output=(part,)))
    assert orjson.loads(event.json())["content"]["output"] == [part]
    assert "[" * 100 in line(event)


def test_what_had_come_before_a_failure() -> None:
    error = ServerError("x", partial=Partial((Text(f"a {KEY}"),)), server_message=f"b {KEY}")
    said = content(error=error)
    assert said.output == ({"type": "text", "content": f"a {REDACTED}"},)
    assert said.server_message == f"b {REDACTED}"
    assert content(error=ServerError("x")).output == ()


async def test_names_of_files_are_content_and_bytes_never() -> None:
    sink = memory(content=True)
    request = Request("m").message(Message.user(TextFile.data("canary-bytes", "canary-name")))
    async with scripted(ANSWERED, layers=[Trace(sink, capture=True)]) as (_, client):
        await read(client, request)
    document = repr([event.document() for event in sink.events])
    assert "canary-name" in document
    assert "canary-bytes" not in document
