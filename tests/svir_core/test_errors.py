from __future__ import annotations

import copy
import pickle
import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core import errors
from svir_core.errors import (
    ConfigError,
    ErrorKind,
    ProtocolError,
    RateLimitedError,
    ResponseTimeoutError,
    SvirError,
    TransportError,
    TruncatedStreamError,
)
from svir_core.generation import Progress
from svir_core.limits import SERVER_MESSAGE_BYTES
from svir_core.message import Text
from svir_core.response import Anomaly, AnomalyCode, Partial

CLASSES: list[type[SvirError]] = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, SvirError) and value is not SvirError
]


def full(cls: type[SvirError], message: str | None = "the server's words") -> SvirError:
    return cls(
        "what was wrong",
        retry_after=1.5,
        status=429,
        unsent=True,
        partial=Partial((Text("so far"),), model="m"),
        server_message=message,
        anomalies=(Anomaly(AnomalyCode.UNKNOWN_FIELD, 3, b"x"),),
        offset=7,
        retryable=not cls.retryable,
        progress=Progress(rounds=2),
    )


def test_there_is_one_class_for_every_kind() -> None:
    assert {cls.kind for cls in CLASSES} == set(ErrorKind)
    assert len(CLASSES) == len(ErrorKind) == 17
    assert all(cls.__name__ in (errors.__doc__ or "") for cls in CLASSES)


def test_which_errors_are_worth_another_try() -> None:
    retryable = {cls for cls in CLASSES if cls.retryable}
    assert retryable == {TransportError, ResponseTimeoutError, RateLimitedError, TruncatedStreamError}


def test_two_errors_are_also_pythons() -> None:
    assert issubclass(ResponseTimeoutError, TimeoutError)
    assert issubclass(ConfigError, ValueError)


@pytest.mark.parametrize("cls", CLASSES)
def test_an_error_is_a_value_and_survives_pickle(cls: type[SvirError]) -> None:
    for error in (full(cls), cls("plain")):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(error, protocol)) == error
        for again in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps([error]))[0]):
            assert again is not error
            assert type(again) is cls
            assert again == error
            assert vars(again) == vars(error)
            assert again.args == error.args == (error.detail,)
            assert hash(again) == hash(error)
            assert again.server_message() == error.server_message()
    assert full(cls) != cls("what was wrong")
    assert full(cls) != full(cls, "other words")
    assert cls("a") != cls("b")
    assert cls("a") != "a"
    assert cls("a") != next(other for other in CLASSES if other is not cls)("a")


def test_every_attribute_is_set_in_these_tests() -> None:
    bare, whole = vars(ProtocolError("x")), vars(full(ProtocolError))
    assert all(whole[name] != bare[name] for name in bare)


@pytest.mark.parametrize("cls", CLASSES)
def test_a_pickle_and_a_copy_hold_what_the_error_says_and_nothing_that_it_was_raised_with(cls: type[SvirError]) -> None:
    error = full(cls)
    error.add_note("sk-private")
    vars(error)["request"] = "sk-private"
    try:
        raise error from ValueError("sk-private")
    except SvirError as raised:
        caught = raised
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert b"private" not in pickle.dumps(caught, protocol)
    for again in (copy.copy(caught), copy.deepcopy(caught)):
        assert again == full(cls)
        assert (again.__cause__, again.__context__, again.__traceback__) == (None, None, None)
        assert "private" not in f"{vars(again)}"


@pytest.mark.parametrize("cls", CLASSES)
def test_a_pickle_keeps_what_the_server_said_behind_its_accessor(cls: type[SvirError]) -> None:
    stored = pickle.dumps(full(cls, "sk-private"))
    assert pickle.loads(stored).server_message() == "sk-private"
    assert "private" not in f"{pickle.loads(stored)!r} {pickle.loads(stored)}"
    assert b"private" not in pickle.dumps(full(cls, None))


@pytest.mark.parametrize("cls", CLASSES)
def test_what_the_server_said_is_never_shown(cls: type[SvirError]) -> None:
    error = full(cls, "sk-private")
    shown = f"{error} {error!r} {[error]} {error.args} " + "".join(traceback.format_exception(error))
    assert "private" not in shown
    assert "so far" not in shown
    assert str(error) == error.detail == "what was wrong"
    assert repr(error) == f"{cls.__name__}('what was wrong', status=429)"
    assert repr(cls("x")) == f"{cls.__name__}('x')"
    assert error.server_message() == "sk-private"


def test_an_error_begins_with_nothing() -> None:
    error = ProtocolError("x")
    fields = (error.retry_after, error.status, error.partial, error.server_message(), error.offset)
    assert fields == (None,) * 5
    assert error.unsent is False
    assert error.anomalies == ()


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", ""),
        ("x" * 4096, "x" * 4096),
        ("x" * 4097, "x" * 4096),
        ("ä" * 2048, "ä" * 2048),
        ("x" + "ä" * 2048, "x" + "ä" * 2047),
        ("€" * 1366, "€" * 1365),
    ],
)
def test_the_servers_words_are_cut_at_4_kib_and_never_inside_a_character(text: str, kept: str) -> None:
    assert ProtocolError("x", server_message=text).server_message() == kept


@given(st.text(st.characters(), max_size=10).map(lambda text: text * 500), st.integers(0, 5000))
def test_any_words_are_kept_up_to_the_bound(text: str, length: int) -> None:
    kept: Any = ProtocolError("x", server_message=text[:length]).server_message()
    assert len(kept.encode("utf-8", "replace")) <= SERVER_MESSAGE_BYTES
    assert kept == text[: len(kept)] or "?" in kept


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("retryable", [True, False, None])
def test_what_the_server_said_of_another_try_is_carried(cls: type[SvirError], retryable: bool | None) -> None:
    error = cls("no", retryable=retryable)
    assert error.retryable is (cls.retryable if retryable is None else retryable)
    assert pickle.loads(pickle.dumps(error)).retryable is error.retryable
    assert (error == cls("no")) is (error.retryable is cls.retryable)
