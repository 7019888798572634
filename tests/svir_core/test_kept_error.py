"""What a loop keeps of an error: always something with a JSON form."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core import Request, ToolLoop, errors, serial
from svir_core.errors import ConfigError, ErrorKind, RateLimitedError, ServerError, SvirError, TransportError
from svir_core.generation import Progress
from svir_core.kept_error import kept_error
from svir_core.message import Text
from svir_core.response import Anomaly, AnomalyCode, Partial, Usage

FULL: dict[str, Any] = {
    "retry_after": 1.5,
    "status": 429,
    "unsent": True,
    "partial": Partial((Text("so far"),), model="m"),
    "server_message": "the server's words",
    "anomalies": (Anomaly(AnomalyCode.UNKNOWN_FIELD, 3, b"x"),),
    "offset": 7,
    "retryable": True,
}


class Mine(RateLimitedError):
    """Of a caller's own, behind one of ours."""


class Budget(SvirError):
    """Of a kind, with a constructor of its own."""

    kind = ErrorKind.SERVER

    def __init__(self, cents: int) -> None:
        super().__init__(f"a budget of {cents} cents")


class Kindless(SvirError):
    """Says nothing of itself: its constructor is not ours at all."""

    def __init__(self) -> None:
        Exception.__init__(self, "made wrong")


def gone(error: SvirError) -> Any:
    raise RuntimeError


class Lazy(TransportError):
    """Its properties ask something that is gone."""

    kind: ClassVar[Any] = property(gone)
    detail: Any = property(gone)
    status: Any = property(gone)

    def __init__(self) -> None:
        Exception.__init__(self)
        self.offset = 7


class Nameless(SvirError):
    """Asks for its kind what is gone, and is of no class of ours."""

    kind: ClassVar[Any] = property(gone)


class Unhashable(SvirError):
    kind: ClassVar[Any] = []


@pytest.mark.parametrize(
    "cls", [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, SvirError)][1:]
)
def test_an_error_of_ours_is_kept_whole_but_for_its_progress(cls: type[SvirError]) -> None:
    error = cls("what was wrong", progress=Progress(rounds=2), **FULL)
    assert kept_error(error) == cls("what was wrong", **FULL)


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (Mine("x", status=429), RateLimitedError("x", status=429)),
        (Budget(5), ServerError("a budget of 5 cents")),
        (Kindless(), ConfigError("Kindless")),
        (Unhashable("x"), ConfigError("x")),
        (Lazy(), TransportError("Lazy", offset=7)),
        (Nameless("x"), ConfigError("x")),
    ],
)
def test_one_of_a_callers_class_is_kept_as_one_of_ours(error: SvirError, kept: SvirError) -> None:
    assert kept_error(error) == kept
    assert type(kept_error(error)) is type(kept)


@pytest.mark.parametrize(
    ("usage", "kept"),
    [
        (Usage(2**70, 5, 2**64, cache_read=0), Usage(None, 5, None, cache_read=0)),
        (Usage(2**64 - 1, 0), Usage(2**64 - 1, 0)),
        (Usage(), Usage()),
        (None, None),
    ],
)
def test_a_counter_that_no_json_form_holds_is_left_out_of_what_came_before(
    usage: Usage | None, kept: Usage | None
) -> None:
    loop = ToolLoop(Request("m").user("hi"))
    loop.failed(TransportError("x", partial=Partial("so far", usage, id="r")))
    again = serial.loads(serial.dumps(loop), ToolLoop)
    assert again.error == loop.error == TransportError("x", partial=Partial("so far", kept, id="r"))


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.just([1]), st.just((1,))
)
WRONG = st.fixed_dictionaries({}, optional=dict.fromkeys(FULL.keys() - {"server_message"}, VALUES))


@given(st.sampled_from([TransportError, Mine, Budget]), WRONG)
def test_whatever_is_in_its_fields_a_loop_that_keeps_it_has_a_json_form(cls: Any, fields: dict[str, Any]) -> None:
    error = cls(5) if cls is Budget else cls("x")
    for name, value in fields.items():
        setattr(error, name, value)
    loop = ToolLoop(Request("m").user("hi"))
    loop.failed(error)
    with pytest.raises(type(kept_error(error))):
        serial.loads(serial.dumps(loop), ToolLoop).next()


@pytest.mark.parametrize("offset", [2**64, -(2**63) - 1, True, 1.0, "7"])
def test_an_offset_that_no_json_reader_takes_is_left_out_of_what_is_kept_alone(offset: Any) -> None:
    error = TransportError("x", offset=offset)
    assert kept_error(error).offset is None
    assert error.offset == offset
