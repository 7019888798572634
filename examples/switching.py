"""One conversation that moves over all four APIs, with a call of a tool at each, and back to the first.

python -m examples.switching     # on scripted servers; prints what each of them was sent that is its own

What an API gave beside its answer, such as a signed thought, goes back to it as it came, and to no other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import anyio
import orjson

from examples.four_apis import CONSTRUCTORS, SPOKEN
from examples.provider import bare, run
from svir_client import Session, Tools, generate
from svir_client.testing import MockServer, Reply
from svir_core import Completed, Completion, FinishReason, Opaque, Reasoning, Text, ToolCall

ROUTE = ("openai", "responses", "anthropic", "gemini", "anthropic", "openai")

tools = Tools()


@tools.tool
def distance(city: str) -> str:
    """How far a city is."""
    return f"{len(city) * 100} km"


def thought(word: str, turn: int) -> Reasoning:
    """What a model of this API thinks, with what the API gives beside it: nothing on Chat Completions."""
    mark = f"own-{word}-{turn}"
    summary = [{"type": "summary_text", "text": "Far?"}]
    forms: Mapping[str, tuple[str, object]] = {
        "openai": ("reasoning_content", None),
        "responses": ("reasoning_summary", {"type": "reasoning", "id": mark, "summary": summary}),
        "anthropic": ("thinking", {"type": "thinking", "thinking": "Far?", "signature": mark}),
        "gemini": ("thought", {"text": "Far?", "thought": True, "thoughtSignature": mark}),
    }
    source, own = forms[word]
    return Reasoning(source, "Far?", None if own is None else Opaque(SPOKEN[word].name, orjson.dumps(own).decode()))


def replies(word: str, turn: int) -> tuple[Reply, Reply]:
    """The model thinks and calls, and then answers."""
    call = ToolCall(f"call_{turn}", "distance", '{"city":"Oslo"}')
    calls = Completion(FinishReason.TOOL_CALLS, (thought(word, turn), call))
    answer = Completion(FinishReason.STOP, (Text("400 km."),))
    return Reply.events(Completed(calls), api=SPOKEN[word]), Reply.events(Completed(answer), api=SPOKEN[word])


async def visit(session: Session, word: str, turn: int) -> str:
    """One turn of the conversation at one of the APIs, and which thoughts its server was sent at last."""
    async with MockServer(*replies(word, turn)) as server, CONSTRUCTORS[word](server.origin) as client:
        answer = await generate(client, session, "How far is Oslo?", model="a-model", tools=tools)
        last = server.requests[-1].body
    marks = sorted({mark.decode() for mark in re.findall(rb"own-\w+-\d", last)})
    return f"{answer.text} {len(session.messages)} messages; thoughts that went back: {', '.join(marks) or 'none'}"


async def travel() -> None:
    session = Session(system="Use the tool.")
    for turn, word in enumerate(ROUTE, 1):
        print(f"{word}: {await visit(session, word, turn)}")


def main(given: list[str]) -> None:
    """See the module's text."""
    bare("switching", "One conversation that moves over all four APIs.").parse_args(given)
    anyio.run(travel)


if __name__ == "__main__":
    run(main)
