"""The search for canaries finds them wherever they are, and a call does carry every one of them."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
import pytest

from svir_client.testing import MockServer
from svir_core.errors import AuthenticationError, ProtocolError, SvirError
from svir_core.message import Text
from svir_core.redact import REDACTED
from svir_core.response import Partial
from svir_transport.h11 import H11Transport
from tests.secrecy.canary import CALL_HEADER, HEADER, KEY, PATH, QUERY, SERVER, TOKEN, Log, leaks
from tests.secrecy.paths import ECHO, HI, Site, complete, refusal
from tests.svir_client.chat import SECONDS, hello

pytestmark = pytest.mark.anyio


def in_its_words() -> SvirError:
    return ProtocolError(f"no answer from {PATH}")


def in_an_attribute() -> SvirError:
    error = ProtocolError("x")
    vars(error)["request"] = {"headers": [bytearray(KEY.encode())]}
    return error


def in_a_function() -> SvirError:
    error = ProtocolError("x")
    vars(error)["again"] = lambda: HEADER
    return error


def in_a_note() -> SvirError:
    error = ProtocolError("x")
    error.add_note(QUERY)
    return error


def in_its_cause() -> SvirError:
    error = ProtocolError("x")
    error.__cause__ = ValueError(KEY)
    return error


def in_its_context() -> SvirError:
    error = ProtocolError("x")
    error.__context__ = ValueError(CALL_HEADER)
    return error


def in_what_was_delivered() -> SvirError:
    return ProtocolError("x", partial=Partial((Text(SERVER),)))


def in_the_servers_words() -> SvirError:
    return ProtocolError("x", server_message=f"{SERVER} for {KEY}")


@pytest.mark.parametrize(
    "make",
    [
        in_its_words,
        in_an_attribute,
        in_a_function,
        in_a_note,
        in_its_cause,
        in_its_context,
        in_what_was_delivered,
        in_the_servers_words,
    ],
)
def test_a_canary_is_found(make: Callable[[], SvirError]) -> None:
    assert leaks(make(), Log())


@pytest.mark.parametrize("logger", ["", "svir", "asyncio"])
def test_a_canary_in_a_log_is_found(logger: str) -> None:
    with Log() as log:
        logging.getLogger(logger).debug("sent to %s", PATH)
    assert leaks(ProtocolError("x"), log)


def test_a_canary_in_a_local_is_found() -> None:
    held: dict[str, object] = {}
    exec(compile("def call(key):\n    raise error('x')", "elsewhere.py", "exec"), {"error": ProtocolError}, held)
    call = held["call"]
    assert callable(call)
    with pytest.raises(ProtocolError) as caught:
        call(KEY)
    assert any("call.key" in leak for leak in leaks(caught.value, Log()))


def test_what_the_server_said_may_stand_behind_its_accessor() -> None:
    assert leaks(ProtocolError("x", server_message=SERVER), Log()) == []


async def test_a_call_carries_every_canary_of_its_caller() -> None:
    transport = H11Transport()
    with anyio.fail_after(SECONDS):
        async with MockServer(hello()) as server:
            await complete(Site(server.origin, transport).client(), HI)
            (request,) = server.requests
        await transport.aclose()
    assert request.target == f"/{PATH}/chat?api-version={QUERY}"
    sent = dict(request.headers)
    assert (sent["authorization"], sent["x-tenant"], sent["x-call"]) == (f"Bearer {KEY}", HEADER, CALL_HEADER)
    assert sent["x-session-token"] == TOKEN


async def test_a_server_does_echo_and_the_rest_of_its_words_is_kept() -> None:
    transport = H11Transport()
    with anyio.fail_after(SECONDS):
        async with MockServer(refusal(401, ECHO.encode())) as server:
            with pytest.raises(AuthenticationError) as caught:
                await complete(Site(server.origin, transport).client(), HI)
        await transport.aclose()
    assert f"{SERVER} {KEY} {TOKEN}" == ECHO
    assert caught.value.server_message() == f"{SERVER} {REDACTED} {REDACTED}"
