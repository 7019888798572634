import base64
import json
from collections import OrderedDict
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core import json_text
from svir_core.errors import ConfigError
from svir_core.wire.json_value import is_array, is_object

ANY_TEXT = st.text(st.characters(exclude_categories=()))  # lone surrogates too
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
SPECIAL = '"\\\n\r\t\b\f\x00\x01\x1f\x7f/\u00e9\u2028\ufeff\U0001f600'


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces: list[bytes] = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


CUTS = st.lists(st.integers(0, 7), max_size=20)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain \u00e9 \U0001f600", "plain \u00e9 \U0001f600"),
        ("a\ud800b", "a\ufffdb"),
        ("\udc00\ud800", "\ufffd\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ud800\ud83d\ude00", "\ufffd\U0001f600"),
    ],
)
def test_lone_surrogates_are_replaced_and_halves_are_joined(text: str, clean: str) -> None:
    assert json_text.sanitize(text) == clean
    assert json_text.string(text) == orjson.dumps(clean)
    assert json_text.inside(text) == orjson.dumps(clean)[1:-1]


@given(ANY_TEXT)
def test_a_string_is_valid_and_keeps_every_other_character(text: str) -> None:
    read = json.loads(json_text.string(text))
    read.encode()
    assert read == json_text.sanitize(text)
    assert json_text.sanitize(read) == read
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert read == text


@given(VALUES)
def test_what_json_can_carry_is_carried(value: Any) -> None:
    written = orjson.dumps(json_text.plain(value, "here"))
    assert json.loads(written) == value
    assert json.dumps(json.loads(written)) == json.dumps(value)  # key order too


@given(VALUES)
def test_a_copy_is_equal_and_shares_nothing_that_may_change(value: Any) -> None:
    def containers(value: Any) -> list[int]:
        inner: list[Any] = list(value.values()) if is_object(value) else value if is_array(value) else []
        own = [id(value)] if is_object(value) or is_array(value) else []
        return [*own, *(each for item in inner for each in containers(item))]

    copy = json_text.copied(value, "here")
    assert json.dumps(copy) == json.dumps(value)  # key order too
    assert not set(containers(copy)) & set(containers(value))
    with pytest.raises(ConfigError, match=r"here\[1\] is"):
        json_text.copied([value, object()], "here")


def test_subclasses_and_other_mappings_and_sequences_are_read() -> None:
    class Word(StrEnum):
        A = "a\ud800"
        B = "b"

    class Number(IntEnum):
        ONE = 1

    class Huge(int):
        def __str__(self) -> str:
            return "huge"

    class Ratio(float):
        """As numpy's double is one."""

    value: Any = MappingProxyType(
        {
            "w": Word.A,
            Word.B: Word.B,
            "n": (Number.ONE, OrderedDict[str, int](k=2**70), Huge(2**70), Ratio(0.5)),
            "\udc00": -(2**64),
        }
    )
    assert orjson.dumps(json_text.plain(value, "here")) == (
        '{"w":"a\ufffd","b":"b","n":[1,{"k":1180591620717411303424},1180591620717411303424,0.5],'
        '"\ufffd":-18446744073709551616}'.encode()
    )


def cycle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [1, {"b": float("nan")}]}, "here.a[1].b is a number"),
        ([float("inf")], "here[0] is a number"),
        ({"a": {1}}, "here.a is a set"),
        ({"a": {2: 3}}, "here.a has a key of type int"),
        (dict.fromkeys(["a\ud800", "a\ud801"]), "here has keys that differ only in lone surrogates"),
        ([10**5000], "here[0] is an integer of too many digits"),
        (b"x", "here is a bytes"),
        (cycle(), "nests deeper than 128 levels"),
    ],
)
def test_what_json_cannot_carry_is_refused_by_place(value: Any, place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        json_text.plain(value, "here")
    assert place in str(caught.value)
    assert caught.value.__context__ is None


def test_the_deepest_value_allowed_can_be_written_inside_a_body() -> None:
    value: list[Any] = []
    for _ in range(json_text.NESTING - 1):
        value = [value]
    orjson.dumps({"tools": [{"function": {"parameters": json_text.plain(value, "here")}}]})
    with pytest.raises(ConfigError):
        json_text.plain([value], "here")


@given(st.text() | st.text(SPECIAL), CUTS)
def test_text_in_any_blocks_is_escaped_as_a_whole_and_measured_exactly(text: str, sizes: list[int]) -> None:
    meter, escaper = json_text.TextMeter(), json_text.TextEscaper()
    pieces: list[bytes] = []
    for block in cut(text.encode(), sizes):
        meter.push(block)
        pieces.append(escaper.push(block))
    pieces.append(escaper.finish())
    whole = orjson.dumps(text)[1:-1]
    assert b"".join(pieces) == whole
    assert meter.finish() == len(whole)


def test_the_length_of_each_byte_is_that_of_the_rule() -> None:
    for number in range(128):
        meter = json_text.TextMeter()
        meter.push(bytes([number]))
        expected = 2 if bytes([number]) in b'"\\\n\r\t\b\f' else 6 if number < 0x20 else 1
        assert meter.finish() == expected, number


@given(st.binary(), CUTS)
def test_text_that_is_not_utf8_is_found_at_the_same_time_by_both(data: bytes, sizes: list[int]) -> None:
    try:
        data.decode()
    except UnicodeDecodeError:
        valid = False
    else:
        valid = True
    for coder in (json_text.TextMeter(), json_text.TextEscaper()):
        try:
            for block in cut(data, sizes):
                coder.push(block)
            coder.finish()
        except UnicodeDecodeError:
            assert not valid
        else:
            assert valid


@given(st.binary(), CUTS)
def test_base64_in_any_blocks_is_the_base64_of_the_whole(data: bytes, sizes: list[int]) -> None:
    coder = json_text.Base64()
    pieces = [coder.push(block) for block in cut(data, sizes)]
    assert b"".join([*pieces, coder.finish()]) == base64.b64encode(data)
    assert len(base64.b64encode(data)) == json_text.base64_length(len(data))
