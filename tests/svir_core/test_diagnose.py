"""``explain``: what completes a recording, what was wrong where, and the fewest quirks, found within its bound."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from itertools import combinations
from typing import Any, cast

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core import serial
from svir_core.diagnose import explain
from svir_core.errors import ConfigError, ErrorKind, ProtocolError, ServerError, SvirError, UnsupportedError
from svir_core.event import Completed, Event, Events
from svir_core.explanation import Attempt, Explanation, Finding
from svir_core.limits import Limits
from svir_core.quirk import NONE, Quirk
from svir_core.response import AnomalyCode, Completion, FinishReason
from svir_core.wire import openai_chat
from svir_core.wire.api import Api, CodecOptions, Mode
from tests.svir_core.wire.openai_chat.streams import DONE, call, calls, chunk, finish, stream, text

RECORDED = sorted((pathlib.Path(__file__).parents[2] / "conformance" / "decoder" / "recorded").glob("*.sse"))
QUIRKS = list(Quirk)


def lines(explanation: Explanation) -> list[str]:
    return str(explanation).splitlines()


# --- the modes --------------------------------------------------------------------------------------


def test_a_stream_without_fault() -> None:
    explanation = explain(stream(text("Hello")))
    assert lines(explanation) == ["strict: completes, finish stop"]
    assert explanation.findings == ()
    assert explanation.alternatives == ()
    assert (explanation.mode, explanation.quirks) == (Mode.STRICT, NONE)
    assert isinstance(explanation.outcome, Completion)
    assert explanation.outcome.text == "Hello"


def test_what_lenient_forgives_is_counted_by_its_code() -> None:
    odd = chunk({"content": "b", "mood": "good"})
    data = text("a") + odd + odd + b"foo: bar\n\n" + finish() + DONE
    explanation = explain(data)
    at, junk = len(text("a")), len(text("a") + odd + odd)
    assert lines(explanation) == [
        f"strict: unsupported error at byte {at}: a delta has a key that this API does not have",
        "lenient: completes, finish stop",
        f"- byte {at}, 2 times: a delta has a key that this API does not have; "
        "lenient reads past it and records unknown_delta_key",
        f"- byte {junk}: a line has a field that is not one of server-sent events; "
        "lenient reads past it and records unknown_field",
    ]
    first, second = explanation.findings
    assert first.excerpt == odd[:80]
    assert second.excerpt == (b"foo: bar\n\n" + finish() + DONE)[:80]
    assert first.repaired
    assert second.kind is ErrorKind.UNSUPPORTED


def test_a_cut_stream_is_repaired_by_nothing() -> None:
    data = text("a") + text("b")
    explanation = explain(data)
    assert lines(explanation) == [
        f"strict: truncated_stream error at byte {len(data)}: the input ended before the answer did",
        f"lenient: truncated_stream error at byte {len(data)}: the input ended before the answer did",
        f"- byte {len(data)}: the input ended before the answer did; nothing repairs it",
    ]
    (finding,) = explanation.findings
    assert finding.excerpt == data[-80:]
    assert not finding.repaired


def test_an_unterminated_event_is_an_anomaly_without_an_error() -> None:
    data = text("a") + text("b").rstrip()
    unterminated, cut = explain(data).findings
    assert str(unterminated) == (
        f"byte {len(text('a'))}: the last event is not ended by a blank line; "
        "lenient reads past it and records unterminated_event"
    )
    assert unterminated.kind is None
    assert cut.kind is ErrorKind.TRUNCATED_STREAM


def test_nothing_is_tried_against_a_failure_or_a_limit() -> None:
    asked: list[CodecOptions] = []
    failure = explain(b'data: {"error": "secret"}\n\n', api=watched(asked))
    assert len(failure.attempts) == len(asked) == 2
    assert isinstance(failure.outcome, ServerError)
    assert lines(failure)[-1] == "- byte 0: the server reported a failure in the stream; nothing repairs it"
    assert explain(text("a"), limits=Limits(wire_bytes=9)).findings[0].kind is ErrorKind.RESPONSE_LIMIT


def test_options_of_the_decoder() -> None:
    data = stream(text("<think>a</think>b"))
    for think, said in (("split", "b"), ("keep", "<think>a</think>b")):
        outcome = explain(data, think=think).outcome
        assert isinstance(outcome, Completion)
        assert outcome.text == said
    with pytest.raises(ConfigError):
        explain(data, think="often")


@pytest.mark.parametrize("data", [stream(text("a")), bytearray(stream(text("a"))), memoryview(stream(text("a")))])
def test_bytes_of_every_kind(data: bytes | bytearray | memoryview) -> None:
    assert explain(data).mode is Mode.STRICT


@pytest.mark.parametrize("data", ["text", 5, None])
def test_what_is_no_bytes(data: Any) -> None:
    with pytest.raises(ConfigError):
        explain(data)


def test_no_server_text_is_shown_unless_asked_for() -> None:
    data = chunk({"content": "secret", "secret": "secret"}, model="secret") + finish("secret")
    explanation = explain(data)
    assert "secret" not in str(explanation) + repr(explanation)
    assert "secret" not in "".join(map(repr, (*explanation.attempts, *explanation.findings)))
    assert "secret" in explanation.report(excerpts=True)


@pytest.mark.parametrize("recording", RECORDED, ids=[path.stem for path in RECORDED])
def test_every_recording_is_explained_as_it_decodes(recording: pathlib.Path) -> None:
    explanation = explain(recording.read_bytes())
    for attempt in explanation.attempts[:-1]:
        assert attempt.error is not None
    assert bool(explanation.findings) is (explanation.attempts[0].completion is None)
    assert all(finding.repaired for finding in explanation.findings) is isinstance(explanation.outcome, Completion)
    assert serial.loads(serial.dumps(explanation)) == explanation


# --- the search -------------------------------------------------------------------------------------


@attrs.frozen
class Need:
    """Something wrong at an offset that any of these quirks repairs; all of them at once when ``together``."""

    offset: int
    quirks: tuple[Quirk, ...]
    together: bool = False

    def met(self, quirks: Quirk) -> bool:
        return (all if self.together else any)(quirk in quirks for quirk in self.quirks)


@attrs.define
class Scripted:
    """A decoder that fails at the first need its options do not meet; ``strict`` fails at its own first."""

    needs: list[Need]
    options: CodecOptions
    strict: int | None
    completion: Completion | None = None
    error: SvirError | None = None
    done: bool = False

    def push(self, data: bytes) -> Events:
        unmet = [need.offset for need in self.needs if not need.met(self.options.quirks)]
        items: list[Event] = []
        if self.strict is not None and self.options.mode is Mode.STRICT:
            self.error = UnsupportedError("strict", offset=self.strict)
        elif unmet:
            missing = sum(1 for need in self.needs for quirk in need.quirks if quirk not in self.options.quirks)
            self.error = ProtocolError(f"{missing} of the needs", offset=unmet[0])
        else:
            self.completion = Completion(FinishReason.STOP)
            items = [Completed(self.completion)]
        self.done = True
        return Events(items, self.error)

    def result(self) -> Completion:
        assert self.completion is not None
        return self.completion


@attrs.frozen
class ScriptedApi:
    make: Callable[[CodecOptions], object]
    asked: list[CodecOptions]

    def decoder(self, options: CodecOptions, clock: Callable[[], float]) -> object:
        assert clock() == 0.0
        self.asked.append(options)
        return self.make(options)


def scripted(*needs: Need, asked: list[CodecOptions] | None = None, strict: int | None = None) -> Api:
    ordered = sorted(needs, key=lambda need: need.offset)
    make: Callable[[CodecOptions], object] = lambda options: Scripted(ordered, options, strict)  # noqa: E731
    return cast(Api, ScriptedApi(make, [] if asked is None else asked))


def watched(asked: list[CodecOptions]) -> Api:
    """Chat Completions, and with what options it was asked for decoders."""
    from svir_core.wire.openai_chat import API

    return cast(Api, ScriptedApi(lambda options: API.decoder(options, lambda: 0.0), asked))


DATA = b"." * 100


def test_one_quirk() -> None:
    explanation = explain(DATA, api=scripted(Need(7, (Quirk.TOOL_ID_DRIFTS,))))
    assert lines(explanation) == [
        "strict: protocol error at byte 7: 1 of the needs",
        "lenient: protocol error at byte 7: 1 of the needs",
        "strict with TOOL_ID_DRIFTS: completes, finish stop",
        "- byte 7: 1 of the needs; TOOL_ID_DRIFTS repairs it",
    ]
    assert explanation.quirks is Quirk.TOOL_ID_DRIFTS


def test_one_quirk_on_top_of_what_lenient_forgives() -> None:
    explanation = explain(DATA, api=scripted(Need(7, (Quirk.FINISH_OPEN,)), strict=3))
    assert lines(explanation)[2:] == [
        "lenient with FINISH_OPEN: completes, finish stop",
        "- byte 3: strict; lenient reads past it",
        "- byte 7: 1 of the needs; FINISH_OPEN repairs it",
    ]


def test_alternatives_are_named_and_not_chosen() -> None:
    explanation = explain(DATA, api=scripted(Need(7, (Quirk.FINISH_OPEN, Quirk.FINISH_OPTIONAL))))
    assert explanation.quirks is Quirk.FINISH_OPTIONAL
    assert explanation.alternatives == (Quirk.FINISH_OPEN,)
    assert lines(explanation)[-1] == "FINISH_OPEN would complete it too"


def test_two_quirks_each_for_its_own() -> None:
    needs = (Need(7, (Quirk.DONE_OPTIONAL,)), Need(9, (Quirk.TOOL_ID_MISSING,)))
    explanation = explain(DATA, api=scripted(*needs))
    assert lines(explanation)[2:] == [
        "strict with TOOL_ID_MISSING | DONE_OPTIONAL: completes, finish stop",
        "- byte 7: 1 of the needs; DONE_OPTIONAL repairs it",
        "- byte 9: 1 of the needs; TOOL_ID_MISSING repairs it",
    ]


def test_two_quirks_for_one_thing() -> None:
    need = Need(7, (Quirk.CONTENT_PARTS, Quirk.TOOL_INDEX_GAPS), together=True)
    explanation = explain(DATA, api=scripted(need))
    assert explanation.quirks == Quirk.CONTENT_PARTS | Quirk.TOOL_INDEX_GAPS


@pytest.mark.parametrize("count", [3, 5, len(QUIRKS)])
def test_many_quirks_one_after_the_other(count: int) -> None:
    needs = [Need(5 * number, (quirk,)) for number, quirk in enumerate(reversed(QUIRKS[:count]))]
    asked: list[CodecOptions] = []
    explanation = explain(DATA, api=scripted(*needs, asked=asked))
    assert sorted(finding.quirks.value for finding in explanation.findings) == [each.value for each in QUIRKS[:count]]
    assert isinstance(explanation.outcome, Completion)
    assert len(asked) <= 600


def test_a_quirk_that_a_later_one_makes_needless_is_dropped() -> None:
    first, second, third, fourth = QUIRKS[:4]
    needs = (Need(1, (first, second)), Need(2, (second,)), Need(3, (third,)), Need(4, (fourth,)))
    explanation = explain(DATA, api=scripted(*needs))
    assert explanation.quirks == second | third | fourth


@pytest.mark.parametrize("needs", [0, 1, 2, 3, 16])
def test_what_no_quirks_complete(needs: int) -> None:
    asked: list[CodecOptions] = []
    repaired = [Need(number, (quirk,)) for number, quirk in enumerate(QUIRKS[:needs])]
    explanation = explain(DATA, api=scripted(*repaired, Need(50, ()), asked=asked))
    assert len(explanation.attempts) == 2
    assert [finding.repaired for finding in explanation.findings] == [False]
    assert explanation.alternatives == ()
    assert len(asked) <= 600


@given(st.lists(st.tuples(st.integers(0, 99), st.sampled_from(QUIRKS)), max_size=5), st.none() | st.integers(0, 99))
def test_the_fewest_are_found(drawn: list[tuple[int, Quirk]], strict: int | None) -> None:
    needs = [Need(offset, (quirk,)) for offset, quirk in drawn]
    explanation = explain(DATA, api=scripted(*needs, strict=strict))
    wanted = NONE
    for _, quirk in drawn:
        wanted |= quirk
    assert explanation.quirks == wanted
    assert explanation.mode is (Mode.STRICT if strict is None else Mode.LENIENT)
    assert isinstance(explanation.outcome, Completion)


def test_every_pair_is_found() -> None:
    for first, second in combinations(QUIRKS, 2):
        api = scripted(Need(3, (second,)), Need(8, (first,)))
        assert explain(DATA, api=api).quirks == first | second


# --- the quirks of Chat Completions -----------------------------------------------------------------

ENDED = finish("tool_calls") + DONE
NO_INDEX = {"function": {"name": "f", "arguments": "{}"}}
USAGE = ({"prompt_tokens": 1, "completion_tokens": 1}, {"prompt_tokens": 0, "completion_tokens": 2})

BROKEN = {
    Quirk.TOOL_INDEX_MISSING: calls({"id": "a", **NO_INDEX}) + ENDED,
    Quirk.TOOL_INDEX_REUSED: calls(call(id="a", name="f")) + calls(call(id="b", name="g")) + ENDED,
    Quirk.TOOL_ID_DRIFTS: calls(call(id="a", name="f")) + calls(call(id="b", arguments="{}")) + ENDED,
    Quirk.TOOL_ID_MISSING: calls(call(name="f")) + ENDED,
    Quirk.TOOL_INDEX_GAPS: calls(call(1, id="a", name="f")) + ENDED,
    Quirk.TOOL_ARGUMENTS_OBJECT: calls(call(id="a", name="f", arguments={"x": 1})) + ENDED,
    Quirk.DONE_OPTIONAL: text("a") + finish(),
    Quirk.FINISH_OPTIONAL: text("a") + DONE,
    Quirk.FINISH_OPEN: stream(text("a"), end=finish("eos") + DONE),
    Quirk.FINISH_EARLY: text("a") + finish() + stream(text("b")),
    Quirk.TOOL_INDEX_MISSING | Quirk.DONE_OPTIONAL: calls({"id": "a", **NO_INDEX}) + finish("tool_calls"),
    Quirk.TOOL_INDEX_MISSING | Quirk.TOOL_ID_MISSING | Quirk.DONE_OPTIONAL: calls(NO_INDEX) + finish("tool_calls"),
}
"""Streams that neither mode completes, and the quirks that each needs."""

SKIPPED = {
    Quirk.CONTENT_PARTS: stream(chunk({"content": [{"type": "text", "text": "a"}]})),
    Quirk.REASONING_DETAILS: stream(chunk({"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]})),
    Quirk.USAGE_INCREMENTS: chunk({"content": "a"}, usage=USAGE[0]) + chunk({}, "stop", usage=USAGE[1]) + DONE,
}
"""Streams that lenient mode completes without what the quirk reads."""


@pytest.mark.parametrize("quirks", BROKEN)
def test_the_quirks_that_a_broken_stream_needs(quirks: Quirk) -> None:
    explanation = explain(BROKEN[quirks])
    assert (explanation.quirks, explanation.mode) == (quirks, Mode.STRICT)
    assert isinstance(explanation.outcome, Completion)
    repairs = NONE
    for finding in explanation.findings:
        repairs |= finding.quirks
    assert repairs == quirks


@pytest.mark.parametrize("quirk", SKIPPED)
def test_the_quirk_that_reads_what_lenient_skips(quirk: Quirk) -> None:
    explanation = explain(SKIPPED[quirk])
    (finding,) = explanation.findings
    assert [(way.mode, way.quirks) for way in explanation.attempts] == [
        (Mode.STRICT, NONE),
        (Mode.LENIENT, NONE),
        *([] if quirk is Quirk.USAGE_INCREMENTS else [(Mode.STRICT, quirk)]),
    ]
    assert isinstance(explanation.outcome, Completion)
    assert (finding.lenient, finding.quirks) == (True, quirk)
    assert str(finding).endswith(f", {quirk.name} would read it")
    assert explain(SKIPPED[quirk] + b"more") == explanation


WHOLE = calls(call(id="a", name="f")) + calls(call(1, id="b", name="g", arguments="{}")) + calls(call(arguments="{}"))


def test_arguments_that_were_sent_again_are_found() -> None:
    data = WHOLE + b": ping\n\n" + calls(call(arguments="{}")) + ENDED
    at = len(WHOLE + b": ping\n\n")
    explanation = explain(data)
    assert lines(explanation) == [
        "strict: completes, finish tool_calls",
        "strict with TOOL_ARGUMENTS_RESENT: completes, finish tool_calls",
        f"- byte {at}: the arguments of a tool call are not whole; TOOL_ARGUMENTS_RESENT repairs it",
    ]
    assert isinstance(explanation.outcome, Completion)
    assert all(made.complete for made in explanation.outcome.calls)
    assert serial.loads(serial.dumps(explanation)) == explanation


def test_arguments_that_nothing_completes_are_found() -> None:
    explanation = explain(calls(call(id="a", name="f", arguments='{"x"')) + ENDED)
    assert lines(explanation)[1:] == ["- byte 0: the arguments of a tool call are not whole; nothing repairs it"]
    assert explain(calls(call(id="a", name="f", arguments='{"x"')) + finish("length") + DONE).findings == ()


def test_what_is_lost_beside_a_repair_is_read_too() -> None:
    parts = chunk({"content": [{"type": "text", "text": "a"}]})
    explanation = explain(parts + finish())
    assert (explanation.mode, explanation.quirks) == (Mode.STRICT, Quirk.CONTENT_PARTS | Quirk.DONE_OPTIONAL)
    assert [finding.quirks for finding in explanation.findings] == [Quirk.CONTENT_PARTS, Quirk.DONE_OPTIONAL]


def test_choices_that_may_be_several_answers_are_not_merged() -> None:
    two = stream(text("a"), text("b").replace(b'"index":0', b'"index":1'))
    explanation = explain(two + finish())
    assert (explanation.mode, explanation.quirks) == (Mode.LENIENT, NONE)


# --- the types --------------------------------------------------------------------------------------


def test_words_of_other_kinds_are_refused() -> None:
    assert Attempt("lenient", NONE, Completion(FinishReason.STOP)).mode is Mode.LENIENT
    for make in (
        lambda: Attempt("harsh", NONE, Completion(FinishReason.STOP)),
        lambda: Finding("a", 0, kind="sad"),
        lambda: Finding("a", 0, code="sad"),
    ):
        with pytest.raises(ConfigError):
            make()
    assert Finding("a", 0, ErrorKind.PROTOCOL, code=AnomalyCode.NO_CHOICES).kind is ErrorKind.PROTOCOL


@pytest.mark.parametrize("api", ["openai_chat", openai_chat])
def test_what_is_no_api_is_refused(api: Any) -> None:
    with pytest.raises(ConfigError, match="api must be a wire API"):
        explain(b"", api=api)
