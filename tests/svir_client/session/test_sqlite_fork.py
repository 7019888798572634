from __future__ import annotations

import gc
import os
import pathlib
import threading
import traceback
from collections.abc import Callable

import anyio
import pytest

from svir_client import SqliteStore
from svir_client.session import SessionRecord
from svir_client.session.sqlite_file import connect
from svir_core import Message, StoreError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def in_child(work: Callable[[], None]) -> None:
    """Run ``work`` in a forked child; its exception is printed, and fails this."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:  # noqa: BLE001 - it is told by the status
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def turn(store: SqliteStore, id: str) -> None:
    async def run() -> None:
        with anyio.fail_after(30):
            async with store.session(id) as session:
                session.append(Message.user("x"))

    anyio.run(run)


def stored(store: SqliteStore, id: str) -> SessionRecord | None:
    return anyio.run(store.read, id)


def test_a_child_opens_no_file_that_was_open_at_the_fork(tmp_path: pathlib.Path) -> None:
    store, other = SqliteStore(tmp_path / "a.db"), SqliteStore(tmp_path / "b.db")
    turn(store, "before")
    claim = anyio.run(store.claim, "alice")

    def child() -> None:
        gc.collect()
        for id in ("alice", "bob"):
            with pytest.raises(StoreError, match="open when this process was forked"):
                turn(store, id)
        with pytest.raises(StoreError, match="open when this process was forked"):
            stored(SqliteStore(tmp_path / "." / "a.db"), "before")
        turn(other, "bob")

    in_child(child)
    anyio.run(claim.release)
    assert stored(store, "before") is not None
    assert stored(store, "bob") is None
    assert stored(other, "bob") is not None


def test_a_child_has_a_store_of_which_nothing_was_open(tmp_path: pathlib.Path) -> None:
    store = SqliteStore(tmp_path / "a.db")
    turn(store, "parent")
    for number in range(5):
        in_child(lambda: turn(store, f"child {number}"))  # noqa: B023 - it is over when the next begins
        turn(store, "parent")
    assert anyio.run(store.ids) == ("child 0", "child 1", "child 2", "child 3", "child 4", "parent")


def test_the_parent_goes_on(tmp_path: pathlib.Path) -> None:
    store = SqliteStore(tmp_path / "a.db")

    async def run() -> None:
        async with store.session("alice") as session:
            session.append(Message.user("x"))
            in_child(lambda: None)
            session.append(Message.user("y"))

    anyio.run(run)
    record = stored(store, "alice")
    assert record is not None
    assert len(record.messages) == 2


def knows_what_is_open(path: pathlib.Path) -> None:
    """A process that was born with ``path`` open knows it."""
    file = os.stat(path)
    for descriptor in range(3, 256):
        try:
            status = os.fstat(descriptor)
        except OSError:
            continue
        if (status.st_dev, status.st_ino) == (file.st_dev, file.st_ino):
            with pytest.raises(StoreError, match="open when this process was forked"):
                connect(str(path))
            return


def test_no_moment_of_opening_is_missed(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.db"
    connect(str(path)).close()
    over = threading.Event()

    def open_and_close() -> None:
        while not over.is_set():
            connect(str(path)).close()

    threads = [threading.Thread(target=open_and_close) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(100):
            in_child(lambda: knows_what_is_open(path))
    finally:
        over.set()
        for thread in threads:
            thread.join(30)
