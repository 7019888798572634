"""Where a key comes from, and that it shows nowhere."""

from __future__ import annotations

import os
import pathlib
import pickle
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from svir_client import AsyncClient
from svir_client.key import KEY_FILE_BYTES, KeySource
from svir_core.errors import ConfigError, TransportError
from svir_core.request import Request
from svir_core.secret import Secret, Withheld

pytestmark = pytest.mark.anyio

KEY = "sk-0123456789abcdef"


def key_source(api_key: Any, api_key_env: Any, api_key_file: Any, environment: Mapping[str, str]) -> KeySource:
    source = KeySource(api_key, api_key_env, api_key_file)
    source.read(Withheld(environment))
    return source


async def rotating() -> str:
    return KEY


class Vault:
    """A callable object whose answer is awaitable, as identity libraries have it."""

    async def __call__(self) -> Secret:
        return Secret(KEY)


@pytest.mark.parametrize("key", [KEY, Secret(KEY), lambda: KEY, lambda: Secret(KEY), rotating, Vault()])
async def test_a_key_of_every_form(key: Any) -> None:
    current = await key_source(key, None, None, {}).current()
    assert current == Secret(KEY)


async def test_no_key() -> None:
    assert await key_source(None, None, None, {}).current() is None


async def test_a_key_from_the_environment_is_read_once() -> None:
    environment = {"SOME_KEY": KEY}
    source = key_source(None, "SOME_KEY", None, environment)
    environment["SOME_KEY"] = "another"
    assert await source.current() == Secret(KEY)


async def test_a_key_from_a_file_without_the_blanks_around_it(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "key"
    path.write_text(f"  {KEY}\r\n")
    assert await key_source(None, None, path, {}).current() == Secret(KEY)
    assert await key_source(None, None, str(path), {}).current() == Secret(KEY)


@pytest.mark.parametrize(
    "options",
    [(KEY, "NAME", None), (KEY, None, "file"), (None, "NAME", "file"), (KEY, "NAME", "file")],
)
def test_more_than_one_key_is_refused(options: tuple[Any, Any, Any]) -> None:
    with pytest.raises(ConfigError, match="one of api_key, api_key_env and api_key_file"):
        key_source(*options, {"NAME": KEY})


@pytest.mark.parametrize("environment", [{}, {"NAME": ""}, {"NAME": "two words"}, {"NAME": "line\n"}])
def test_a_variable_without_a_key_is_refused_by_its_name(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="NAME") as caught:
        key_source(None, "NAME", None, environment)
    assert "two words" not in str(caught.value)


@pytest.mark.parametrize("name", [7, b"NAME", [], "\ud800", "a=b"])
def test_a_name_that_no_variable_has_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match="api_key_env") as caught:
        key_source(None, name, None, os.environ)
    assert str(caught.value).isascii()


@pytest.mark.parametrize("path", [7, True, [], 1.5])
def test_a_path_that_is_none_is_refused_and_no_descriptor_is_read(path: Any) -> None:
    with pytest.raises(ConfigError, match="api_key_file must be a path"):
        key_source(None, None, path, {})


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe", b"a b", b"k" * (KEY_FILE_BYTES + 1)])
def test_a_file_without_a_key_is_refused(tmp_path: pathlib.Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="api_key_file"):
        key_source(None, None, path, {})


@pytest.mark.parametrize("path", ["missing", ".", "nul\0byte"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: pathlib.Path, path: str) -> None:
    with pytest.raises(ConfigError, match="api_key_file cannot be read") as caught:
        key_source(None, None, str(tmp_path / path), {})
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("key", [7, b"hunter2", "", "hunter\n2", "hunter\u00e9"])
def test_what_is_no_key_is_refused_without_being_shown(key: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        AsyncClient.openai("http://127.0.0.1:1", api_key=key)
    assert "hunter" not in f"{caught.value} {caught.value!r}"


@pytest.mark.parametrize("provider", [lambda: None, lambda: 7, lambda: "", lambda: "a b"])
async def test_a_function_that_gives_no_key_is_refused_in_the_call(provider: Callable[[], Any]) -> None:
    source = key_source(provider, None, None, {})
    with pytest.raises(ConfigError, match="api_key function"):
        await source.current()


async def test_what_the_function_raises_passes_through() -> None:
    def broken() -> str:
        raise LookupError("the vault is sealed")

    with pytest.raises(LookupError, match="sealed"):
        await key_source(broken, None, None, {}).current()


def test_a_key_shows_in_no_repr() -> None:
    assert repr(key_source(KEY, None, None, {})) == "<KeySource>"
    assert KEY not in repr(AsyncClient.openai("http://127.0.0.1:1", api_key=KEY))


def test_a_key_is_not_pickled() -> None:
    with pytest.raises(ConfigError, match="not pickled"):
        pickle.dumps(key_source(KEY, None, None, {}))


def locals_of(error: BaseException) -> str:
    """The locals of every frame but the test's own."""
    frames = list(traceback.walk_tb(error.__traceback__))[1:]
    assert frames
    return " ".join(repr(frame.f_locals) for frame, _ in frames)


@pytest.mark.parametrize(
    ("url", "key"), [("ftp://127.0.0.1", KEY), ("http://127.0.0.1:1", KEY + "\n")], ids=["url", "key"]
)
def test_a_key_shows_in_no_local_of_a_traceback(url: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        AsyncClient.openai(url, api_key=key)
    assert KEY not in locals_of(caught.value)


async def test_a_key_of_a_function_shows_in_no_local_of_a_traceback() -> None:
    source = key_source(lambda: KEY + "\n", None, None, {})
    with pytest.raises(ConfigError) as caught:
        await source.current()
    assert KEY not in locals_of(caught.value)


async def test_a_key_shows_in_no_local_of_a_failed_call() -> None:
    async with AsyncClient.openai("http://127.0.0.1:1", api_key=KEY) as client:
        with pytest.raises(TransportError) as caught:
            await client.complete(Request("m").user("hi"))
        assert KEY not in locals_of(caught.value)
