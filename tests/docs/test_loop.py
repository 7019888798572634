"""docs/loop.md says what the loop does: its tables are compared with the code, its snippets run one after the other."""

from __future__ import annotations

import ast
import inspect
import pathlib
import re
from typing import Any, cast

import anyio
import attrs
import pytest

from svir_client import FunctionModel
from svir_core import (
    AskApproval,
    CallModel,
    Completion,
    Finished,
    FinishReason,
    LoopLimits,
    LoopPhase,
    Request,
    RunTools,
    SvirError,
    Text,
    ToolCall,
    ToolLoop,
    ToolResult,
)
from tests.svir_core.loops import at_phase, error_of

pytestmark = pytest.mark.anyio

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "loop.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def rows(title: str) -> list[list[str]]:
    """The cells of the table of a section."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip(" |`") for cell in cells] for cells in lines[2:]]


async def test_the_snippets_run() -> None:
    assert len(SNIPPETS) == 7
    names: dict[str, Any] = {"__name__": "page"}
    with anyio.fail_after(30):
        for number, snippet in enumerate(SNIPPETS):
            code = compile(snippet, f"snippet {number}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            waiting = eval(code, names)
            if inspect.iscoroutine(waiting):
                await waiting


async def test_the_loop_of_the_page() -> None:
    def model(request: Request) -> Completion:
        if len(request.messages) == 1:
            return Completion(FinishReason.TOOL_CALLS, [ToolCall("a", "weather", '{"city": "Oslo"}')])
        return Completion(FinishReason.STOP, [Text("Yes.")])

    names: dict[str, Any] = {"__name__": "page"}
    exec(SNIPPETS[0], names)
    with anyio.fail_after(20):
        async with FunctionModel(model) as client:
            generation = await names["ask"](client, "m", "An umbrella?")
    assert (generation.text, generation.rounds, generation.tool_calls) == ("Yes.", 2, 1)


async def test_the_approval_of_the_page() -> None:
    def model(request: Request) -> Completion:
        calls = [ToolCall(id, "delete", f'{{"path": "{id}"}}') for id in "ab"]
        if len(request.messages) == 1:
            return Completion(FinishReason.TOOL_CALLS, calls)
        return Completion(FinishReason.STOP, [Text("Done.")])

    async def ask_somebody(call: ToolCall) -> bool:
        return call.id == "a"

    names: dict[str, Any] = {"__name__": "page"}
    for snippet in (SNIPPETS[0], SNIPPETS[-2], SNIPPETS[-1]):
        exec(snippet.partition("\nloop = ")[0], names)
    with anyio.fail_after(20):
        async with FunctionModel(model) as client:
            generation = await names["clean_up"](client, "m", ask_somebody)
    results = [part for message in generation.messages for part in message.parts if isinstance(part, ToolResult)]
    assert [(result.call_id, result.is_error) for result in results] == [("a", False), ("b", True)]
    assert results[0].content == "a was deleted"


def test_every_phase_is_in_the_table_with_its_step_and_the_methods_that_it_takes() -> None:
    phases = [cells for cells in rows("States") if cells[0]]
    assert {cells[0] for cells in phases} == set(LoopPhase.__members__)
    steps = {kind.__name__: kind for kind in (CallModel, RunTools, AskApproval, Finished)}
    for name, said, told, *_ in phases:
        loop = at_phase(LoopPhase[name])
        if said == "raises":
            assert isinstance(error_of(loop), SvirError)
        else:
            kind, arguments = cast("re.Match[str]", re.fullmatch(r"(\w+)\((.*)\)", said)).groups()
            assert type(loop.next()) is steps[kind]
            assert [field.name for field in attrs.fields(cast(Any, steps[kind]))] == arguments.split(", ")
        if told:
            method, parameter = cast("re.Match[str]", re.fullmatch(r"(\w+)\((\w+)\)", told)).groups()
            assert list(inspect.signature(getattr(ToolLoop, method)).parameters) == ["self", parameter]


def test_every_limit_is_in_the_table_with_its_default() -> None:
    listed = {cells[0]: ast.literal_eval(cells[1]) for cells in rows("Limits")}
    assert listed == attrs.asdict(LoopLimits())
