"""A conversation without a server or a key: the model is a function, and its tools count in the session.

python -m examples.counter
"""

from __future__ import annotations

import anyio

from examples.provider import bare, run
from svir_client import FunctionModel, Session, ToolContext, ToolError, Tools, generate
from svir_core import Completion, FinishReason, Request, Role, ToolCall

tools = Tools()


@tools.tool(serial=True)
def increment(by: int, context: ToolContext) -> int:
    """Add to the counter of this conversation."""
    if context.state is None:
        raise ToolError("counting needs a session")
    return context.state.update("counter", 0, lambda count: count + by)


def model(request: Request) -> Completion | str:
    """Asks for two increments, and then says so."""
    if request.messages[-1].role is Role.TOOL:
        return "The counter was incremented twice."
    calls = (ToolCall("a", "increment", '{"by": 2}'), ToolCall("b", "increment", '{"by": 3}'))
    return Completion(FinishReason.TOOL_CALLS, calls)


async def count() -> None:
    session = Session(system="Count with the tool.")
    async with FunctionModel(model) as client:
        answer = await generate(client, session, "Count two and three.", model="in this process", tools=tools)
    print(answer.text)
    print(f"counter = {session.state.get('counter', int)}, {answer.rounds} rounds, {answer.tool_calls} calls")


def main(given: list[str]) -> None:
    """See the module's text."""
    bare("counter", "A function is the model, and its tools count.").parse_args(given)
    anyio.run(count)


if __name__ == "__main__":
    run(main)
