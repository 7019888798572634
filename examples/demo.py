"""``make demo``: svir's main job, against a real model on this machine.

Streams a chat, reads a tool call, sends a text file, and meets a server that refuses an optional
field. Where no model server runs on this platform, the scripted server answers in its place.
"""

from __future__ import annotations

import json
import pathlib
import re
import time
from contextlib import ExitStack

import anyio

from local_model import LocalModel, Unavailable
from svir_client import AsyncClient, Compatibility
from svir_client.testing import MockServer, Reply
from svir_core import Completion, Effort, FinishReason, Message, Request, TextFile, Tool, ToolCall, ToolResult

WEATHER = Tool(
    "get_weather",
    "Get the weather of a city",
    {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 12}, "unit": {"type": "string", "enum": ["c", "f"]}},
        "required": ["city", "unit"],
        "additionalProperties": False,
    },
)

SECONDS = 300.0
"""The whole demo's limit: a tiny model on one thread needs about ten seconds."""


def title(text: str) -> None:
    """One section of the output."""
    print(f"\n\033[1m{text}\033[0m")


async def stream_a_chat(client: AsyncClient, model: str) -> None:
    """Text as it comes; then what it cost."""
    title("A chat, streamed")
    request = Request(model, system="Answer in one sentence.", max_tokens=96, temperature=0, seed=42)
    asked = time.monotonic()
    first = None
    async with client.stream(request.user("Why is the sky blue?")) as stream:
        async for text in stream.text():
            first = first or time.monotonic() - asked
            print(text, end="", flush=True)
    answer = stream.completion
    speed = answer.tokens_per_second
    print(f"\n  usage: {answer.usage}")
    print(f"  finish: {answer.finish.value}")
    print(f"  time to first token: {'none came' if first is None else f'{first:.2f} s'}")
    print(f"  tokens per second: {'too short to tell' if speed is None else f'{speed:.1f}'}")


def example(city: str, number: int) -> tuple[Message, ...]:
    """An earlier exchange with a call: a model this small calls only what it has seen called."""
    call = ToolCall(f"call_{number}", WEATHER.name, json.dumps({"city": city, "unit": "c"}))
    return (
        Message.user(f"What is the weather in {city} in celsius?"),
        Message.assistant(call),
        Message.tool(ToolResult(call.id, "20 degrees")),
        Message.assistant("It is 20 degrees."),
    )


async def require_a_call(client: AsyncClient, model: str) -> None:
    """A tool call required by the request, answered, and taken up by the model."""
    title("A tool call, required by the request")
    request = Request(model, tools=[WEATHER], tool_choice="required", max_tokens=160, temperature=0, seed=42)
    request = request.message(*example("Rome", 10), *example("London", 20))
    request = request.user("What is the weather in Paris in celsius?")
    answer = await client.complete(request)
    request = request.assistant(answer)
    for call in answer.calls:
        print(f"  {call.name}({call.arguments})  complete: {call.complete}")
        request = request.tool_result(call.id, "21 degrees")
    print(f"  finish: {answer.finish.value}")
    after = await client.complete(request.replace(tool_choice="auto"))
    print(f"  then: {after.text.strip()!r}")


async def send_a_file(client: AsyncClient, model: str) -> None:
    """A text file, streamed from disk into the request."""
    title("A text file, streamed from disk")
    file = TextFile.path(pathlib.Path(__file__).with_name("notes.txt"))
    request = Request(model, max_tokens=48, temperature=0, seed=42)
    answer = await client.complete(request.message(Message.user("Summarise the file in one sentence.", file)))
    print(f"  {answer.text.strip()!r}")
    print(f"  usage: {answer.usage}")


async def meet_a_refusal() -> None:
    """A server that refuses optional fields: one lean retry, and the next request is lean at once."""
    title("A server that refuses optional fields (scripted)")
    refusal = {"error": {"message": "Unrecognized request argument supplied: reasoning_effort", "code": None}}
    compat = Compatibility()
    async with (
        MockServer(Reply.document(refusal, 400), hello(), hello()) as server,
        AsyncClient.openai(server.origin, compat=compat) as client,
    ):
        request = Request("scripted", effort=Effort.LOW).user("Hello!")
        for _ in range(2):
            answer = await client.complete(request)
            print(f"  answer: {answer.text!r}")
        for number, seen in enumerate(server.requests, 1):
            optional = sorted(set(json.loads(seen.body)) - {"model", "messages", "stream"})
            print(f"  request {number} carried: {', '.join(optional) or 'no optional field'}")
    print(f"  learnt: {compat.explain()}")


def hello(text: str = "Hello from the scripted server.") -> Reply:
    """A scripted answer of text, word by word."""
    return Reply.text(*re.findall(r"\S+ ?", text))


def a_call() -> Reply:
    """A scripted call."""
    return Reply.completion(
        Completion(FinishReason.TOOL_CALLS, [ToolCall("call_1", WEATHER.name, '{"city": "Paris", "unit": "c"}')])
    )


async def run(url: str, model: str) -> None:
    """The three jobs on one server."""
    async with AsyncClient.openai(url) as client:
        await stream_a_chat(client, model)
        await require_a_call(client, model)
        await send_a_file(client, model)


async def main() -> None:
    """The demo, on the real model where one runs, else on the scripted server."""
    with anyio.fail_after(SECONDS), ExitStack() as stack:
        try:
            local = stack.enter_context(LocalModel())
        except Unavailable as why:
            print(f"No real model here: {why}.\nThe scripted server answers in its place.")
            async with MockServer(hello(), a_call(), hello("It is 21 degrees."), hello("A file.")) as server:
                await run(server.origin, "scripted")
        else:
            print(f"llama.cpp's server with SmolLM2-135M on {local.url}: a tiny model, often wrong; the wire is real.")
            await run(local.url, local.model)
        await meet_a_refusal()


if __name__ == "__main__":
    anyio.run(main)
