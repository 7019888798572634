from __future__ import annotations

import functools
import pickle
from typing import Any

import attrs
import pytest

from svir_core.errors import ConfigError, ProtocolError
from svir_core.message import Reasoning, Text, ToolCall
from svir_core.response import Anomaly, AnomalyCode, Completion, FinishReason, Partial, Timing, Usage

CALL = ToolCall("id", "f", "{}")
PARTS = (Reasoning("think", "a"), Text("b"), Reasoning("reasoning", "c"), CALL, Reasoning("think", "d"), Text("e"))


def test_a_completion_is_a_value() -> None:
    completion = Completion(
        "stop",
        PARTS,
        usage=Usage(1, 2, 3),
        timing=Timing(0.1, 0.2, 0.3, 4),
        anomalies=(Anomaly(AnomalyCode.WRONG_TYPE, 5, b"x"),),
        anomaly_count=1,
        extra={"a": [1]},
    )
    again = pickle.loads(pickle.dumps(completion))
    assert again == completion
    assert again.timing == completion.timing
    assert completion != attrs.evolve(completion, model="m")
    assert completion == attrs.evolve(completion, timing=None)
    for value in (Usage(1), Timing(None, None, 1.0, 0), Partial(PARTS), Anomaly("invalid_utf8", 0, b"")):
        assert pickle.loads(pickle.dumps(value)) == value


def test_what_is_derived_from_the_parts() -> None:
    completion = Completion(FinishReason.TOOL_CALLS, list(PARTS))
    assert completion.parts == PARTS
    assert completion.text == "be"
    assert completion.reasoning == (Reasoning("think", "ad"), Reasoning("reasoning", "c"))
    assert completion.calls == (CALL,)
    partial = Partial(PARTS)
    assert (partial.text, partial.reasoning) == ("be", "acd")
    assert Completion("stop").text == ""


@pytest.mark.parametrize(
    ("usage", "timing", "expected"),
    [
        (Usage(output=11), Timing(0.0, 2.0, 9.0, 5), 5.0),
        (None, Timing(1.0, 2.0, 9.0, 5), 4.0),
        (Usage(input=3), Timing(1.0, 2.0, 9.0, 5), 4.0),
        (Usage(output=2), Timing(1.0, 1.05, 2.0, 2), pytest.approx(20.0)),
        (Usage(output=2), Timing(1.0, 1.04, 2.0, 2), None),
        (Usage(output=1), Timing(1.0, 2.0, 2.0, 5), None),
        (Usage(output=0), Timing(1.0, 2.0, 2.0, 5), None),
        (None, Timing(1.0, 2.0, 2.0, 1), None),
        (Usage(output=9), Timing(None, None, 2.0, 0), None),
        (Usage(output=9), Timing(1.0, None, 2.0, 0), None),
        (Usage(output=9), None, None),
    ],
)
def test_tokens_per_second(usage: Usage | None, timing: Timing | None, expected: Any) -> None:
    assert Completion("stop", usage=usage, timing=timing).tokens_per_second == expected


def test_only_a_stop_is_parsed() -> None:
    assert Completion("stop", [Text('{"a": '), Text("1}")]).parse(dict[str, int]) == {"a": 1}
    for finish in FinishReason:
        if finish is not FinishReason.STOP:
            with pytest.raises(ProtocolError, match=finish.value):
                Completion(finish, [Text("{}")]).parse(dict[str, int])


def test_mistakes_are_config_errors() -> None:
    wrong: Any
    for wrong in ("done", None, 5):
        with pytest.raises(ConfigError, match=r"^Completion\.finish is one of 'stop', "):
            Completion(wrong)
        with pytest.raises(ConfigError, match=r"^Anomaly\.code is one of "):
            Anomaly(wrong, 0, b"")


def test_a_text_is_one_part_and_what_is_no_part_is_refused() -> None:
    kind: Any
    wrong: Any
    for kind in (functools.partial(Completion, "stop"), Partial):
        assert kind("hi").parts == kind(["hi"]).parts == (Text("hi"),)
        for wrong in (5, None, [Text("a"), 5]):
            with pytest.raises(ConfigError, match=r"^(Completion|Partial)(\.parts is| part 1 is an int, not a part)"):
                kind(wrong)
        with pytest.raises(ConfigError, match="usage must be Usage or None"):
            kind(usage={"input": 5})


@pytest.mark.parametrize("wrong", ["1", 1.0, True, [1]])
@pytest.mark.parametrize("name", [field.name for field in attrs.fields(Usage)])
def test_a_counter_is_an_integer_or_unknown(name: str, wrong: Any) -> None:
    with pytest.raises(ConfigError, match=f"Usage.{name} must be int or None, not {type(wrong).__name__}"):
        Usage(**{name: wrong})


@pytest.mark.parametrize("name", [field.name for field in attrs.fields(Usage)])
def test_a_counter_is_not_negative(name: str) -> None:
    assert getattr(Usage(**{name: 0}), name) == 0
    with pytest.raises(ConfigError, match=f"Usage.{name} must not be negative"):
        Usage(**{name: -1})


def test_an_anomalys_excerpt_is_not_shown() -> None:
    assert "private" not in repr(Anomaly("unknown_event", 0, b"private"))


def test_usages_add_up_counter_by_counter() -> None:
    assert Usage(1, 2, 3, 4, 5, 6) + Usage(10, 20, 30, 40, 50, 0) == Usage(11, 22, 33, 44, 55, 6)
    assert Usage(1, None, 0, 4) + Usage(None, 2, 0, 4, 5) == Usage(None, None, 0, 8)
    assert Usage(0, 0) + Usage() == Usage() + Usage(0, 0) == Usage()


def test_nothing_else_is_added_to_a_usage() -> None:
    nothing: Any = None
    with pytest.raises(TypeError):
        _ = Usage(1) + nothing


def test_a_sum_of_more_than_64_bits_is_unknown() -> None:
    largest = 2**64 - 1
    assert Usage(largest - 1, largest) + Usage(1, 1) == Usage(largest, None)
