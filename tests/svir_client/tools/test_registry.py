"""The registry: what is offered of a function, and what becomes of a call."""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import Annotated, Any

import anyio
import anyio.lowlevel
import attrs
import pytest

from svir_client import SessionState, ToolContext, ToolError, Tools
from svir_core import ConfigError, Image, Request, Text, ToolCall, ToolResult
from svir_core.request import Toolbox as Listing

pytestmark = pytest.mark.anyio


def call(name: str, arguments: str = "{}", *, id: str = "c", complete: bool = True) -> ToolCall:
    return ToolCall(id, name, arguments, complete)


async def test_the_example_of_the_readme() -> None:
    tools = Tools()

    @tools.tool
    async def lookup(value: int) -> str:
        "Look up a value."
        return str(value * 2)

    request = Request("m", tools=tools)
    (tool,) = request.tools
    assert (tool.name, tool.description) == ("lookup", "Look up a value.")
    assert tool.schema == {
        "type": "object",
        "properties": {"value": {"type": "integer"}},
        "required": ["value"],
        "additionalProperties": False,
    }
    assert await lookup(2) == "4"  # the function stays as it is
    assert isinstance(tools, Listing)
    results = await tools.call_all([call("lookup", '{"value": 7}', id="a"), call("lookup", '{"value": 8}', id="b")])
    assert results == (ToolResult("a", "14"), ToolResult("b", "16"))
    assert repr(tools) == "Tools(lookup)"


@attrs.frozen
class Place:
    """Where it is."""

    city: str


async def test_types_defaults_and_words_reach_the_schema_and_values_the_function() -> None:
    tools = Tools()
    got: list[Any] = []

    @tools.tool(name="weather", description="The weather.")
    def _weather(place: Annotated[Place, "the place"], days: int = 1, *, unit: str | None = None) -> None:
        """Not this.

        Args:
            place: not this
            days: how many days
        """
        got.append((place, days, unit))

    (tool,) = tools.tools()
    assert (tool.name, tool.description) == ("weather", "The weather.")
    assert tool.schema["properties"] == {
        "place": {"$ref": "#/$defs/Place", "description": "the place"},
        "days": {"type": "integer", "description": "how many days", "default": 1},
        "unit": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    }
    assert tool.schema["required"] == ["place"]
    assert list(tool.schema["$defs"]) == ["Place"]
    assert await tools.call(call("weather", '{"place": {"city": "Oslo"}}')) == ToolResult("c", "null")
    assert await tools.call(call("weather", '{"unit": "c", "place": {"city": "Rome"}, "days": 3}'))
    assert got == [(Place("Oslo"), 1, None), (Place("Rome"), 3, "c")]


async def test_what_does_not_fit_never_reaches_the_function_and_every_place_is_told() -> None:
    tools = Tools()

    @tools.tool
    def f(a: int, place: Place, tags: list[str]) -> None:
        raise AssertionError("reached")

    result = await tools.call(call("f", '{"a": "hunter2", "place": {"town": 1}, "tags": ["x", 1, 2], "z": 0}'))
    assert result.is_error
    assert result.content == (
        "the arguments of f: does not fit the schema: $.a: expected an integer, got a string; "
        "$.place.city: is missing; $.place: has keys that are not declared; "
        "$.tags[1]: expected a string, got a number; "
        "$.tags[2]: expected a string, got a number; $: has keys that are not declared"
    )
    for arguments, words in [
        ("", "$.a: is missing"),
        ("[]", "$: expected an object, got an array"),
        ("{", "the arguments of f: not JSON"),
        ("[" * 100_000, "the arguments of f: not JSON"),
        ('{"a": 1, "place": ' + '{"city": ' * 500 + '""' + "}" * 502, "the arguments of f:"),
    ]:
        result = await tools.call(call("f", arguments))
        assert result.is_error
        assert words in str(result.content)


async def test_a_megabyte_that_fits_nowhere_is_told_in_a_few_lines() -> None:
    tools = Tools()

    @tools.tool
    def typed(items: list[int]) -> None:
        raise AssertionError("reached")

    schema = {"type": "object", "properties": {"items": {"type": "array", "items": {"type": "integer"}}}}
    tools.add(typed, name="schema", schema=schema)
    arguments = '{"items": [' + ", ".join(['"x"'] * 200_000) + "]}"
    with anyio.fail_after(30):
        for result in await tools.call_all([call("typed", arguments), call("schema", arguments)]):
            assert result.is_error
            assert len(result.content) < 4000
            assert str(result.content).count("$.items[") == 50
            assert "more" in str(result.content)


async def test_a_schema_of_the_callers() -> None:
    tools = Tools()
    got: list[dict[str, Any]] = []

    def f(a: int, context: ToolContext, b: Any = None) -> str:
        assert context.call_id == "c"
        got.append({"a": a, "b": b})
        return "ok"

    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 1}, "b": {"enum": ["x", None]}},
        "required": ["a"],
    }
    tools.add(f, schema=schema)
    schema["properties"]["a"]["minimum"] = 10  # what is registered is a copy
    assert await tools.call(call("f", '{"a": 1, "b": "x"}')) == ToolResult("c", "ok")
    assert got == [{"a": 1, "b": "x"}]
    for arguments, words in [
        ('{"a": 0, "b": "hunter2"}', '$.a: must be at least 1; $.b: expected one of ["x",null]'),
        ("", "$.a: is missing"),
        ('{"a": 1, "hunter2": 1}', "$: has keys that are not declared"),
        ('{"a": 1, "context": {}}', "$: has keys that are not declared"),
        ("[]", '$: expected "object"'),
        ("1 2", "not JSON"),
    ]:
        result = await tools.call(call("f", arguments))
        assert result.is_error, arguments
        assert words in str(result.content)
        assert "hunter2" not in str(result.content)
    assert len(got) == 1


async def test_a_function_that_takes_any_name_needs_a_schema() -> None:
    tools = Tools()

    def f(**values: Any) -> Any:
        return values

    with pytest.raises(ConfigError, match=r"^f takes any argument by \*\*: it needs a schema=$"):
        tools.add(f)
    tools.add(f, schema={"type": "object"})
    assert await tools.call(call("f", '{"anything": [1]}')) == ToolResult("c", '{"anything":[1]}')


async def test_a_function_may_need_what_its_schema_does_not_require() -> None:
    tools = Tools()

    def f(a: int) -> None:
        raise AssertionError("reached")

    tools.add(f, schema={"type": "object"})
    result = await tools.call(call("f"))
    assert result == ToolResult("c", "the arguments of f: does not fit the schema: $.a: is missing", is_error=True)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({}, 'must have "type": "object"'),
        ({"type": "array"}, 'must have "type": "object"'),
        ({"type": "object", "properties": 1}, r"is no JSON Schema: \$\.properties is wrong"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/None"}}}, "a reference that leads nowhere"),
        ({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/a.json"}}}, "or out of it"),
        ({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}, "is no JSON Schema"),
        ({"type": "object", "extra": {1, 2}}, "JSON cannot carry"),
    ],
)
def test_what_is_no_schema(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        Tools().add(lambda: None, name="f", schema=schema)
    assert caught.value.__context__ is None


async def test_the_context_is_known_by_its_type_alone() -> None:
    tools = Tools()
    got: list[ToolContext] = []

    @tools.tool
    def f(where: ToolContext | None, here: Annotated[ToolContext, "x"], a: int) -> None:
        assert where is here
        got.append(here)

    assert list(tools.tools()[0].schema["properties"]) == ["a"]
    state = SessionState()
    context = ToolContext(session_id="s", run_id="r", state=state)
    assert not (await tools.call(call("f", '{"a": 1}', id="x"), context)).is_error
    assert not (await tools.call_all([call("f", '{"a": 1}', id="y")], context=context))[0].is_error
    assert not (await tools.call(call("f", '{"a": 1}', id="z"))).is_error
    assert [(each.session_id, each.run_id, each.call_id) for each in got] == [
        ("s", "r", "x"),
        ("s", "r", "y"),
        (None, None, "z"),
    ]
    assert got[0].state is state
    assert "state" not in repr(got[0])


async def test_failures_are_results_and_only_a_tool_error_speaks_to_the_model() -> None:
    heard: list[Exception] = []
    tools = Tools(on_error=heard.append)

    @tools.tool
    def broken() -> None:
        raise ValueError("hunter2")

    @tools.tool
    async def told(words: str) -> None:
        raise ToolError(words)

    @tools.tool
    def odd() -> object:
        return object()

    @tools.tool
    async def grouped() -> None:
        raise ExceptionGroup("hunter2", [ValueError("hunter2")])

    also: list[Exception] = []
    results = await tools.call_all(
        [
            call("broken"),
            call("told", '{"words": "no such city"}'),
            call("told", '{"words": ""}'),
            call("odd"),
            call("grouped"),
            call("x" * 1_000_000),
            call("broken", complete=False),
        ],
        context=ToolContext(on_error=also.append),
        limit=1,
    )
    assert [result.content for result in results] == [
        "tool 'broken' failed",
        "no such city",
        "tool 'told' failed",
        "tool 'odd' failed",
        "tool 'grouped' failed",
        "unknown tool: " + "x" * 64,
        "the arguments of broken were cut off: nothing was run",
    ]
    assert all(result.is_error for result in results)
    assert [type(error) for error in heard] == [ValueError, ConfigError, ExceptionGroup]
    assert heard == also
    assert "hunter2" not in repr(results)


async def test_a_sync_function_runs_beside_the_loop_with_its_context_variables() -> None:
    tools = Tools()
    loop_thread = threading.get_ident()
    entered, release = threading.Event(), threading.Event()

    @tools.tool
    def block() -> str:
        assert threading.get_ident() != loop_thread
        entered.set()
        assert release.wait(10)
        return "done"

    results: list[ToolResult] = []
    async with anyio.create_task_group() as tasks:

        async def run() -> None:
            results.append(await tools.call(call("block")))

        tasks.start_soon(run)
        with anyio.fail_after(10):
            while not entered.is_set():
                await anyio.lowlevel.checkpoint()  # the loop goes on
        release.set()
    assert results == [ToolResult("c", "done")]


async def test_a_function_that_gives_an_awaitable_is_awaited() -> None:
    tools = Tools()

    async def add(a: int, b: int) -> int:
        return a + b

    class Adder:
        async def __call__(self, a: int) -> int:
            """Adds."""
            return a + 1

        def method(self, a: int) -> int:
            return a + 2

    tools.add(lambda: add(1, 2), name="later")
    tools.add(functools.partial(add, 1), name="one_more")
    tools.add(Adder(), name="adder")
    tools.add(Adder().method)
    tools.add(Place)
    results = await tools.call_all(
        [
            call("later"),
            call("one_more", '{"b": 4}'),
            call("adder", '{"a": 1}'),
            call("method", '{"a": 1}'),
            call("Place", '{"city": "Oslo"}'),
        ]
    )
    assert [result.content for result in results] == ["3", "5", "2", "3", '{"city":"Oslo"}']
    assert [tool.description for tool in tools.tools()][2:] == ["Adds.", "", "Where it is."]


async def test_a_tool_that_is_late() -> None:
    tools = Tools()
    release = threading.Event()

    @tools.tool(timeout=0.01)
    async def sleeps() -> None:
        await anyio.sleep_forever()

    @tools.tool(timeout=0.01)
    def blocks() -> None:
        release.wait(10)

    @tools.tool(timeout=5)
    def raises() -> None:
        raise TimeoutError

    with anyio.fail_after(5):
        results = await tools.call_all([call("sleeps"), call("blocks"), call("raises")])
    release.set()
    assert [result.content for result in results] == [
        "tool 'sleeps' did not end within 0.01 s",
        "tool 'blocks' did not end within 0.01 s",
        "tool 'raises' failed",
    ]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("is_async", [True, False])
async def test_what_is_no_failure_of_a_tool_is_raised(error: type[BaseException], is_async: bool) -> None:
    tools = Tools()

    async def raises() -> None:
        raise error

    def blocks() -> None:
        raise error

    tools.add(raises if is_async else blocks, name="f")
    with pytest.raises(error), anyio.fail_after(5):
        await tools.call(call("f"))
    with pytest.raises(error), anyio.fail_after(5):
        await tools.call_all([call("f"), call("f")])


async def test_approval() -> None:
    ran: list[str] = []
    asked: list[ToolCall] = []

    def remove(name: str) -> None:
        ran.append(name)

    async def approve(call: ToolCall, context: ToolContext) -> bool:
        assert context.call_id == call.id
        asked.append(call)
        return "keep" not in call.arguments

    def blocking(call: ToolCall, _: ToolContext) -> bool:
        return "keep" not in call.arguments

    calls = [call("remove", '{"name": "a"}'), call("remove", '{"name": "keep"}'), call("remove", "{}")]
    for way in (approve, blocking, None):
        ran.clear()
        tools = Tools(approve=way)
        tools.add(remove, requires_approval=True)
        results = await tools.call_all(calls)
        assert [result.is_error for result in results] == [way is None, True, True]
        assert results[1].content == "the call of remove was not approved: nothing was run"
        assert ran == ([] if way is None else ["a"])
    assert asked == calls[:2]  # nobody is asked about arguments that do not fit

    def raises(_: ToolCall, __: ToolContext) -> bool:
        raise LookupError

    tools = Tools(approve=raises)
    tools.add(remove, requires_approval=True)
    with pytest.raises(LookupError):
        await tools.call_all(calls[:1])


async def test_a_registry_includes_another() -> None:
    inner = Tools()
    outer = Tools()
    inner.add(lambda: "inner", name="a")
    outer.add(lambda: "outer", name="b")
    outer.include(inner)
    inner.add(lambda: "hidden", name="b")
    inner.add(lambda: "later", name="c")
    assert [tool.name for tool in outer.tools()] == ["b", "a", "c"]
    results = await outer.call_all([call("a"), call("b"), call("c"), call("d")])
    assert [result.content for result in results] == ["inner", "outer", "later", "unknown tool: d"]
    with pytest.raises(ConfigError, match="there is a tool named a already"):
        outer.add(lambda: 0, name="a")
    with pytest.raises(ConfigError, match="there is a tool named a already"):
        outer.include(inner)
    for wrong in (outer, 1, [inner]):
        with pytest.raises(ConfigError, match="takes another Toolbox"):
            outer.include(wrong)  # type: ignore[arg-type] # that it is none is the case


def generates() -> Any:
    yield 1


async def generates_async() -> Any:
    yield 1


def by_position(a: int, /) -> None: ...


def by_star(*a: int) -> None: ...


def unreadable(a: int, b: complex) -> None: ...


class OtherContext(ToolContext): ...


def by_another_context(context: OtherContext) -> None: ...


def nowhere(a: Nowhere) -> None: ...  # type: ignore[name-defined] # noqa: F821  # a name that is not there


NO_TOOLS: list[tuple[Any, dict[str, Any], str]] = [
    (1, {}, "the function of a tool"),
    (lambda: 0, {}, "a tool needs a name"),
    (lambda: 0, {"name": "a b"}, "a tool needs a name"),
    (by_star, {"name": "x" * 65}, "cannot be given by its name"),
    (lambda: 0, {"name": "x" * 65}, "a tool needs a name"),
    (lambda: 0, {"name": 1}, "name must be a str"),
    (lambda: 0, {"name": "f", "description": 1}, "description must be a str"),
    (lambda: 0, {"name": "f", "timeout": 0}, "timeout must be a positive"),
    (lambda: 0, {"name": "f", "serial": 1}, "serial must be a bool"),
    (lambda: 0, {"name": "f", "requires_approval": None}, "requires_approval must be a bool"),
    (generates, {}, "generates is a generator"),
    (generates_async, {}, "generates_async is a generator"),
    (by_position, {}, "parameter a of by_position cannot be given by its name"),
    (unreadable, {}, "parameter b of unreadable has a type that JSON cannot be read into"),
    (by_another_context, {}, "parameter context of by_another_context has a type"),
    (nowhere, {}, "an annotation of nowhere names what is not there"),
    (dict.fromkeys, {"name": "f"}, "cannot be given by its name|has no signature"),
    (min, {"name": "f"}, "has no signature"),
]


@pytest.mark.parametrize(("function", "options", "words"), NO_TOOLS)
def test_what_is_no_tool(function: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        Tools().add(function, **options)
    assert caught.value.__context__ is None


def test_a_name_is_taken_once() -> None:
    tools = Tools()
    tools.add(by_args := lambda: 0, name="f")
    with pytest.raises(ConfigError, match="there is a tool named f already"):
        tools.add(by_args, name="f")


def test_the_options_of_a_registry() -> None:
    with pytest.raises(ConfigError):
        Tools(approve=1)  # type: ignore[arg-type] # that it is none is the case
    with pytest.raises(ConfigError):
        Tools(on_error="x")  # type: ignore[arg-type]


def test_blocking_use() -> None:
    tools = Tools()

    @tools.tool
    async def lookup(value: int) -> int:
        await anyio.lowlevel.checkpoint()
        return value

    assert tools.call_all_sync([call("lookup", '{"value": 1}')] * 2, limit=1) == (ToolResult("c", "1"),) * 2
    with pytest.raises(ConfigError, match="limit"):
        tools.call_all_sync([], limit=0)


async def test_blocking_use_is_refused_on_a_loop() -> None:
    with pytest.raises(ConfigError, match="runs an event loop"):
        Tools().call_all_sync([])


async def test_parts() -> None:
    tools = Tools()
    image = Image.data(b"x", "image/png")
    tools.add(lambda: ["see", image], name="f")
    assert await tools.call(call("f")) == ToolResult("c", (Text("see"), image))


async def test_what_on_error_raises_is_raised() -> None:
    def raises(_: Exception) -> None:
        raise LookupError

    tools = Tools(on_error=raises)
    tools.add(lambda: 1 / 0, name="f")
    with pytest.raises(LookupError), contextlib.ExitStack():
        await tools.call(call("f"))


class Listener:
    async def __call__(self, error: Exception) -> None:
        raise AssertionError


async def heard(error: Exception) -> None:
    raise AssertionError


@pytest.mark.parametrize("listener", [heard, functools.partial(heard), Listener()])
def test_a_listener_that_would_have_to_be_awaited_is_refused(listener: Any) -> None:
    with pytest.raises(ConfigError, match="on_error must be a function that is not async"):
        Tools(on_error=listener)


async def test_one_that_gives_a_coroutine_all_the_same_is_refused_as_it_is_told() -> None:
    tools = Tools(on_error=lambda _: heard(ValueError()))

    @tools.tool
    def f() -> str:
        raise ValueError

    with pytest.raises(ConfigError, match="on_error must be a function that is not async"):
        await tools.call(call("f"))
