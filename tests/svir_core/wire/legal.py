"""Whether the conversation in a body is one that the API takes: roles, order, results beside their calls, no empty
turn, and no key that is not the API's (10 section 10, 12 section 2, 20 section 3, 21 section 3, 22 sections 3 and 4).

``given`` is what the API gave itself, parsed: it goes back as it came, whatever keys it has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from svir_core.tool_id import LEGAL

Json = dict[str, Any]
Given = Sequence[Any]


def only(fields: Json, *keys: str) -> None:
    assert set(fields) <= set(keys), f"unknown keys {sorted(set(fields) - set(keys))}"


def listed(content: Any) -> list[Json]:
    """The parts of a content that is no string."""
    return [] if content is None or isinstance(content, str) else content


def further(given: Given) -> set[str]:
    return {key for each in given for key in each}


# --- Chat Completions ----------------------------------------------------------------------------

CHAT_PARTS = {
    "text": {"type", "text", "prompt_cache_breakpoint"},
    "image_url": {"type", "image_url", "prompt_cache_breakpoint"},
    "input_audio": {"type", "input_audio", "prompt_cache_breakpoint"},
    "file": {"type", "file", "prompt_cache_breakpoint"},
}


def chat(body: Json, given: Given) -> None:
    messages: list[Json] = body["messages"]
    assert messages
    waiting: list[str] = []
    for message in messages:
        role, content = message["role"], message["content"]
        assert role in ("system", "user", "assistant", "tool")
        if role == "tool":
            only(message, "role", "content", "tool_call_id")
            waiting.remove(message["tool_call_id"])
            assert isinstance(content, str)
            continue
        assert waiting == [], "calls without a result"
        if role == "assistant":
            only(message, "role", "content", "tool_calls", "reasoning_content", "reasoning", *further(given))
            assert isinstance(content, str)
            for call in message.get("tool_calls", ()):
                only(call, "id", "type", "function", *further(given))
                only(call["function"], "name", "arguments")
                assert call["id"], call["function"]["name"]
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
                waiting.append(call["id"])
            assert len(set(waiting)) == len(waiting)
        else:
            only(message, "role", "content")
            for part in listed(content):
                only(part, *CHAT_PARTS[part["type"]])
    assert waiting == [], "calls without a result"


# --- OpenAI Responses ----------------------------------------------------------------------------

ASKED = {
    "input_text": {"type", "text", "prompt_cache_breakpoint"},
    "input_image": {"type", "image_url", "detail", "prompt_cache_breakpoint"},
    "input_file": {"type", "filename", "file_data", "file_url", "prompt_cache_breakpoint"},
}


def _asked(content: Any) -> None:
    for part in listed(content):
        only(part, *ASKED[part["type"]])


def responses(body: Json, given: Given) -> None:
    calls: dict[str, str] = {}
    answered: set[str] = set()
    for item in body["input"]:
        kind = item.get("type", "message")
        if kind == "function_call":
            assert item["call_id"] not in calls, "two calls of one id"
            assert isinstance(json.loads(item["arguments"] or "{}"), dict)
            calls[item["call_id"]] = item["name"]
        if item in given:
            continue
        if kind == "function_call":
            only(item, "type", "call_id", "name", "arguments")
        elif kind == "function_call_output":
            only(item, "type", "call_id", "output")
            assert item["call_id"] in calls
            assert item["call_id"] not in answered, "two results of one call"
            answered.add(item["call_id"])
            _asked(item["output"])
            assert isinstance(item["output"], str) or item["output"]
        elif item["role"] == "assistant":
            only(item, "type", "role", "content")
            assert item["content"], "an empty turn"
            for part in item["content"]:
                only(part, "type", "text", "annotations")
                assert part["type"] == "output_text"
                assert part["text"]
        else:
            assert item["role"] in ("user", "developer")
            only(item, "type", "role", "content")
            _asked(item["content"])
            assert item["content"] != []
    assert answered == set(calls), "calls without a result"


# --- Anthropic Messages --------------------------------------------------------------------------

BLOCKS = {
    "text": {"type", "text", "cache_control"},
    "image": {"type", "source", "cache_control"},
    "document": {"type", "source", "title", "cache_control"},
    "tool_use": {"type", "id", "name", "input"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
}


def _block(block: Json, role: str, given: Given) -> None:
    if block in given:
        return
    kind = block["type"]
    assert (kind == "tool_use") <= (role == "assistant")
    assert (kind == "tool_result") <= (role == "user")
    only(block, *BLOCKS[kind], *(further(given) if kind == "tool_use" else ()))
    if kind == "text":
        assert block["text"].strip(), "a blank text"
    if kind == "tool_use":
        assert LEGAL.fullmatch(block["id"])
        assert isinstance(block["input"], dict)
    for inner in listed(block.get("content")):
        _block(inner, "result", given)


def anthropic(body: Json, given: Given) -> None:
    messages: list[Json] = body["messages"]
    assert messages
    seen: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        only(message, "role", "content")
        role, content = message["role"], message["content"]
        assert role in ("user", "assistant", "system")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        assert blocks, "an empty turn"
        for block in blocks:
            _block(block, role, given)
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert sorted(results) == sorted(waiting), "results do not stand behind their calls, all of them"
        assert all(block["type"] == "tool_result" for block in blocks[: len(results)])
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert not seen.intersection(waiting), "an id that was used before"
        assert len(set(waiting)) == len(waiting)
        seen.update(waiting)
    assert waiting == []


# --- Gemini --------------------------------------------------------------------------------------


def _part(part: Json, given: Given) -> None:
    if part in given:
        return
    only(part, "text", "inlineData", "fileData", "functionCall", "functionResponse")
    assert len(part) == 1
    if "text" in part:
        assert part["text"], "an empty text"
    if "functionCall" in part:
        only(part["functionCall"], "id", "name", "args")
        assert isinstance(part["functionCall"]["args"], dict)
    if "functionResponse" in part:
        only(part["functionResponse"], "id", "name", "response", "parts")
        (key,) = part["functionResponse"]["response"]
        assert key in ("output", "error")
        for inner in part["functionResponse"].get("parts", ()):
            only(inner, "inlineData", "fileData")


def gemini(body: Json, given: Given) -> None:
    contents: list[Json] = body["contents"]
    assert contents
    waiting: list[Any] = []
    before = None
    for content in contents:
        only(content, "role", "parts")
        assert content["role"] in ("user", "model")
        assert content["parts"], "an empty turn"
        for part in content["parts"]:
            _part(part, given)
        results = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        assert [(result["name"], result.get("id")) for result in results] == waiting, (
            "results are not those of the calls"
        )
        assert not results or (content["role"] == "user" and len(results) == len(content["parts"]))
        assert not calls or (content["role"] == "model" and before != "model"), "calls follow what the user said"
        waiting = [(call["name"], call.get("id")) for call in calls]
        before = content["role"]
    assert waiting == []


CHECKS: Mapping[str, Callable[[Json, Given], None]] = {
    "openai_chat": chat,
    "openai_responses": responses,
    "anthropic_messages": anthropic,
    "gemini": gemini,
}


def check_legal(api: str, body: bytes, given: Sequence[str]) -> None:
    """Assert that the API named ``api`` takes the conversation in ``body``; ``given`` is what it gave itself."""
    CHECKS[api](json.loads(body), [json.loads(each) for each in given])
