"""Any bytes to the decoder of OpenAI Responses: the same at any cut, a typed outcome, and lenient reads what strict
reads; an answer goes back as JSON, and what our server half writes of it is the same answer.
"""

from __future__ import annotations

import random
from typing import Final

from fuzz import mutate
from fuzz.any_api import check_api, outcome
from fuzz.check import Mutate, Target, require, same
from fuzz.plan import read
from svir_core.errors import ConfigError
from svir_core.event import Completed
from svir_core.limits import Limits
from svir_core.request import Request
from svir_core.response import Completion, FinishReason
from svir_core.slow_json import read_any
from svir_core.wire.api import CodecOptions
from svir_core.wire.json_value import is_object
from svir_core.wire.openai_responses import API, Encoder, StreamEncoder


def _event(kind: str, rest: str = "") -> bytes:
    return f'data: {{"type":"response.{kind}"{rest}}}\n\n'.encode()


def _item(kind: str, index: int, fields: str) -> bytes:
    return _event(f"output_item.{kind}", f',"output_index":{index},"item":{{{fields}}}')


def _text(kind: str, index: int, fields: str) -> bytes:
    return _event(kind, f',"output_index":{index},"content_index":0,"summary_index":0,{fields}')


MESSAGE: Final = '"type":"message","id":"m","content":[{"type":"output_text","text":"xy"}]'
CALL: Final = '"type":"function_call","id":"f","call_id":"c","name":"f","arguments":"{}"'
FRAGMENTS: Final = (
    _event("created", ',"response":{"id":"r","model":"m"}'),
    _event("in_progress", ',"response":{"id":"s"}'),
    _item("added", 0, '"type":"message","id":"m","content":[]'),
    _item("added", 1, '"type":"reasoning","id":"r","summary":[]'),
    _item("added", 2, '"type":"function_call","id":"f","call_id":"c","name":"f","arguments":""'),
    _item("added", 3, '"type":"custom_tool_call","call_id":"d","name":"g","input":""'),
    _item("added", 4, '"type":"odd","v":[1.50,12345678901234567890123]'),
    _text("content_part.added", 0, '"part":{"type":"output_text"}'),
    _text("content_part.added", 0, '"part":{"type":"refusal"}'),
    _text("reasoning_summary_part.added", 1, '"part":{"type":"summary_text"}'),
    _text("output_text.delta", 0, '"item_id":"m","delta":"x"'),
    _text("output_text.delta", 0, '"delta":"\\ud83e"'),
    _text("output_text.delta", 0, '"delta":"\\udd14"'),
    _text("refusal.delta", 0, '"delta":"no"'),
    _text("output_text.done", 0, '"text":"xy"'),
    _text("reasoning_summary_text.delta", 1, '"delta":"z"'),
    _text("reasoning_text.delta", 1, '"delta":"w"'),
    _event("function_call_arguments.delta", ',"output_index":2,"delta":"{"'),
    _event("function_call_arguments.done", ',"output_index":2,"arguments":"{}"'),
    _event("function_call_arguments.delta", ',"item_id":"f","delta":"}"'),
    _event("custom_tool_call_input.delta", ',"output_index":3,"delta":"S"'),
    _item("done", 0, MESSAGE),
    _item(
        "done", 1, '"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"z"}],"encrypted_content":"E"'
    ),
    _item("done", 2, CALL),
    _item("done", 3, '"type":"custom_tool_call","call_id":"d","name":"g","input":"S"'),
    _item("done", 4, '"type":"odd","v":1e400'),
    _event("completed", f',"response":{{"status":"completed","output":[{{{MESSAGE}}},{{{CALL}}}]}}'),
    _event("completed", ',"response":{"id":"r","output":null,"usage":{"input_tokens":1,"output_tokens":2}}'),
    _event("incomplete", ',"response":{"incomplete_details":{"reason":"max_output_tokens"}}'),
    _event("failed", ',"response":{"status":"failed","error":{"code":"slow_down"}}'),
    b'data: {"type":"error","code":"x","message":"no"}\n\n',
    b'data: {"type":"keepalive"}\n\n',
    b"data: [DONE]\n\n",
    b'{"object":"response","status":"completed","output":[]}',
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
        sent = bytes(Encoder().encode(Request("m").user("x").assistant(answer)))
        require(is_object(read_any(sent.decode())), "what goes back is no JSON", sent)
        if not answer.anomaly_count and answer.finish is not FinishReason.PAUSE:
            _comes_back(answer)


def _comes_back(answer: Completion) -> None:
    """A good answer that our server half writes is the same answer."""
    try:
        data = StreamEncoder("m", "r", 0).push(Completed(answer))
    except ConfigError:
        return  # without its items a finish may not fit: the deltas of an answer that was cut
    limits = Limits(event_bytes=1 << 20)
    back = outcome(API.decoder(CodecOptions(limits=limits), lambda: 0.0), [data]).completion
    require(back is not None, "an answer that was written again is none")
    if back is not None:
        same("another text was written", back.text, answer.text)
        same("other reasoning was written", back.reasoning, answer.reasoning)
        same("other calls were written", _named(back), _named(answer))


def _named(answer: Completion) -> list[tuple[str, str, str]]:
    return [(call.id, call.name, call.arguments) for call in answer.calls]


TARGET = Target(check, "openai_responses", _mutated, max_size=2048)
