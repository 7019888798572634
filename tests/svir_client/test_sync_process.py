"""The blocking client in a process of its own: it exits with everything open, Ctrl-C returns, a fork goes on."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Generator

import pytest

from svir_client.testing import End, Framing, Reply
from tests.svir_client.blocking import serving
from tests.svir_client.chat import SECONDS, hello, text

ROOT = pathlib.Path(__file__).parents[2]
OPEN_ENDED = Reply.stream(text("a"), end=End.STALL)

PROLOGUE = """
import os, pathlib, sys
from svir_client import Client
from svir_core.errors import ConfigError
from svir_core.message import Message, TextFile
from svir_core.request import Request

origin, path = sys.argv[1:]
request = Request("m").user("hi")
with_file = Request("m").message(Message.user(TextFile.path(path)))
client = Client.openai(origin)
"""


@contextlib.contextmanager
def script(origin: str, program: str, file: pathlib.Path | None = None) -> Generator[subprocess.Popen[str]]:
    """A process that runs ``program``, with every warning an error; killed when the block is left."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROLOGUE + program, origin, str(file or "-")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=SECONDS)
    return process.returncode, out.strip(), err.strip()


@pytest.fixture
def big_file(tmp_path: pathlib.Path) -> pathlib.Path:
    """More than any socket takes at once."""
    path = tmp_path / "big.txt"
    path.write_bytes(b"x" * (32 << 20))
    return path


# --- exit ----------------------------------------------------------------------------------------

EXITS = {
    "an open client": "print(client.complete(request).text)",
    "an open client that sent a file": "print(client.complete(with_file).text)",
    "an open stream": "stream = client.stream(request).__enter__(); print(next(stream).text)",
    "an open stream of a file": "stream = client.stream(with_file).__enter__(); print(next(stream).text)",
    "a read under way in a daemon thread": """
import threading
stream = client.stream(request).__enter__()
print(next(stream).text)
threading.Thread(target=next, args=(stream,), daemon=True).start()
""",
}


@pytest.mark.parametrize("case", EXITS)
def test_a_process_exits_with(case: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("word " * 1000)
    reply, expected = (hello(framing=Framing.CHUNKED), "Hello") if "client" in case else (OPEN_ENDED, "a")
    with serving(reply) as peer, script(peer.origin, EXITS[case], path) as process:
        assert ended(process) == (0, expected, "")
        peer.wait_closed()


def test_a_process_exits_in_the_middle_of_an_upload(big_file: pathlib.Path) -> None:
    stalled = Reply(stall_head=True, before_body=True)
    program = """
import contextlib, threading
def upload():
    with contextlib.suppress(RuntimeError):  # an interpreter that is leaving starts no more work
        client.complete(with_file)
threading.Thread(target=upload, daemon=True).start()
sys.stdin.read(1)
"""
    with serving(stalled) as peer:
        process = subprocess.Popen(
            [sys.executable, "-c", PROLOGUE + program, peer.origin, str(big_file)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        with process:
            peer.wait_requests(1)
            _, err = process.communicate("x", timeout=SECONDS)
        assert (process.returncode, err) == (0, "")


# --- Ctrl-C --------------------------------------------------------------------------------------

posix = pytest.mark.skipif(os.name != "posix", reason="only on POSIX does a signal end a wait")

WAITS = {
    "the head": "client.complete(request)",
    "the head of a stream": "client.stream(request).__enter__()",
    "an upload": "client.complete(with_file)",
    "an event": "stream = client.stream(request).__enter__(); next(stream); next(stream)",
    "bytes": "raw = client.send(request).__enter__(); next(raw); next(raw)",
    "a key": """
import asyncio
async def key():
    print("asked", flush=True)
    await asyncio.Event().wait()
Client.openai(origin, api_key=key).complete(request)
""",
}


def replies(case: str) -> Reply:
    if case in ("an event", "bytes"):
        return OPEN_ENDED
    return Reply(stall_head=True, before_body=case == "an upload")


def caught(program: str) -> str:
    """``program``, with a process that lives on after the interrupt: the server sees the close, not the exit."""
    body = "".join(f"    {line}\n" for line in program.strip().splitlines())
    return f"try:\n{body}except KeyboardInterrupt:\n    print('interrupted', flush=True)\nsys.stdin.read(1)\n"


@posix
@pytest.mark.parametrize("case", [case for case in WAITS if case != "a key"])
def test_an_interrupt_reaches_the_caller_and_closes_the_connection(case: str, big_file: pathlib.Path) -> None:
    with serving(replies(case)) as peer:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PROLOGUE + caught(WAITS[case]), peer.origin, str(big_file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        with process:
            peer.wait_requests(1)
            process.send_signal(signal.SIGINT)
            peer.wait_closed()
            out, err = process.communicate("x", timeout=SECONDS)
        assert (process.returncode, out.strip(), err) == (0, "interrupted", "")


@posix
@pytest.mark.parametrize("case", WAITS)
def test_an_interrupted_script_ends_as_any_script_does(case: str, big_file: pathlib.Path) -> None:
    with serving(replies(case)) as peer, script(peer.origin, WAITS[case], big_file) as process:
        if case == "a key":
            assert process.stdout is not None
            assert process.stdout.readline() == "asked\n"
        else:
            peer.wait_requests(1)
        process.send_signal(signal.SIGINT)
        status, _, err = ended(process)
        assert status == -signal.SIGINT
        assert err.endswith("KeyboardInterrupt")
        assert err.count("Traceback") == 1
        peer.wait_closed()


# --- fork ----------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_goes_on_with_the_client_and_leaves_the_streams_to_the_parent() -> None:
    program = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads, since Python 3.12
stream = client.stream(request).__enter__()
print(next(stream).text, flush=True)
client.complete(request)
pid = os.fork()
if pid == 0:
    try:
        next(stream)
    except ConfigError as error:
        print(error.detail, flush=True)
    stream.close()
    del stream
    print("child", client.complete(request).text, flush=True)
    sys.exit()
assert os.waitpid(pid, 0)[1] == 0
print("parent", client.complete(request).text, flush=True)
stream.close()
"""
    answer = hello(framing=Framing.CHUNKED)
    with serving(OPEN_ENDED, answer, answer, answer) as peer, script(peer.origin, program) as process:
        status, out, err = ended(process)
        assert err == ""
        assert status == 0
        assert out.splitlines() == [
            "a",
            "it was opened before this process was forked, and belongs to the other process",
            "child Hello",
            "parent Hello",
        ]
        assert [request.connection for request in peer.requests] == [0, 1, 2, 1]
        peer.wait_closed()


def test_what_is_refused_or_not_used_starts_no_thread() -> None:
    program = """
import asyncio, threading
from svir_client import Client
from svir_core.errors import ConfigError
from svir_core.request import Request

request = Request("m").user("hi")


async def beside_an_event_loop():
    client = Client.openai("http://127.0.0.1:1")
    for call in (lambda: client.complete(request), client.list_models, lambda: client.count_tokens(request),
                 lambda: client.stream(request), lambda: client.send(request), client.__enter__):
        try:
            call()
        except ConfigError as error:
            assert "event loop" in str(error)
        else:
            raise AssertionError("not refused")
    client.close()


asyncio.run(beside_an_event_loop())
with Client.openai("http://127.0.0.1:1") as client:
    pass
assert "closed" in repr(client)
print([thread.name for thread in threading.enumerate()])
for call in (lambda: client.complete(request), lambda: client.stream(request)):
    try:
        call()
    except ConfigError as error:
        assert "the client is closed" in str(error)
    else:
        raise AssertionError("not refused")
"""
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "['MainThread']", "")
