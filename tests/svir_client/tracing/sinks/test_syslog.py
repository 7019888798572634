"""Syslog: a datagram of RFC 5424 per event, to a port or a Unix socket."""

from __future__ import annotations

import os
import pathlib
import pickle
import re
import socket
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from svir_client.tracing import Level, syslog
from svir_client.tracing.line import line
from svir_client.tracing.sinks.syslog import MESSAGE_BYTES
from svir_core.errors import ConfigError
from tests.svir_client.tracing.traced import START, end_event

RFC_5424 = re.compile(
    r"<(?P<priority>\d{1,3})>1 (?P<time>\S+) - (?P<app>[!-~]{1,48}) (?P<process>\d+) (?P<id>[!-~]{1,32}) - (?P<text>.*)"
)


@pytest.fixture(params=["udp", "unix"])
def daemon(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[socket.socket]:
    kind = socket.AF_INET if request.param == "udp" else socket.AF_UNIX
    with socket.socket(kind, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0) if request.param == "udp" else os.fspath(tmp_path / "log"))
        made.settimeout(10)
        yield made


def test_a_datagram_each(daemon: socket.socket) -> None:
    sink = syslog(daemon.getsockname(), name="app", facility=16)
    failed = attrs.evolve(end_event(name="a\nb"), level=Level.ERROR)
    for event, priority in ((START, 134), (failed, 131), (attrs.evolve(START, level=Level.WARNING), 132)):
        sink.write(event)
        found = RFC_5424.fullmatch(daemon.recv(65536).decode("ascii"))
        assert found is not None
        assert found["priority"] == str(priority)
        assert (found["app"], found["process"], found["id"]) == ("app", str(os.getpid()), event.type.value)
        assert found["text"] == line(event)
        assert found["time"] == event.document()["timestamp"]
    sink.close()


def test_a_long_one_is_cut(daemon: socket.socket) -> None:
    sink = syslog(daemon.getsockname())
    sink.write(end_event(name="x" * 10_000))
    assert len(daemon.recv(65536)) == MESSAGE_BYTES
    sink.close()


def test_content_never_goes_there(daemon: socket.socket) -> None:
    assert syslog(daemon.getsockname()).content is False


def test_a_daemon_that_has_gone(tmp_path: pathlib.Path) -> None:
    address = os.fspath(tmp_path / "log")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
        daemon.bind(address)
        sink = syslog(address)
    with pytest.raises(OSError, match="refused"):
        sink.write(START)
    sink.close()
    sink.close()


def test_a_daemon_that_does_not_read_is_not_waited_for(tmp_path: pathlib.Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
        daemon.bind(os.fspath(tmp_path / "log"))
        sink = syslog(os.fspath(tmp_path / "log"))

        def fill() -> None:
            for _ in range(100_000):
                sink.write(START)

        with pytest.raises(BlockingIOError):
            fill()
        sink.close()


ADDRESSES: list[Any] = ["/nowhere/log", ("127.0.0.1", 70_000), ("a b", 1), ("127.0.0.1",), 3, None, b"x"]


@pytest.mark.parametrize("address", ADDRESSES)
def test_addresses_that_lead_nowhere(address: Any) -> None:
    with pytest.raises(ConfigError, match="syslog has no socket") as caught:
        syslog(address)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": ""}, "name is 1 to 48"),
        ({"name": "a b"}, "name is 1 to 48"),
        ({"name": "x" * 49}, "name is 1 to 48"),
        ({"name": 1}, "name must be a str"),
        ({"facility": 24}, "facility is a number"),
        ({"facility": -1}, "facility is a number"),
        ({"facility": True}, "facility is a number"),
    ],
)
def test_mistakes(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        syslog(("127.0.0.1", 9), **options)


def test_one_of_a_kind() -> None:
    with pytest.raises(ConfigError):
        pickle.dumps(syslog(("127.0.0.1", 9)))


def test_the_defaults(daemon: socket.socket) -> None:
    sink = syslog(daemon.getsockname())
    sink.write(START)
    sink.close()
    found = RFC_5424.fullmatch(daemon.recv(65536).decode("ascii"))
    assert found is not None
    assert (found["priority"], found["app"]) == (str(8 * 1 + 6), "svir")  # user-level, informational
