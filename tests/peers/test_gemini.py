"""Google's own client as an oracle: it reads what our server half writes, and makes of it what our decoder does; what
it sends itself has the shape of what our encoder sends.

The package is imported by name and typed ``Any``, so that the checkers do not depend on it.
"""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from svir_core.event import Completed, Event, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.message import Image, Message, Opaque, Part, Reasoning, Text, ToolCall, ToolResult
from svir_core.request import Effort, Request, Schema, Tool, ToolChoice
from svir_core.response import Completion, FinishReason, Usage
from svir_core.wire.api import CodecOptions, Compat
from svir_core.wire.gemini import API, Decoder, Gemini
from svir_core.wire.json_value import Json, is_array, is_object
from tests.svir_core.wire.gemini.streams import STREAMS, see

genai: Any = importlib.import_module("google.genai")
types: Any = importlib.import_module("google.genai.types")

PNG = b"\x89PNG"


def client(answer: Callable[[httpx.Request], httpx.Response], **options: Any) -> Any:
    return genai.Client(
        api_key="k",
        http_options=types.HttpOptions(
            base_url="http://127.0.0.1:1",
            api_version="v1beta",
            client_args={"transport": httpx.MockTransport(answer)},
            **options,
        ),
    )


def streamed(data: bytes) -> list[Any]:
    """The chunks that the client makes of a stream."""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=data)

    with client(answer) as opened:
        return list(opened.models.generate_content_stream(model="m", contents="hi"))


def merged(chunks: list[Any]) -> list[Json]:
    """The parts of all chunks as JSON, pieces of unsigned text joined: the client joins nothing itself."""
    found: list[Json] = []
    candidates: list[Any] = [candidate for chunk in chunks for candidate in chunk.candidates or ()]
    for candidate in candidates:
        if candidate.content is not None:
            parts: list[Any] = candidate.content.parts or []
            for part in parts:
                said: Json = json.loads(part.model_dump_json(by_alias=True, exclude_none=True))
                if said.get("thought") is False:
                    del said["thought"]
                if not said or (said.get("text") == "" and "thoughtSignature" not in said):
                    continue
                last = found[-1] if found else {}
                if "text" in last and last.keys() == said.keys() <= {"text", "thought"}:
                    last["text"] += said["text"]
                else:
                    found.append(said)
    return found


def ours(answer: Completion) -> list[Json]:
    """The parts as our types have them, in the words of the API."""
    parts: list[Json] = []
    for part in answer.parts:
        said: Json
        if isinstance(part, ToolCall):
            given = {} if part.synthetic_id else {"id": part.id}
            said = {"functionCall": {**given, "name": part.name, "args": json.loads(part.arguments)}}
        elif isinstance(part, Reasoning):
            said = {"text": part.text, "thought": True}
        elif isinstance(part, Opaque):
            said = dict(part.data)
        else:
            assert isinstance(part, Text)
            said = {"text": part.text}
        beside: Json = part.data if isinstance(part, Opaque) else part.opaque.data if part.opaque is not None else {}
        said = {**beside, **said}
        if "thoughtSignature" in beside:
            said["thoughtSignature"] = beside["thoughtSignature"].replace("+", "-").replace("/", "_")
        parts.append(said)
    return parts


def agree(data: bytes) -> Completion:
    """What both make of a stream; the client's view must be ours."""
    answer = see([data]).answer
    chunks = streamed(data)
    said = merged(chunks)
    for part in said:
        if "functionCall" in part:
            part["functionCall"].setdefault("args", {})
    assert said == ours(answer)
    last = next(each for each in reversed(chunks) if each.candidates and each.candidates[0].finish_reason)
    assert last.candidates[0].finish_reason.value == answer.raw_finish
    assert {each.response_id for each in chunks if each.response_id} == ({answer.id} if answer.id else set())
    assert {each.model_version for each in chunks if each.model_version} == ({answer.model} if answer.model else set())
    return answer


SIGNED_CALL = '{"functionCall":{"id":"x","name":"f","args":{"x":[1,2.5]}},"thoughtSignature":"UzE="}'
ANSWERS: dict[str, list[Part]] = {
    "text": [Text("Hi \u00e9\U0001f600\n")],
    "nothing": [],
    "calls": [
        Text("ok"),
        ToolCall("i", "f", '{"x":[1,2.5]}'),
        ToolCall("call_454349e422f0_0", "g", "{}", synthetic_id=True),
    ],
    "a signed call": [ToolCall("x", "f", '{"x":[1,2.5]}', opaque=Opaque("gemini", SIGNED_CALL))],
    "thoughts": [Reasoning("thought", "hm"), Text("x"), Reasoning("thought", "so"), Text("y")],
    "a signature at the end": [Text("x"), Text("", Opaque("gemini", '{"text":"","thoughtSignature":"SIG/+w=="}'))],
    "code": [
        Opaque("gemini", '{"executableCode":{"language":"PYTHON","code":"print(1)"},"thoughtSignature":"UzE="}'),
        Opaque("gemini", '{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}}'),
        Text("1"),
    ],
}


def finish(parts: list[Part]) -> FinishReason:
    return FinishReason.TOOL_CALLS if any(isinstance(part, ToolCall) for part in parts) else FinishReason.STOP


@pytest.mark.parametrize("name", ANSWERS)
def test_the_client_reads_what_our_server_half_writes(name: str) -> None:
    parts = ANSWERS[name]
    usage = Usage(9, 13, 22, reasoning=10, cache_read=4)
    answer = Completion(finish(parts), parts, usage, model="m", id="r", raw_finish="STOP")
    data = API.server.stream("m", "r", 0).push(Completed(answer))
    assert agree(data) == answer
    told = streamed(data)[-1].usage_metadata
    assert (told.prompt_token_count, told.candidates_token_count, told.thoughts_token_count) == (9, 3, 10)
    assert (told.total_token_count, told.cached_content_token_count) == (22, 4)


def test_the_client_reads_deltas() -> None:
    stream = API.server.stream("m", "r", 0)
    parts: list[Part] = [Reasoning("thought", "hm"), Text("ab"), ToolCall("i", "f", '{"x":1}')]
    events: list[Event] = [ReasoningDelta("thought", "hm"), TextDelta("a"), TextDelta("b")]
    events += [ToolCallDelta(0, "i", "f", '{"x":'), ToolCallDelta(0, None, None, "1}")]
    events.append(Completed(Completion("tool_calls", parts)))
    assert agree(b"".join(stream.push(each) for each in events)).parts == tuple(parts)


UNKNOWN_TO_THE_CLIENT = {
    "01-parts/an-unknown-part-is-kept",
    "01-parts/numbers-of-a-kept-part-are-exact",
    "01-parts/a-signature-is-not-decoded",
    "01-parts/an-image-is-kept",  # it writes its own base64
    "02-calls/arguments-are-exact",  # its numbers are floats
    "02-calls/numbers-beyond-a-float",
    "03-streamed-arguments/a-number-beyond-a-float",
    "02-calls/unknown-keys-of-a-call-are-kept",
    "02-calls/empty-or-null-id-is-none",  # it keeps an empty one
    "08-framing/events-with-names",  # it reads the data of every event as a chunk
    "08-framing/comments",
    "08-framing/a-whole-comment-at-the-end",
    "00-tricky/g21-continuation",  # it asks for the rest by itself
    "06-finish-reasons/finish-continuation",
}
SHARED = [
    name
    for name, data in STREAMS.items()
    if name.split("/")[0] not in ("03-streamed-arguments", "09-documents")  # the one is Vertex alone
    and name not in UNKNOWN_TO_THE_CLIENT
    and name != "00-tricky/g19-streamed-arguments"
    and see([data]).completion is not None
]


@pytest.mark.parametrize("name", SHARED)
def test_the_client_reads_the_cases_as_we_do(name: str) -> None:
    agree(STREAMS[name])


def test_the_client_raises_where_we_do() -> None:
    errors: Any = importlib.import_module("google.genai.errors")
    data = API.server.stream("m", "r", 0).fail("no")
    with pytest.raises(errors.APIError) as caught:
        streamed(data)
    assert caught.value.message == see([data]).message == "no"
    assert caught.value.code == 500
    with pytest.raises(errors.APIError):
        streamed(STREAMS["00-tricky/g11-an-error-without-data"])


# --- requests ------------------------------------------------------------------------------------


def asked(**arguments: Any) -> tuple[httpx.Request, Any]:
    """The request that the client sends, and its body."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        stream = API.server.stream("m", "r", 0)
        return httpx.Response(200, content=stream.push(Completed(Completion("stop"))))

    with client(answer) as opened:
        list(opened.models.generate_content_stream(model="gemini-x", **arguments))
    return seen[0], json.loads(seen[0].content)


def camel(value: Any) -> Any:
    """The client's own mix of spellings in camelCase, and its base64 in the standard alphabet."""
    if is_object(value):
        return {_camel(key): _standard(key, camel(item)) for key, item in value.items()}
    return [camel(item) for item in value] if is_array(value) else value


def _camel(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _standard(key: str, value: Any) -> Any:
    return base64.b64encode(base64.urlsafe_b64decode(value)).decode() if key == "data" else value


def test_a_request_has_the_shape_of_the_clients() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    part = types.Part
    history = [
        types.Content(role="user", parts=[part(text="a"), part.from_bytes(data=PNG, mime_type="image/png")]),
        types.Content(
            role="model",
            parts=[part(function_call=types.FunctionCall(id="i", name="f", args={"x": 1}), thought_signature=b"S1")],
        ),
        types.Content(
            role="user",
            parts=[part(function_response=types.FunctionResponse(id="i", name="f", response={"output": "r"}))],
        ),
    ]
    config = types.GenerateContentConfig(
        system_instruction="s",
        temperature=0.5,
        top_p=0.25,
        max_output_tokens=9,
        stop_sequences=["z"],
        seed=7,
        response_mime_type="application/json",
        response_json_schema=schema,
        thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level="LOW"),
        tools=[
            types.Tool(
                function_declarations=[
                    types.FunctionDeclaration(name="f", description="d", parameters_json_schema=schema)
                ]
            )
        ],
        tool_config=types.ToolConfig(
            function_calling_config=types.FunctionCallingConfig(mode="ANY", allowed_function_names=["f"])
        ),
    )
    sent, body = asked(contents=history, config=config)
    call = ToolCall(
        "i",
        "f",
        '{"x":1}',
        opaque=Opaque("gemini", '{"functionCall":{"id":"i","name":"f","args":{"x":1}},"thoughtSignature":"UzE="}'),
    )
    request = Request(
        "gemini-x",
        system="s",
        temperature=0.5,
        top_p=0.25,
        max_tokens=9,
        stop=["z"],
        seed=7,
        response_format=Schema("n", schema),
        effort=Effort.LOW,
        tools=[Tool("f", "d", schema)],
        tool_choice=ToolChoice.tool("f"),
        messages=[
            Message.user("a", Image.data(PNG, "image/png")),
            Message.assistant(call),
            Message.tool(ToolResult("i", "r")),
        ],
    )
    mine = json.loads(bytes(API.encode(request, CodecOptions(), Compat())))
    theirs = camel(body)
    theirs["systemInstruction"].pop("role", None)  # it is ignored (22 section 3)
    assert mine == theirs
    assert sent.url.raw_path.decode() == API.path(request)
    assert sent.headers["x-goog-api-key"] == "k"


def test_the_client_lists_what_our_server_half_lists() -> None:
    document = API.server.models(API.models(b'{"models":[{"name":"models/a","displayName":"A"}]}').models)
    with client(lambda request: httpx.Response(200, content=document)) as opened:
        (model,) = list(opened.models.list())
    assert (model.name, model.display_name) == ("models/a", "A")


def test_a_vertex_path_is_the_clients() -> None:
    transformers: Any = importlib.import_module("google.genai._transformers")

    class Vertex:
        vertexai = True

    parent = "projects/p/locations/l/publishers/google/models"
    for name in ("gemini-x", "meta/llama", "publishers/meta/models/x"):
        path = Gemini(version="v1beta1", parent=parent).path(Request(name))
        resource = transformers.t_model(Vertex(), name)
        assert path == f"/v1beta1/projects/p/locations/l/{resource}:streamGenerateContent?alt=sse"


def test_a_cut_stream_is_no_answer_though_the_client_takes_it() -> None:
    data = STREAMS["00-tricky/g12-no-finish-reason"]
    assert merged(streamed(data)) == [{"text": "half"}]
    decoder = Decoder()
    decoder.push(data)
    assert decoder.finish().error is not None
