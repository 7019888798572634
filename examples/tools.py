"""A model that calls functions of yours, until it has its answer.

python -m examples.tools                                                       # against a scripted server
python -m examples.tools --base-url http://127.0.0.1:1234 --model qwen3-27b    # by Chat Completions; --key-env NAME
"""

from __future__ import annotations

import sys
from typing import Annotated

import anyio

from examples.provider import chat_client, chat_parsed, chat_parser, run
from svir_client import AsyncClient, ToolError, Tools
from svir_client.testing import MockServer, Reply
from svir_core import Completion, FinishReason, Request, ToolCall

ROUNDS = 8
"""A model that never stops asking is stopped."""

PRICES = {"apple": 0.5, "pear": 0.75}

tools = Tools(on_error=lambda error: print(f"  a tool failed: {error!r}", file=sys.stderr))


@tools.tool
async def price(fruit: Annotated[str, "in the singular"]) -> float:
    """The price of a fruit, in euros."""
    if fruit not in PRICES:
        raise ToolError(f"there are only {', '.join(PRICES)}")
    return PRICES[fruit]


@tools.tool(timeout=5)
def add(numbers: list[float]) -> float:
    """Add numbers."""
    return sum(numbers)


async def ask(client: AsyncClient, model: str, question: str) -> str:
    """The answer, after as many calls as the model makes."""
    request = Request(model, system="Use the tools.", tools=tools).user(question)
    for _ in range(ROUNDS):
        answer = await client.complete(request)
        if not answer.calls:
            return answer.text
        results = await tools.call_all(answer.calls)
        for call, result in zip(answer.calls, results, strict=True):
            print(f"  {call.name}({call.arguments}) -> {result.content}")
        request = request.assistant(answer).tool_results(results)
    raise SystemExit(f"no answer in {ROUNDS} rounds")


def _calls(*calls: ToolCall) -> Reply:
    return Reply.completion(Completion(FinishReason.TOOL_CALLS, calls))


async def scripted() -> str:
    """The same, against a server that says what a model would."""
    script = (
        _calls(ToolCall("a", "price", '{"fruit": "apple"}'), ToolCall("b", "price", '{"fruit": "plum"}')),
        _calls(ToolCall("c", "add", '{"numbers": [0.5, "0.5"]}')),
        _calls(ToolCall("d", "add", '{"numbers": [0.5, 0.5]}')),
        Reply.text("Two apples are 1 euro."),
    )
    async with MockServer(*script) as server, AsyncClient.openai(server.origin) as client:
        return await ask(client, "scripted", "What are two apples?")


async def real(client: AsyncClient, model: str) -> str:
    """Against a server of yours."""
    async with client:
        return await ask(client, model, "What are two apples and a pear together?")


def main(given: list[str]) -> None:
    """See the module's text."""
    options = chat_parsed(chat_parser("tools", "A model that calls functions."), given)
    if options.base_url is None:
        print(anyio.run(scripted))
    else:
        print(anyio.run(real, chat_client(options), options.model))


if __name__ == "__main__":
    run(main)
