"""Names, addresses and their race."""

from __future__ import annotations

import socket

import anyio
import pytest

from svir_core.http_message import Origin
from svir_transport.h11 import dial as module
from svir_transport.h11 import lookup
from svir_transport.h11.dial import dial
from svir_transport.h11.lookup import Address
from tests.svir_transport.h11.peer import UNHEARD, Talk, Web, silent

pytestmark = pytest.mark.anyio

V4, V6 = socket.AF_INET, socket.AF_INET6


def names(monkeypatch: pytest.MonkeyPatch, *found: tuple[int, str]) -> None:
    def ask(host: str, port: int) -> list[Address]:
        return [Address(family, (address, port)) for family, address in found]

    monkeypatch.setattr(lookup, "ask", ask)


def places(monkeypatch: pytest.MonkeyPatch, outcome: dict[str, Exception | None]) -> list[str]:
    """Replaces the connecting of one address: an exception, success, or (not listed) never an answer."""
    tried: list[str] = []

    async def connect_one(address: Address) -> socket.socket:
        host = str(address.place[0])
        tried.append(host)
        if host not in outcome:
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()
        error = outcome[host]
        if error is not None:
            raise error
        return socket.socket(V4, socket.SOCK_STREAM)

    monkeypatch.setattr(module, "_connect_one", connect_one)
    return tried


async def test_addresses_are_tried_with_the_families_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch, (V6, "::1"), (V6, "::2"), (V6, "::3"), (V4, "1.1.1.1"))
    tried = places(monkeypatch, {"::1": OSError(), "1.1.1.1": OSError(), "::2": OSError(), "::3": None})
    with anyio.fail_after(5):
        channel = await dial(Origin("http", "name.example", 1), None, UNHEARD)
    channel.close()
    assert tried == ["::1", "1.1.1.1", "::2", "::3"]


async def test_an_address_that_does_not_answer_is_overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RACE_SECONDS", 0.001)
    names(monkeypatch, (V6, "::1"), (V4, "1.1.1.1"))
    tried = places(monkeypatch, {"1.1.1.1": None})
    with anyio.fail_after(5):
        channel = await dial(Origin("http", "name.example", 1), None, UNHEARD)
    channel.close()
    assert tried == ["::1", "1.1.1.1"]


async def test_the_last_failure_is_the_one_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch, (V4, "1.1.1.1"), (V4, "2.2.2.2"))
    places(monkeypatch, {"1.1.1.1": ConnectionRefusedError(), "2.2.2.2": PermissionError()})
    with anyio.fail_after(5), pytest.raises(PermissionError):
        await dial(Origin("http", "name.example", 1), None, UNHEARD)


async def test_two_that_connect_at_once_leave_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RACE_SECONDS", 0.0)
    names(monkeypatch, (V4, "1.1.1.1"), (V4, "2.2.2.2"), (V4, "3.3.3.3"))
    both = anyio.Event()
    made: list[socket.socket] = []
    waiting: list[Address] = []

    async def connect_one(address: Address) -> socket.socket:
        waiting.append(address)
        if len(waiting) == 3:
            both.set()
        await both.wait()
        made.append(socket.socket(V4, socket.SOCK_STREAM))
        return made[-1]

    monkeypatch.setattr(module, "_connect_one", connect_one)
    with anyio.fail_after(5):
        channel = await dial(Origin("http", "name.example", 1), None, UNHEARD)
    assert len(made) > 1
    assert [connected.fileno() >= 0 for connected in made].count(True) == 1
    channel.close()


async def test_a_name_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch)
    with anyio.fail_after(5), pytest.raises(socket.gaierror):
        await dial(Origin("http", "name.example", 1), None, UNHEARD)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_literals_and_names_for_real(plain: Web, host: str) -> None:
    async with plain.serve(silent) as site:
        channel = await dial(Origin("http", host, site.port), None, UNHEARD)
        assert channel.quiet()
        channel.close()


async def test_an_ipv6_literal() -> None:
    try:
        listener = socket.create_server(("::1", 0), family=V6)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with anyio.fail_after(5):
        channel = await dial(Origin("http", "::1", listener.getsockname()[1]), None, UNHEARD)
    channel.close()
    listener.close()


async def test_the_root_dot_of_a_name_is_not_part_of_its_certificate(tls: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch, (V4, "127.0.0.1"))

    async def hello(talk: Talk) -> None:
        await talk.send(b"hello")
        await talk.closed()

    async with tls.serve(hello) as site:
        channel = await dial(Origin("https", "localhost.", site.port), site.context, UNHEARD)
        await channel.readable()
        channel.close()


def test_a_repr_shows_no_host() -> None:
    assert repr(Origin("http", "private.example", 80)) == "Origin(<withheld>)"
    assert repr(Address(socket.AF_INET, ("10.0.0.1", 80))) == "Address(<withheld>)"
