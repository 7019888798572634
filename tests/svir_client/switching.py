"""One conversation over the servers of several APIs: what each of them says, and what was sent to it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import anyio
import orjson

from svir_client import AsyncClient
from svir_client.testing import MockServer, Reply
from svir_core.event import Completed
from svir_core.message import Opaque, Text, ToolCall
from svir_core.quirk import Quirk
from svir_core.response import Completion, FinishReason
from svir_core.wire.api import Api
from svir_core.wire.json_value import Json
from tests.svir_core.wire.foreign import BY_NAME, DETAILS, SIGNED_CALL, answer

SECONDS = 20
NO = "I would rather not."

MAKERS: Mapping[str, Callable[..., AsyncClient]] = {
    "openai_chat": AsyncClient.openai,
    "openai_responses": AsyncClient.responses,
    "anthropic_messages": AsyncClient.anthropic,
    "gemini": AsyncClient.gemini,
}
OPTIONS: Mapping[str, Mapping[str, Any]] = {"openai_chat": {"quirks": Quirk.REASONING_DETAILS}}


def _chat(*deltas: Json, finish: str) -> Reply:
    """A stream of Chat Completions with keys that its server half does not write."""
    told: list[Json] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    told.append({"index": 0, "delta": {}, "finish_reason": finish})
    head: Json = {"id": "i", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    chunks = [orjson.dumps({**head, "choices": [choice]}) for choice in told]
    return Reply.stream(*(b"data: " + chunk + b"\n\n" for chunk in chunks), b"data: [DONE]\n\n")


def _chat_call(index: int, call_id: str, name: str, arguments: str) -> Json:
    return {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _chat_calls(n: int) -> Reply:
    look = _chat_call(0, "functions.look:0", "look", '{"a":1}') | SIGNED_CALL
    return _chat(
        {"role": "assistant", "content": None, "refusal": None},
        {"reasoning_content": "only_openai_chat thought"},
        {"content": "Let me look."},
        {"tool_calls": [look, _chat_call(1, f"functions.list:{n}", "list", "")]},
        {"content": "Just a moment.", **DETAILS},
        finish="tool_calls",
    )


def first_reply(api: Api, n: int) -> Reply:
    """The ``n``-th answer of a conversation: reasoning, text, two calls, and whatever else the API has."""
    if api.name == "openai_chat":
        return _chat_calls(n)
    return Reply.events(Completed(Completion(FinishReason.TOOL_CALLS, answer(api.name, n))), api=api)


def _refused(item_id: str) -> Opaque:
    content = [{"type": "refusal", "refusal": NO}]
    item = {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": content}
    return Opaque("openai_responses", orjson.dumps(item).decode())


def refusal(api: Api) -> Reply:
    """An answer that is a refusal, where the API has one."""
    if api.name == "gemini":
        return Reply.text(NO, api=api)
    beside = _refused("msg_only_openai_responses_refusal") if api.name == "openai_responses" else None
    return Reply.events(Completed(Completion(FinishReason.REFUSAL, [Text(NO, beside)])), api=api)


class Talk:
    """A server and a client for each API that takes part."""

    def __init__(self, servers: Mapping[str, MockServer], clients: Mapping[str, AsyncClient]) -> None:
        self.servers = servers
        self.clients = clients

    def bodies(self, api: Api) -> list[bytes]:
        """What was sent to an API, in order."""
        return [request.body for request in self.servers[api.name].requests]


@contextlib.asynccontextmanager
async def talking(replies: Mapping[str, list[Reply]], **options: Any) -> AsyncGenerator[Talk]:
    """Servers that say ``replies``, each in the words of the API it is named by."""
    with anyio.fail_after(SECONDS):
        async with contextlib.AsyncExitStack() as stack:
            servers: dict[str, MockServer] = {}
            clients: dict[str, AsyncClient] = {}
            for name, said in replies.items():
                server = servers[name] = await stack.enter_async_context(MockServer(*said))
                client = MAKERS[name](server.origin, **OPTIONS.get(name, {}), **options)
                clients[name] = await stack.enter_async_context(client)
            yield Talk(servers, clients)


def calls(completion: Completion) -> tuple[ToolCall, ToolCall]:
    """The two calls of an answer."""
    look, listing = completion.calls
    return look, listing


APIS = list(BY_NAME.values())
