"""Streams of OpenAI Responses for tests, and everything that can be seen of how one was decoded."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs
import orjson

from svir_core.errors import SvirError
from svir_core.event import Completed, Event, ReasoningDelta, TextDelta, ToolCallDelta
from svir_core.message import Reasoning, ToolCall
from svir_core.response import Completion
from svir_core.wire.openai_responses import Decoder

Json = dict[str, Any]
MODES = ("strict", "lenient")
CASES = pathlib.Path(__file__).parents[4] / "conformance" / "decoder" / "openai_responses"
USAGE: Json = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}


def event(kind: str, **fields: Any) -> bytes:
    return b"data: " + orjson.dumps({"type": kind, **fields}) + b"\n\n"


def created(**fields: Any) -> bytes:
    return event("response.created", response={"id": "resp_1", "model": "m", "status": "in_progress", **fields})


def completed(*output: Any, **fields: Any) -> bytes:
    response = {"id": "resp_1", "model": "m", "status": "completed", "output": list(output), **fields}
    return event("response.completed", response=response)


def incomplete(reason: Any, *output: Any) -> bytes:
    details = {"reason": reason}
    response = {"id": "resp_1", "status": "incomplete", "incomplete_details": details, "output": list(output)}
    return event("response.incomplete", response=response)


def message(text: str, item_id: str = "msg_1") -> Json:
    content: list[Json] = [{"type": "output_text", "text": text, "annotations": []}]
    return {"id": item_id, "type": "message", "role": "assistant", "status": "completed", "content": content}


def reasoning(*summaries: str, item_id: str = "rs_1") -> Json:
    summary = [{"type": "summary_text", "text": text} for text in summaries]
    return {"id": item_id, "type": "reasoning", "summary": summary, "encrypted_content": "E"}


def call(arguments: Any, number: int = 1, **fields: Any) -> Json:
    named = {"id": f"fc_{number}", "call_id": f"call_{number}", "name": "f"}
    return {"type": "function_call", "status": "completed", **named, "arguments": arguments, **fields}


def added(index: Any, item: Any) -> bytes:
    return event("response.output_item.added", output_index=index, item=item)


def done(index: Any, item: Any) -> bytes:
    return event("response.output_item.done", output_index=index, item=item)


def part(index: Any, place: Any = 0, kind: str = "output_text") -> bytes:
    return event("response.content_part.added", output_index=index, content_index=place, part={"type": kind})


def delta(index: Any, text: Any, place: Any = 0, **fields: Any) -> bytes:
    return event("response.output_text.delta", output_index=index, content_index=place, delta=text, **fields)


def said(index: int, text: str, item_id: str = "msg_1") -> bytes:
    """A message, streamed whole."""
    opened: Json = {**message("", item_id), "content": []}
    return added(index, opened) + part(index) + delta(index, text) + done(index, message(text, item_id))


def called(index: int, arguments: str, number: int = 1) -> bytes:
    """A call, streamed whole."""
    piece = event("response.function_call_arguments.delta", output_index=index, delta=arguments)
    return added(index, call("", number)) + piece + done(index, call(arguments, number))


def stream(*pieces: bytes, end: bytes | None = None) -> bytes:
    return created() + b"".join(pieces) + (completed() if end is None else end)


@attrs.frozen
class Seen:
    """All that a caller can see of one decoded stream, but for when it saw it."""

    events: tuple[Event, ...]
    completion: Completion | None
    error: SvirError | None
    message: str | None
    output_seen: int

    @property
    def kind(self) -> str | None:
        return None if self.error is None else self.error.kind.value

    @property
    def answer(self) -> Completion:
        assert self.error is None, (self.error, self.message)
        assert self.completion is not None
        return self.completion

    @property
    def text(self) -> str:
        return "".join(each.text for each in self.events if isinstance(each, TextDelta))

    @property
    def codes(self) -> list[str]:
        anomalies = self.error.anomalies if self.error is not None else self.answer.anomalies
        return [anomaly.code.value for anomaly in anomalies]


def see(pieces: Iterable[bytes], mode: str = "strict", **options: Any) -> Seen:
    """Push ``pieces`` and the end."""
    decoder = Decoder(mode=mode, clock=lambda: 0.0, **options)
    events: list[Event] = []
    for piece in pieces:
        told = decoder.push(piece)
        events += told.items
        if decoder.done:
            break
    else:
        told = decoder.finish()
        events += told.items
    assert decoder.done
    assert told.error is decoder.error
    assert (decoder.error is None) is (decoder.completion is not None)
    words = None if decoder.error is None else decoder.error.server_message()
    seen = Seen(tuple(events), decoder.completion, decoder.error, words, decoder.output_seen)
    check_delivered(seen)
    return seen


def check_delivered(seen: Seen) -> None:
    """The outcome is what the events delivered."""
    if seen.completion is None:
        assert seen.error is not None
        assert seen.error.partial is not None
        assert seen.error.partial.text == seen.text
        return
    assert seen.events[-1] == Completed(seen.completion)
    assert seen.completion.text == seen.text
    sources: dict[str, str] = {}
    calls: dict[int, list[str]] = {}
    for each in seen.events:
        if isinstance(each, ReasoningDelta):
            sources[each.source] = sources.get(each.source, "") + each.text
        elif isinstance(each, ToolCallDelta):
            pieces = calls.setdefault(each.index, ["", "", ""])
            for place, value in enumerate((each.id, each.name, each.arguments)):
                pieces[place] += value or ""
    assert {each.source: each.text for each in seen.completion.reasoning} == sources
    told = [[each.id, each.name, each.arguments] for each in seen.completion.calls]
    assert told == [calls[index] for index in sorted(calls)]
    assert sorted(calls) == list(range(len(calls)))
    assert all(part.text or part.opaque for part in seen.completion.parts if isinstance(part, Reasoning))
    assert not seen.completion.anomaly_count or seen.completion.anomalies


def split(data: bytes, stride: int) -> Sequence[bytes]:
    return [data[start : start + stride] for start in range(0, len(data), stride)]


def decoded(data: bytes, mode: str = "strict", **options: Any) -> Seen:
    """``data`` decoded whole, and the same byte by byte."""
    whole = see([data], mode, **options)
    assert see(split(data, 1), mode, **options) == whole
    return whole


def both(data: bytes, **options: Any) -> Seen:
    """``data`` decoded in both modes, which agree and have nothing to forgive."""
    strict, lenient = (decoded(data, mode, **options) for mode in MODES)
    assert strict == lenient
    assert strict.codes == []
    return strict


def refused(data: bytes, *codes: str, kind: str = "protocol", **options: Any) -> Seen:
    """``data`` that strict refuses and lenient forgives with ``codes``; what lenient saw."""
    strict = decoded(data, "strict", **options)
    assert strict.kind == kind, strict
    lenient = decoded(data, "lenient", **options)
    assert lenient.codes == list(codes), lenient
    return lenient


def whole_calls(seen: Seen) -> list[ToolCall]:
    return [each for each in seen.answer.calls if each.complete]


def case_streams() -> Iterator[tuple[str, bytes]]:
    """The input of every decoder case of this API, recordings too, by the name of the case."""
    for path in sorted(CASES.rglob("*.json")):
        case = json.loads(path.read_text(encoding="ascii"))
        name = path.relative_to(CASES).with_suffix("").as_posix()
        if "file" in case:
            yield name, (path.parent / case["file"]).read_bytes()
        else:
            yield name, "".join(case["chunks"]).encode()
