import base64
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.body import Measured
from svir_core.errors import AttachmentError, ConfigError, ContextOverflowError, SvirError, UnsupportedError
from svir_core.message import (
    BytesSource,
    CachePoint,
    Image,
    Media,
    Message,
    Opaque,
    Part,
    Reasoning,
    Role,
    Text,
    TextFile,
    ToolCall,
    ToolResult,
    UrlSource,
)
from svir_core.request import Effort, Request, ResponseFormat, Schema, Tool, ToolChoice
from svir_core.response import Completion, FinishReason
from svir_core.wire import part
from svir_core.wire.openai_chat import conversation, encode
from svir_core.wire.openai_chat.encode import Encoder, optional_fields

PNG = Image.data(b"png!", "image/png")
PNG_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5nIQ=="}}
TOOL = Tool("look", "Look.", {"type": "object"})
WIRE_TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Look.", "parameters": {"type": "object"}},
}
BARE: dict[str, Any] = {"model": "m", "messages": [], "stream": True}


def encoded(request: Request, **options: Any) -> Any:
    """The body as JSON, after checking its length."""
    body = Encoder(**options).encode(request)
    data = bytes(body)
    assert len(data) == body.length
    assert b"".join(body.blocks(3)) == data
    return json.loads(data)


def message(*parts: Part | str, role: Role = Role.USER, send_reasoning: bool = False) -> Any:
    """The one message that a request with these parts becomes."""
    request = Request("m", send_reasoning=send_reasoning).message(Message(role, parts))
    (only,) = encoded(request)["messages"]
    assert only.pop("role") == role.value
    return only


def error(request: Request, kind: type[SvirError], **options: Any) -> str:
    with pytest.raises(kind) as caught:
        Encoder(**options).encode(request)
    assert caught.value.__context__ is None
    return caught.value.detail


# --- settings ------------------------------------------------------------------------------------


def test_only_what_is_set_is_sent() -> None:
    assert encoded(Request("m")) == BARE
    assert bytes(Encoder().encode(Request("m"))) == b'{"model":"m","stream":true,"messages":[]}'


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        ({"max_tokens": 7}, {"max_tokens": 7}),
        ({"max_tokens": 0}, {"max_tokens": 0}),
        ({"temperature": 0}, {"temperature": 0}),
        ({"temperature": 0.25, "top_p": 1.0}, {"temperature": 0.25, "top_p": 1.0}),
        ({"stop": "x"}, {"stop": ["x"]}),
        ({"stop": ["a\ud800", "b"]}, {"stop": ["a\ufffd", "b"]}),
        ({"seed": 2**70}, {"seed": 2**70}),
        ({"effort": Effort.OFF}, {"reasoning_effort": "none"}),
        ({"effort": "xhigh"}, {"reasoning_effort": "xhigh"}),
        ({"include_usage": True}, {"stream_options": {"include_usage": True}}),
        ({"include_usage": False}, {}),
        ({"tools": [TOOL]}, {"tools": [WIRE_TOOL]}),
        ({"tools": [TOOL], "tool_choice": "auto"}, {"tools": [WIRE_TOOL]}),
        ({"tools": [TOOL], "tool_choice": "none"}, {"tools": [WIRE_TOOL], "tool_choice": "none"}),
        ({"tool_choice": "none"}, {}),
        ({"tools": [TOOL], "tool_choice": "required"}, {"tools": [WIRE_TOOL], "tool_choice": "required"}),
        (
            {"tools": [TOOL], "tool_choice": ToolChoice.tool("look")},
            {"tools": [WIRE_TOOL], "tool_choice": {"type": "function", "function": {"name": "look"}}},
        ),
        ({"response_format": ResponseFormat.TEXT}, {}),
        ({"response_format": ResponseFormat.JSON}, {"response_format": {"type": "json_object"}}),
        (
            {"response_format": Schema("s", {"a": 1})},
            {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"a": 1}}}},
        ),
        (
            {"response_format": Schema("s", {}, strict=True)},
            {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {}, "strict": True}}},
        ),
        ({"extra": {"n": 1, "x\ud800": ["\udfff"]}}, {"n": 1, "x\ufffd": ["\ufffd"]}),
    ],
)
def test_a_setting_is_sent_under_its_name(settings: dict[str, Any], fields: dict[str, Any]) -> None:
    assert encoded(Request("m", **settings)) == BARE | fields


def test_every_effort_has_a_word() -> None:
    assert set(encode.EFFORTS) == set(Effort)


def test_strings_inside_tools_are_sanitised_and_their_extra_stands_beside_them() -> None:
    tool = Tool("f\ud800", "d\ud800", {"\ud800": {"description": "\udc00"}}, extra={"strict": True})
    assert encoded(Request("m", tools=[tool]))["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "f\ufffd",
                "description": "d\ufffd",
                "parameters": {"\ufffd": {"description": "\ufffd"}},
                "strict": True,
            },
        }
    ]


@pytest.mark.parametrize("key", sorted(encode.OWNED))
def test_extra_may_not_set_what_the_codec_owns(key: str) -> None:
    assert f"{key!r}" in error(Request("m", extra={key: None}), ConfigError)


def test_what_the_codec_owns_is_the_whole_table() -> None:
    assert {
        *("model", "messages", "stream", "background", "max_tokens", "max_completion_tokens", "temperature"),
        *("top_p", "stop", "seed", "reasoning_effort", "stream_options", "tool_choice", "response_format"),
        "parallel_tool_calls",
    } == encode.OWNED


@pytest.mark.parametrize(
    ("request_", "kind", "words"),
    [
        (Request("m", max_tokens=-1), ConfigError, "Request.max_tokens"),
        (Request("m", extra={"x": [float("nan")]}), ConfigError, "Request.extra.x[0]"),
        (Request("m", extra={"x": object()}), ConfigError, "Request.extra.x is an object"),
        (
            Request("m", tools=[TOOL, Tool("g", "", {"a": float("inf")})]),
            ConfigError,
            "tools[1].function.parameters.a",
        ),
        (Request("m", tools=[Tool("g", extra={"name": "h"})]), ConfigError, "tools[0].extra may not set 'name'"),
        (Request("m", response_format=Schema("s", {"a": {1}})), ConfigError, "response_format.json_schema.schema.a"),
        (Request("m", tool_choice="required"), UnsupportedError, "tool_choice"),
        (Request("m", tool_choice=ToolChoice.tool("f")), UnsupportedError, "'f' is not offered"),
        (Request("m", tools=[TOOL], tool_choice=ToolChoice.tool("f")), UnsupportedError, "'f' is not offered"),
    ],
)
def test_a_wrong_setting_is_named(request_: Request, kind: type[SvirError], words: str) -> None:
    assert words in error(request_, kind)


def test_optional_fields_can_be_left_out_and_nothing_else() -> None:
    request = Request("m", effort="low", include_usage=True, max_tokens=3, tools=[TOOL])
    assert optional_fields(request) == {"reasoning_effort", "stream_options"}
    assert optional_fields(request.replace(include_usage=False)) == {"reasoning_effort"}
    assert optional_fields(Request("m")) == frozenset()
    lean = encoded(request, omit=optional_fields(request) | {"tools", "max_tokens"})
    assert lean == BARE | {"max_tokens": 3, "tools": [WIRE_TOOL]}
    assert "stream_options" in encoded(request, omit={"reasoning_effort"})


def test_a_limit_and_the_system_role_can_be_renamed() -> None:
    request = Request("m", system="a", max_tokens=3).message(Message.system("b"))
    body = encoded(request, rename={"max_tokens": "max_completion_tokens", "system": "developer", "other": "x"})
    assert body == {
        **{"model": "m", "stream": True, "max_completion_tokens": 3},
        "messages": [{"role": "developer", "content": "a"}, {"role": "developer", "content": "b"}],
    }
    assert encoded(request, rename={"max_tokens": "max_tokens"}) == encoded(request)


@pytest.mark.parametrize("rename", [{"max_tokens": "messages"}, {"system": "user"}])
def test_nothing_is_renamed_to_another_word(rename: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"Encoder\.rename"):
        Encoder(rename=rename)


WRONG_OPTIONS: list[dict[str, Any]] = [
    {"context_tokens": 0},
    {"context_tokens": True},
    {"context_tokens": 1.5},
    {"image_tokens": -1},
    {"omit": "reasoning_effort"},
    {"omit": None},
    {"omit": [1]},
    {"omit": [[]]},
    {"rename": None},
    {"rename": "max_tokens"},
    {"rename": {"max_tokens": []}},
]


@pytest.mark.parametrize("options", WRONG_OPTIONS, ids=repr)
def test_the_encoder_checks_its_options(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"Encoder\."):
        Encoder(**options)


# --- messages ------------------------------------------------------------------------------------


def test_only_a_request_is_encoded() -> None:
    nothing: Any = None
    with pytest.raises(ConfigError, match="request must be a Request, not a NoneType"):
        Encoder().encode(nothing)


def test_the_system_prompt_becomes_the_first_message() -> None:
    assert encoded(Request("m", system="S\ud800").user("u"))["messages"] == [
        {"role": "system", "content": "S\ufffd"},
        {"role": "user", "content": "u"},
    ]
    assert encoded(Request("m", system=""))["messages"] == [{"role": "system", "content": ""}]


FILE = TextFile.data('x"\n\u00e9', 'a"b\ud800')
FILE_TEXT = '<file name="a&quot;b\ufffd">\nx"\n\u00e9\n</file>'


@pytest.mark.parametrize(
    ("parts", "content"),
    [
        (["u\ud800"], "u\ufffd"),
        ([], ""),
        ([""], ""),
        (["a", "b\n", "c"], "a\n\nb\n\n\nc"),
        (["a", "", "b"], "a\n\nb"),
        ([FILE], FILE_TEXT),
        (["a", FILE, "b"], f"a\n\n{FILE_TEXT}\n\nb"),
        ([PNG], [PNG_PART]),
        (["", PNG], [PNG_PART]),
        (["a", PNG, FILE, PNG], [{"type": "text", "text": f"a\n\n{FILE_TEXT}"}, PNG_PART, PNG_PART]),
        (
            [Image.url("https://h.example/\u00e9")],
            [{"type": "image_url", "image_url": {"url": "https://h.example/\u00e9"}}],
        ),
        (
            [Image.url("DATA:image/png;base64,")],
            [{"type": "image_url", "image_url": {"url": "DATA:image/png;base64,"}}],
        ),
        (
            ["a", Media.data(b"RIFF", "audio/x-wav"), PNG, Media.data(b"ID3", "Audio/MPEG")],
            [
                {"type": "text", "text": "a"},
                {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
                PNG_PART,
                {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}},
            ],
        ),
        (
            [Media.data(b"%PDF", "application/pdf", 'a".pdf'), Media.data(b"%PDF", "application/pdf")],
            [
                {"type": "file", "file": {"filename": 'a".pdf', "file_data": "data:application/pdf;base64,JVBERg=="}},
                {
                    "type": "file",
                    "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
                },
            ],
        ),
    ],
)
def test_the_content_of_a_user_message(parts: list[Part | str], content: Any) -> None:
    assert message(*parts) == {"content": content}


@pytest.mark.parametrize("role", [Role.SYSTEM, Role.ASSISTANT])
def test_other_roles_join_texts_and_files_alike(role: Role) -> None:
    assert message("a", FILE, "b", role=role) == {"content": f"a\n\n{FILE_TEXT}\n\nb"}


CALL = ToolCall("c1", "look", '{"a": 1}')
WIRE_CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}


def test_an_answer_of_calls_only_has_empty_content() -> None:
    assert message(CALL, role=Role.ASSISTANT) == {"content": "", "tool_calls": [WIRE_CALL]}


def test_arguments_go_back_as_they_came_and_empty_ones_as_an_object() -> None:
    broken = ToolCall("c2", "look\ud800", '{"a": \ud800', complete=False)
    calls = message("text", CALL, ToolCall("c3", "f", ""), broken, role=Role.ASSISTANT)["tool_calls"]
    assert [call["function"] for call in calls] == [
        {"name": "look", "arguments": '{"a": 1}'},
        {"name": "f", "arguments": "{}"},
        {"name": "look\ufffd", "arguments": '{"a": \ufffd'},
    ]


def test_a_refusal_goes_back_as_content() -> None:
    request = Request("m").assistant(Completion(FinishReason.REFUSAL, (Text("No."),)))
    assert encoded(request)["messages"] == [{"role": "assistant", "content": "No."}]


THOUGHTS = (
    Reasoning("reasoning", "b1"),
    Text("answer"),
    Reasoning("reasoning_content", "a"),
    Reasoning("think", "t"),
    Reasoning("thinking", "of another API"),
    Reasoning("reasoning", "b2"),
)


def test_reasoning_goes_back_only_when_asked_for_under_its_key() -> None:
    assert message(*THOUGHTS, role=Role.ASSISTANT) == {"content": "answer"}
    assert message(*THOUGHTS, CALL, role=Role.ASSISTANT, send_reasoning=True) == {
        **{"content": "answer", "reasoning": "b1b2", "reasoning_content": "a"},
        "tool_calls": [WIRE_CALL],
    }
    assert message(Reasoning("reasoning", ""), role=Role.ASSISTANT, send_reasoning=True) == {"content": ""}


def test_opaque_data_goes_back_to_this_api_and_to_no_other() -> None:
    own = Opaque("openai_chat", ' {"sig": "\\u003d\\/", "n": 1.0} ')
    foreign = Opaque("anthropic_messages", '{"type": "thinking"}')
    call = ToolCall("1", "f", "{}", opaque=Opaque("openai_chat", '{"x": {"b": 1, "a": 2}, "function": {"y": 3}}'))
    elsewhere = ToolCall("2", "f", "{}", opaque=foreign)
    details = Reasoning("reasoning", "r", Opaque("openai_chat", '{"reasoning_details": []}'))
    other = Reasoning("reasoning", "r", foreign)
    parts = ("x", own, foreign, Opaque("openai_chat", "{}"), call, elsewhere, details, other)
    request = Request("m").message(Message.assistant(*parts))
    assert bytes(Encoder().encode(request)).endswith(
        b'{"role":"assistant","content":"x","sig": "\\u003d\\/", "n": 1.0,"tool_calls":['
        b'{"id":"1","type":"function","function":{"name":"f","arguments":"{}","y":3},"x":{"b":1,"a":2}},'
        b'{"id":"2","type":"function","function":{"name":"f","arguments":"{}"}}]}]}'
    )
    with_reasoning = message(*parts, role=Role.ASSISTANT, send_reasoning=True)
    assert with_reasoning["reasoning"] == "rr"
    assert with_reasoning["reasoning_details"] == []


@pytest.mark.parametrize(
    ("part", "kind", "words"),
    [
        (Opaque("openai_chat", "[1]"), ConfigError, "parts[0]: opaque data of openai_chat must be a JSON object"),
        (Opaque("openai_chat", "{secret"), ConfigError, "parts[0]: opaque data of openai_chat must be a JSON object"),
        (Opaque("openai_chat", '{"role": 1, "content": 2}'), UnsupportedError, "would replace 'content', 'role'"),
        (ToolCall("1", "f", "{}", opaque=Opaque("openai_chat", '{"id": 1}')), UnsupportedError, "would replace 'id'"),
        (
            ToolCall("1", "f", "{}", opaque=Opaque("openai_chat", '{"a":' + "[" * 300 + "]" * 300 + "}")),
            ConfigError,
            "nests deeper",
        ),
        (
            ToolCall("1", "f", "{}", opaque=Opaque("openai_chat", '{"function": 1}')),
            UnsupportedError,
            "would replace 'function'",
        ),
        (
            ToolCall("1", "f", "{}", opaque=Opaque("openai_chat", '{"function": {"name": 1}}')),
            UnsupportedError,
            "would replace 'name'",
        ),
    ],
)
def test_opaque_data_that_cannot_go_back(part: Part, kind: type[SvirError], words: str) -> None:
    detail = error(Request("m").message(Message.assistant(part)), kind)
    assert words in detail
    assert "secret" not in detail


def test_opaque_parts_may_not_replace_each_other() -> None:
    twice = Message.assistant(Opaque("openai_chat", '{"a": 1}'), Opaque("openai_chat", '{"a": 1}'))
    assert "messages[0].parts[1]: opaque data would replace 'a'" in error(Request("m").message(twice), UnsupportedError)


def test_each_result_is_a_message() -> None:
    results = [
        ToolResult("1", "fine\ud800"),
        ToolResult("2", "", is_error=False),
        ToolResult("3", "boom", is_error=True),
        ToolResult("4", [Text("a"), Text(""), Text("b")]),
        ToolResult("5", [Text("a"), Text("b")], is_error=True),
    ]
    assert encoded(Request("m").tool_results(results))["messages"] == [
        {"role": "tool", "tool_call_id": "1", "content": "fine\ufffd"},
        {"role": "tool", "tool_call_id": "2", "content": ""},
        {"role": "tool", "tool_call_id": "3", "content": "error: boom"},
        {"role": "tool", "tool_call_id": "4", "content": "a\n\nb"},
        {"role": "tool", "tool_call_id": "5", "content": "error: a\n\nb"},
    ]
    assert encoded(Request("m").tool_results([]))["messages"] == []


EXAMPLES: dict[type[Part], Part] = {
    Text: Text("x"),
    TextFile: FILE,
    Image: PNG,
    Media: Media.data(b"x", "application/pdf"),
    Reasoning: Reasoning("reasoning", "x"),
    ToolCall: CALL,
    ToolResult: ToolResult("1", "x"),
    Opaque: Opaque("openai_chat", "{}"),
    CachePoint: CachePoint(),
}


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("kind", list(EXAMPLES))
def test_a_part_its_role_cannot_carry_is_refused_by_name(role: Role, kind: type[Part]) -> None:
    parts = [EXAMPLES[conversation.CARRIES[role][0]], EXAMPLES[kind]]
    request = Request("m").user("x").message(Message(role, parts))
    if kind in conversation.CARRIES[role]:
        assert encoded(request)
    else:
        assert error(request, UnsupportedError) == (
            f"messages[1].parts[1]: a message of the {role.value} role cannot carry "
            f"{part.NAMES[kind]} in Chat Completions"
        )


@pytest.mark.parametrize(("asked", "sent"), [(True, True), (False, False), (None, None)])
def test_parallel_calls_are_allowed_or_not_where_tools_are_offered(asked: bool | None, sent: bool | None) -> None:
    assert encoded(Request("m", tools=[TOOL], parallel_tools=asked)).get("parallel_tool_calls") is sent
    assert "parallel_tool_calls" not in encoded(Request("m", parallel_tools=asked))


@pytest.mark.parametrize("role", [Role.SYSTEM, Role.USER])
def test_a_cache_point_marks_the_part_before_it(role: Role) -> None:
    parts = ["a", CachePoint(), Text(""), FILE, "b", CachePoint("12h"), "c"]
    marked = message(*parts, role=role)["content"]
    assert [block["text"] for block in marked] == ["a", FILE_TEXT, "b", "c"]
    assert [block.get("prompt_cache_breakpoint") for block in marked] == [
        {"mode": "explicit"},
        None,
        {"mode": "explicit", "ttl": "12h"},
        None,
    ]


def test_a_cache_point_marks_an_image_and_a_media_file() -> None:
    mark = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    image, media = message(PNG, CachePoint(), EXAMPLES[Media], CachePoint())["content"]
    assert image == {**PNG_PART, **mark}
    assert media["type"] == "file"
    assert media["prompt_cache_breakpoint"] == {"mode": "explicit"}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([CachePoint()], "parts[0]: a cache point needs a part before it"),
        ([Text(""), CachePoint()], "parts[1]: a cache point needs a part before it"),
        (["a", CachePoint(), CachePoint()], "parts[2]: a cache point needs a part before it"),
        (["a", CachePoint("5m")], "parts[1]: Chat Completions caches for '12h' or '30m'"),
    ],
)
def test_a_cache_point_that_marks_nothing_is_refused(parts: list[Part | str], words: str) -> None:
    assert words in error(Request("m").user(*parts), UnsupportedError)


def test_the_tables_of_parts_are_whole() -> None:
    assert set(part.NAMES) == set(EXAMPLES) == set(Part.__args__)
    assert set(conversation.CARRIES) == set(Role)


@pytest.mark.parametrize(
    ("part", "kind", "words"),
    [
        (Image(BytesSource(b"x")), AttachmentError, "an image needs a media type"),
        (Image(BytesSource(b"x"), ""), AttachmentError, "an image needs a media type"),
        (Image.path("/secret/x.bin"), AttachmentError, "'x.bin' was not measured"),
        (Image.path("/secret/x.png"), AttachmentError, "'x.png' was not measured"),
        (Image.url("file:///secret"), UnsupportedError, "an image URL must be https, http or data"),
        (TextFile(UrlSource("https://secret"), "n"), UnsupportedError, "takes no URL"),
        (TextFile(BytesSource(b"\xff"), "n"), AttachmentError, "is not UTF-8"),
        (TextFile(BytesSource(b"secret"), "n", 7), AttachmentError, "another length than declared"),
        (Media(BytesSource(b"x")), AttachmentError, "a media file needs a media type"),
        (Media(UrlSource("https://secret"), "audio/wav"), UnsupportedError, "takes no URL"),
        (Media(UrlSource("https://secret"), "application/pdf"), UnsupportedError, "takes no URL"),
        (Media.data(b"x", "video/mp4"), UnsupportedError, "not 'video/mp4'"),
    ],
)
def test_an_attachment_that_cannot_be_sent(part: Part, kind: type[SvirError], words: str) -> None:
    detail = error(Request("m").message(Message.user("x", part)), kind)
    assert detail.startswith("messages[0].parts[1]: ")
    assert words in detail
    assert "secret" not in detail


@pytest.mark.parametrize("part", [PNG, FILE, EXAMPLES[Media]])
def test_a_tool_result_carries_text_only(part: Any) -> None:
    request = Request("m").tool_results([ToolResult("1", "x"), ToolResult("2", [Text("a"), part])])
    assert "messages[0].parts[1].content[1]: a tool result cannot carry" in error(request, UnsupportedError)


def test_files_on_disk_are_planned_by_what_was_measured() -> None:
    request = Request("m").user(TextFile.path("/d/a.txt"), Image.path("/d/a.png"))
    body = Encoder().encode(request, {"/d/a.txt": Measured(5, 7), "/d/a.png": Measured(4)})
    assert body.on_disk
    same = Request("m").user(TextFile.data("12345", "a.txt"), PNG)
    assert body.length == Encoder().encode(same).length + 2


# --- stable bytes --------------------------------------------------------------------------------

TURNS = st.lists(
    st.sampled_from(
        [
            Message.user("hi"),
            Message.user("look", PNG, FILE),
            Message.system("s"),
            Message.assistant(*THOUGHTS, CALL),
            Message.assistant("only text"),
            Message.tool(ToolResult("1", "r"), ToolResult("2", "s", is_error=True)),
            Message.tool(),
        ]
    )
    | st.text().map(Message.user),
    max_size=6,
)


@given(TURNS, TURNS, st.booleans(), st.sampled_from([None, "be brief"]))
def test_a_longer_conversation_starts_with_the_bytes_of_the_shorter_one(
    turns: list[Message], more: list[Message], send_reasoning: bool, system: str | None
) -> None:
    request = Request("m", tools=[TOOL], system=system, extra={"x": 1}, send_reasoning=send_reasoning, max_tokens=9)
    shorter = bytes(Encoder().encode(request.message(*turns)))
    longer = bytes(Encoder().encode(request.message(*turns, *more)))
    assert shorter.endswith(b"]}")
    assert longer.startswith(shorter.removesuffix(b"]}"))
    assert bytes(Encoder().encode(request.message(*turns))) == shorter


@given(st.lists(st.binary() | st.text(st.characters(exclude_categories=())), min_size=1), st.integers(1, 50))
def test_a_body_is_the_reference_in_any_blocks(items: list[bytes | str], block_bytes: int) -> None:
    parts: list[Part] = [Image.data(item, "image/png") if isinstance(item, bytes) else Text(item) for item in items]
    parts += [TextFile.data(item.encode("utf-8", "replace"), "n") for item in items if isinstance(item, str)]
    texts = [item for item in items if isinstance(item, str) and item]
    clean = [text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace") for text in texts]
    names = [
        f'<file name="n">\n{item.encode("utf-8", "replace").decode()}\n</file>'
        for item in items
        if isinstance(item, str)
    ]
    text = "\n\n".join(clean + names)
    images = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(item).decode()}"}}
        for item in items
        if isinstance(item, bytes)
    ]
    content: Any = text
    if images:
        content = ([{"type": "text", "text": text}] if text else []) + images
    reference = {"model": "m", "stream": True, "messages": [{"role": "user", "content": content}]}
    body = Encoder().encode(Request("m").user(*parts))
    assert b"".join(body.blocks(block_bytes)) == bytes(body) == orjson.dumps(reference)


# --- admission -----------------------------------------------------------------------------------


def test_length_and_max_tokens_must_fit_in_the_context() -> None:
    request = Request("m", max_tokens=100).user("hello")
    length = Encoder().encode(request).length
    assert encoded(request, context_tokens=length + 100)
    assert str(length + 100) in error(request, ContextOverflowError, context_tokens=length + 99)
    free = request.replace(max_tokens=None)
    length = Encoder().encode(free).length
    assert encoded(free, context_tokens=length)
    assert error(free, ContextOverflowError, context_tokens=length - 1)


def test_admission_wants_room_for_an_answer() -> None:
    request = Request("m", max_tokens=0)
    assert "max_tokens is 0" in error(request, ContextOverflowError, context_tokens=10**9)
    assert encoded(request)["max_tokens"] == 0


def test_an_image_counts_what_the_caller_says() -> None:
    request = Request("m").user(Image.data(bytes(30_000), "image/png"), Image.url("https://h/x"), FILE)
    length = Encoder().encode(request).length
    assert error(request, ContextOverflowError, context_tokens=length - 1)
    counted = length - 40_000 + 2 * 85
    assert encoded(request, context_tokens=counted, image_tokens=85)
    assert error(request, ContextOverflowError, context_tokens=counted - 1, image_tokens=85)
    assert encoded(request, context_tokens=length - 40_000, image_tokens=0)


def test_a_renamed_limit_counts_too() -> None:
    request = Request("m", max_tokens=10**6)
    rename = {"max_tokens": "max_completion_tokens"}
    assert error(request, ContextOverflowError, context_tokens=1000, rename=rename)
