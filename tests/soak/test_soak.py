"""The soak in short: a load and random cancellations on both backends, and an oracle that can say no."""

from __future__ import annotations

import random
import sys

import attrs
import pytest

from soak import measure
from soak.__main__ import main
from soak.answer import draw
from soak.case import WEIGHTS, Case
from soak.fault import FAULTS
from soak.load import Load, Settings, Summary
from soak.oracle import Violation, judge, told
from soak.reader import READERS, Seen
from soak.report import rounds_table, table
from soak.rounds import Rounds, run_rounds
from soak.server import ServerProcess
from soak.transport import TRANSPORTS
from svir_core import (
    ConfigError,
    ErrorKind,
    SvirError,
    Text,
    TransportError,
    TruncatedStreamError,
    UnsupportedError,
)
from svir_core.response import Partial

SEED = 7
PACE = 0.01
"""Pauses of a server of 15 ms at the most, which are faults of theirs."""


@pytest.mark.anyio
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_every_answer_is_what_its_script_allows(transport: str) -> None:
    settings = Settings(50, 60.0, SEED, transport=transport, calls=400, pace=PACE)
    with ServerProcess(settings.seed, settings.pace) as server:
        summary = await Load(settings, server).run()
    assert summary.violation is None
    assert summary.calls >= 400
    assert summary.requests > 300
    assert summary.faults.keys() == FAULTS.keys()
    assert {"whole", "left", "relayed", "truncated_stream", "timeout", "transport"} <= summary.outcomes.keys()
    assert f"{summary.calls:,}" in table(settings, "asyncio", summary)


@pytest.mark.anyio
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_call_cancelled_at_random_leaves_nothing_behind(transport: str) -> None:
    rounds = await run_rounds(200, SEED, transport)
    assert rounds.violation is None
    assert rounds.outcomes.total() == 200
    assert rounds.outcomes.keys() == {"cancelled", "whole", "transport"}
    assert "200 calls" in rounds_table(rounds, "trio", transport, SEED)


def test_a_case_is_the_same_in_both_processes() -> None:
    for number in range(50):
        one, other = Case.of(SEED, number, PACE), Case.of(SEED, number, PACE)
        assert attrs.evolve(one, plan=other.plan) == other
        assert one.plan.body == other.plan.body


def test_the_weights_are_percents_of_what_there_is() -> None:
    assert sum(weight for weight, _ in FAULTS.values()) == 100
    assert sum(WEIGHTS.values()) == 100
    assert WEIGHTS.keys() == READERS.keys()


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seconds", "0.5", "--streams", "5", "--pace", "0", "--rounds", "10", "--backend", "trio"]) == 0
    printed = capsys.readouterr().out
    assert "5 streams at once on trio over h11, seed 1" in printed
    assert "10 calls cancelled at random" in printed
    assert "VIOLATION" not in printed


def test_a_violation_is_printed_and_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def violated(*_: object) -> Rounds:
        return Rounds(violation="something is left")

    monkeypatch.setattr(sys.modules["soak.__main__"], "run_rounds", violated)
    assert main(["--rounds", "1"]) == 1
    assert "VIOLATION: something is left" in capsys.readouterr().out


def test_memory_that_grows_is_not_flat() -> None:
    mib = 2**20
    assert Summary(resident=[100 * mib, 105 * mib, 117 * mib]).flat()
    assert not Summary(resident=[100 * mib, 105 * mib, 119 * mib]).flat()
    resident = measure.resident_bytes()
    assert resident is None or resident > mib


# --- the oracle ----------------------------------------------------------------------------------


def case_of(fault: str, reader: str) -> Case:
    rng = random.Random(SEED)
    answer = draw(rng)
    plan = FAULTS[fault][1](rng, answer, 0.0)
    return attrs.evolve(Case.of(SEED, 0, 0.0), fault=fault, reader=reader, answer=answer, plan=plan)


def whole(case: Case) -> Seen:
    answer = case.answer.completion
    reasoning = "".join(entry.text for entry in answer.reasoning)
    return Seen(answer.text, reasoning, completion=answer, ended=True)


def test_what_is_as_scripted_passes() -> None:
    case = case_of("slow drip", "events")
    assert judge(case, whole(case)) == "whole"
    relay = case_of("none", "relay")
    answer = told(relay.plan.body, ended=True).completion
    assert judge(relay, Seen(data=bytearray(relay.plan.body), ended=True, tapped=answer)) == "relayed"
    assert judge(case_of("refused twice", "text"), Seen(error=_refused())) == "unsupported"
    assert judge(case, attrs.evolve(whole(case), left=True, completion=None)) == "left"


def _refused() -> SvirError:
    return UnsupportedError("no", status=400)


def test_an_answer_of_other_text_is_a_violation() -> None:
    case = case_of("none", "events")
    seen = whole(case)
    for wrong in (
        attrs.evolve(seen, text=seen.text[:-1]),
        attrs.evolve(seen, text="x" + seen.text),
        attrs.evolve(seen, reasoning=seen.reasoning + "x"),
        attrs.evolve(seen, completion=attrs.evolve(case.answer.completion, parts=())),
        attrs.evolve(seen, completion=attrs.evolve(case.answer.completion, usage=None)),
        attrs.evolve(seen, completion=None),
        attrs.evolve(seen, ended=False),
        attrs.evolve(seen, error=TruncatedStreamError("cut")),
        attrs.evolve(seen, error=ConfigError("yours")),
    ):
        with pytest.raises(Violation):
            judge(case, wrong)


def test_a_cut_answer_that_passes_for_a_whole_one_is_a_violation() -> None:
    case = case_of("cut", "events")
    said = told(case.plan.body, ended=True)
    right = Seen(said.text, said.reasoning, error=TruncatedStreamError("cut", partial=_partial(said.text)))
    assert judge(case, right) == "truncated_stream"
    for wrong in (
        Seen(said.text, said.reasoning, completion=case.answer.completion, ended=True),
        attrs.evolve(right, error=TransportError("cut", partial=_partial(said.text))),
        attrs.evolve(right, error=TruncatedStreamError("cut", partial=Partial())),
        Seen(said.text[:-1], said.reasoning, error=TruncatedStreamError("cut", partial=_partial(said.text[:-1]))),
    ):
        with pytest.raises(Violation):
            judge(case, wrong)


def _partial(text: str) -> Partial:
    return Partial((Text(text),))


def test_a_refusal_of_another_kind_is_a_violation() -> None:
    case = case_of("error status", "complete")
    refused = case.plan.refused
    assert refused is not None
    for wrong in (
        Seen(),
        Seen(text="x", error=TransportError("", status=refused.status, retry_after=refused.retry_after)),
        Seen(error=TransportError("", status=refused.status, retry_after=31.0)),
        Seen(error=TransportError("", status=599, retry_after=refused.retry_after)),
        Seen(error=TruncatedStreamError("", status=refused.status, retry_after=refused.retry_after)),
    ):
        with pytest.raises(Violation):
            judge(case, wrong)


def test_a_relay_of_other_bytes_is_a_violation() -> None:
    case = case_of("none", "relay")
    body, answer = case.plan.body, told(case.plan.body, ended=True).completion
    right = Seen(data=bytearray(body), ended=True, tapped=answer)
    for wrong in (
        attrs.evolve(right, data=bytearray(body[:-1])),
        attrs.evolve(right, data=bytearray(b"x" + body)),
        attrs.evolve(right, tapped=TruncatedStreamError("cut")),
        attrs.evolve(right, error=TransportError("cut")),
    ):
        with pytest.raises(Violation):
            judge(case, wrong)


def test_reading_on_after_a_cancelled_read_must_not_say_that_the_server_cut() -> None:
    case = case_of("slow drip", "cancelled read")
    said = told(case.plan.body, ended=True)
    seen = Seen(said.text, said.reasoning, left=True, again=ConfigError("cancelled"))
    assert judge(case, seen) == "left"
    with pytest.raises(Violation, match="reading on"):
        judge(case, attrs.evolve(seen, again=TruncatedStreamError("cut")))


def test_what_each_fault_lets_arrive_is_at_most_the_answer() -> None:
    for name, (_, fault) in FAULTS.items():
        for number in range(30):
            rng = random.Random(number)
            answer = draw(rng)
            plan = fault(rng, answer, 0.0)
            said = told(plan.body, ended=False)
            assert answer.completion.text.startswith(said.text)
            assert (said.completion is None) or said.completion.parts == answer.completion.parts
            if plan.ending is ErrorKind.TIMEOUT:
                assert plan.idle_timeout is not None, name
