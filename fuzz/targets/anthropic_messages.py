"""Any bytes to the decoder of Anthropic Messages: the same at any cut, a typed outcome, and lenient reads what strict
reads; what was kept of an answer goes back as JSON that the encoder takes."""

from __future__ import annotations

import random
from typing import Final

from fuzz import mutate
from fuzz.any_api import check_api, outcome
from fuzz.check import Mutate, Target, require
from fuzz.plan import read
from svir_core.errors import UnsupportedError
from svir_core.request import Request
from svir_core.slow_json import read_any
from svir_core.wire.anthropic_messages import API, Encoder
from svir_core.wire.api import CodecOptions
from svir_core.wire.json_value import is_object


def _event(kind: str, rest: str) -> bytes:
    return f'event: {kind}\ndata: {{"type":"{kind}"{rest}}}\n\n'.encode()


def _delta(index: int, fields: str) -> bytes:
    return _event("content_block_delta", f',"index":{index},"delta":{{{fields}}}')


def _start(index: int, fields: str) -> bytes:
    return _event("content_block_start", f',"index":{index},"content_block":{{{fields}}}')


FRAGMENTS: Final = (
    _event("message_start", ',"message":{"id":"i","model":"m","content":[],"usage":{"input_tokens":1}}'),
    _event("message_start", ',"message":{"id":"j","content":[]}'),
    _start(0, '"type":"text","text":""'),
    _start(0, '"type":"thinking","thinking":"","signature":""'),
    _start(1, '"type":"tool_use","id":"a","name":"f","input":{}'),
    _start(1, '"type":"tool_use","id":"b","name":"f","input":{"x":1e400}'),
    _start(2, '"type":"server_tool_use","id":"s","name":"w","input":{}'),
    _start(3, '"type":"odd","v":[1.50,12345678901234567890123]'),
    _delta(0, '"type":"text_delta","text":"x"'),
    _delta(0, '"type":"text_delta","text":"\\ud83e"'),
    _delta(0, '"type":"text_delta","text":"\\udd14"'),
    _delta(0, '"type":"thinking_delta","thinking":"y"'),
    _delta(0, '"type":"signature_delta","signature":"S"'),
    _delta(0, '"type":"citations_delta","citation":{"n":1e400}'),
    _delta(1, '"type":"input_json_delta","partial_json":"{\\"x\\":"'),
    _delta(1, '"type":"input_json_delta","partial_json":"1}"'),
    _delta(2, '"type":"input_json_delta","partial_json":"{}"'),
    _delta(3, '"type":"odd_delta","v":1'),
    _event("content_block_stop", ',"index":0'),
    _event("content_block_stop", ',"index":1'),
    _event("message_delta", ',"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}'),
    _event("message_delta", ',"delta":{"stop_reason":"tool_use"}'),
    _event("message_delta", ',"delta":{"stop_reason":"odd"},"usage":{"output_tokens":-2}'),
    _event("message_stop", ""),
    b'data: {"type":"message_stop"}',
    _event("error", ',"error":{"type":"overloaded_error","message":"no"}'),
    b"event: ping\ndata: {}\n\n",
    b"data: [DONE]\n\n",
    b'{"type":"message","id":"i","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn"}',
)
OWN: Final = 0.3
"""How often an event of this API is put in."""


def _mutated(raw: bytes, max_size: int, seed: int, blindly: Mutate) -> bytes:
    rng = random.Random(seed)
    if rng.random() >= OWN:
        return mutate.events(raw, max_size, seed, blindly)
    parts = raw[2:].split(b"\n\n")
    place = rng.randrange(len(parts) + 1)
    data = b"\n\n".join([*parts[:place], rng.choice(FRAGMENTS)[:-2], *parts[place:]])
    return (raw[:2].ljust(2, b"\0") + data)[:max_size]


def check(raw: bytes) -> None:
    plan = read(raw)
    check_api(plan, API)
    answer = outcome(API.decoder(CodecOptions("lenient"), lambda: 0.0), [plan.data]).completion
    if answer is not None:
        try:
            sent = bytes(Encoder().encode(Request("m").user("x").assistant(answer)))
        except UnsupportedError:
            require(not all(call.complete for call in answer.calls), "a good answer cannot go back")
        else:
            require(is_object(read_any(sent.decode())), "what goes back is no JSON", sent)


TARGET = Target(check, "anthropic_messages", _mutated, max_size=2048)
