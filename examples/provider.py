"""What the programs of this folder that talk to a model know of the four APIs, each by one word of the command line.

A key is sent where the API is hosted, and to another server only when its variable was named.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, cast

import attrs

from svir_client import AsyncClient, Capability, Client, ModelDescriptor, models
from svir_core import ErrorKind, SvirError
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from svir_core.wire.api import Api


@attrs.frozen
class Provider:
    """What one word stands for.

    Attributes:
        connect: makes the client.
        api: what a scripted server speaks in its place.
        hosted: where the API is; ``None`` where the client knows it.
        key_variable: where its key usually is.
        model: of the catalogue.
    """

    connect: Callable[..., Client]
    api: Api
    hosted: str | None
    key_variable: str
    model: str


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(Client.openai, openai_chat.API, "https://api.openai.com", "OPENAI_API_KEY", "gpt-5.6-luna"),
    "responses": Provider(Client.responses, openai_responses.API, None, "OPENAI_API_KEY", "gpt-5.6-luna"),
    "anthropic": Provider(Client.anthropic, anthropic_messages.API, None, "ANTHROPIC_API_KEY", "claude-sonnet-5"),
    "gemini": Provider(Client.gemini, gemini.API, None, "GEMINI_API_KEY", "gemini-3.5-flash"),
}

ADVICE: Mapping[ErrorKind, str] = {
    ErrorKind.TRANSPORT: "is the server there? see --base-url",
    ErrorKind.TIMEOUT: "try again, or see --base-url",
    ErrorKind.RATE_LIMITED: "wait a while, and try again",
    ErrorKind.TRUNCATED_STREAM: "try again",
    ErrorKind.AUTHENTICATION: "check the key: see --key-env",
    ErrorKind.CONTEXT_OVERFLOW: "ask something shorter, or begin anew",
    ErrorKind.CONTENT_FILTER: "ask otherwise",
    ErrorKind.PROTOCOL: "does the server speak this API? see --base-url",
    ErrorKind.SERVER: "try again",
    ErrorKind.UNSUPPORTED: "see --model, --can and --extra, or ask another API",
    ErrorKind.ATTACHMENT: "is the file there, and of a known type?",
    ErrorKind.SESSION_IN_USE: "another program has it: name another --session",
    ErrorKind.STORE: "see --store: a file of its own, in a folder that you may write to",
    ErrorKind.CONFIG: "see --help",
}
"""What to do, for errors that a user of the command line can do something about."""

REFUSED = "the server is there, and refused: server_message() of the error has its words, which are not shown"


def line(error: SvirError) -> str:
    """The error as one line: svir's words, which show no key and nothing that a server said, and what to do."""
    answered = error.kind is ErrorKind.TRANSPORT and error.status is not None
    advice = REFUSED if answered else ADVICE.get(error.kind)
    detail = error.detail.replace("allow_http=True", "--allow-http")  # what it is called here
    return detail if advice is None else f"{detail} ({advice})"


def words(text: str) -> str:
    """An option that says something."""
    if not text.strip():
        raise argparse.ArgumentTypeError("say something: it is empty")
    return text


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"no JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError('an object is needed, such as {"top_k": 20}')
    return cast("dict[str, Any]", value)


class Parser(argparse.ArgumentParser):
    """One whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """End, with what is wrong."""
        self.exit(2, f"{message} (see --help)\n")


def bare(program: str, description: str) -> Parser:
    """A command line without options."""
    return Parser(f"python -m examples.{program}", description=description, allow_abbrev=False)


def _address(arguments: Parser, key_env: str) -> None:
    arguments.add_argument("--base-url", metavar="URL", help="https, or http to this machine")
    arguments.add_argument("--allow-http", action="store_true", help="http to another machine too")
    arguments.add_argument("--key-env", metavar="NAME", help=key_env)


def chat_parser(program: str, description: str) -> Parser:
    """The options of a program that a script answers, or a server of yours."""
    arguments = bare(program, description)
    _address(arguments, "the variable that has the key, where one is needed")
    arguments.add_argument("--model", metavar="ID", help="the server's name for it")
    return arguments


def chat_parsed(arguments: Parser, given: list[str]) -> argparse.Namespace:
    """The command line, checked: a server and a model go together."""
    options = arguments.parse_args(given)
    if (options.base_url is None) is not (options.model is None):
        arguments.error("name both --base-url and --model; or neither, for a script's answers")
    if options.base_url is None and (options.key_env is not None or options.allow_http):
        arguments.error("name the server first: --base-url")
    return options


def chat_client(
    options: argparse.Namespace, constructor: Callable[..., AsyncClient] = AsyncClient.openai
) -> AsyncClient:
    """The client of that server. ``SystemExit`` that names the variable when the key is not there."""
    _key_is_there(options.key_env)
    return constructor(options.base_url, api_key_env=options.key_env, allow_http=options.allow_http)


def parser(program: str, description: str) -> Parser:
    """The options that every program takes that talks to any API."""
    arguments = bare(program, description)
    arguments.add_argument("api", nargs="?", choices=[*PROVIDERS], help="without it, a script answers on this machine")
    arguments.add_argument("--model", metavar="ID", help="one of no catalogue takes text, and what it --can")
    can = [capability.value for capability in Capability]
    arguments.add_argument("--can", metavar="WORD", action="append", choices=can, help="such as image_input")
    _address(arguments, "the variable that has the key; needed beside --base-url")
    arguments.add_argument("--max-tokens", metavar="N", type=int, help="of an answer")
    arguments.add_argument("--extra", metavar="JSON", type=_object, default={}, help="further fields of the request")
    return arguments


def parsed(arguments: Parser, given: list[str]) -> argparse.Namespace:
    """The command line, checked: what is said of an API needs its name."""
    options = arguments.parse_args(given)
    of_an_api = (options.model, options.can, options.base_url, options.key_env, options.max_tokens, options.extra)
    if options.api is None and (any(of_an_api) or options.allow_http):
        arguments.error(f"name the API first: {', '.join(PROVIDERS)}")
    return options


def model_of(options: argparse.Namespace) -> ModelDescriptor:
    """The model, and how it is asked: what the catalogue says that it can do, whatever the API it is asked by."""
    provider = PROVIDERS[options.api]
    id: str = provider.model if options.model is None else options.model
    model = models.CATALOGUE.get(id, ModelDescriptor(id))
    return attrs.evolve(
        model,
        api=provider.api.name,
        capabilities={*model.capabilities, *(options.can or ())},
        max_output_tokens=options.max_tokens,
        extra=options.extra,
    )


def connect(options: argparse.Namespace) -> Client:
    """The client. ``SystemExit`` that names the variable when the key is not there."""
    provider = PROVIDERS[options.api]
    variable: str | None = options.key_env
    if variable is None and options.base_url is None:
        variable = provider.key_variable
    _key_is_there(variable)
    url = provider.hosted if options.base_url is None else options.base_url
    return provider.connect(url, api_key_env=variable, allow_http=options.allow_http)


def _key_is_there(variable: str | None) -> None:
    if variable is not None and not os.environ.get(variable):
        raise SystemExit(f"there is no key in {variable}: set it, or name another variable by --key-env")


def run(main: Callable[[list[str]], None]) -> None:
    """Run a program: an error is one line, Ctrl-C is none, and what a terminal cannot show or read is a ``?``."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        main(sys.argv[1:])
    except SvirError as error:
        problem = line(error)
    except KeyboardInterrupt:
        print()
        raise SystemExit(130) from None
    else:
        return
    raise SystemExit(problem)
