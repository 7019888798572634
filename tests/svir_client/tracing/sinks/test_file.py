"""The file: its owner's alone, no link, whole lines, and a cap that stops for good."""

from __future__ import annotations

import logging
import os
import pathlib
import pickle
import stat
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from soak import measure
from svir_client.tracing import Content, file
from svir_client.tracing.sinks.file import STOPPED
from svir_core.errors import ConfigError
from tests.svir_client.tracing.traced import START, end_event

LINE = START.json() + b"\n"


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "trace.jsonl"


def mode(path: pathlib.Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_lines_of_json_for_the_owner_alone(path: pathlib.Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        sink = file(path)
    finally:
        os.umask(before)
    sink.write(START)
    sink.write(end_event(Content(system="a\nb"), name="a\nb"))
    sink.close()
    sink.close()
    lines = path.read_bytes().splitlines()
    assert [orjson.loads(line)["type"] for line in lines] == ["provider_start", "provider_end"]
    assert mode(path) == 0o600


def test_an_older_file_goes_on_and_becomes_the_owners_alone(path: pathlib.Path) -> None:
    path.write_bytes(b"before\n")
    path.chmod(0o644)
    sink = file(os.fspath(path))
    sink.write(START)
    assert path.read_bytes() == b"before\n" + LINE
    assert mode(path) == 0o600
    sink.close()


def test_without_append_it_begins_anew(path: pathlib.Path) -> None:
    path.write_bytes(b"before\n" + STOPPED)
    sink = file(path, append=False)
    assert path.read_bytes() == b""
    sink.write(START)
    sink.write(START)
    assert path.read_bytes() == LINE * 2
    sink.close()


def test_what_is_refused_keeps_what_it_holds(path: pathlib.Path) -> None:
    path.write_bytes(b"before\n")
    os.link(path, path.with_suffix(".two"))
    with pytest.raises(ConfigError, match="has a second name"):
        file(path, append=False)
    assert path.read_bytes() == b"before\n"


@pytest.mark.parametrize("mistake", [None, 0, "no"])
def test_append_is_a_switch(mistake: Any, path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match="file: append"):
        file(path, append=mistake)
    assert not path.exists()


def test_an_event_is_in_the_file_at_once(path: pathlib.Path) -> None:
    program = (
        "import os, sys; from svir_client.tracing import file; from tests.svir_client.tracing.traced import START;"
        "sink = file(sys.argv[1]); sink.write(START); os.kill(os.getpid(), 9)"
    )
    ended = subprocess.run([sys.executable, "-c", program, path], check=False, timeout=60)
    assert ended.returncode == -9
    assert path.read_bytes() == LINE


def test_two_sinks_and_two_processes_share_a_file(path: pathlib.Path) -> None:
    first, second = file(path), file(path)
    first.write(START)
    second.write(START)
    program = (
        "import sys; from svir_client.tracing import file; from tests.svir_client.tracing.traced import START;"
        "file(sys.argv[1]).write(START)"
    )
    subprocess.run([sys.executable, "-c", program, path], check=True, timeout=60)
    first.write(START)
    assert path.read_bytes() == LINE * 4
    first.close()
    second.close()


def link(path: pathlib.Path) -> None:
    target = path.with_suffix(".other")
    target.write_bytes(b"")
    path.symlink_to(target)


def second_name(path: pathlib.Path) -> None:
    path.touch()
    os.link(path, path.with_suffix(".two"))


def link_to_nothing(path: pathlib.Path) -> None:
    path.symlink_to("nowhere")


UNFIT: dict[str, tuple[Callable[[pathlib.Path], None], str]] = {
    "a symbolic link": (link, "cannot be opened"),
    "a link to nothing": (link_to_nothing, "cannot be opened"),
    "a folder": (pathlib.Path.mkdir, "cannot be opened: IsADirectoryError"),
    "a pipe": (os.mkfifo, "is no regular file"),
    "a second name": (second_name, "has a second name"),
}


@pytest.mark.parametrize("what", UNFIT)
def test_what_is_refused(what: str, path: pathlib.Path) -> None:
    make, words = UNFIT[what]
    make(path)
    open_before = measure.open_descriptors()
    with pytest.raises(ConfigError, match=words) as caught:
        file(path)
    assert measure.open_descriptors() == open_before
    assert path.name not in str(caught.value)
    assert caught.value.__context__ is None
    assert not path.with_name("nowhere").exists()


def test_another_users_file(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.touch()
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        file(path)


def test_a_file_whose_mode_cannot_be_set(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, mode: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchmod", refuse)
    with pytest.raises(ConfigError, match="cannot be kept to its owner"):
        file(path)


def test_a_system_that_follows_links(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_NOFOLLOW")
    with pytest.raises(ConfigError, match="without following links"):
        file(path)
    assert not path.exists()


@pytest.mark.parametrize("mistake", ["", None, 3, b"x", "a\0b"])
def test_what_is_no_path(mistake: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError):
        file(mistake)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("limit", [0, -1, True, 1.5])
def test_caps_that_are_none(limit: Any, path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match="file: max_bytes"):
        file(path, max_bytes=limit)


def test_the_cap_stops_for_good_and_says_so_once(path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    cap = 2 * len(LINE) + len(STOPPED)
    sink = file(path, max_bytes=cap)
    with caplog.at_level(logging.DEBUG):
        sink.write(START)
        sink.write(START)
        states = [sink.stopped]
        sink.write(end_event(name="longer"))
        for _ in range(3):
            sink.write(START)
        states.append(sink.stopped)
    assert states == [False, True]
    assert path.read_bytes() == LINE * 2 + STOPPED
    assert path.stat().st_size == cap
    assert [record.name for record in caplog.records] == ["svir.tracing"]
    assert os.fspath(path) not in caplog.text
    sink.close()

    again = file(path, max_bytes=10 * cap)
    again.write(START)
    assert again.stopped
    assert path.read_bytes() == LINE * 2 + STOPPED
    again.close()


def test_the_cap_is_64_mib_unless_another_is_given(path: pathlib.Path) -> None:
    path.touch()
    os.truncate(path, 64 * 1024 * 1024 - len(LINE) - len(STOPPED))  # a hole: it takes no room
    sink = file(path)
    sink.write(START)
    states = [sink.stopped]
    sink.write(START)
    states.append(sink.stopped)
    assert states == [False, True]
    assert path.stat().st_size == 64 * 1024 * 1024
    sink.close()


def test_a_smaller_event_does_not_slip_in_behind_a_larger_one(path: pathlib.Path) -> None:
    sink = file(path, max_bytes=len(LINE) + len(STOPPED) + 10)
    sink.write(end_event(Content(system="x" * 1000)))
    sink.write(START)
    assert path.read_bytes() == STOPPED
    sink.close()


def test_a_cap_without_room_even_for_its_last_line(path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    sink = file(path, max_bytes=len(STOPPED) - 1)
    sink.write(START)
    sink.write(START)
    assert path.read_bytes() == b""
    assert len(caplog.records) == 1
    sink.close()


def test_a_line_that_was_torn_does_not_spoil_the_next(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = file(path)
    write = os.write

    def write_a_part(descriptor: int, data: bytes) -> int:
        return write(descriptor, data[:10])

    monkeypatch.setattr(os, "write", write_a_part)
    with pytest.raises(OSError, match="a part of a line"):
        sink.write(START)
    monkeypatch.undo()
    sink.write(START)
    sink.write(START)
    assert path.read_bytes() == LINE[:10] + b"\n" + LINE * 2
    sink.close()


def test_after_it_is_closed(path: pathlib.Path) -> None:
    sink = file(path)
    sink.close()
    with pytest.raises(ConfigError, match="is closed"):
        sink.write(START)
    with pytest.raises(ConfigError):
        pickle.dumps(sink)


def test_dropped_it_is_closed(path: pathlib.Path) -> None:
    before = measure.open_descriptors()
    sink = file(path, content=True)
    assert sink.content
    del sink
    assert measure.open_descriptors() == before


def test_a_program_that_is_started_does_not_inherit_it(path: pathlib.Path) -> None:
    sink = file(path)
    program = (
        "import os, sys; opened = [f'/proc/self/fd/{each}' for each in os.listdir('/proc/self/fd')];"
        "print(any(os.path.realpath(each) == os.path.realpath(sys.argv[1]) for each in opened))"
    )
    started = subprocess.run(
        [sys.executable, "-c", program, path], close_fds=False, capture_output=True, check=True, timeout=60
    )
    assert started.stdout == b"False\n"
    sink.close()
