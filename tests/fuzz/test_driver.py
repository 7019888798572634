"""The parts of the fuzzer that can be wrong without atheris noticing: cuts, mutators, minimising, counting, and that
each target sees a fault when there is one."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import __main__ as driver
from fuzz import minimise, mutate, plan, seeds
from fuzz.check import Broken, Mutator
from fuzz.json_tree import change
from fuzz.targets import TARGETS
from svir_core import errors, event, json_text, opening, partial_json, refusal, slow_json, sse, think
from svir_core.wire.openai_chat.decode import Decoder


@given(size=st.integers(0, 300), how=st.integers(0, 255))
def test_a_cut_covers_the_data(size: int, how: int) -> None:
    position = 0
    for start, end in plan.cut(size, how):
        assert start == position <= end <= size
        position = end
    assert position == size


def test_small_data_is_cut_byte_by_byte() -> None:
    assert plan.read(plan.written(b"abc")).pieces() == [b"a", b"b", b"c"]
    assert len(plan.read(plan.written(b"x" * 6400)).pieces()) == plan.MOST_PIECES


def test_an_input_is_its_plan_and_its_data() -> None:
    read = plan.read(plan.written(b"data", 3, 5))
    assert (read.cut, read.option, read.data) == (3, 5, b"data")
    assert [read.flag(number) for number in range(3)] == [True, False, True]
    assert plan.read(b"") == plan.Plan(0, 0, b"")


def blindly(data: bytes, max_size: int) -> bytes:
    return data[::-1][:max_size]


@pytest.mark.parametrize(("mutator", "source"), [(mutate.events, "streams"), (mutate.json_body, "bodies")])
def test_mutators_are_bounded_and_repeat(mutator: Mutator, source: str) -> None:
    inputs = seeds.inputs(source, 600)
    changed = 0
    for seed in range(2000):
        data = inputs[seed % len(inputs)]
        found = mutator(data, 600, seed, blindly)
        assert len(found) <= 600
        assert found == mutator(data, 600, seed, blindly)
        changed += found != data
    assert changed > 1500


@pytest.mark.parametrize("mutator", [mutate.events, mutate.json_body])
@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\0", b"\0\0{", b"\0\0{}", b"\0\0[]", b"\0\0\n\n", b"\0\0\xff", b"\0\0nan"]
)
def test_mutators_take_any_bytes(mutator: Mutator, data: bytes) -> None:
    for seed in range(300):
        assert len(mutator(data, 100, seed, blindly)) <= 100


def test_a_changed_json_text_is_json() -> None:
    text = b'{"choices": [{"index": 0, "delta": {"content": "x"}}], "usage": null}'
    found = {change(text, random.Random(seed)) for seed in range(500)}
    assert len(found) > 300
    assert all(
        json.loads(item.decode("utf-8", "surrogatepass")) is not found for item in found if b"[" * 500 not in item
    )


def test_minimising_keeps_the_fault() -> None:
    def check(data: bytes) -> None:
        if b"a" in data and b"z" in data:
            raise Broken("both: " + repr(data))
        if not data:
            raise ValueError

    assert minimise.minimised(check, b"....a" * 20 + b"--z--" * 20) == b"az"
    assert minimise.fault(check, b"a") is None
    assert minimise.fault(check, b"") == "ValueError: "


def test_executions_are_counted() -> None:
    assert driver.executions("x\nDone 12 runs in 3 second(s)\nstat::number_of_executed_units: 12\n") == 12
    assert driver.executions("stat::number_of_executed_units: 1234567\n") == 1234567
    assert driver.executions("nothing") == 0
    assert driver.last_words("INFO: x\n#12 NEW\n=== broken\nstat::x: 1") == "=== broken"


def test_a_target_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        driver.main(["nothing"])
    assert stopped.value.code == 2
    assert "no such target: nothing" in capsys.readouterr().err


def _nothing(*_: object) -> None:
    return None


def test_without_atheris_it_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", _nothing)
    assert driver.main([]) == 2
    assert "needs atheris" in capsys.readouterr().out


# --- each target sees a fault ----------------------------------------------------------------------


def fails(name: str) -> bool:
    target = TARGETS[name]
    inputs = seeds.inputs(target.seeds, target.max_size)
    return any(minimise.fault(target.check, data) is not None for data in inputs)


def test_faults_of_the_framer_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "CR", 0)
    assert fails("sse")


def test_faults_of_the_opening_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "GZIP", b"\x1f\x8c")
    assert fails("opening")


@pytest.mark.parametrize("name", ["decode_strict", "decode_lenient", "document"])
def test_faults_of_the_decoder_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(self: Decoder, text: str) -> None:
        self._items.append(event.TextDelta(text))

    monkeypatch.setattr(Decoder, "_text", twice)
    assert fails(name)


@pytest.mark.parametrize("name", ["decode_strict", "decode_lenient", "document"])
def test_foreign_errors_of_the_decoder_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(Decoder, "_chunk", broken)
    assert fails(name)


def test_faults_of_the_splitter_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> int:
        return 0

    monkeypatch.setattr(think, "_overlap", none)
    assert fails("think")


def test_faults_of_the_slow_readers_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_json, "_integer", len)
    assert fails("slow_json")


def test_faults_of_the_partial_reader_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_it_stands(reader: partial_json.PartialJson, text: str, position: int) -> int:
        reader._add(text[position])
        reader._step = partial_json.PartialJson._in_string
        return position + 1

    monkeypatch.setattr(partial_json.PartialJson, "_in_escape", as_it_stands)
    assert fails("partial_json")


def test_faults_of_the_error_reader_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def another(*_: object) -> errors.SvirError:
        return errors.ServerError("no")

    monkeypatch.setattr(refusal, "status_error", another)
    assert fails("error_body")


def test_faults_of_the_escaper_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "_TWO", b'"\\')
    assert fails("json_text")


def test_quadratic_work_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    push = sse.Framer.push
    copies: list[bytes] = []

    def slow(self: sse.Framer, data: bytes) -> Iterable[sse.Frame]:
        copies[:] = [b"x" * (self._base * 60)]  # as a buffer that is copied for every push
        return push(self, data)

    chunk = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
    data = plan.written(chunk + chunk, cut=3)
    TARGETS["linear"].check(data)
    monkeypatch.setattr(sse.Framer, "push", slow)
    with pytest.raises(Broken, match="not linear"):
        TARGETS["linear"].check(data)
