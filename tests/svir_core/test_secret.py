"""What must not be seen: keys, and what is withheld (00 section 3)."""

from __future__ import annotations

import copy
import json
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import attrs
import orjson
import pytest

from svir_core.errors import ConfigError
from svir_core.http_message import Endpoint, caller_headers
from svir_core.secret import Secret, Withheld

KEY = "sk-very-secret"


def shown(value: Any) -> str:
    return f"{value!r} {value!s} {value} {[value]!r} {value:}"


def test_a_secret_is_withheld_everywhere_but_in_reveal() -> None:
    secret = Secret(KEY)

    @attrs.frozen
    class Holder:
        key: Secret

    assert secret.reveal() == KEY
    assert KEY not in shown(secret)
    assert KEY not in f"{secret:>40}|{secret!r:>40}|%s|%r" % (secret, secret)
    assert KEY not in shown(Holder(secret))
    assert repr(secret) == "Secret(<withheld>)"
    assert str(secret) == "<withheld>"


def test_a_secret_is_a_value_that_can_be_copied() -> None:
    secret = Secret(KEY)
    assert secret == Secret(KEY)
    assert hash(secret) == hash(Secret(KEY))
    assert secret != Secret("other")
    assert secret != KEY
    assert copy.copy(secret) == copy.deepcopy(secret) == copy.deepcopy([secret])[0] == secret


def test_a_secret_is_neither_pickled_nor_written_as_json() -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(ConfigError) as caught:
            pickle.dumps({"key": Secret(KEY)}, protocol)
        assert KEY not in str(caught.value)
    with pytest.raises(TypeError):
        json.dumps(Secret(KEY))
    with pytest.raises(orjson.JSONEncodeError):
        orjson.dumps(Secret(KEY))


@pytest.mark.parametrize(
    "value", ["", " ", f"{KEY} ", f"{KEY}\n", f"{KEY}\r\nx: y", f"a{KEY}ü", f"\0{KEY}", 5, None, b"key"]
)
def test_a_key_that_cannot_be_a_header_is_refused_without_showing_it(value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Secret(value)
    assert KEY not in shown(caught.value)


def locals_of(error: BaseException) -> str:
    """The locals of every frame but the test's own."""
    frames = list(traceback.walk_tb(error.__traceback__))[1:]
    assert frames
    return " ".join(repr(frame.f_locals) for frame, _ in frames)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Secret(f"{KEY}\n"),
        lambda: caller_headers({"x-a": f"{KEY}\n"}),
        lambda: caller_headers([("x-a", KEY), ("x-a", KEY)]),
        lambda: Endpoint.parse("https://h", api_key=f"two {KEY}"),
        lambda: Endpoint.parse(f"https://{KEY}@h"),
        lambda: Endpoint.parse("https://h", api_key=KEY, url=f"ftp://h/{KEY}"),
        lambda: Endpoint.parse("https://h", api_key=KEY, headers={"x-a": f"{KEY}\0"}),
    ],
)
def test_what_is_refused_shows_in_no_local_of_a_traceback(call: Callable[[], object]) -> None:
    with pytest.raises(ConfigError) as caught:
        call()
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert KEY not in locals_of(caught.value)


def test_a_withheld_value_is_not_shown_and_not_pickled() -> None:
    held = Withheld({"x-a": KEY})
    assert held.value == {"x-a": KEY}
    assert KEY not in shown(held)
    assert repr(held) == "<withheld>"
    with pytest.raises(ConfigError, match="not pickled"):
        pickle.dumps(held)
