"""Arguments that cannot be read, or not in time: results, whatever a class or a schema of the caller's does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anyio
import orjson
import pytest

from svir_client import ToolError, Tools
from svir_core import ConfigError, ToolCall

pytestmark = pytest.mark.anyio


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("c", name, orjson.dumps(arguments).decode())


def never(**arguments: Any) -> None:
    raise AssertionError("reached")


async def test_a_schema_that_takes_too_long_holds_up_neither_the_loop_nor_the_call() -> None:
    tools = Tools()
    unique = {"type": "object", "properties": {"q": {"type": "array", "uniqueItems": True}}}
    tools.add(never, name="f", schema=unique, timeout=0.05)
    ran: list[int] = []

    @tools.tool
    async def beside() -> None:
        ran.append(1)

    with anyio.fail_after(10):
        results = await tools.call_all([call("f", q=[{"a": number} for number in range(700)]), call("beside")])
    assert [result.content for result in results] == ["tool 'f' did not end within 0.05 s", "null"]
    assert ran == [1]


async def test_a_schema_that_refers_to_itself_for_ever_is_a_result() -> None:
    tools = Tools()
    tools.add(never, name="f", schema={"type": "object", "$ref": "#"})
    result = await tools.call(call("f"))
    assert result.is_error
    assert result.content == "the arguments of f: does not fit the schema: $: is nested too deep"


async def test_what_the_validator_cannot_do_is_a_result() -> None:
    heard: list[Exception] = []
    tools = Tools(on_error=heard.append)
    properties = {"q": {"$ref": "#/elsewhere"}}
    schema = {"type": "object", "properties": properties, "elsewhere": {"minimum": "hunter2"}}
    tools.add(never, name="f", schema=schema)
    result = await tools.call(call("f", q=1))
    assert result.is_error
    assert result.content == "the arguments of f were refused: nothing was run"
    assert len(heard) == 1


@dataclass
class Picky:
    """Refuses as it likes."""

    x: int

    def __post_init__(self) -> None:
        raise (KeyError("hunter2"), ToolError("x must be even"), ValueError("hunter2"), Mute())[self.x]


class Mute(ToolError):
    """Says nothing."""

    def __str__(self) -> str:
        raise RuntimeError("hunter2")


async def test_whatever_a_class_raises_while_it_is_read_is_a_result() -> None:
    heard: list[Exception] = []
    tools = Tools(on_error=heard.append)

    @tools.tool
    def f(d: Picky) -> None:
        raise AssertionError("reached")

    @tools.tool
    async def fine() -> str:
        return "done"

    with anyio.fail_after(10):
        results = await tools.call_all([*(call("f", d={"x": x}) for x in range(4)), call("fine")])
    assert [result.content for result in results] == [
        "the arguments of f were refused: nothing was run",
        "x must be even",
        "the arguments of f: does not fit the schema: $.d: was refused",
        "the arguments of f were refused: nothing was run",
        "done",
    ]
    assert [type(error) for error in heard] == [KeyError, RuntimeError]


async def test_words_of_a_tool_that_cannot_be_said() -> None:
    heard: list[Exception] = []
    tools = Tools(on_error=heard.append)

    @tools.tool
    def mute() -> None:
        raise Mute

    @tools.tool
    def half() -> None:
        raise ToolError("a\ud800")

    results = await tools.call_all([call("mute"), call("half")])
    assert [result.content for result in results] == ["tool 'mute' failed", "a\ufffd"]
    assert [type(error) for error in heard] == [RuntimeError]


@pytest.mark.parametrize("wrong", ["x", None, 1])
async def test_what_is_no_call(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="a ToolCall"):
        await Tools().call(wrong)
