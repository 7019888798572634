"""A chatbot: one word names its API, and everything else stays.

python -m examples.chatbot                                               # a script answers, on this machine
python -m examples.chatbot anthropic                                     # with the key in ANTHROPIC_API_KEY
python -m examples.chatbot openai --base-url http://127.0.0.1:1234 --model qwen3-27b
python -m examples.chatbot gemini --store talks.db --session rome        # go on with it tomorrow, with any API
python -m examples.chatbot responses --prompt "Why is the sky blue?"     # one answer

/quit, /exit, Ctrl-C and the end of the input end it. A turn that fails leaves nothing behind: ask again.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from examples.provider import connect, line, model_of, parsed, parser, run, words
from svir_client import Client, ModelDescriptor, Session, SqliteStore, sync
from svir_client.sync import generate_stream
from svir_client.testing import MockServer, RecordedRequest, Reply
from svir_core import FinishReason, SvirError

SYSTEM = "You are a helpful assistant. Reply accurately and concisely."


def arguments(given: list[str]) -> argparse.Namespace:
    """The command line, checked."""
    options = parser("chatbot", "Talk to a model.")
    options.add_argument("--system", metavar="TEXT", help=f"the instruction; by default: {SYSTEM}")
    options.add_argument("--prompt", metavar="TEXT", type=words, help="ask this, and end")
    options.add_argument("--store", metavar="FILE", help="keep the conversation in this SQLite file")
    options.add_argument("--session", metavar="ID", help="which conversation of the store; by default: chat")
    chosen = parsed(options, given)
    if chosen.session is not None and chosen.store is None:
        options.error("--session is a conversation of a --store: name both")
    return chosen


@contextmanager
def conversation(options: argparse.Namespace) -> Generator[Session]:
    """The session: of the store, saved as it changes; without one, for as long as this runs."""
    system: str = options.system or SYSTEM
    if options.store is None:
        yield Session(system=system)
        return
    with sync.session(SqliteStore(options.store), options.session or "chat", system=system) as session:
        if options.system not in (None, session.system):
            raise SystemExit("this conversation began with another instruction: leave --system, or name a --session")
        yield session


def say(client: Client, model: ModelDescriptor, session: Session, text: str) -> None:
    """One turn: the answer as it comes."""
    with generate_stream(client, session, text, model=model, rollback=True) as turn:
        piece = ""
        try:
            for piece in turn.text():
                print(piece, end="", flush=True)
        finally:
            if piece:
                print()
    if turn.generation.finish is not FinishReason.STOP:
        print(f"(it ended there: {turn.generation.finish})", file=sys.stderr)


def lines() -> Iterator[str]:
    """What the user types, until he goes."""
    prompt = "> " if sys.stdin.isatty() else ""
    while True:
        try:
            text = input(prompt).strip()
        except EOFError:
            return
        if text in ("/quit", "/exit"):
            return
        if text:
            yield text


def talk(client: Client, options: argparse.Namespace) -> None:
    """One answer, or one to each line."""
    model = model_of(options)
    with conversation(options) as session:
        if options.prompt is not None:
            say(client, model, session, options.prompt)
            return
        for text in lines():
            try:
                say(client, model, session, text)
            except SvirError as error:
                print(line(error), file=sys.stderr)


def echo(request: RecordedRequest) -> Reply:
    """What the script says, a word at a time."""
    asked = [message["content"] for message in request.json()["messages"] if message["role"] == "user"]
    answer = f"I am a script, not a model. Your question {len(asked)} was: {asked[-1]}"
    return Reply.text(*re.findall(r"\s*\S+", answer))


def main(given: list[str]) -> None:
    """See the module's text."""
    options = arguments(given)
    if options.api is not None:
        with connect(options) as client:
            talk(client, options)
        return
    options.api = "openai"
    with MockServer(answer=echo).in_thread() as server, Client.openai(server.origin) as client:
        talk(client, options)


if __name__ == "__main__":
    run(main)
