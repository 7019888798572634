"""The settings of a body and what a caller adds to them: 00 section 3, 10 section 10."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from svir_core.errors import ConfigError, ContextOverflowError, UnsupportedError
from svir_core.request import Request, Tool, ToolChoice
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from svir_core.wire.admission import admit
from svir_core.wire.api import Api, CodecOptions, Compat
from svir_core.wire.part import ImageCount
from svir_core.wire.settings import check_tool_choice, checked_max_tokens, with_extra, with_tool_extra

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
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "a.b"),
        ({"a": {"b": 1}}, {"a": 2}, "a"),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": {}}}}, "a.b.c"),
        ({"a": [1]}, {"a": [2]}, "a"),
        ({"tools": [1]}, {"tools": {}}, "tools"),
    ],
)
def test_extra_replaces_nothing(fields: dict[str, Any], extra: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=f"'{named}'"):
        with_extra(fields, extra, OWNED)


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


def test_extra_may_not_set_the_tools_of_chat_completions() -> None:
    request = Request("m", tool_choice="required", extra={"tools": HOSTED}).user("hi")
    with pytest.raises(ConfigError, match="'tools', which belongs to the codec"):
        openai_chat.API.encode(request, CodecOptions(), Compat())


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
