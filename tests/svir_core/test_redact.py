"""Known secrets are taken out exactly: of values, never of keys, and never what is too short to be one."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import ConfigError
from svir_core.redact import REDACTED, SHORTEST_SECRET, Redactor, is_sensitive
from svir_core.secret import Secret
from svir_core.slow_json import NumberText

KEY = "sk-canary-7f3a"


@pytest.mark.parametrize(
    ("secrets", "text", "left"),
    [
        ([KEY], f"a {KEY} b{KEY}", f"a {REDACTED} b{REDACTED}"),
        ([KEY], KEY.upper(), KEY.upper()),
        ([KEY], KEY[:-1], KEY[:-1]),
        (["12345678", "1234567890"], "1234567890 12345678", f"{REDACTED} {REDACTED}"),
        (["1234567"], "1234567", "1234567"),
        ([], "text", "text"),
        (["REDACTED", "12345678"], "12345678 REDACTED", f"{REDACTED} {REDACTED}"),
        (["bcdefghijk", "abcdefgh"], "abcdefghijk", f"a{REDACTED}"),
    ],
)
def test_texts(secrets: list[str], text: str, left: str) -> None:
    assert Redactor(secrets).text(text) == left


def test_values_of_json_and_never_its_keys() -> None:
    value = {KEY: [KEY, 1, None, True, {"a": f"<{KEY}>"}], "b": (KEY,)}
    copied = copy.deepcopy(value)
    assert Redactor([KEY]).json(value) == {KEY: [REDACTED, 1, None, True, {"a": f"<{REDACTED}>"}], "b": [REDACTED]}
    assert value == copied


@pytest.mark.parametrize(
    ("name", "sensitive"),
    [
        ("authorization", True),
        ("proxy-authorization", True),
        ("x-api-key", True),
        ("api-key", True),
        ("x-goog-api-key", True),
        ("cookie", True),
        ("x-amz-security-token", True),
        ("x-client-secret", True),
        ("content-type", False),
        ("host", False),
        ("x-max-tokens", False),
    ],
)
def test_sensitive_headers(name: str, sensitive: bool) -> None:
    assert is_sensitive(name) is sensitive
    redactor = Redactor.of_headers(((name, KEY),))
    assert redactor.text(KEY) == (REDACTED if sensitive else KEY)


def test_a_token_behind_its_scheme_is_one_by_itself() -> None:
    redactor = Redactor.of_headers((("authorization", f"Bearer {KEY}"),), (("x-api-key", "another-canary"),))
    assert redactor.text(f"Bearer {KEY}, {KEY}, another-canary") == f"{REDACTED}, {REDACTED}, {REDACTED}"


def test_a_short_token_behind_its_scheme_is_none_and_neither_are_both() -> None:
    redactor = Redactor.of_headers((("proxy-authorization", "Bearer s"), ("cookie", "session=1; x=2")))
    assert redactor.text("Bearer secret; session=1; x=2") == f"Bearer secret; {REDACTED}"


def test_the_key_and_the_headers_that_carry_it_are_secrets_whatever_they_are_called() -> None:
    redactor = Redactor.of_headers(
        (("x-team", "team-canary"),), key=Secret(KEY), key_headers=(("x-who", "canary-who"),)
    )
    assert redactor.text(f"team-canary canary-who {KEY}") == f"team-canary {REDACTED} {REDACTED}"


@pytest.mark.parametrize(("credential", "left"), [("1234567", "1234567"), ("12345678", REDACTED)])
def test_a_scheme_with_the_shortest_secret(credential: str, left: str) -> None:
    header = (("authorization", f"Bearer {credential}"),)
    for redactor in (Redactor.of_headers(header), Redactor.of_headers(key_headers=header)):
        assert redactor.text(credential) == left
        assert redactor.text(f"Bearer {credential}") == (f"Bearer {left}" if left == credential else REDACTED)


def test_all_that_stands_behind_a_scheme_is_one_secret() -> None:
    redactor = Redactor.of_headers((("authorization", "Digest one-canary two-canary"),))
    assert redactor.text("one-canary two-canary, two-canary") == f"{REDACTED}, two-canary"


def test_two_together() -> None:
    assert (Redactor([KEY]) | Redactor(["another-canary"])).text(f"{KEY} another-canary") == f"{REDACTED} {REDACTED}"


@pytest.mark.parametrize("secret", [KEY, "a-longer-canary-of-40-characters-in-all-"])
@given(before=st.text(max_size=60), more=st.integers(0, 90), size=st.integers(0, 40))
def test_what_was_cut_keeps_no_beginning_of_a_secret(secret: str, before: str, more: int, size: int) -> None:
    before += "." * more
    left = Redactor([secret]).cut(before + secret[:size])
    long = len((before + secret[:size]).encode("utf-8", "replace")) >= 80
    taken = size >= len(secret) or (size >= SHORTEST_SECRET and long)
    assert left == before + (REDACTED if taken else secret[:size])


@pytest.mark.parametrize("length", [79, 80])
@pytest.mark.parametrize("size", [0, 7, 8, 9, len(KEY) - 1])
@pytest.mark.parametrize("letter", [".", "\ud800"])
def test_where_a_text_may_be_cut(length: int, size: int, letter: str) -> None:
    text = letter * (length - size) + KEY[:size]
    taken = length == 80 and size >= 8
    assert Redactor([KEY]).cut(text) == (letter * (length - size) + REDACTED if taken else text)


def test_the_longest_beginning_of_a_secret_goes() -> None:
    assert Redactor(["abcdabcdabcdabcd"]).cut("." * 80 + "abcd" * 3) == "." * 80 + REDACTED


def test_a_text_of_another_class_stays_what_it_is() -> None:
    number = NumberText("12345678")
    assert Redactor([KEY]).text(number) is number
    assert Redactor([KEY]).json([number])[0] is number


def test_a_text_that_is_cut_behind_a_secret_is_measured_with_it() -> None:
    text = f"{KEY * 5} {KEY[:10]}"
    assert len(text) > 80 > len(Redactor([KEY]).text(text))
    assert Redactor([KEY]).cut(text) == f"{REDACTED * 5} {REDACTED}"


def test_no_json_is_too_deep() -> None:
    value: Any = KEY
    for _ in range(3000):
        value = [{KEY: value}]
    redactor = Redactor([KEY])
    assert redactor.finds(value)
    left = redactor.json(value)
    assert not redactor.finds(left)
    for _ in range(3000):
        ((only,),) = (left,)
        assert list(only) == [KEY]
        left = only[KEY]
    assert left == REDACTED


def test_it_shows_no_secret() -> None:
    redactor = Redactor([KEY])
    assert KEY not in f"{redactor!r} {redactor}"
    with pytest.raises(ConfigError):
        pickle.dumps(redactor)


SECRETS = st.lists(st.text("abc[RED", min_size=1, max_size=12), max_size=3)
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("abc[RED", max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=12), inner, max_size=3),
)


def items(value: Any) -> list[Any]:
    """What a list or an object holds."""
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return list(cast("Iterable[Any]", value)) if isinstance(value, list) else []


def strings(value: Any) -> list[str]:
    own = [value] if isinstance(value, str) else []
    return own + [text for item in items(value) for text in strings(item)]


def keys(value: Any) -> list[str]:
    own = list(cast("dict[str, Any]", value)) if isinstance(value, dict) else []
    return own + [key for item in items(value) for key in keys(item)]


@given(SECRETS, JSON)
def test_no_string_keeps_a_secret_and_every_key_stays(secrets: list[str], value: Any) -> None:
    redactor = Redactor(secrets)
    left = redactor.json(value)
    assert redactor.finds(value) is (left != value)
    assert keys(left) == keys(value)
    long = [secret for secret in secrets if len(secret) >= SHORTEST_SECRET]
    for before, after in zip(strings(value), strings(left), strict=True):
        assert (after == before) is not any(secret in before for secret in long)
        assert not any(secret in piece for secret in long for piece in after.split(REDACTED))
