"""docs/wire-apis.md says what is true: its tables of finishes, figures and errors are compared with the code's."""

from __future__ import annotations

import pathlib
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson
import pytest

from svir_client import AsyncClient, Tools
from svir_client.testing import Reply
from svir_core import errors
from svir_core.event import Completed
from svir_core.request import Request
from svir_core.response import Completion, FinishReason, Usage
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from svir_core.wire.anthropic_messages import table as anthropic
from svir_core.wire.api import Api, CodecOptions, Compat
from svir_core.wire.failure import OVERFLOW_CODES
from svir_core.wire.gemini import table as google
from svir_core.wire.json_value import Json
from svir_core.wire.openai_chat import table as chat
from svir_core.wire.openai_responses import table as responses
from svir_core.wire.verdict import WORDS, Verdict
from tests.svir_client.switching import first_reply, talking
from tests.svir_core.wire.foreign import mark

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "wire-apis.md").read_text("utf-8")
APIS: list[Api] = [openai_chat.API, openai_responses.API, anthropic_messages.API, gemini.API]


def rows(title: str) -> list[list[str]]:
    """The rows of the table in a section, without its head."""
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def words(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


def row(title: str, first: str) -> list[str]:
    return next(cells for cells in rows(title) if cells[0].startswith(first))


FINISHES = "How an answer ends"


@pytest.mark.parametrize("finish", [finish for finish in FinishReason if finish is not FinishReason.OTHER])
def test_finishes(finish: FinishReason) -> None:
    _, of_chat, of_responses, of_anthropic, of_gemini = row(FINISHES, f"`{finish.name}`")
    anthropic_words = {word for word, meant in anthropic.FINISHES.items() if meant is finish}
    gemini_words = {word for word, meant in google.FINISHES.items() if meant is finish}
    cut_words = {word for word, meant in responses.INCOMPLETE.items() if meant is finish}
    assert anthropic_words == words(of_anthropic)
    assert gemini_words <= words(of_gemini)
    assert cut_words <= words(of_responses)
    if finish not in (FinishReason.STOP, FinishReason.TOOL_CALLS):
        assert gemini_words == words(of_gemini)
    told = {word for word, by_state in chat.FINISHES.items() if finish in by_state.values()}
    if finish is not FinishReason.REFUSAL:  # told by the key of its text
        assert told >= words(of_chat)


def test_finishes_that_are_failures() -> None:
    for first, kind in (("`ServerError`", errors.ServerError), ("`AuthenticationError`", errors.AuthenticationError)):
        _, _, of_responses, _, of_gemini = row(FINISHES, first)
        assert {word for word, meant in google.FAILURES.items() if meant is kind} == words(of_gemini)
        if kind is errors.ServerError:
            assert words(of_responses) == responses.FAILURES
    assert words(row(FINISHES, "`PAUSE`")[2]) >= {responses.APPROVAL, *responses.UNDER_WAY}


def verdicts() -> Iterator[tuple[str, Verdict]]:
    yield from WORDS.items()


@pytest.mark.parametrize(
    ("first", "kind", "retryable"),
    [
        ("`RateLimitedError` |", errors.RateLimitedError, None),
        ("`RateLimitedError`, not worth another try", errors.RateLimitedError, False),
        ("`AuthenticationError`", errors.AuthenticationError, None),
        ("`ContentFilterError`", errors.ContentFilterError, None),
        ("`ResponseTimeoutError`", errors.ResponseTimeoutError, None),
    ],
)
def test_words_of_errors(first: str, kind: type[errors.SvirError], retryable: bool | None) -> None:
    cells = next(cells for cells in rows("What went wrong") if f"{cells[0]} |".startswith(first))
    told = {word for word in words(cells[1]) if not word.startswith("...")}
    assert told == {word for word, means in verdicts() if (means.error, means.retryable) == (kind, retryable)}


def test_words_of_an_overflow() -> None:
    assert words(row("What went wrong", "`ContextOverflowError`")[1]) == OVERFLOW_CODES


# --- figures ---------------------------------------------------------------------------------------------


def chat_stream(report: object) -> bytes:
    chunk = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}], "usage": report}
    return b"data: " + orjson.dumps(chunk) + b"\n\ndata: [DONE]\n\n"


def responses_stream(report: object) -> bytes:
    frame: Json = {"id": "r", "model": "m", "output": []}
    events: list[Json] = [
        {"type": "response.created", "sequence_number": 0, "response": {**frame, "status": "in_progress"}},
        {
            "type": "response.completed",
            "sequence_number": 1,
            "response": {**frame, "status": "completed", "usage": report},
        },
    ]
    return b"".join(b"event: %b\ndata: %b\n\n" % (str(e["type"]).encode(), orjson.dumps(e)) for e in events)


def anthropic_stream(report: object) -> bytes:
    message: dict[str, object] = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
    }
    events: list[Json] = [
        {"type": "message_start", "message": {**message, "usage": report}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {}},
        {"type": "message_stop"},
    ]
    return b"".join(b"event: %b\ndata: %b\n\n" % (str(e["type"]).encode(), orjson.dumps(e)) for e in events)


def gemini_stream(report: object) -> bytes:
    parts = {"role": "model", "parts": [{"text": "x"}]}
    chunk = {"candidates": [{"content": parts, "finishReason": "STOP"}], "usageMetadata": report}
    return b"data: " + orjson.dumps(chunk) + b"\r\n\r\n"


STREAMS: Mapping[str, Callable[[object], bytes]] = {
    "openai_chat": chat_stream,
    "openai_responses": responses_stream,
    "anthropic_messages": anthropic_stream,
    "gemini": gemini_stream,
}


def nested(paths: Mapping[str, int]) -> Json:
    """A report in which each dotted path has its figure."""
    report: Json = {}
    for path, figure in paths.items():
        *outer, last = path.split(".")
        inner = report
        for step in outer:
            inner = inner.setdefault(step, {})
        inner[last] = figure
    return report


def answered(api: Api, report: object) -> Completion:
    decoder = api.decoder(CodecOptions(), lambda: 0.0)
    events = [*decoder.push(STREAMS[api.name](report)), *decoder.finish()]
    assert isinstance(events[-1], Completed)
    return decoder.result()


@pytest.mark.parametrize("column", range(1, 5))
def test_figures(column: int) -> None:
    api = APIS[column - 1]
    told = {cells[0].strip("`"): sorted(words(cells[column])) for cells in rows("What it cost")[:6]}
    figures = {path: 2**bit for bit, path in enumerate(sorted({path for paths in told.values() for path in paths}))}
    usage = answered(api, nested(figures)).usage
    assert usage is not None
    expected = {name: sum(figures[path] for path in paths) if paths else None for name, paths in told.items()}
    assert {name: getattr(usage, name) for name in told} == expected


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_absent_is_never_zero(api: Api) -> None:
    assert answered(api, None).usage in (None, Usage())


# --- requests --------------------------------------------------------------------------------------------


def test_every_setting_of_a_request_is_in_the_table() -> None:
    named = {word for cells in rows("What a request asks") for word in words(cells[0])}
    settings = set(Request.__init__.__annotations__) - {"return", "messages"}
    assert settings <= named


@pytest.mark.parametrize(
    ("setting", "value", "columns"),
    [
        ("stop", ("x",), [True, False, True, True]),
        ("seed", 5, [True, False, False, True]),
        ("response_format", "json", [True, True, False, True]),
    ],
)
def test_what_is_refused_is_refused(setting: str, value: object, columns: list[bool]) -> None:
    for api, taken in zip(APIS, columns, strict=True):
        request = Request("m").user("hi").replace(**{setting: value})
        if taken:
            assert api.encode(request, CodecOptions(), Compat())
        else:
            with pytest.raises(errors.UnsupportedError):
                api.encode(request, CodecOptions(), Compat())


def test_modules_clients_and_hosts() -> None:
    table = [line for line in PAGE.splitlines() if line.startswith("| ") and "AsyncClient." in line]
    assert len(table) == len(APIS)
    for line, api in zip(table, APIS, strict=True):
        assert f"`svir_core.wire.{api.name}`" in line
        name = next(iter(re.findall(r"AsyncClient\.(\w+)", line)))
        assert callable(getattr(AsyncClient, name))
        if api is not openai_chat.API:
            assert f"`{api.base_url}`" in line


@pytest.mark.anyio
async def test_a_conversation_changes_the_api_as_the_page_does() -> None:
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    tools = Tools()
    for name in ("look", "list"):
        tools.add(lambda: "a cat", name=name, description="Look around.")
    replies = {
        "anthropic_messages": [first_reply(anthropic_messages.API, 1), Reply.text("ok", api=anthropic_messages.API)],
        "gemini": [Reply.text("A cat.", api=gemini.API)],
    }
    async with talking(replies) as talk:
        names: dict[str, Any] = {"Request": Request, "tools": tools}
        names |= {"claude": talk.clients["anthropic_messages"], "gemini": talk.clients["gemini"]}
        exec(f"async def snippet():\n{textwrap.indent(snippet, '    ')}", names)
        await names["snippet"]()
        _, back = talk.bodies(anthropic_messages.API)
        (there,) = talk.bodies(gemini.API)
    own = mark("anthropic_messages").encode()
    assert own in back
    assert own not in there
