"""Profiles: data that the encoder and the client take."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from svir_core.errors import ConfigError
from svir_core.quirk import NONE, Quirk
from svir_core.request import Request
from svir_core.server_profile import PROFILES, Profile, profile
from svir_core.wire import openai_chat
from svir_core.wire.api import Compat


def test_profiles_are_found_by_name_and_sorted() -> None:
    assert list(PROFILES) == sorted(PROFILES)
    for name, known in PROFILES.items():
        assert profile(name) is known
        assert known.name == name
        assert known.seen


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"azure, .*ollama, .*vllm-mlx"):
        profile("Ollama")


def test_every_quirk_with_a_server_of_its_own_is_in_a_profile() -> None:
    quirks = NONE
    for known in PROFILES.values():
        quirks |= known.quirks
    assert ~quirks == Quirk.USAGE_INCREMENTS  # seen on gateways without a name


def test_quirks_are_checked() -> None:
    unchecked: Any = "DONE_OPTIONAL"
    with pytest.raises(ConfigError, match=r"Profile\.quirks must be Quirk, not str"):
        Profile("x", "nowhere", unchecked)


@pytest.mark.parametrize("known", PROFILES.values(), ids=PROFILES.keys())
def test_habits_are_what_the_encoder_takes(known: Profile) -> None:
    assert known.compatibility().known() == known.compat == Compat(known.omit, known.rename)
    encoder = openai_chat.Encoder(omit=known.omit, rename=known.rename)
    body = orjson.loads(bytes(encoder.encode(Request("m", system="s", max_tokens=5).user("hi"))))
    assert body[known.rename.get("max_tokens", "max_tokens")] == 5
    assert body["messages"][0]["role"] == known.rename.get("system", "system")
