"""Changes to a JSON text, node by node, with the keys and the values that the rules speak of."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from typing import Any, Final

KEYS: Final = (
    "id", "model", "object", "choices", "usage", "error", "message", "detail", "base_resp", "x_groq", "delta", "index",
    "finish_reason", "content", "reasoning", "reasoning_content", "refusal", "role", "tool_calls", "function", "name",
    "arguments", "type", "code", "param", "msg", "status_code", "status_msg", "prompt_tokens", "completion_tokens",
    "total_tokens", "completion_tokens_details", "reasoning_tokens", "prompt_tokens_details", "cached_tokens",
    "content_filter_results", "content_filter_offsets", "filtered", "detected", "prompt_filter_results",
    "custom_blocklists", "reasoning_details", "text", "thinking", "signature", "logprobs", "data", "\ud800", "",
)  # fmt: skip

VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, 1, 2, 63, 64, 257, -1, 2**63, 2**64, 10**25, 0.1, -0.0, 1e300, "", "x", "stop", "length",
    "tool_calls", "content_filter", "error", "function", "c", "m", "a", "b", "<think>", "</think>", "<thi", "nk>",
    "\ud83e", "\udd14", "\ud83e\udd14", "\ufffd", "\n", "\x00", '{"x":1}', "context length", "context_length_exceeded",
    [], {}, [[]], [{}], {"content": "x"}, {"message": "no"}, {"filtered": True}, {"index": 0},
    {"type": "text", "text": "x"}, [{"type": "thinking", "thinking": "x"}], [{"type": "text", "text": "x"}],
    [{"type": "reasoning.text", "index": 0, "text": "x"}], {"x": 1.0}, "xx", "xxx", "eos",
    {"prompt_tokens": 1, "completion_tokens": 2}, {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}},
)  # fmt: skip

DEPTHS: Final = (3, 130, 255, 300, 1100)
SEPARATORS: Final = ((",", ":"), (", ", ": "))

TEXTS: Final = tuple(json.dumps(value) for value in VALUES)
WORDS: Final = tuple(value for value in VALUES if isinstance(value, str))

_Node = tuple[Any, Any]
"""A container and a key of it."""


def _keys(container: Any) -> Iterable[Any]:
    return list(container) if hasattr(container, "keys") else range(len(container))


def _nodes(value: Any) -> list[_Node]:
    """Every place below ``value`` where a value stands."""
    found: list[_Node] = []
    todo: list[Any] = [value]
    while todo:
        container = todo.pop()
        for key in _keys(container):
            found.append((container, key))
            if type(container[key]) in (dict, list):
                todo.append(container[key])
    return found


def _value(rng: random.Random) -> Any:
    return json.loads(rng.choice(TEXTS))


def _replace(container: Any, key: Any, rng: random.Random) -> None:
    container[key] = _value(rng)


def _remove(container: Any, key: Any, rng: random.Random) -> None:
    del container[key]


def _add(container: Any, key: Any, rng: random.Random) -> None:
    inner = container[key]
    where: Any = inner if type(inner) in (dict, list) else container
    if type(where) is dict:
        where[rng.choice(KEYS)] = _value(rng)
    else:
        where.insert(rng.randrange(len(where) + 1), _value(rng))


def _rename(container: Any, key: Any, rng: random.Random) -> None:
    if type(key) is str:
        container[rng.choice(KEYS)] = container.pop(key)


def _copy(container: Any, key: Any, rng: random.Random) -> None:
    other, place = rng.choice(_nodes(container))
    container[key] = json.loads(json.dumps(other[place]))  # a copy: a value inside itself has no text


def _nest(container: Any, key: Any, rng: random.Random) -> None:
    value = container[key]
    for _ in range(rng.choice(DEPTHS[:-1])):
        value = [value]
    container[key] = value


def _respell(container: Any, key: Any, rng: random.Random) -> None:
    """A string cut in two, or with something in the middle; of a number another one."""
    value = container[key]
    if isinstance(value, str):
        place = rng.randrange(len(value) + 1)
        middle = rng.choice(WORDS)
        container[key] = rng.choice((value[:place], value[place:], value[:place] + middle + value[place:]))
    elif type(value) is int:
        container[key] = value + rng.choice((-1, 1))


CHANGES: Final[tuple[Callable[[Any, Any, random.Random], None], ...]] = (
    _replace, _replace, _remove, _add, _add, _rename, _copy, _nest, _respell, _respell,
)  # fmt: skip


def change(text: bytes, rng: random.Random) -> bytes:
    """``text`` with one to three nodes changed; with a piece of JSON in it when it is none."""
    try:
        root = [json.loads(text)]
        for _ in range(rng.randrange(1, 4)):
            container, key = rng.choice(_nodes(root) or [(root, 0)])
            if container is root and (rng.random() < 0.9 or not root):
                continue  # else nearly all of a short text's changes would be of the whole
            rng.choice(CHANGES)(container, key, rng)
        written = json.dumps(root[0], ensure_ascii=rng.random() < 0.7, separators=rng.choice(SEPARATORS))
    except (ValueError, RecursionError, IndexError):
        place = rng.randrange(len(text) + 1)
        return text[:place] + rng.choice(TEXTS).encode() + text[place:]
    if rng.random() < 0.02:
        depth = rng.choice(DEPTHS)
        written = written.replace("null", "[" * depth + "]" * depth, 1)
    return written.encode("utf-8", "surrogatepass")
