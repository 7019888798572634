"""Whatever comes, in any order: a typed outcome, the same at every cut, and no more forgiving than lenient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from svir_core.errors import SvirError
from svir_core.limits import Limits
from svir_core.wire.openai_responses import DocumentDecoder
from svir_core.wire.openai_responses.table import CALL_EVENTS, ENDS, FAILED, ITEM_EVENTS, PART_EVENTS, TEXT_EVENTS
from tests.svir_core.wire.openai_responses.streams import completed, created, event, see, split

TYPES = [
    *TEXT_EVENTS,
    *CALL_EVENTS,
    *ITEM_EVENTS,
    *PART_EVENTS,
    "response.created",
    "response.queued",
    "x",
    "keepalive",
]
TEXTS = st.sampled_from(["", "a", "ab", "b", "{}", '{"a":1}', "\u2028", "\U0001f914"])
INDICES = st.sampled_from([0, 0, 0, 1, 1, 2, None, -1, "0", 1.0, True])
IDS = st.sampled_from(["i1", "i2", "", None, 5])
JUNK = st.sampled_from([None, 5, [], {}, "x", [1], {"type": 5}])
PARTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["output_text", "refusal", "summary_text", "reasoning_text", "other"])},
    optional={"text": TEXTS, "refusal": TEXTS},
)
ITEM = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["message", "reasoning", "function_call", "custom_tool_call", "web_search_call", "mcp_approval_request"]
        )
    },
    optional={
        "id": IDS,
        "status": st.sampled_from(["completed", "incomplete", None, []]),
        "call_id": IDS,
        "name": st.sampled_from(["f", "g", ""]),
        "arguments": TEXTS,
        "input": TEXTS,
        "content": st.lists(PARTS, max_size=2) | JUNK,
        "summary": st.lists(PARTS, max_size=2) | JUNK,
    },
)
FIELDS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "output_index": INDICES,
        "content_index": INDICES,
        "summary_index": INDICES,
        "item_id": IDS,
        "item": ITEM | JUNK,
        "part": PARTS | JUNK,
        "delta": TEXTS | JUNK,
        "text": TEXTS,
        "refusal": TEXTS,
        "arguments": TEXTS,
        "input": TEXTS,
        "response": st.fixed_dictionaries({}, optional={"id": IDS, "model": IDS}) | JUNK,
    },
)


def any_event(kind: str, fields: dict[str, Any]) -> bytes:
    return event(kind, **fields)


def last_event(kind: str, response: Any) -> bytes:
    return event(kind, response=response)


EVENTS = st.builds(any_event, st.sampled_from(TYPES), FIELDS)
RESPONSES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "id": IDS,
        "model": IDS,
        "status": st.sampled_from(["completed", "incomplete", "failed", "in_progress", "x", None, []]),
        "output": st.lists(ITEM, max_size=3) | JUNK,
        "usage": st.fixed_dictionaries({"input_tokens": st.integers(-1, 5), "output_tokens": st.integers(0, 5)}) | JUNK,
        "incomplete_details": st.fixed_dictionaries({"reason": st.sampled_from(["max_output_tokens", "x", None])})
        | JUNK,
        "error": st.fixed_dictionaries({"code": st.sampled_from(["slow_down", "x", 5, None])}) | JUNK,
    },
)
LAST = st.builds(last_event, st.sampled_from([*ENDS, FAILED]), RESPONSES | JUNK)
STREAMS = st.lists(EVENTS, max_size=12)


@settings(max_examples=400)
@given(STREAMS, LAST | st.just(completed()), st.sampled_from([1, 3, 50]))
def test_any_events_give_a_typed_outcome(pieces: Sequence[bytes], last: bytes, stride: int) -> None:
    data = b"".join([created(), *pieces, last])
    strict = see([data], "strict", extra=True)
    lenient = see([data], "lenient", extra=True)
    assert see(split(data, stride), "strict", extra=True) == strict
    assert see(split(data, stride), "lenient", extra=True) == lenient
    assert (
        lenient.events[: len(strict.events) - (strict.completion is not None)]
        == strict.events[: len(strict.events) - (strict.completion is not None)]
    )
    if strict.completion is not None:
        assert strict.completion.anomaly_count == 0
        assert lenient == strict
    elif lenient.completion is not None:
        assert lenient.completion.anomaly_count > 0


def walk(steps: Sequence[tuple[int, int]]) -> bytes:
    """A stream that is right but for the order of what it holds: two messages, reasoning and two calls at once."""
    items: list[list[bytes]] = []
    kinds = ("message", "reasoning", "message", "function_call", "function_call")
    for index, kind in enumerate(kinds):
        where = {"output_index": index, "item_id": f"i{index}"}
        named = {"call_id": f"c{index}", "name": "f"} if kind == "function_call" else {}
        item: dict[str, Any] = {"id": f"i{index}", "type": kind, **named}
        opened = event("response.output_item.added", item=item | {"arguments": "", "content": []}, **where)
        if kind == "function_call":
            pieces = [event("response.function_call_arguments.delta", delta=text, **where) for text in ("{", "}")]
            closed = item | {"arguments": "{}"}
        else:
            part = "output_text" if kind == "message" else "reasoning_text"
            place = {**where, "content_index": 0}
            pieces = [event("response.content_part.added", part={"type": part}, **place)]
            pieces += [event(f"response.{part}.delta", delta=text, **place) for text in (f"{index}a", f"{index}b")]
            closed = item | {"content": [{"type": part, "text": f"{index}a{index}b"}]}
        items.append([opened, *pieces, event("response.output_item.done", item=closed, **where)])
    said: list[bytes] = [each.pop(0) for each in items]
    for index, count in steps:
        said += [items[index].pop(0) for _ in range(min(count, len(items[index])))]
    return b"".join([created(), *said, *(piece for each in items for piece in each), completed()])


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3)), max_size=20))
def test_items_may_interleave_in_any_way(steps: list[tuple[int, int]]) -> None:
    seen = see([walk(steps)])
    assert seen.answer.text == "0a0b2a2b"
    assert [each.text for each in seen.answer.reasoning] == ["1a1b"]
    assert [(each.id, each.arguments, each.complete) for each in seen.answer.calls] == [
        ("c3", "{}", True),
        ("c4", "{}", True),
    ]
    assert [type(each).__name__ for each in seen.answer.parts] == ["Text", "Reasoning", "Text", "ToolCall", "ToolCall"]


@given(st.binary(max_size=200) | STREAMS.map(b"".join))
def test_any_bytes_give_a_typed_outcome(data: bytes) -> None:
    for mode in ("strict", "lenient"):
        whole = see([data], mode, limits=Limits(event_bytes=300))
        assert isinstance(whole.error, SvirError) or whole.completion is not None
        if b"[" not in data[:1] and b"{" not in data[:1]:  # of a body that is no stream the first 200 bytes are shown
            assert see(split(data, 1), mode, limits=Limits(event_bytes=300)) == whole


@settings(max_examples=200)
@given(RESPONSES, st.sampled_from(["strict", "lenient"]))
def test_any_response_is_the_same_as_a_document_and_as_an_event(response: dict[str, Any], mode: str) -> None:
    document = DocumentDecoder(mode=mode, clock=lambda: 0.0)
    document.push(orjson.dumps({"object": "response", **response}))
    if not document.done:
        document.finish()
    kind = {"incomplete": "response.incomplete", "failed": FAILED}.get(
        str(response.get("status")), "response.completed"
    )
    framed = see([created(id=None, model=None) + event(kind, response=response)], mode)
    if response.get("error") or response.get("status") not in ("completed", "incomplete"):
        assert document.done
        return
    if document.completion is None:
        assert type(framed.error) is type(document.error)
    else:
        assert framed.answer.parts == document.completion.parts
        assert framed.answer.finish == document.completion.finish
        assert framed.answer.usage == document.completion.usage
