"""Answers of every API with all that an API may give beside what it says, to be sent to the others.

Whatever is an API's own business holds its mark (``only_gemini``), so that a body shows at once what went astray.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from svir_core.message import Message, Opaque, Part, Reasoning, Text, ToolCall
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from svir_core.wire.api import Api

APIS: list[Api] = [openai_chat.API, openai_responses.API, anthropic_messages.API, gemini.API]
BY_NAME = {api.name: api for api in APIS}

SEARCH = "srvtoolu_only_anthropic_messages"
SIGNED_CALL = {"extra_content": {"google": {"thought_signature": "only_openai_chat_signature"}}}
DETAILS = {"reasoning_details": [{"type": "reasoning.encrypted", "data": "only_openai_chat_data", "index": 0}]}


def mark(api: str) -> str:
    """What stands in everything that is this API's own business."""
    return f"only_{api}"


def own(api: str, value: Any) -> Opaque:
    return Opaque(api, orjson.dumps(value).decode())


def _chat(n: int) -> list[Part]:
    name = "openai_chat"
    return [
        Reasoning("reasoning_content", "only_openai_chat thought"),
        Text("Let me look."),
        ToolCall("functions.look:0", "look", '{"a":1}', opaque=own(name, SIGNED_CALL)),
        ToolCall(f"functions.list:{n}", "list", ""),
        Text("Just a moment."),
        own(name, DETAILS),
    ]


def _said(n: int, number: int, text: str, phase: str) -> Part:
    title = {
        "type": "url_citation",
        "start_index": 0,
        "end_index": 1,
        "url": "https://a",
        "title": "only_openai_responses",
    }
    item = {
        "type": "message",
        "id": f"msg_only_openai_responses_{n}_{number}",
        "role": "assistant",
        "status": "completed",
        "phase": phase,
        "content": [{"type": "output_text", "text": text, "annotations": [title]}],
    }
    return Text(text, own("openai_responses", item))


def _called(n: int, number: int, name: str, arguments: str) -> Part:
    item = {
        "type": "function_call",
        "id": f"fc_only_openai_responses_{n}_{number}",
        "call_id": f"call_{n}_{number}",
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }
    return ToolCall(f"call_{n}_{number}", name, arguments, opaque=own("openai_responses", item))


def _responses(n: int) -> list[Part]:
    name = "openai_responses"
    reasoning = {
        "type": "reasoning",
        "id": f"rs_only_openai_responses_{n}",
        "summary": [{"type": "summary_text", "text": "only_openai_responses thought"}],
        "encrypted_content": "only_openai_responses/+==",
    }
    search = {"type": "web_search_call", "id": f"ws_only_openai_responses_{n}", "status": "completed"}
    return [
        Reasoning("reasoning_summary", "only_openai_responses thought", own(name, reasoning)),
        _said(n, 1, "Let me look.", "commentary"),
        own(name, search),
        _called(n, 1, "look", '{"a":1}'),
        _called(n, 2, "list", ""),
        _said(n, 2, "Just a moment.", "final_answer"),
    ]


def _anthropic(n: int) -> list[Part]:
    name = "anthropic_messages"
    thinking = {
        "type": "thinking",
        "thinking": "only_anthropic_messages thought",
        "signature": "only_anthropic_messages+==",
    }
    found = {
        "type": "web_search_result",
        "url": "https://a",
        "title": "a",
        "encrypted_content": "only_anthropic_messages/",
    }
    cited = {"type": "web_search_result_location", "url": "https://a", "encrypted_index": "only_anthropic_messages"}
    caller = {"caller": {"type": "code_execution_20260521", "tool_id": SEARCH}}
    return [
        Reasoning("thinking", "only_anthropic_messages thought", own(name, thinking)),
        own(name, {"type": "redacted_thinking", "data": "only_anthropic_messages=="}),
        Text("Let me look."),
        own(name, {"type": "server_tool_use", "id": SEARCH, "name": "web_search", "input": {"query": "a"}}),
        own(name, {"type": "web_search_tool_result", "tool_use_id": SEARCH, "content": [found]}),
        Text("It is said.", own(name, {"type": "text", "text": "It is said.", "citations": [cited]})),
        ToolCall(f"toolu_{n}_1", "look", '{"a":1}', opaque=own(name, caller)),
        ToolCall(f"toolu_{n}_2", "list", "{}"),
        Text("Just a moment."),
    ]


def _gemini(n: int) -> list[Part]:
    name = "gemini"
    thought = {"text": "only_gemini thought", "thought": True, "thoughtSignature": "only_gemini+=="}
    code = {"executableCode": {"language": "PYTHON", "code": "only_gemini"}, "thoughtSignature": "only_gemini/=="}
    result = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "only_gemini"}}
    call = {"functionCall": {"name": "look", "args": {"a": 1}}, "thoughtSignature": "only_gemini=="}
    return [
        Reasoning("thought", "only_gemini thought", own(name, thought)),
        Text("Let me look."),
        own(name, code),
        own(name, result),
        ToolCall(f"call_{n}_0", "look", '{"a":1}', synthetic_id=True, opaque=own(name, call)),
        ToolCall(f"call_{n}_1", "list", "{}", synthetic_id=True),
        Text("Just a moment."),
        Text("", own(name, {"text": "", "thoughtSignature": "only_gemini_last=="})),
    ]


MAKERS = {"openai_chat": _chat, "openai_responses": _responses, "anthropic_messages": _anthropic, "gemini": _gemini}


def answer(api: str, n: int = 1) -> list[Part]:
    """The parts of the ``n``-th answer of a conversation, as the decoder of ``api`` gives them: reasoning, text, two
    calls, one of them without arguments, and whatever else the API has. On Chat Completions one id of a call comes in
    every answer again."""
    return MAKERS[api](n)


def opaques(parts: Iterable[Part], api: str) -> list[str]:
    """What ``api`` gave beside these parts, or as parts of their own."""
    given = [part if isinstance(part, Opaque) else getattr(part, "opaque", None) for part in parts]
    return [opaque.json for opaque in given if isinstance(opaque, Opaque) and opaque.api == api]


def all_parts(messages: Iterable[Message]) -> list[Part]:
    return [part for message in messages for part in message.parts]
