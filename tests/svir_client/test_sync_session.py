"""A session of a store without an event loop: saved and released whatever leaves it, Ctrl-C and a fork too."""

from __future__ import annotations

import gc
import os
import pathlib
import signal
import subprocess
import sys
import threading
from types import FrameType
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import svir_client.sync.open_session
from svir_client import Client, FunctionModel, Session, SqliteStore, sync
from svir_client.session import SessionChange, SessionClaim
from svir_client.sync.loop_thread import Job
from svir_core import ConfigError, Message, SessionInUseError, StoreError
from tests.svir_client.chat import SECONDS
from tests.svir_client.session.memory_store import MemoryClaim, MemoryData, MemoryStore

ROOT = pathlib.Path(__file__).parents[2]
USER = Message.user("Hello!")
posix = pytest.mark.skipif(os.name != "posix", reason="only on POSIX does a signal end a wait")


class Gate:
    """Where the store waits: ``reached`` is set there, and it goes on when ``goes_on`` is."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.goes_on = threading.Event()

    async def wait(self) -> None:
        self.reached.set()
        assert await anyio.to_thread.run_sync(self.goes_on.wait, SECONDS, abandon_on_cancel=True)

    def interrupt(self) -> threading.Thread:
        """Send this process SIGINT when the gate is reached, and let the store go on."""

        def strike() -> None:
            assert self.reached.wait(SECONDS)
            os.kill(os.getpid(), signal.SIGINT)
            self.goes_on.set()

        thread = threading.Thread(target=strike)
        thread.start()
        return thread


class GatedClaim(MemoryClaim):
    def __init__(self, store: GatedStore, id: str) -> None:
        super().__init__(store, id)
        self.gates = store

    async def write(self, change: SessionChange) -> None:
        if self.gates.at_write is not None:
            await self.gates.at_write.wait()
        if self.gates.failure is not None:
            raise self.gates.failure
        await super().write(change)

    async def release(self) -> None:
        await super().release()
        if self.gates.release_fails:
            raise StoreError("no release")


class GatedStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__(MemoryData())
        self.failure: StoreError | None = None
        self.release_fails = False
        self.at_claim: Gate | None = None
        self.at_write: Gate | None = None

    def claim_of(self, id: str) -> MemoryClaim:
        return GatedClaim(self, id)

    async def claim(self, id: str) -> SessionClaim:
        if self.at_claim is not None:
            await self.at_claim.wait()
        return await super().claim(id)


def stored(store: MemoryStore | SqliteStore, id: str = "alice") -> Session | None:
    return anyio.run(store.load, id)


def test_a_session_is_saved_and_goes_on(tmp_path: pathlib.Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db")
    with Client(FunctionModel(lambda request: f"{len(request.messages)}")) as client:
        with sync.session(store, "alice", system="Be brief.") as session:
            assert sync.generate(client, session, "one", model="m").text == "1"
            with pytest.raises(SessionInUseError), sync.session(store, "alice"):
                raise AssertionError("somebody has it")
        with sync.session(store, "alice", system="Another.") as session:
            assert (session.system, len(session.messages)) == ("Be brief.", 2)
            assert sync.generate(client, session, "two", model="m").text == "3"
            session.append(USER)
    kept = stored(store)
    assert kept is not None
    assert kept.messages == session.messages
    assert len(kept.messages) == 5
    with pytest.raises(ConfigError, match="was left"):
        session.append(USER)


def test_a_save_that_fails_is_raised_or_noted() -> None:
    store = GatedStore()
    store.failure = StoreError("the disk is full")
    with pytest.raises(StoreError, match="the disk is full"), sync.session(store, "alice") as session:
        session.append(USER)

    def leaves() -> None:
        with sync.session(store, "alice") as session:
            session.append(USER)
            raise LookupError("mine")

    with pytest.raises(LookupError) as caught:
        leaves()
    assert caught.value.__notes__ == ["on leaving its session: the disk is full"]
    assert store.data.claims == {}


def test_mistakes() -> None:
    store = MemoryStore(MemoryData())
    opened = sync.session(store, "alice")
    assert repr(opened) == "<SyncOpenSession 'alice'>"
    with pytest.raises(ConfigError, match="was not entered"):
        opened.__exit__(None, None, None)
    with opened, pytest.raises(ConfigError, match="entered once"):
        opened.__enter__()
    nothing: Any = "alice.db"
    with pytest.raises(ConfigError, match="store must be a SessionStore, not a str"):
        sync.session(nothing, "alice")
    with pytest.raises(ConfigError, match="the id of a session"):
        sync.session(store, "")
    assert store.data.claims == {}


@pytest.mark.anyio
async def test_beside_an_event_loop_it_is_refused() -> None:
    store = MemoryStore(MemoryData())
    with pytest.raises(ConfigError, match="runs an event loop"):
        sync.session(store, "alice")


# --- Ctrl-C ------------------------------------------------------------------------------------------


@posix
def test_interrupted_while_it_is_entered_it_lets_go() -> None:
    store = GatedStore()
    store.at_claim = Gate()
    thread = store.at_claim.interrupt()
    with pytest.raises(KeyboardInterrupt), sync.session(store, "alice"):
        raise AssertionError("it was entered")
    thread.join()
    store.at_claim = None
    with sync.session(store, "alice"):  # nobody has it
        pass


@posix
def test_interrupted_while_it_is_left_it_is_saved_and_released() -> None:
    store = GatedStore()
    gate = store.at_write = Gate()
    thread = gate.interrupt()
    with pytest.raises(KeyboardInterrupt), sync.session(store, "alice") as session:
        session.append(USER)
    thread.join()
    kept = stored(store)
    assert kept is not None
    assert (kept.messages, store.data.claims) == ((USER,), {})


def interrupt_at(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next wait for a job is interrupted once ``gate`` is reached: no signal can be sent to just that moment."""
    result = Job[Any].result

    def interrupted(_: Job[Any]) -> None:
        monkeypatch.setattr(Job, "result", result)
        assert gate.reached.wait(SECONDS)
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "result", interrupted)


def test_interrupted_while_it_is_left_it_notes_the_save_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    store = GatedStore()
    gate = store.at_write = Gate()
    gate.goes_on.set()
    store.failure = StoreError("the disk is full")
    opened = sync.session(store, "alice")
    opened.__enter__().append(USER)
    interrupt_at(gate, monkeypatch)
    with pytest.raises(KeyboardInterrupt) as caught:
        opened.__exit__(None, None, None)
    assert caught.value.__notes__ == ["on leaving its session: the disk is full"]
    assert store.data.claims == {}


@pytest.mark.parametrize("began", [False, True])
def test_interrupted_as_it_begins_to_be_left_it_is_saved_and_released(
    began: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore(MemoryData())
    opened = sync.session(store, "alice")
    opened.__enter__().append(USER)
    start = Job[Any].start

    def interrupted(job: Job[Any]) -> None:
        monkeypatch.setattr(Job, "start", start)
        if began:
            start(job)
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        opened.__exit__(None, None, None)
    assert (list(store.data.records), store.data.claims) == (["alice"], {})


class Stubborn(GatedStore):
    """Claims a session though it was cancelled, and takes its time for that."""

    async def claim(self, id: str) -> SessionClaim:
        try:
            return await super().claim(id)
        except anyio.get_cancelled_exc_class():
            self.at_claim = None
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            return await super().claim(id)


@pytest.mark.parametrize("fails", [False, True])
def test_interrupted_while_it_is_entered_it_lets_go_of_what_was_claimed_all_the_same(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Stubborn()
    gate = store.at_claim = Gate()
    store.release_fails = fails
    interrupt_at(gate, monkeypatch)
    opened = sync.session(store, "alice")
    with pytest.raises(KeyboardInterrupt) as caught:
        opened.__enter__()
    gate.goes_on.set()
    assert store.data.claims == {}
    assert getattr(caught.value, "__notes__", []) == ["on leaving its session: no release"] * fails


class Interrupter:
    """Raises ``KeyboardInterrupt`` at the ``at``-th line of the file that the block executes on this thread.

    Finalizers are left out: Python raises nothing there.
    """

    FILE = svir_client.sync.open_session.__file__

    def __init__(self, at: int) -> None:
        self.left = at

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != self.FILE or frame.f_code.co_name == "__del__":
            return None
        if event == "line" and self.left > 0:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
        return self._trace

    def __enter__(self) -> Interrupter:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)


def test_interrupted_at_any_line_it_is_released() -> None:
    lines = 0
    while True:
        lines += 1
        store = MemoryStore(MemoryData())
        try:
            with Interrupter(lines) as interrupter, sync.session(store, "alice") as session:
                session.append(USER)
        except KeyboardInterrupt:
            gc.collect()
        else:
            assert interrupter.left > 0
            break
        with sync.session(store, "another"):  # what was to be done on the loop thread before this is done
            pass
        assert store.data.claims == {}, lines
    assert lines > 10


# --- a fork ------------------------------------------------------------------------------------------

FORKS = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads, since Python 3.12
from svir_client import SqliteStore, sync
from svir_core import ConfigError, Message

store = SqliteStore(sys.argv[1])
with sync.session(store, "alice") as session:
    session.append(Message.user("of the parent"))
    child = os.fork()
    if child == 0:
        try:
            session.append(Message.user("of the child"))
        except ConfigError as error:
            print(error.detail, flush=True)
if child == 0:
    with sync.session(SqliteStore(sys.argv[2]), "bob") as own:
        own.append(Message.user("of the child"))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
for path, id in ((sys.argv[1], "alice"), (sys.argv[2], "bob")):
    with sync.session(SqliteStore(path), id) as session:
        print(id, [message.parts[0].text for message in session.messages])
"""


@posix
def test_a_forked_child_has_no_part_in_it_and_opens_its_own(tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(tmp_path / "parents.db"), str(tmp_path / "childs.db")],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "this session was opened before the process was forked, and is the other process's",
        "alice ['of the parent']",
        "bob ['of the child']",
    ]
