"""One application, four wire APIs: the one word that changes is the constructor's name.

python -m examples.four_apis    # all four, each against a scripted server
python -m examples.four_apis anthropic --base-url http://127.0.0.1:1234 --model qwen3-27b    # one; --key-env NAME
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

import anyio
import attrs

from examples.provider import chat_client, chat_parsed, chat_parser, run
from svir_client import AsyncClient
from svir_client.testing import MockServer, Reply
from svir_core import Completion, FinishReason, Request, Text, Tool, ToolCall, Usage
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from svir_core.wire.api import Api

CONSTRUCTORS: Mapping[str, Callable[..., AsyncClient]] = {
    "openai": AsyncClient.openai,
    "responses": AsyncClient.responses,
    "anthropic": AsyncClient.anthropic,
    "gemini": AsyncClient.gemini,
}

LOOKUP = Tool("lookup", "Look up a value.", {"type": "object", "properties": {"value": {"type": "integer"}}})

SPOKEN: Mapping[str, Api] = {
    "openai": openai_chat.API,
    "responses": openai_responses.API,
    "anthropic": anthropic_messages.API,
    "gemini": gemini.API,
}
"""What the scripted server speaks."""

CALL = Completion(
    FinishReason.TOOL_CALLS,
    (Text("I will look it up. "), ToolCall("call_1", "lookup", '{"value":7}')),
    usage=Usage(20, 12),
)
ANSWER = Completion(FinishReason.STOP, (Text("It is 14."),), usage=Usage(40, 5))


@attrs.frozen
class Lookup:
    """The arguments of the tool."""

    value: int


async def ask(client: AsyncClient, model: str) -> str:
    """Stream an answer, run the calls it asks for, go on until it asks for none. Nothing here knows the API."""
    request = Request(model, system="Use the tool.", tools=[LOOKUP], max_tokens=200).user("What is 7 as a value?")
    said: list[str] = []
    while True:
        async with client.stream(request) as stream:
            async for text in stream.text():
                said.append(text)
        answer = stream.completion
        if not answer.calls:
            return "".join(said)
        request = request.assistant(answer)
        for call in answer.calls:
            request = request.tool_result(call.id, str(call.parse(Lookup).value * 2))


async def scripted(word: str) -> str:
    """The conversation with a server on this machine that answers in the words of the API."""
    api = SPOKEN[word]
    replies = Reply.completion(CALL, api=api), Reply.completion(ANSWER, api=api)
    async with MockServer(*replies) as server, CONSTRUCTORS[word](server.origin) as client:
        return await ask(client, "a-model")


def arguments(program: str, description: str, given: list[str]) -> argparse.Namespace:
    """The command line, checked: an API goes with its server."""
    options = chat_parser(program, description)
    options.add_argument("api", nargs="?", choices=[*CONSTRUCTORS], help="without it, a script answers by all four")
    chosen = chat_parsed(options, given)
    if (chosen.api is None) is not (chosen.base_url is None):
        options.error("name an API, --base-url and --model; or nothing, for a script's answers")
    return chosen


def connect(options: argparse.Namespace) -> AsyncClient:
    """The client: everything but the word is the same."""
    return chat_client(options, CONSTRUCTORS[options.api])


async def show(options: argparse.Namespace) -> None:
    """Every API by a script, or one of them."""
    if options.api is None:
        for word in CONSTRUCTORS:
            print(f"{word}: {await scripted(word)}")
        return
    async with connect(options) as client:
        print(await ask(client, options.model))


def main(given: list[str]) -> None:
    """See the module's text."""
    anyio.run(show, arguments("four_apis", "One application, four wire APIs.", given))


if __name__ == "__main__":
    run(main)
