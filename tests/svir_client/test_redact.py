"""Known secrets are taken out exactly: of values, never of keys, and never what is too short to be one."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_client import Trace
from svir_client.redact import REDACTED, SHORTEST_SECRET, Redactor, is_sensitive, secret_texts
from svir_client.testing import Reply
from svir_client.tracing import memory
from svir_core.errors import ConfigError
from svir_core.secret import Secret
from tests.svir_client.chat import DONE, FINISH, REQUEST, text
from tests.svir_client.layers.calls import scripted

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


def test_two_together() -> None:
    assert (Redactor([KEY]) | Redactor(["another-canary"])).text(f"{KEY} another-canary") == f"{REDACTED} {REDACTED}"


def test_it_shows_no_secret() -> None:
    redactor = Redactor([KEY])
    assert KEY not in f"{redactor!r} {redactor}"
    with pytest.raises(ConfigError):
        pickle.dumps(redactor)


def test_secrets_of_the_caller() -> None:
    assert secret_texts([Secret(KEY), "word"]) == [KEY, "word"]
    mistakes: list[Any] = [KEY, Secret(KEY), b"x", 1, [1], [b"x"]]
    for mistake in mistakes:
        with pytest.raises(ConfigError) as caught:
            secret_texts(mistake)
        assert KEY not in str(caught.value)


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
    left = Redactor(secrets).json(value)
    assert keys(left) == keys(value)
    long = [secret for secret in secrets if len(secret) >= SHORTEST_SECRET]
    for before, after in zip(strings(value), strings(left), strict=True):
        assert (after == before) is not any(secret in before for secret in long)
        assert not any(secret in piece for secret in long for piece in after.split(REDACTED))


@pytest.mark.anyio
@pytest.mark.parametrize("layers", [[], [Trace(memory(content=True), capture=True)]])
async def test_an_answer_is_what_the_server_said_though_it_says_the_key(layers: list[Trace]) -> None:
    said = Reply.stream(text(f"a {KEY}"), FINISH, DONE)
    async with scripted(said, api_key=KEY, layers=layers) as (_, client):
        assert (await client.complete(REQUEST)).text == f"a {KEY}"
