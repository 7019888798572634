from __future__ import annotations

import pickle
from typing import Any

import attrs
import pytest

from svir_core.errors import ConfigError
from svir_core.message import Message, Reasoning, Text, ToolCall, ToolResult
from svir_core.request import (
    Effort,
    Request,
    ResponseFormat,
    Schema,
    Tool,
    Toolbox,
    ToolChoice,
    ToolMode,
)
from svir_core.response import Completion

TOOL = Tool("lookup", "Look up.", {"type": "object"})

FULL = Request(
    "m",
    system="Be precise.",
    messages=[Message.user("hi")],
    tools=[TOOL],
    tool_choice=ToolChoice.tool("lookup"),
    response_format=Schema("s", {"type": "object"}, True),
    effort=Effort.LOW,
    max_tokens=5,
    temperature=0.5,
    top_p=1,
    stop=["a", "b"],
    seed=7,
    include_usage=True,
    send_reasoning=True,
    extra={"top_k": 3},
)


def test_a_request_is_a_value() -> None:
    for request in (FULL, Request("m")):
        assert pickle.loads(pickle.dumps(request)) == request
    assert FULL.replace(seed=8) != FULL
    for value in (TOOL, ToolChoice.tool("x"), ToolChoice.AUTO, Schema("s", {})):
        assert pickle.loads(pickle.dumps(value)) == value


def test_nothing_set_is_none() -> None:
    request = Request("m")
    assert request.tool_choice is ToolChoice.AUTO
    assert request.response_format is ResponseFormat.TEXT
    settings = (request.system, request.effort, request.max_tokens, request.temperature, request.top_p, request.seed)
    assert settings == (None,) * 6
    assert (request.messages, request.tools, request.stop, request.extra) == ((), (), (), {})
    assert request.include_usage is None
    assert request.send_reasoning is False


def test_plain_words_are_taken() -> None:
    request = Request("m", tool_choice="required", response_format="json", effort="off", stop="x")
    assert request.tool_choice is not ToolChoice.REQUIRED
    assert request.tool_choice == ToolChoice.REQUIRED
    assert request.response_format is ResponseFormat.JSON
    assert request.effort is Effort.OFF
    assert request.stop == ("x",)
    assert ToolChoice("none") == ToolChoice.NONE


def test_a_toolbox_is_asked_for_its_tools() -> None:
    class Box:
        def tools(self) -> list[Tool]:
            return [TOOL]

    assert isinstance(Box(), Toolbox)
    assert Request("m", tools=Box()).tools == (TOOL,)
    assert Tool("f").schema == {"type": "object", "properties": {}}


def test_a_tool_without_a_schema_takes_an_empty_object() -> None:
    assert Tool("f").schema == {"type": "object", "properties": {}}
    assert Tool("f").schema is not Tool("f").schema
    assert (Tool("f").description, Tool("f").extra) == ("", {})


def test_a_request_is_its_own_copy() -> None:
    extra = {"a": 1}
    request = Request("m", extra=extra)
    extra["b"] = 2
    assert request.extra == {"a": 1}


def test_changes_give_another_request() -> None:
    request = Request("m").user("hi", Text("there"))
    assert request.messages == (Message.user("hi", "there"),)
    assert Request("m").messages == ()
    assert request.message(Message.system("x"), Message.user("y")).messages[1:] == (
        Message.system("x"),
        Message.user("y"),
    )
    answer = Completion("tool_calls", [Reasoning("think", "hm"), Text("a"), ToolCall("id", "f", "{}")])
    after = request.assistant(answer).tool_result("id", "5").tool_results([ToolResult("x", "y", True)])
    assert after.messages[1:] == (
        Message.assistant(*answer.parts),
        Message.tool(ToolResult("id", "5")),
        Message.tool(ToolResult("x", "y", True)),
    )
    assert request.tool_result("id", [Text("a")], is_error=True).messages[-1] == Message.tool(
        ToolResult("id", [Text("a")], True)
    )
    assert request.replace(model="n", effort="high").effort is Effort.HIGH


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("Request.model must be str", {"model": 5}),
    ("Request.model must be str", {"model": None}),
    ("Request.system must be str or None", {"system": Message.system("x")}),
    ("Request.messages is a sequence of Message", {"messages": 5}),
    (r"Request.messages\[0\] is a str, not a Message", {"messages": ["hi"]}),
    (r"Request.messages\[0\] is a str, not a Message", {"messages": "hi"}),
    ("Request.tools is a sequence of Tool, or a Toolbox", {"tools": 5}),
    (r"Request.tools\[0\] is a dict, not a Tool$", {"tools": [{}]}),
    (r"Request.tools\[0\] is a builtin_function_or_method, not a Tool: Tools\(\) of", {"tools": [print]}),
    ("Request.tool_choice is a ToolChoice, or one of", {"tool_choice": "lookup"}),
    ("Request.tool_choice is a ToolChoice, or one of", {"tool_choice": "named"}),
    ("Request.tool_choice is a ToolChoice, or one of", {"tool_choice": None}),
    ("Request.response_format is one of 'text', 'json'", {"response_format": "xml"}),
    ("Request.response_format is one of 'text', 'json'", {"response_format": None}),
    ("Request.effort is one of 'off', ", {"effort": "huge"}),
    ("Request.effort is one of 'off', ", {"effort": 5}),
    ("Request.max_tokens must be int or None", {"max_tokens": "5"}),
    ("Request.max_tokens must be int or None", {"max_tokens": True}),
    ("Request.max_tokens must be int or None", {"max_tokens": 5.0}),
    ("Request.temperature must be a number or None", {"temperature": "0"}),
    ("Request.temperature must be finite", {"temperature": float("nan")}),
    ("Request.top_p must be finite", {"top_p": float("-inf")}),
    ("Request.stop is a string or a sequence of strings", {"stop": 5}),
    ("Request.stop is a string or a sequence of strings", {"stop": [5]}),
    ("Request.stop is a string or a sequence of strings", {"stop": None}),
    ("Request.seed must be int or None", {"seed": 1.5}),
    ("Request.include_usage must be bool or None", {"include_usage": 1}),
    ("Request.send_reasoning must be bool", {"send_reasoning": None}),
    ("Request.extra is a mapping with strings as keys", {"extra": [("a", 1)]}),
    ("Request.extra is a mapping with strings as keys", {"extra": {1: 2}}),
]


@pytest.mark.parametrize(("says", "settings"), WRONG, ids=repr)
def test_a_mistake_is_named(says: str, settings: dict[str, Any]) -> None:
    def make(values: dict[str, Any]) -> Request:
        return Request(**values)

    with pytest.raises(ConfigError, match="^" + says):
        make({"model": "m", **settings})
    with pytest.raises(ConfigError, match="^" + says):
        Request("m").replace(**settings)


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(ConfigError, match="no setting named temprature, top_q"):
        Request("m").replace(top_q=1, temprature=2, seed=3)


def test_a_mistake_inside_a_setting_is_not_taken_for_an_unknown_one() -> None:
    class Broken:
        def tools(self) -> list[Tool]:
            raise TypeError("inside")

    with pytest.raises(TypeError, match="inside"):
        Request("m").replace(tools=Broken())


OTHERS: list[tuple[Any, tuple[Any, ...]]] = [
    (ToolChoice, ("lookup",)),
    (ToolChoice, (ToolMode.NAMED,)),
    (ToolChoice, (ToolMode.AUTO, "lookup")),
    (ToolChoice, (None,)),
    (ToolChoice.tool, (5,)),
    (Tool, (5,)),
    (Tool, ("f", None)),
    (Tool, ("f", "", "{}")),
    (Schema, (5, {})),
    (Schema, ("s", "{}")),
    (Schema, ("s", {}, "yes")),
]


@pytest.mark.parametrize(("make", "arguments"), OTHERS, ids=range(len(OTHERS)))
def test_other_mistakes_are_config_errors(make: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigError):
        make(*arguments)


@attrs.frozen
class Step:
    """One step."""

    do: str
    minutes: int = 1


def test_a_schema_is_made_of_a_type() -> None:
    schema = Schema.of(Step)
    assert (schema.name, schema.strict) == ("Step", False)
    assert schema.schema == {
        "description": "One step.",
        "type": "object",
        "properties": {"do": {"type": "string"}, "minutes": {"type": "integer", "default": 1}},
        "required": ["do"],
        "additionalProperties": False,
    }
    assert Schema.of(Step) == schema
    assert Request("m", response_format=schema).response_format is schema
    assert pickle.loads(pickle.dumps(schema)) == schema


def test_a_strict_schema_requires_every_property() -> None:
    schema = Schema.of(Step, strict=True)
    assert (schema.name, schema.strict) == ("Step", True)
    assert schema.schema["required"] == ["do", "minutes"]
    assert "default" not in schema.schema["properties"]["minutes"]


def test_a_type_that_holds_others_keeps_them_below_it() -> None:
    schema = Schema.of(list[Step]).schema
    assert schema["items"] == {"$ref": "#/$defs/Step"}
    assert schema["$defs"]["Step"] == Schema.of(Step).schema


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Step, "Step"),
        (list[Step], "list"),
        (int | None, "answer"),
        (attrs.make_class("Größe", {"cm": attrs.field(type=int)}), "Gr_e"),
        (attrs.make_class("Δ", {"cm": attrs.field(type=int)}), "answer"),
        (attrs.make_class("N" * 80, {"cm": attrs.field(type=int)}), "N" * 64),
    ],
)
def test_a_schema_has_a_name_that_apis_take(kind: Any, name: str) -> None:
    assert Schema.of(kind).name == name
    assert Schema.of(kind, name="mine").name == "mine"


@pytest.mark.parametrize("kind", [object(), complex, "Step", 5])
def test_a_type_that_json_cannot_be_read_into_has_no_schema(kind: Any) -> None:
    with pytest.raises(ConfigError, match="is not a type that JSON can be read into"):
        Schema.of(kind)


def test_a_name_is_a_string() -> None:
    name: Any = 5
    with pytest.raises(ConfigError, match=r"Schema\.name must be str"):
        Schema.of(Step, name=name)
