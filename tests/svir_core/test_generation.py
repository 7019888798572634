"""What a generation came to: its answer's text and data, its outcome, and the progress of one that did not finish."""

from __future__ import annotations

import copy
import pickle
from typing import Any, cast

import attrs
import pytest

from svir_core.errors import ConfigError, MaxRoundsError, ProtocolError
from svir_core.generation import Generation, GenerationOutcome, Progress
from svir_core.message import Message, Text, ToolCall
from svir_core.response import Completion, FinishReason, Usage

ANSWER = Completion(FinishReason.STOP, [Text('{"name": '), Text('"Oslo"}')])


@attrs.frozen
class City:
    name: str


def test_the_text_finish_and_data_are_those_of_the_last_answer() -> None:
    generation = Generation(ANSWER)
    assert generation.text == '{"name": "Oslo"}'
    assert generation.finish is FinishReason.STOP
    assert generation.parse(City) == City("Oslo")


def test_an_answer_that_did_not_stop_is_not_parsed() -> None:
    generation = Generation(attrs.evolve(ANSWER, finish=FinishReason.LENGTH))
    with pytest.raises(ProtocolError, match="length"):
        generation.parse(City)


def test_a_generation_of_one_answer_is_one_round() -> None:
    assert attrs.asdict(Generation(ANSWER), recurse=False) == {
        "completion": ANSWER,
        "messages": (),
        "usage": Usage(),
        "rounds": 1,
        "tool_calls": 0,
        "outcome": GenerationOutcome.ANSWERED,
        "awaiting": (),
    }
    assert Progress() == Progress(None, (), Usage(), 0, 0)


def test_sequences_are_copied() -> None:
    messages, calls = [Message.user("hi")], [ToolCall("a", "f", "{}")]
    generation = Generation(ANSWER, messages, awaiting=calls)
    progress = Progress(messages=messages)
    messages.clear()
    calls.clear()
    assert generation.messages == progress.messages == (Message.user("hi"),)
    assert generation.awaiting == (ToolCall("a", "f", "{}"),)


def test_an_outcome_may_be_given_by_its_word() -> None:
    assert Generation(ANSWER, outcome="tool_error").outcome is GenerationOutcome.TOOL_ERROR
    with pytest.raises(ConfigError, match=r"^the outcome of a generation is one of 'answered', 'tool_error'"):
        Generation(ANSWER, outcome="elsewhere")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"completion": "hi"}, r"completion must be Completion"),
        ({"messages": [Message.user("hi"), "hi"]}, r"the messages of a generation\[1\] must be a Message, not a str"),
        ({"messages": 5}, "the messages of a generation is an int, which cannot be iterated"),
        ({"usage": None}, r"usage must be Usage, not NoneType"),
        ({"rounds": -1}, "rounds must be an integer"),
        ({"rounds": True}, "rounds must be an integer"),
        ({"tool_calls": "1"}, "tool_calls must be an integer of 0 or more"),
    ],
)
def test_wrong_values_are_refused(wrong: dict[str, Any], words: str) -> None:
    values: dict[str, Any] = {"completion": ANSWER, **wrong}
    for kind in (Generation, Progress):
        with pytest.raises(ConfigError, match=words):
            kind(**values)


def test_what_a_generation_alone_has_is_checked() -> None:
    nothing: Any = None
    with pytest.raises(ConfigError, match="completion must be Completion, not NoneType"):
        Generation(nothing)
    with pytest.raises(ConfigError, match="rounds must be an integer of 1 or more"):
        Generation(ANSWER, rounds=0)
    with pytest.raises(ConfigError, match=r"the calls that wait\[0\] must be a ToolCall, not a Text"):
        Generation(ANSWER, awaiting=cast("Any", [Text("a")]))


def test_an_error_carries_its_progress_through_copies_and_pickles() -> None:
    progress = Progress(ANSWER, [Message.user("hi")], Usage(0, 1), 2, 3)
    error = MaxRoundsError("no", progress=progress)
    for made in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert made == error
        assert made.progress == progress
    assert "Oslo" not in f"{error} {error!r}"
