from __future__ import annotations

import gc
import json
import time
import weakref
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core import partial_json
from svir_core.errors import ProtocolError, ResponseLimitError, SvirError
from svir_core.json_number import NumberReader
from svir_core.limits import JSON_DEPTH
from svir_core.partial_json import PartialJson, spelled
from svir_core.wire.json_value import is_array, is_object

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
FORMS = st.sampled_from([{}, {"indent": 1}, {"ensure_ascii": False}, {"separators": (",", ":")}])


def shown(text: str, *, size: int = 0) -> Any:
    reader = PartialJson()
    push_in_pieces(reader, text, size or len(text) or 1)
    return reader.data


def push_in_pieces(reader: PartialJson, text: str, size: int) -> None:
    for start in range(0, len(text), size):
        reader.push(text[start : start + size])


def is_part(part: Any, whole: Any) -> bool:
    """Whether ``part`` may become ``whole``: members subset, items and characters prefix."""
    if is_object(part) and is_object(whole):
        return all(key in whole and is_part(value, whole[key]) for key, value in part.items())
    if is_array(part) and is_array(whole):
        return len(part) <= len(whole) and all(map(is_part, part, whole))
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    return type(part) is type(whole) and bool(part == whole)


@given(VALUES, FORMS)
def test_every_prefix_shows_a_part_of_the_whole(value: Any, form: dict[str, Any]) -> None:
    text = json.dumps(value, **form)
    whole = orjson.loads(text)
    reader = PartialJson()
    before: Any = None
    for position, character in enumerate(text):
        reader.push(character)
        now = reader.data
        assert now is None or is_part(now, whole)
        seen = orjson.dumps(now)
        assert reader.news or seen == before or (position == 0 and now is None)
        before = seen
        place: Any = now
        for step in reader.path:
            place = place[step]
    reader.finish()
    assert reader.data == whole
    assert orjson.dumps(reader.data) == orjson.dumps(whole)


@given(VALUES, FORMS, st.data())
def test_the_cut_does_not_matter(value: Any, form: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value, **form)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    reader = PartialJson()
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        reader.push(text[start:end])
    reader.finish()
    assert reader.data == orjson.loads(text)
    end = data.draw(st.integers(0, len(text)))
    assert shown(text[:end], size=1) == shown(text[:end])


@given(st.text('{}[]:,"\\u0dD8eE+-.1tfalsenl \n\x00\x7f\xe9\ud83e', max_size=12))
def test_it_takes_what_orjson_takes(text: str) -> None:
    try:
        whole: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        whole = SvirError
    outcomes: list[Any] = []
    for size in (1, 2, max(len(text), 1)):
        reader = PartialJson()
        try:
            push_in_pieces(reader, text, size)
            reader.finish()
        except ProtocolError as error:
            outcomes.append((str(error), reader.data))
            assert whole is SvirError
        else:
            outcomes.append(reader.data)
            assert repr(reader.data) == repr(whole)
    assert outcomes[0] == outcomes[1] == outcomes[2]


STEPS: list[tuple[str, Any, tuple[str | int, ...], bool]] = [
    # the text, what is shown then, where it changed, whether that was news
    (" ", None, (), False),
    ("{", {}, (), True),
    ('"na', {}, (), False),
    ('me"', {}, (), False),
    (": ", {}, (), False),
    ('"', {"name": ""}, ("name",), True),
    ("So", {"name": "So"}, ("name",), True),
    ("\\", {"name": "So"}, ("name",), False),
    ("n", {"name": "So\n"}, ("name",), True),
    ("\\ud83", {"name": "So\n"}, ("name",), False),
    ("e\\", {"name": "So\n"}, ("name",), False),
    ("udd14", {"name": "So\n\U0001f914"}, ("name",), True),
    ('"', {"name": "So\n\U0001f914"}, ("name",), True),
    (', "n": [', {"name": "So\n\U0001f914", "n": []}, ("n",), True),
    ("-1", {"name": "So\n\U0001f914", "n": []}, ("n",), False),
    ("2", {"name": "So\n\U0001f914", "n": []}, ("n",), False),
    (",", {"name": "So\n\U0001f914", "n": [-12]}, ("n", 0), True),
    ("tru", {"name": "So\n\U0001f914", "n": [-12]}, ("n", 0), False),
    ("e", {"name": "So\n\U0001f914", "n": [-12, True]}, ("n", 1), True),
    (",{", {"name": "So\n\U0001f914", "n": [-12, True, {}]}, ("n", 2), True),
    ("}", {"name": "So\n\U0001f914", "n": [-12, True, {}]}, ("n", 2), True),
    ("]", {"name": "So\n\U0001f914", "n": [-12, True, {}]}, ("n",), True),
    (',"n', {"name": "So\n\U0001f914", "n": [-12, True, {}]}, ("n",), False),
    ('":null}', {"name": "So\n\U0001f914", "n": None}, (), True),
    ("\n\t ", {"name": "So\n\U0001f914", "n": None}, (), False),
]


def test_what_is_shown_step_by_step() -> None:
    reader = PartialJson()
    for text, value, path, news in STEPS:
        reader.push(text)
        assert reader.news is news, text
        assert reader.data == value, text
        assert reader.path == path, text
    assert reader.done
    reader.finish()
    assert reader.news is False


def test_the_value_grows_in_place() -> None:
    reader = PartialJson()
    reader.push('{"a": [')
    whole = reader.data
    items = whole["a"]
    reader.push('"x", "y')
    assert items == ["x", ""]  # the string that is open is joined when it is asked for
    assert reader.data is whole
    assert items == ["x", "y"]
    reader.push('z"]}')
    assert whole == {"a": ["x", "yz"]}
    assert whole["a"] is items


def test_a_number_alone_is_whole_at_the_end() -> None:
    reader = PartialJson()
    reader.push("12")
    assert (reader.data, reader.done) == (None, False)
    reader.finish()
    assert (reader.news, reader.data, reader.done, reader.path) == (True, 12, True, ())
    assert shown("12 ") == 12


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Sure! {", "expected a value at character 0"),
        ("```json\n{}\n```", "expected a value at character 0"),
        ("\ufeff{}", "expected a value at character 0"),
        ("{1:2}", "expected a key or '}' at character 1"),
        ('{"a":1,}', "expected a key at character 7"),
        ('{"a" 1}', "expected ':' at character 5"),
        ('{"a":1 "b"', "expected ',' or '}' at character 7"),
        ("[1 2]", "expected ',' or ']' at character 3"),
        ("[1,]", "expected a value at character 3"),
        ("[}", "expected a value or ']' at character 1"),
        ("{} {}", "expected nothing after the value at character 3"),
        ("[01]", "expected ',' or ']' at character 2"),
        ("[-]", "expected the rest of a number at character 2"),
        ("[1e999]", "expected a number that a float can hold before this at character 6"),
        ("[nul1]", "expected the rest of a literal at character 4"),
        ('"\n', "expected a character that a string may hold at character 1"),
        ('"\ud83e', "expected a character that a string may hold at character 1"),
        ('"\\x', "expected an escape at character 2"),
        ('"\\u00g', "expected a hexadecimal digit at character 5"),
        ('"\\udd14', "expected its first half before this at character 6"),
        ('"\\ud83ex', "expected the second half of a character at character 7"),
        ('"\\ud83e\\n', "expected the second half of a character at character 8"),
        ('"\\ud83e\\u0041', "expected the second half of a character at character 12"),
    ],
)
def test_what_is_no_json_is_told_at_once_and_stays_told(text: str, words: str) -> None:
    for size in (1, 3, len(text)):
        reader = PartialJson()
        with pytest.raises(ProtocolError) as caught:
            push_in_pieces(reader, text, size)
        assert caught.value.detail == f"the answer is not JSON: {words}"
        with pytest.raises(ProtocolError) as repeated:
            reader.push("1")
        assert repeated.value is caught.value
        with pytest.raises(ProtocolError) as repeated:
            reader.finish()
        assert repeated.value is caught.value


def test_what_came_before_an_error_is_shown() -> None:
    reader = PartialJson()
    with pytest.raises(ProtocolError):
        reader.push('{"a": [1, 2}')
    assert (reader.data, reader.path, reader.news) == ({"a": [1, 2]}, ("a", 1), True)
    fresh = PartialJson()
    with pytest.raises(ProtocolError):
        fresh.push("Sure!")
    assert (fresh.data, fresh.news) == (None, False)


@pytest.mark.parametrize("text", ["", " ", "{", '{"a', '{"a":', "[1", '"\\', "tru", "-", "1e"])
def test_an_end_before_the_value_is_whole(text: str) -> None:
    reader = PartialJson()
    reader.push(text)
    with pytest.raises(ProtocolError, match=f"expected the rest of .* at character {len(text)}$"):
        reader.finish()


def test_the_depth_is_bounded() -> None:
    deepest = "[" * JSON_DEPTH + "]" * JSON_DEPTH
    assert shown(deepest) == orjson.loads(deepest)
    with pytest.raises(ProtocolError, match=f"deeper than {JSON_DEPTH} levels at character {JSON_DEPTH}$"):
        shown("[" * (JSON_DEPTH + 1))
    with pytest.raises(ProtocolError, match=f"deeper than {JSON_DEPTH} levels"):
        shown('{"a":' * (JSON_DEPTH + 1), size=7)


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_the_length_is_bounded(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(partial_json, "DOCUMENT_BYTES", 8)
    assert shown('["abcd"]', size=size) == ["abcd"]
    reader = PartialJson()
    text = '["abcde"]'
    with pytest.raises(ResponseLimitError, match="more than 8 characters"):
        push_in_pieces(reader, text, size)
    assert reader.data == ["abcde"]


def test_the_items_that_are_complete() -> None:
    reader = PartialJson()
    text = '{"s": ["a", {"b": [1]}, [], 2, null], "t": null}'
    told: list[tuple[str, int]] = [("", 0)]
    for character in text:
        reader.push(character)
        count = len(reader.complete_items(("s",)))
        if count != told[-1][1]:
            told.append((character, count))
    assert told[1:] == [('"', 1), ("}", 2), ("]", 3), (",", 4), ("l", 5)]
    assert reader.complete_items(("s",), 3) == [2, None]
    assert reader.complete_items(("s", 1, "b")) == [1]
    for path in (("t",), ("u",), ("s", 9), ("s", "x"), ("s", 3, 0)):
        assert reader.complete_items(path) == []
    with pytest.raises(ProtocolError, match=r"no array at \$\.s\[1\]$"):
        reader.complete_items(("s", 1))
    assert spelled(()) == "$"


def test_a_number_that_is_cut() -> None:
    number = NumberReader()
    assert [number.push(piece, 0) for piece in ("-1", ".", "5e", "+1,")] == [2, 1, 2, 2]
    assert (number.whole, number.value()) == (True, -15.0)
    assert not NumberReader().whole


def seconds(pieces: list[str]) -> float:
    reader = PartialJson()
    started = time.process_time()
    for piece in pieces:
        reader.push(piece)
    return time.process_time() - started


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        ('["', "abcd"),
        ('["', "\\u0041"),
        ("[1", "1"),
        ("[", "1,"),
        ('["', '","'),
        ("[[", "],["),
        ('{"k', '":1,"k'),
        ("[", '{"a":[true]},'),
        ("", " "),
    ],
)
def test_a_piece_costs_its_own_length(head: str, piece: str) -> None:
    ratios: list[float] = []
    for _ in range(5):  # a slow measurement is taken again: only a slow reader is slow every time
        small, large = (seconds([head, *[piece] * count]) for count in (2_000, 32_000))
        ratios.append(large / max(small, 0.001))
        if ratios[-1] < 64:  # linear is 16, quadratic 256
            return
    pytest.fail(f"not linear: {ratios}")


def test_a_reader_is_freed_without_the_collector() -> None:
    class Watched(PartialJson):
        __slots__ = ("__weakref__",)

    gc.disable()
    try:
        reader = Watched()
        reader.push('{"a": [1, "x')
        gone = weakref.ref(reader)
        del reader
        assert gone() is None
    finally:
        gc.enable()
