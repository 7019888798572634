from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.compat import Compatibility, Lesson, lesson
from svir_core.errors import ConfigError
from svir_core.wire.api import Alternative, Compat
from svir_core.wire.failure import Failure

BOTH = frozenset({"reasoning_effort", "stream_options"})
MAX_TOKENS = Alternative("max_tokens", "max_completion_tokens")
SYSTEM = Alternative("system", "developer", "role")


def memory(**facts: Any) -> Compatibility:
    compat = Compatibility()
    compat.learn(**facts)
    return compat


# --- the memory ----------------------------------------------------------------------------------


def test_a_fresh_memory_knows_nothing() -> None:
    compat = Compatibility()
    assert compat.known() == Compat()
    assert compat.explain() == "nothing learned: requests go out as asked"
    assert compat.to_json() == '{"omit":[],"rename":{}}'


def test_a_memory_keeps_what_it_learned() -> None:
    compat = memory(omit=["stream_options"])
    compat.learn(omit={"reasoning_effort"}, rename={"max_tokens": "max_completion_tokens"})
    compat.learn()
    assert compat.known() == Compat(BOTH, {"max_tokens": "max_completion_tokens"})
    assert compat.explain() == (
        "reasoning_effort: refused by the server, left out of requests\n"
        "stream_options: refused by the server, left out of requests\n"
        "max_tokens: sent as max_completion_tokens"
    )
    assert repr(compat) == (
        "Compatibility(omit=['reasoning_effort', 'stream_options'], rename={'max_tokens': 'max_completion_tokens'})"
    )


def test_a_rename_back_is_no_rename() -> None:
    compat = memory(rename={"system": "developer"})
    compat.learn(rename={"system": "system", "max_tokens": "max_tokens"})
    assert compat == Compatibility()


def test_what_known_gave_does_not_change() -> None:
    compat = memory(rename={"system": "developer"})
    known = compat.known()
    compat.learn(omit=["a"], rename={"system": "system"})
    assert known == Compat(frozenset(), {"system": "developer"})


def test_a_memory_compares_pickles_and_copies() -> None:
    compat = memory(omit=["a", "b"], rename={"c": "d"})
    assert compat == memory(omit=["b", "a"], rename={"c": "d"})
    assert compat != memory(omit=["a"], rename={"c": "d"})
    assert compat.__eq__("other") is NotImplemented
    assert pickle.loads(pickle.dumps(compat)) == compat
    other = copy.deepcopy(compat)
    other.learn(omit=["e"])
    assert other != compat
    with pytest.raises(TypeError):
        hash(compat)


def test_no_update_of_another_thread_is_lost() -> None:
    compat = Compatibility()
    barrier = threading.Barrier(8, timeout=10)

    def learn(number: int) -> None:
        barrier.wait()
        for step in range(200):
            compat.learn(omit=[f"{number}-{step}"], rename={f"{number}-{step}": "x"})
            compat.known()

    threads = [threading.Thread(target=learn, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(compat.known().omit) == len(compat.known().rename) == 1600


NO_NAMES: list[dict[str, Any]] = [
    {"omit": "reasoning_effort"},
    {"omit": None},
    {"omit": ["stream_options", 1]},
    {"omit": [[]]},
    {"omit": ["stream_options"], "rename": "max_tokens"},
    {"omit": ["stream_options"], "rename": {1: "a"}},
    {"omit": ["stream_options"], "rename": {"a": None}},
]


@pytest.mark.parametrize("facts", NO_NAMES, ids=repr)
def test_what_is_no_name_is_refused_and_nothing_learned(facts: dict[str, Any]) -> None:
    compat = Compatibility()
    with pytest.raises(ConfigError, match="compatibility memory"):
        compat.learn(**facts)
    assert compat == Compatibility()


@given(
    st.sets(st.sampled_from(sorted(BOTH))),
    st.fixed_dictionaries(
        {}, optional={"max_tokens": st.just("max_completion_tokens"), "system": st.just("developer")}
    ),
)
def test_json_there_and_back(omit: set[str], rename: dict[str, str]) -> None:
    compat = memory(omit=omit, rename=rename)
    text = compat.to_json()
    assert Compatibility.from_json(text) == Compatibility.from_json(text.encode()) == compat
    assert Compatibility.from_json(text).to_json() == text


@given(st.sets(st.text()), st.dictionaries(st.text(), st.text()))
def test_any_memory_survives_pickle_and_copies(omit: set[str], rename: dict[str, str]) -> None:
    compat = memory(omit=omit, rename=rename)
    assert pickle.loads(pickle.dumps(compat)) == copy.copy(compat) == copy.deepcopy(compat) == compat


@pytest.mark.parametrize("name", ["tools", "tool_choice", "response_format", "messages", "max_tokens", ""])
def test_a_memory_that_would_leave_out_a_requirement_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"compatibility memory: '{name}' is not optional"):
        Compatibility.from_json(f'{{"omit":["stream_options","{name}"],"rename":{{}}}}')
    assert memory(omit=[name]).explain() == f"{name}: refused by the server, never left out"


@pytest.mark.parametrize(
    ("name", "other"),
    [("max_tokens", "max_output"), ("system", "user"), ("tools", "functions"), ("max_completion_tokens", "max_tokens")],
)
def test_a_memory_with_a_name_that_no_encoder_writes_is_refused(name: str, other: str) -> None:
    with pytest.raises(ConfigError, match=f"compatibility memory: '{name}' is never sent as '{other}'"):
        Compatibility.from_json(f'{{"omit":[],"rename":{{"{name}":"{other}"}}}}')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[]",
        "null",
        "{}",
        '{"omit":[]}',
        '{"omit":[],"rename":{},"more":1}',
        '{"omit":{},"rename":{}}',
        '{"omit":[1],"rename":{}}',
        '{"omit":"ab","rename":{}}',
        '{"omit":[],"rename":[]}',
        '{"omit":[],"rename":{"a":1}}',
        b"\xff",
        5,
        None,
    ],
)
def test_what_is_no_memory_is_refused(text: Any) -> None:
    with pytest.raises(ConfigError, match="compatibility memory"):
        Compatibility.from_json(text)


@given(st.text() | st.binary() | st.recursive(st.none(), st.lists).map(str))
def test_any_text_is_a_memory_or_a_config_error(text: Any) -> None:
    try:
        found = Compatibility.from_json(text)
    except ConfigError:
        return
    assert Compatibility.from_json(found.to_json()) == found


# --- what a refusal teaches ----------------------------------------------------------------------


def learned(
    failure: Failure, optional: frozenset[str] = BOTH, *alternatives: Alternative, **known: str
) -> Lesson | None:
    return lesson(failure, optional, alternatives, known)


@pytest.mark.parametrize(
    ("failure", "omit"),
    [
        (Failure(), BOTH),
        (Failure("Bad Request"), BOTH),
        (Failure("temperature is too high", param="temperature"), BOTH),
        (Failure("no", param="reasoning_effort"), {"reasoning_effort"}),
        (Failure("no", param="stream_options.include_usage"), {"stream_options"}),
        (Failure("no", param="stream_options[0]"), {"stream_options"}),
        (Failure("no", param="my.stream_options"), BOTH),
        (Failure("Unrecognized request argument supplied: reasoning_effort"), {"reasoning_effort"}),
        (Failure("`stream_options` is not allowed"), {"stream_options"}),
        (Failure("reasoning_effort and stream_options are unknown"), BOTH),
        (Failure("xreasoning_effort, stream_options_2 are unknown"), BOTH),
        (Failure("unknown field `reasoning_effort`, expected one of `n`, `stream_options`"), {"reasoning_effort"}),
        (Failure("Bad effort. Supported parameters: model, stream_options"), BOTH),
        (Failure("not supported parameters: stream_options"), {"stream_options"}),
        (Failure("no", others=(Failure("no", param="stream_options"),)), {"stream_options"}),
        (
            Failure("no", param="a", others=(Failure(param="b"), Failure(param="reasoning_effort"))),
            {"reasoning_effort"},
        ),
        (Failure("no", param="stream_options", others=(Failure(param="reasoning_effort"),)), BOTH),
    ],
)
def test_which_optional_fields_are_remembered(failure: Failure, omit: frozenset[str]) -> None:
    assert learned(failure) == Lesson(frozenset(omit))


def test_only_what_was_sent_can_be_at_fault() -> None:
    failure = Failure("no", param="reasoning_effort")
    assert learned(failure, frozenset()) is None
    assert learned(failure, frozenset({"stream_options"})) == Lesson(frozenset({"stream_options"}))


OPENAI_MAX_TOKENS = Failure(
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    code="unsupported_parameter",
    param="max_tokens",
)
OPENAI_SYSTEM = Failure(
    "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
    code="unsupported_value",
    param="messages[0].role",
)
OLD_DEVELOPER = Failure("developer is not one of ['system', 'assistant', 'user', 'function'] - 'messages.0.role'")


@pytest.mark.parametrize(
    ("failure", "alternative", "known", "wanted"),
    [
        (OPENAI_MAX_TOKENS, MAX_TOKENS, {}, "max_completion_tokens"),
        (Failure("use max_completion_tokens"), MAX_TOKENS, {}, "max_completion_tokens"),
        (Failure("no", param="max_tokens", code="unsupported_parameter"), MAX_TOKENS, {}, "max_completion_tokens"),
        (Failure("Unsupported parameter", param="max_tokens"), MAX_TOKENS, {}, "max_completion_tokens"),
        (Failure("This field is not allowed", param="max_tokens"), MAX_TOKENS, {}, "max_completion_tokens"),
        (Failure("`max_tokens` is not supported"), MAX_TOKENS, {}, "max_completion_tokens"),
        (Failure("max_tokens deprecated"), MAX_TOKENS, {}, "max_completion_tokens"),
        (Failure("Unexpected keyword argument 'max_tokens'"), MAX_TOKENS, {}, "max_completion_tokens"),
        (Failure("Unrecognized request argument supplied: max_tokens"), MAX_TOKENS, {}, "max_completion_tokens"),
        (Failure("unknown field max_tokens"), MAX_TOKENS, {}, "max_completion_tokens"),
        (Failure("Extra inputs are not permitted", param="max_tokens"), MAX_TOKENS, {}, "max_completion_tokens"),
        (
            Failure("Extra inputs are not permitted, field: 'max_tokens', value: 5"),
            MAX_TOKENS,
            {},
            "max_completion_tokens",
        ),
        (
            Failure("Additional properties are not allowed ('max_tokens' was unexpected)"),
            MAX_TOKENS,
            {},
            "max_completion_tokens",
        ),
        (
            Failure(
                "[{'type': 'extra_forbidden', 'loc': ('body', 'max_tokens'), 'msg': 'Extra inputs are not permitted'"
            ),
            MAX_TOKENS,
            {},
            "max_completion_tokens",
        ),
        (
            Failure("no", others=(Failure("Extra inputs are not permitted", param="max_tokens"),)),
            MAX_TOKENS,
            {},
            "max_completion_tokens",
        ),
        (
            Failure("unknown field `max_tokens`, expected one of `model`, `max_completion_tokens`"),
            MAX_TOKENS,
            {},
            "max_completion_tokens",
        ),
        (
            Failure("messages[0].role: unknown variant `developer`, expected one of `system`, `user` at line 1"),
            SYSTEM,
            {"system": "developer"},
            "system",
        ),
        (
            Failure("Invalid value: 'developer'. Supported values are: 'system' and 'user'.", param="messages[0].role"),
            SYSTEM,
            {"system": "developer"},
            "system",
        ),
        (
            Failure("unknown field max_completion_tokens"),
            MAX_TOKENS,
            {"max_tokens": "max_completion_tokens"},
            "max_tokens",
        ),
        (Failure("max_tokens is required"), MAX_TOKENS, {"max_tokens": "max_completion_tokens"}, "max_tokens"),
        (OPENAI_SYSTEM, SYSTEM, {}, "developer"),
        (Failure("System role: use 'developer'"), SYSTEM, {}, "developer"),
        (Failure("System role not supported"), SYSTEM, {}, "developer"),
        (OLD_DEVELOPER, SYSTEM, {"system": "developer"}, "system"),
    ],
)
def test_a_rename_that_the_server_named(
    failure: Failure, alternative: Alternative, known: dict[str, str], wanted: str
) -> None:
    expected = Lesson(frozenset(), {alternative.name: wanted})
    assert lesson(failure, frozenset(), [alternative], known) == expected
    assert lesson(failure, BOTH, [alternative], known) == expected


@pytest.mark.parametrize(
    ("failure", "alternative", "known"),
    [
        (Failure("Bad Request"), MAX_TOKENS, {}),
        (Failure("max_tokens is too large: 5", param="max_tokens"), MAX_TOKENS, {}),
        (Failure("max_tokens must be at least 1"), MAX_TOKENS, {}),
        (Failure("max_tokens is too large; use 4096 instead"), MAX_TOKENS, {}),
        (Failure("max_tokens above 4096 is not supported"), MAX_TOKENS, {}),
        (Failure("unknown field temperature. max_tokens must be positive", param="max_tokens_2"), MAX_TOKENS, {}),
        (Failure("no", param="max_tokens"), MAX_TOKENS, {}),
        (Failure("unknown field `n`, expected one of `max_tokens`, `max_completion_tokens`"), MAX_TOKENS, {}),
        (Failure("Input should be greater than 0", param="max_tokens"), MAX_TOKENS, {}),
        (Failure("no", others=(Failure("Input should be less than 9", param="max_tokens"),)), MAX_TOKENS, {}),
        (Failure("no", code="unsupported_parameter"), MAX_TOKENS, {}),
        (Failure("unknown field max_tokens_2"), MAX_TOKENS, {}),
        (Failure("an unknown system error"), SYSTEM, {}),
        (Failure("the system is not supported"), SYSTEM, {}),
        (Failure("ask a developer"), SYSTEM, {}),
        (Failure("messages with role 'tool' must follow tool_calls"), SYSTEM, {}),
        (Failure("role 'system' must come first"), SYSTEM, {}),
    ],
)
def test_no_rename_without_the_servers_word(failure: Failure, alternative: Alternative, known: dict[str, str]) -> None:
    assert lesson(failure, frozenset(), [alternative], known) is None
    assert lesson(failure, BOTH, [alternative], known) == Lesson(BOTH)


def test_a_rename_and_a_field_named_together_are_both_remembered() -> None:
    failure = Failure("unknown fields: max_tokens, stream_options")
    assert learned(failure, BOTH, MAX_TOKENS, SYSTEM) == Lesson(
        frozenset({"stream_options"}), {"max_tokens": "max_completion_tokens"}
    )


WORDS = st.sampled_from(
    ["max_tokens", "max_completion_tokens", "system", "developer", "role", "unknown", "'", " ", "x"]
)


@given(
    st.builds(
        Failure,
        st.none() | st.lists(WORDS).map(" ".join) | st.text(),
        st.none() | st.text(),
        st.none() | st.text(),
        st.none() | st.text() | WORDS,
    ),
    st.frozensets(st.sampled_from(sorted(BOTH))),
    st.booleans(),
)
def test_any_failure_teaches_only_what_may_be_learned(
    failure: Failure, optional: frozenset[str], renamed: bool
) -> None:
    known = {"max_tokens": "max_completion_tokens", "system": "developer"} if renamed else {}
    found = lesson(failure, optional, [MAX_TOKENS, SYSTEM], known)
    if found is None:
        assert not optional
        return
    assert found.omit <= optional
    assert found.rename.keys() <= {"max_tokens", "system"}
    assert found.omit or found.rename
