"""The command lines of the examples: help, and one line for what is wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from examples import chatbot, counter, engine, four_apis, multimodal, structured, switching, tools
from examples.provider import connect
from svir_client.testing import MockServer, Reply
from tests.examples.program import refused, run

Main = Callable[[list[str]], None]
EVERY: dict[str, Main] = {
    "chatbot": chatbot.main,
    "counter": counter.main,
    "engine": engine.main,
    "four_apis": four_apis.main,
    "multimodal": multimodal.main,
    "structured": structured.main,
    "switching": switching.main,
    "tools": tools.main,
}
NOWHERE = "http://127.0.0.1:1"


@pytest.mark.parametrize("name", EVERY)
def test_help_is_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        EVERY[name](["--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: python -m examples.{name} ")


@pytest.mark.parametrize("name", EVERY)
def test_an_option_that_is_none_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        EVERY[name](["--nothing"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "unrecognized arguments: --nothing (see --help)\n"


@pytest.mark.parametrize("main", [engine.main, tools.main])
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--base-url", "example.com", "--model", "m"], "must begin with http:// or https:// (see --help)"),
        (["--base-url", "http://example.com", "--model", "m"], "use https, or --allow-http (see --help)"),
        (["--base-url", NOWHERE, "--model", "m"], "(is the server there? see --base-url)"),
        (["--base-url", NOWHERE, "--model", "m", "--key-env", "MY_KEY"], "there is no key in MY_KEY"),
    ],
)
def test_a_server_that_cannot_be_asked_is_one_line(main: Main, arguments: list[str], says: str) -> None:
    assert says in refused(main, *arguments)


@pytest.mark.parametrize("main", [engine.main, tools.main])
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--base-url", NOWHERE], "name both --base-url and --model"),
        (["--model", "m"], "name both --base-url and --model"),
        (["--key-env", "MY_KEY"], "name the server first"),
        (["--allow-http"], "name the server first"),
    ],
)
def test_what_goes_together_is_named(
    main: Main, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert capsys.readouterr().err.startswith(says)


@pytest.mark.parametrize("main", [four_apis.main, structured.main])
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["cohere"], "argument api: invalid choice: 'cohere'"),
        (["openai"], "name an API, --base-url and --model"),
        (["--base-url", NOWHERE, "--model", "m"], "name an API, --base-url and --model"),
    ],
)
def test_an_api_goes_with_its_server(
    main: Main, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert capsys.readouterr().err.startswith(says)


@pytest.mark.parametrize("main", [four_apis.main, structured.main])
def test_an_api_that_cannot_be_asked_is_one_line(main: Main) -> None:
    line = refused(main, "gemini", "--base-url", NOWHERE, "--model", "m")
    assert line.endswith("(is the server there? see --base-url)")


@pytest.mark.parametrize("name", ["chatbot", "multimodal"])
@pytest.mark.parametrize("prompt", ["", " "])
def test_a_question_says_something(name: str, prompt: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        EVERY[name](["openai", "--prompt", prompt])
    assert capsys.readouterr().err == "argument --prompt: say something: it is empty (see --help)\n"


def test_plain_http_to_another_machine_has_an_option() -> None:
    address = ("openai", "--base-url", "http://svir.invalid")
    assert refused(chatbot.main, *address).endswith("use https, or --allow-http (see --help)")
    connect(chatbot.arguments([*address, "--allow-http"])).close()


def test_a_server_that_refuses_is_there_and_its_words_are_not_shown() -> None:
    reply = Reply.document({"error": {"message": "CANARY"}}, 500)
    with MockServer(reply, reply).in_thread() as server:
        for name, *arguments in (("chatbot", "openai", "--prompt", "hi"), ("tools", "--model", "m")):
            line = refused(EVERY[name], *arguments, "--base-url", server.origin)
            assert "the server is there, and refused: server_message()" in line
            assert "CANARY" not in line


def test_tools_and_engine_ask_a_server() -> None:
    with MockServer(Reply.text("Two apples."), Reply.text("No trip.")).in_thread() as server:
        address = ("--base-url", server.origin, "--model", "m")
        assert run("tools", *address).said == ["Two apples."]
        assert run("engine", *address).said == ["No trip."]


def test_a_proxy_of_no_server_is_one_line() -> None:
    ended = run("relay", "example.com")
    assert (ended.status, ended.said) == (2, [])
    assert ended.wrong[-1].endswith("error: the base URL must begin with http:// or https://")
