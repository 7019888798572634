"""Data in place of prose: an answer read into a type, whole, and while it is written. The same over four APIs.

python -m examples.structured    # all four, each against a scripted server
python -m examples.structured anthropic --base-url http://127.0.0.1:1234 --model qwen3-27b    # one; --key-env NAME
"""

from __future__ import annotations

import argparse

import anyio
import attrs

from examples.four_apis import CONSTRUCTORS, SPOKEN, arguments, connect
from examples.provider import run
from svir_client import AsyncClient
from svir_client.testing import MockServer, Reply
from svir_core import Request, Schema, Usage

WRITTEN = (
    '{"title": "Green tea", "st', 'eps": [{"do": "Boil wa', 'ter.", "minutes": 3}, {"do": "Let it ', "cool.",
    '", "minutes": 2}, {"do": "Steep.", "min', 'utes": 2}]}',
)  # fmt: skip
"""What the scripted server says, piece by piece."""


@attrs.frozen
class Step:
    """One step of a recipe."""

    do: str
    minutes: int


@attrs.frozen
class Recipe:
    """How something is made."""

    title: str
    steps: list[Step]


async def whole(client: AsyncClient, request: Request) -> str:
    """Wait for the answer, as a ``Recipe``."""
    recipe, completion = await client.parse(request, Recipe)
    tokens = None if completion.usage is None else completion.usage.output
    return f"{recipe.title}: {sum(step.minutes for step in recipe.steps)} minutes, {tokens} tokens"


async def item_by_item(client: AsyncClient, request: Request) -> None:
    """Print each step as soon as it is complete, while the model writes the next one; at last the title."""
    async with client.stream(request.replace(response_format=Schema.of(Recipe))) as stream:
        partial = stream.partial(Recipe)
        async for step in partial.items(Step, "steps"):
            print(f"- {step.do} ({step.minutes} min)", flush=True)
        print(partial.value.title)


async def show(client: AsyncClient, model: str) -> None:
    """Ask twice, and print what comes. Nothing here knows the API."""
    request = Request(model, max_tokens=1000).user("How is green tea made? Three steps.")
    print(await whole(client, request))
    await item_by_item(client, request)


async def scripted(word: str) -> None:
    """Both ways, with a server on this machine that answers in the words of the API."""
    reply = Reply.text(*WRITTEN, usage=Usage(20, 40), api=SPOKEN[word])
    async with MockServer(reply, reply) as server, CONSTRUCTORS[word](server.origin) as client:
        await show(client, "a-model")


async def chosen(options: argparse.Namespace) -> None:
    """Every API by a script, or one of them."""
    if options.api is None:
        for word in CONSTRUCTORS:
            print(f"{word}:")
            await scripted(word)
        return
    async with connect(options) as client:
        await show(client, options.model)


def main(given: list[str]) -> None:
    """See the module's text."""
    anyio.run(chosen, arguments("structured", "An answer read into a type.", given))


if __name__ == "__main__":
    run(main)
