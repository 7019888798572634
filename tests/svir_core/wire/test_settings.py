"""The settings of a body and what a caller adds to them: 00 section 3, 10 section 10."""

from __future__ import annotations

from typing import Any, cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import ConfigError, ContextOverflowError, UnsupportedError
from svir_core.request import Request, Tool, ToolChoice
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from svir_core.wire.admission import admit
from svir_core.wire.api import Api, CodecOptions, Compat
from svir_core.wire.part import ImageCount
from svir_core.wire.settings import check_tool_choice, checked_max_tokens, place, with_extra, with_tool_extra

OWNED = frozenset({"model", "stream"})


@pytest.mark.parametrize(
    ("fields", "extra", "expected"),
    [
        ({"a": 1}, {}, {"a": 1}),
        ({"a": 1}, {"b": {"c": 2}}, {"a": 1, "b": {"c": 2}}),
        ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {"d": 2}, "e": 3}}, {"a": {"b": {"c": 1, "d": 2}, "e": 3}}),
        ({"tools": [1]}, {"tools": [2, 3]}, {"tools": [2, 3, 1]}),
        ({}, {"tools": [2]}, {"tools": [2]}),
        # what the codec wrote inside an object stays
        ({"a": {"b": 1}}, {"a": {"b": 2, "c": 3}}, {"a": {"b": 1, "c": 3}}),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": {}, "d": 2}}}, {"a": {"b": {"c": 1, "d": 2}}}),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": None}}, {"a": {"b": {"c": 1}}}),
        ({"a": {"b": [1]}}, {"a": {"b": [2]}}, {"a": {"b": [1]}}),
        ({"a": {"tools": [1]}}, {"a": {"tools": [2]}}, {"a": {"tools": [1]}}),
        # an object of another type adds nothing
        ({"a": {"type": "x"}}, {"a": {"type": "y", "c": 1}}, {"a": {"type": "x"}}),
        ({"a": {"b": {"type": "x"}}}, {"a": {"b": {"type": "y", "c": 1}}}, {"a": {"b": {"type": "x"}}}),
        ({"a": {"type": "x"}}, {"a": {"type": "x", "c": 1}}, {"a": {"type": "x", "c": 1}}),
        ({"a": {"type": "x"}}, {"a": {"c": 1}}, {"a": {"type": "x", "c": 1}}),
        ({"a": {"b": 1}}, {"a": {"type": "y"}}, {"a": {"b": 1, "type": "y"}}),
    ],
)
def test_extra_adds(fields: dict[str, Any], extra: dict[str, Any], expected: dict[str, Any]) -> None:
    before = repr(fields)
    assert with_extra(fields, extra, OWNED) == expected
    assert repr(fields) == before


@pytest.mark.parametrize(
    ("fields", "extra", "named"),
    [
        ({}, {"model": "x"}, "model"),
        ({"a": 1}, {"a": 1}, "a"),
        ({"a": None}, {"a": 1}, "a"),
        ({"a": {"b": 1}}, {"a": 2}, "a"),
        ({"a": {"b": 1}}, {"a": None}, "a"),
        ({"a": [1]}, {"a": [2]}, "a"),
        ({"tools": [1]}, {"tools": {}}, "tools"),
    ],
)
def test_extra_replaces_no_field(fields: dict[str, Any], extra: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=f"'{named}'"):
        with_extra(fields, extra, OWNED)


@pytest.mark.parametrize(
    ("left_out", "extra", "expected"),
    [
        ({"b": 1}, {"b": 2, "c": 3}, {"a": 1, "c": 3}),
        ({"b": {"c": 1}}, {"b": {"c": 2, "d": 3}}, {"a": 1, "b": {"d": 3}}),
        ({"b": {"c": 1}}, {"b": {"c": 2}}, {"a": 1}),
        ({"b": {"c": {"d": 1}}}, {"b": {"c": {"e": 2}}}, {"a": 1, "b": {"c": {"e": 2}}}),
        ({"b": {"c": 1}}, {"b": 5}, {"a": 1}),
        ({"b": {"type": "x"}}, {"b": {"type": "y", "d": 1}}, {"a": 1}),
        ({"b": {"type": "x"}}, {"b": {"d": 1}}, {"a": 1, "b": {"d": 1}}),
    ],
)
def test_extra_does_not_say_what_is_left_out(
    left_out: dict[str, Any], extra: dict[str, Any], expected: dict[str, Any]
) -> None:
    before = repr((left_out, extra))
    assert with_extra({"a": 1}, extra, OWNED, left_out) == expected
    assert repr((left_out, extra)) == before


KEYS = st.sampled_from(["a", "b", "type"])
OBJECTS = st.recursive(
    st.dictionaries(KEYS, st.integers(0, 2), max_size=3), lambda inner: st.dictionaries(KEYS, st.integers(0, 2) | inner)
)


def leaves(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Each value that is no object, and the empty ones, by the path that leads to it."""
    if not isinstance(value, dict) or not value:
        return {path: value}
    inner = cast("dict[str, Any]", value)
    return {where: leaf for key, each in inner.items() for where, leaf in leaves(each, (*path, key)).items()}


@given(OBJECTS, OBJECTS)
def test_every_value_of_the_codec_stays_where_it_is(fields: dict[str, Any], extra: dict[str, Any]) -> None:
    merged = leaves(with_extra({"x": fields}, {"x": extra}, OWNED))
    for path, leaf in leaves({"x": fields}).items():
        assert merged.get(path) == leaf or leaf == {}
    assert with_extra({"x": fields}, {"x": fields}, OWNED) == {"x": fields}
    assert with_extra({"x": fields}, {"x": {}}, OWNED) == {"x": fields}
    assert with_extra({}, {"x": extra}, OWNED) == {"x": extra}


@given(OBJECTS, OBJECTS)
def test_what_is_left_out_is_not_said_by_extra(left_out: dict[str, Any], extra: dict[str, Any]) -> None:
    said = leaves(with_extra({}, {"x": extra}, OWNED, {"x": left_out}))
    assert not {path for path, leaf in leaves({"x": left_out}).items() if leaf != {}} & said.keys()


def test_a_value_is_placed_in_objects_of_its_own() -> None:
    fields: dict[str, Any] = {}
    place(fields, ("a", "b"), 1)
    place(fields, ("a", "c", "d"), 2)
    place(fields, ("e",), 3)
    assert fields == {"a": {"b": 1, "c": {"d": 2}}, "e": 3}


def test_what_a_tool_adds() -> None:
    assert with_tool_extra({"name": "f"}, Tool("f", extra={"strict": True}), "tools[0]") == {
        "name": "f",
        "strict": True,
    }
    with pytest.raises(ConfigError, match=r"tools\[0\].extra may not set 'name'"):
        with_tool_extra({"name": "f"}, Tool("f", extra={"name": "g"}), "tools[0]")


@pytest.mark.parametrize("choice", [ToolChoice.AUTO, ToolChoice.NONE])
def test_a_choice_that_needs_no_tool(choice: ToolChoice) -> None:
    check_tool_choice(Request("m", tool_choice=choice))


def test_a_choice_that_no_tool_meets_is_refused() -> None:
    check_tool_choice(Request("m", tools=[Tool("f")], tool_choice="required"))
    check_tool_choice(Request("m", tools=[Tool("f")], tool_choice=ToolChoice.tool("f")))
    with pytest.raises(UnsupportedError, match="none is offered"):
        check_tool_choice(Request("m", tool_choice="required"))
    with pytest.raises(UnsupportedError, match="'g' is not offered"):
        check_tool_choice(Request("m", tools=[Tool("f")], tool_choice=ToolChoice.tool("g")))


HOSTED = [{"type": "web_search"}, {"name": "a"}, {"function": {"name": "b"}}, {"functionDeclarations": [{"name": "c"}]}]


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_tools_of_extra_are_on_offer(name: str) -> None:
    check_tool_choice(Request("m", tool_choice="required", extra={"tools": HOSTED[:1]}))
    check_tool_choice(Request("m", tools=[Tool("f")], tool_choice=ToolChoice.tool(name), extra={"tools": HOSTED}))


@pytest.mark.parametrize("tools", [None, [], {}, "tools", [3], [{"name": 5}], [{"function": "g"}]])
def test_tools_of_extra_without_the_name(tools: object) -> None:
    with pytest.raises(UnsupportedError, match="'g' is not offered"):
        check_tool_choice(Request("m", tool_choice=ToolChoice.tool("g"), extra={"tools": tools}))


@pytest.mark.parametrize("tools", [None, [], {}, "tools", [3]])
def test_no_tools_of_extra(tools: object) -> None:
    with pytest.raises(UnsupportedError, match="none is offered"):
        check_tool_choice(Request("m", tool_choice="required", extra={"tools": tools}))


OWN_TOOLS: list[tuple[Api, dict[str, Any], str, Any, Any]] = [
    (
        openai_responses.API,
        {"type": "function", "name": "a"},
        "tool_choice",
        "required",
        {"type": "function", "name": "a"},
    ),
    (anthropic_messages.API, {"name": "a"}, "tool_choice", {"type": "any"}, {"type": "tool", "name": "a"}),
    (
        gemini.API,
        {"functionDeclarations": [{"name": "a"}]},
        "toolConfig",
        {"functionCallingConfig": {"mode": "ANY"}},
        {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["a"]}},
    ),
]


@pytest.mark.parametrize(
    ("api", "tool", "field", "required", "named"), OWN_TOOLS, ids=[api.name for api, *_ in OWN_TOOLS]
)
def test_a_choice_of_extras_tools_is_sent(
    api: Api, tool: dict[str, Any], field: str, required: Any, named: Any
) -> None:
    for choice, expected in (("required", required), (ToolChoice.tool("a"), named)):
        request = Request("m", tool_choice=choice, extra={"tools": [tool]}).user("hi")
        assert orjson.loads(bytes(api.encode(request, CodecOptions(), Compat())))[field] == expected


HOSTED_FIRST: list[tuple[Api, Any]] = [
    (openai_chat.API, {"type": "web_search"}),
    (openai_responses.API, {"type": "web_search"}),
    (anthropic_messages.API, {"type": "web_search_20250305", "name": "web_search"}),
    (gemini.API, {"googleSearch": {}}),
]


def sent(api: Api, request: Request) -> dict[str, Any]:
    body: dict[str, Any] = orjson.loads(bytes(api.encode(request.user("hi"), CodecOptions(), Compat())))
    return body


@pytest.mark.parametrize(("api", "hosted"), HOSTED_FIRST, ids=[api.name for api, _ in HOSTED_FIRST])
def test_hosted_tools_come_before_local_ones(api: Api, hosted: Any) -> None:
    alone = sent(api, Request("m", tools=[Tool("f", "d")]))["tools"]
    assert sent(api, Request("m", tools=[Tool("f", "d")], extra={"tools": [hosted]}))["tools"] == [hosted, *alone]
    assert sent(api, Request("m", extra={"tools": [hosted]}))["tools"] == [hosted]
    assert len(alone) == 1
    with pytest.raises(ConfigError, match="'tools', which belongs to the codec"):
        sent(api, Request("m", tools=[Tool("f", "d")], extra={"tools": hosted}))


COLLISIONS: list[tuple[Api, dict[str, Any], dict[str, Any], str, Any]] = [
    (
        openai_responses.API,
        {"effort": "low"},
        {"reasoning": {"effort": "high", "summary": "auto"}},
        "reasoning",
        {"effort": "low", "summary": "auto"},
    ),
    (
        anthropic_messages.API,
        {"effort": "low"},
        {"output_config": {"effort": "max", "x": 1}},
        "output_config",
        {"effort": "low", "x": 1},
    ),
    (
        gemini.API,
        {"temperature": 0.0},
        {"generationConfig": {"temperature": 1, "topK": 4}},
        "generationConfig",
        {"temperature": 0.0, "topK": 4},
    ),
]


@pytest.mark.parametrize(
    ("api", "settings", "extra", "field", "expected"), COLLISIONS, ids=[api.name for api, *_ in COLLISIONS]
)
def test_a_typed_setting_wins_inside_an_object(
    api: Api, settings: dict[str, Any], extra: dict[str, Any], field: str, expected: Any
) -> None:
    assert sent(api, Request("m", extra=extra))[field] == extra[field]
    assert sent(api, Request("m", extra=extra, **settings))[field] == expected


@pytest.mark.parametrize(
    ("settings", "extra"),
    [
        ({"effort": "low"}, {"reasoning_effort": "high"}),
        ({"include_usage": True}, {"stream_options": {"include_usage": False}}),
        ({"response_format": "json"}, {"response_format": {"type": "text"}}),
    ],
)
def test_every_setting_of_chat_completions_is_a_field(settings: dict[str, Any], extra: dict[str, Any]) -> None:
    (field,) = extra
    for request in (Request("m", extra=extra), Request("m", extra=extra, **settings)):
        with pytest.raises(ConfigError, match=f"'{field}', which belongs to the codec"):
            sent(openai_chat.API, request)


def test_hosted_tools_of_chat_completions_count_as_offered() -> None:
    request = Request("m", extra={"tools": HOSTED[:1]}, tool_choice="required", parallel_tools=False)
    body = sent(openai_chat.API, request)
    assert (body["tool_choice"], body["parallel_tool_calls"]) == ("required", False)


def test_max_tokens() -> None:
    assert checked_max_tokens(Request("m")) is None
    assert checked_max_tokens(Request("m", max_tokens=0)) == 0
    with pytest.raises(ConfigError, match="max_tokens"):
        checked_max_tokens(Request("m", max_tokens=-1))


def test_admission() -> None:
    images = ImageCount(2, 50)
    admit(10**9, None, images, context_tokens=None, image_tokens=None)
    admit(100, None, images, context_tokens=100, image_tokens=None)
    admit(100, 10, images, context_tokens=80, image_tokens=10)
    with pytest.raises(ContextOverflowError, match="counts 80 tokens"):
        admit(100, 10, images, context_tokens=79, image_tokens=10)
    with pytest.raises(ContextOverflowError, match="max_tokens is 0"):
        admit(1, 0, images, context_tokens=100, image_tokens=None)
