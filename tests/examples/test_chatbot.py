from __future__ import annotations

import contextlib
import os
import pathlib
import signal
from collections.abc import Generator
from typing import Any

import pytest

from examples import chatbot
from examples.provider import PROVIDERS, model_of
from svir_client import Capability
from svir_client.models import TEXT
from svir_client.testing import End, Gate, MockServer, Reply, ThreadedMockServer
from svir_core import FinishReason
from tests.examples.program import SECONDS, Ended, interrupted, refused, run, running

KEY = "sk-secret-0123456789"
SCRIPT = "I am a script, not a model. Your question {} was: {}"
posix = pytest.mark.skipif(os.name != "posix", reason="signals and terminals as POSIX has them")


def answers(word: str, *texts: str) -> list[Reply]:
    return [Reply.text(*text.partition(" "), api=PROVIDERS[word].api) for text in texts]


@contextlib.contextmanager
def serving(*replies: Reply) -> Generator[ThreadedMockServer]:
    """A server that was asked for all that it had to say, and for no more."""
    with MockServer(*replies).in_thread() as server:
        yield server
        assert (server.unscripted, server.unasked) == (0, 0)


def chat(word: str, server: ThreadedMockServer, *arguments: str, typed: str = "", **variables: str) -> Ended:
    return run("chatbot", word, "--base-url", server.origin, *arguments, typed=typed, variables=variables)


def bodies(server: ThreadedMockServer) -> list[Any]:
    return [request.json() for request in server.requests]


def roles(body: Any) -> list[str]:
    return [message["role"] for message in body["messages"]]


# --- it answers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("word", PROVIDERS)
def test_one_prompt_is_answered_by_each_api(word: str) -> None:
    with serving(*answers(word, "It is blue.")) as server:
        ended = chat(word, server, "--prompt", "Which colour?", OPENAI_API_KEY=KEY, ANTHROPIC_API_KEY=KEY)
        (request,) = server.requests
    assert ended == Ended(0, ["It is blue."], [])
    assert chatbot.SYSTEM.encode() in request.body
    assert b"Which colour?" in request.body
    assert PROVIDERS[word].model in request.target + request.body.decode()
    assert KEY not in str(request.headers), "a key of one place was sent to another"


def test_a_conversation_is_typed() -> None:
    typed = "Which colour?\n\n   \n  And the sea? \n/quit\nnobody hears this\n"
    with serving(*answers("openai", "It is blue.", "The sea too.")) as server:
        assert chat("openai", server, typed=typed) == Ended(0, ["It is blue.", "The sea too."], [])
        first, second = bodies(server)
    assert roles(first) == ["system", "user"]
    assert [message["content"] for message in second["messages"]] == [
        chatbot.SYSTEM,
        "Which colour?",
        "It is blue.",
        "And the sea?",
    ]


@pytest.mark.parametrize("typed", ["", "\n\n", "/quit\nhello\n", "/exit\nhello\n", "  /exit  "])
def test_it_ends_when_it_is_told_and_at_the_end_of_the_input(typed: str) -> None:
    with serving() as server:
        assert chat("openai", server, typed=typed) == Ended(0, [], [])


def test_without_an_argument_a_script_answers() -> None:
    assert run("chatbot", typed="hello\nthere") == Ended(0, [SCRIPT.format(1, "hello"), SCRIPT.format(2, "there")], [])


def test_what_cannot_be_read_is_no_end_of_it() -> None:
    variables = {"PYTHONIOENCODING": "ascii"}
    assert run("chatbot", "--prompt", "é", variables=variables) == Ended(0, [SCRIPT.format(1, "?")], [])


def test_an_answer_that_ends_early_says_so() -> None:
    with serving(Reply.text("It is", finish=FinishReason.LENGTH)) as server:
        assert chat("openai", server, "--prompt", "?") == Ended(0, ["It is"], ["(it ended there: length)"])


def test_options_are_of_the_request() -> None:
    given = ("--system", "Be kind.", "--model", "mine", "--max-tokens", "9", "--extra", '{"top_k": 3}')
    with serving(*answers("openai", "Yes.")) as server:
        assert chat("openai", server, *given, "--key-env", "MY_KEY", "--prompt", "?", MY_KEY=KEY).said == ["Yes."]
        (request,) = server.requests
    body = request.json()
    assert (body["model"], body["max_tokens"], body["top_k"]) == ("mine", 9, 3)
    assert body["messages"][0]["content"] == "Be kind."
    assert request.header("authorization") == f"Bearer {KEY}"


@pytest.mark.parametrize("word", PROVIDERS)
def test_a_model_of_no_catalogue_takes_text(word: str) -> None:
    known = model_of(chatbot.arguments([word]))
    assert known.capabilities > TEXT
    assert known.api == PROVIDERS[word].api.name
    other = model_of(chatbot.arguments([word, "--model", "mine"]))
    assert (other.id, other.api, other.capabilities) == ("mine", known.api, TEXT)
    seeing = model_of(chatbot.arguments([word, "--model", "mine", "--can", "image_input"]))
    assert seeing.capabilities == TEXT | {Capability.IMAGE_INPUT}


def test_of_two_the_last_counts() -> None:
    assert chatbot.arguments(["openai", "--model", "a", "--model", "b"]).model == "b"


def test_help_needs_no_key() -> None:
    for name in ("chatbot", "multimodal"):
        ended = run(name, "anthropic", "--help")
        assert (ended.status, ended.wrong) == (0, [])
        assert ended.said[0].startswith(f"usage: python -m examples.{name}")


# --- it is kept ----------------------------------------------------------------------------------


def test_a_conversation_goes_on_tomorrow_and_at_another_api(tmp_path: pathlib.Path) -> None:
    store = ("--store", str(tmp_path / "talks.db"), "--session", "rome")
    with serving(*answers("openai", "It rains.")) as server:
        assert chat("openai", server, *store, "--system", "Be brief.", "--prompt", "In Rome?").said == ["It rains."]
    with serving(*answers("anthropic", "So it does.")) as server:
        assert chat("anthropic", server, *store, typed="Still?\n").said == ["So it does."]
        (body,) = bodies(server)
    assert body["system"] == "Be brief."
    assert roles(body) == ["user", "assistant", "user"]
    assert run("chatbot", *store, "--prompt", "Now?").said == [SCRIPT.format(3, "Now?")]
    other = run("chatbot", *store[:2], "--prompt", "Hello?")
    assert other.said == [SCRIPT.format(1, "Hello?")], "another conversation of the same store"


def test_a_kept_conversation_has_its_own_instruction(tmp_path: pathlib.Path) -> None:
    store = ("--store", str(tmp_path / "talks.db"), "--prompt", "?")
    assert run("chatbot", *store, "--system", "Be brief.").status == 0
    assert run("chatbot", *store, "--system", "Be brief.").status == 0
    other = run("chatbot", *store, "--system", "Be long.")
    assert other == Ended(
        1, [], ["this conversation began with another instruction: leave --system, or name a --session"]
    )


def test_a_conversation_that_somebody_has_is_refused(tmp_path: pathlib.Path) -> None:
    store = ("--store", str(tmp_path / "talks.db"))
    gate = Gate()
    waiting = Reply.text("So", gate, " it is.")
    with (
        serving(waiting) as server,
        running("chatbot", "openai", "--base-url", server.origin, *store, "--prompt", "?") as first,
    ):
        server.wait_requests(1)
        second = run("chatbot", *store, "--prompt", "?")
        server.call(gate.open)
        assert first.communicate(timeout=SECONDS) == ("So it is.\n", "")
    assert (second.status, second.said) == (1, [])
    assert len(second.wrong) == 1
    assert second.wrong[0].endswith("(another program has it: name another --session)")


# --- it fails ------------------------------------------------------------------------------------

HOSTED = {"openai": "OPENAI", "responses": "OPENAI", "anthropic": "ANTHROPIC", "gemini": "GEMINI"}


@pytest.mark.parametrize("word", PROVIDERS)
def test_a_key_that_is_not_there_is_named(word: str) -> None:
    rest = ": set it, or name another variable by --key-env"
    assert refused(chatbot.main, word, "--prompt", "?") == f"there is no key in {HOSTED[word]}_API_KEY{rest}"
    assert refused(chatbot.main, word, "--prompt", "?", "--key-env", "MY_KEY") == f"there is no key in MY_KEY{rest}"


def test_an_empty_key_is_none() -> None:
    ended = run("chatbot", "gemini", "--prompt", "?", variables={"GEMINI_API_KEY": ""})
    assert (ended.status, ended.said, len(ended.wrong)) == (1, [], 1)
    assert ended.wrong[0].startswith("there is no key in GEMINI_API_KEY")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["cohere"], "invalid choice: 'cohere'"),
        (["openai", "hello"], "unrecognized arguments: hello"),
        (["--promt=?"], "unrecognized arguments: --promt"),
        (["--prom=?"], "unrecognized arguments: --prom"),
        (["openai", "--model"], "argument --model: expected one argument"),
        (["openai", "--max-tokens", "many"], "argument --max-tokens: invalid int value: 'many'"),
        (["openai", "--extra", "{"], "argument --extra: no JSON"),
        (["openai", "--extra", "[1]"], "argument --extra: an object is needed"),
        (["openai", "--can", "fly"], "argument --can: invalid choice: 'fly'"),
        (["--model", "m"], "name the API first: openai, responses, anthropic, gemini"),
        (["--base-url", "http://127.0.0.1"], "name the API first"),
        (["--session", "rome"], "--session is a conversation of a --store"),
    ],
)
def test_a_command_line_that_is_wrong(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        chatbot.main(arguments)
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert err.count("\n") == 1
    assert says in err
    assert err.endswith("(see --help)\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--base-url", "http://example.com"], "plain http to another machine"),
        (["--base-url", f"https://{KEY}@example.com"], "must not hold a user name or password"),
        (["--base-url", f"https://a:{KEY}@127.0.0.1"], "must not hold a user name or password"),
        (["--base-url", ""], "must begin with http:// or https://"),
        (["--base-url", "ftp://127.0.0.1"], "must begin with http:// or https://"),
        (["--base-url", "http://[::1]x"], "bad port or a bad IPv6 address"),
        (["--base-url", "http://127.0.0.1:1", "--max-tokens", "0"], "max_output_tokens"),
        (["--base-url", "http://127.0.0.1:1", "--extra", '{"messages": []}'], "messages"),
        (["--base-url", "http://127.0.0.1:1", "--store", "/"], "--store"),
    ],
)
def test_what_the_client_refuses_is_one_line(arguments: list[str], says: str) -> None:
    line = refused(chatbot.main, "openai", "--prompt", "?", *arguments)
    assert says in line
    assert KEY not in line


def test_a_server_that_is_not_there() -> None:
    with MockServer().in_thread() as server:
        origin = server.origin
    ended = run("chatbot", "gemini", "--base-url", origin, "--prompt", "?")
    assert (ended.status, ended.said, len(ended.wrong)) == (1, [], 1)
    assert ended.wrong[0].endswith("(is the server there? see --base-url)")


def test_what_a_server_says_of_the_key_is_not_shown() -> None:
    refusal = Reply.document({"error": {"message": f"Incorrect API key provided: {KEY}"}}, 401)
    with serving(refusal) as server:
        ended = chat("openai", server, "--key-env", "MY_KEY", "--prompt", "?", MY_KEY=KEY)
    assert (ended.status, ended.said, len(ended.wrong)) == (1, [], 1)
    assert ended.wrong[0].endswith("(check the key: see --key-env)")
    assert KEY not in ended.wrong[0]


def test_a_turn_that_fails_leaves_nothing_behind() -> None:
    cut = Reply.text("It is", "...", cut=200, end=End.CLOSE)
    with serving(Reply.document({}, 429), cut, *answers("openai", "It is blue.")) as server:
        ended = chat("openai", server, typed="Which colour?\nAre you there?\nWhich colour?\n")
        assert [roles(body) for body in bodies(server)] == [["system", "user"]] * 3
    assert ended.status == 0
    assert ended.said[-1] == "It is blue."
    assert len(ended.wrong) == 2
    assert ended.wrong[0].endswith("(wait a while, and try again)")
    assert ended.wrong[1].endswith("(try again)")


# --- it is interrupted ---------------------------------------------------------------------------


@posix
def test_ctrl_c_ends_an_answer_and_leaves_nothing_behind(tmp_path: pathlib.Path) -> None:
    store = ("--store", str(tmp_path / "talks.db"))
    with (
        serving(Reply.text("It is", Gate())) as server,
        running("chatbot", "openai", "--base-url", server.origin, *store, "--prompt", "?") as process,
    ):
        assert process.stdout is not None
        assert process.stdout.read(5) == "It is"
        ended = interrupted(process)
        server.wait_closed()
    assert (ended.status, ended.wrong) == (130, [])
    assert run("chatbot", *store, "--prompt", "Again?").said == [SCRIPT.format(1, "Again?")]


@posix
def test_a_terminal_is_prompted_and_ctrl_c_ends_it() -> None:
    here, there = os.openpty()
    try:
        with running("chatbot", stdin=there) as process:
            assert process.stdout is not None
            assert process.stdout.read(2) == "> "
            os.write(here, b"hello\n")
            said = SCRIPT.format(1, "hello") + "\n> "
            assert process.stdout.read(len(said)) == said
            process.send_signal(signal.SIGINT)
            os.write(here, b"\n")  # it may not have begun to read, and Python looks for signals only when that ends
            assert process.communicate(timeout=SECONDS) == ("\n", "")
            assert process.returncode == 130
    finally:
        os.close(here)
        os.close(there)
