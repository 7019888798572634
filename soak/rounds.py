"""Calls cancelled after a random number of the scheduler's steps: whatever ran there, nothing may be left.

Client and servers share one event loop here, so that the steps of both are what is counted.
"""

from __future__ import annotations

import math
import random
import ssl
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.lowlevel
import attrs
import trustme

from soak import measure
from soak.answer import draw
from soak.oracle import Violation
from soak.transport import TRANSPORTS, Tested
from svir_client import AsyncClient
from svir_client.testing import Framing, MockServer, RecordedRequest, Reply
from svir_core import Message, Request, SvirError, TextFile

CONNECTIONS: Final = 4

STEPS: Final = 3000
"""More steps than a call takes: some are to come to their end."""

SECONDS: Final = 5.0
"""How long after a cancellation everything may take to be closed."""

FILE_BYTES: Final = 600_000
"""More than the buffers of a connection take, so that the upload waits for the server."""

REQUEST: Final = Request("whole").user("Say something.")


async def _complete(client: AsyncClient, request: Request) -> None:
    await client.complete(request)


async def _stream(client: AsyncClient, request: Request) -> None:
    async with client.stream(request) as stream:
        async for _ in stream:
            await anyio.lowlevel.checkpoint()


async def _break(client: AsyncClient, request: Request) -> None:
    async with client.stream(request) as stream:
        async for _ in stream:
            break


async def _relay(client: AsyncClient, request: Request) -> None:
    async with client.send(request) as raw:
        async for _ in raw:
            await anyio.lowlevel.checkpoint()


async def _list(client: AsyncClient, request: Request) -> None:
    await client.list_models()


CALLS: Final[dict[str, Callable[[AsyncClient, Request], Awaitable[None]]]] = {
    "complete": _complete,
    "stream": _stream,
    "stream left": _break,
    "send": _relay,
    "list_models": _list,
}

MODELS: Final = ("whole", "chunked", "lean", "refused")
"""What a request's model asks the server for."""


@attrs.define
class Rounds:
    """What the rounds were: how many ended how, and what went wrong."""

    outcomes: Counter[str] = attrs.field(factory=Counter[str])
    violation: str | None = None


def reply_to(request: RecordedRequest) -> Reply:
    """What the server says, by the model that is asked for."""
    if request.method == "GET":
        return Reply.document({"data": [{"id": "m"}]}, framing=Framing.LENGTH)
    document: Any = request.json()
    pieces = draw(random.Random(1)).pieces
    match document["model"]:
        case "refused":
            return Reply.document({"error": {"message": "not now"}}, status=503, framing=Framing.CHUNKED)
        case "lean" if "stream_options" in document:
            return Reply.document({"error": {"message": "no such field"}}, status=400, framing=Framing.LENGTH)
        case "whole":
            return Reply.stream(*pieces, framing=Framing.CLOSE)
        case _:
            return Reply.stream(*pieces, framing=Framing.CHUNKED)


def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS for the server, and for a client that trusts it."""
    authority: Any = trustme.CA()  # its types name pyOpenSSL's, which is not installed
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client


@attrs.frozen
class Site:
    """A server, and a transport that talks to it alone."""

    server: MockServer
    tested: Tested


async def _cancelled_after(steps: int, call: Callable[[], Awaitable[None]]) -> str:
    """How ``call`` ended, cancelled after so many steps."""
    outcome = "cancelled"

    async def work(scope: anyio.CancelScope) -> None:
        nonlocal outcome
        with scope:
            try:
                await call()
                outcome = "whole"
            except SvirError as error:
                outcome = error.kind.value

    scope = anyio.CancelScope()
    async with anyio.create_task_group() as group:
        group.start_soon(work, scope)
        for _ in range(steps):
            await anyio.lowlevel.checkpoint()
        scope.cancel()
    return outcome


async def _settled(sites: list[Site], descriptors: int, tasks: int) -> None:
    """Wait until nothing is open but what the pools keep; a ``Violation`` when that never comes to be."""
    found: dict[str, object] = {}
    with anyio.move_on_after(SECONDS):
        while True:
            connections = sum(site.server.open_connections for site in sites)
            found = {
                "leased": sum(site.tested.pool().leased for site in sites),
                "open beside the kept": connections - sum(site.tested.pool().idle for site in sites),
                "descriptors too many": measure.open_descriptors() - descriptors - 2 * connections,
                "tasks too many": measure.tasks() - tasks - connections,
            }
            if not any(found.values()):
                return
            await anyio.lowlevel.checkpoint()
    raise Violation(f"left behind: {found}")


async def run_rounds(rounds: int, seed: int, transport: str = "h11") -> Rounds:
    """So many rounds, every other one over TLS; the first that leaves something behind ends them."""
    result = Rounds()
    server_tls, client_tls = contexts()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "notes.txt"
        path.write_text("notes\n" * (FILE_BYTES // 6))
        async with (
            MockServer(answer=reply_to, remember=0) as plain,
            MockServer(answer=reply_to, remember=0, tls=server_tls) as secure,
        ):
            make = TRANSPORTS[transport]
            sites = [Site(plain, make(CONNECTIONS, None)), Site(secure, make(CONNECTIONS, client_tls))]
            descriptors, tasks = measure.open_descriptors(), measure.tasks()
            for number in range(rounds):
                rng = random.Random(f"{seed}/{number}")
                name, model, upload = rng.choice(list(CALLS)), rng.choice(MODELS), rng.random() < 0.3
                steps = int(math.exp(rng.uniform(0, math.log(STEPS)))) - 1
                site = sites[number % 2]
                request = Request(model).message(Message.user("Read.", TextFile.path(path))) if upload else REQUEST
                client = AsyncClient.openai(site.server.origin, transport=site.tested.transport)
                expected = "transport" if model == "refused" and name != "list_models" else "whole"
                try:
                    call = partial(CALLS[name], client, request.replace(model=model))
                    outcome = await _cancelled_after(steps, call)
                    result.outcomes[outcome] += 1
                    if outcome not in (expected, "cancelled"):
                        raise Violation(f"it ended as {outcome}")
                    await _settled(sites, descriptors, tasks)
                except Violation as error:
                    what = (
                        f"{name} of {model}{' with a file' if upload else ''}, {site.server.origin.partition(':')[0]}"
                    )
                    result.violation = f"seed {seed}, round {number}: {what}, cancelled after {steps} steps: {error}"
                    break
            for site in sites:
                await site.tested.transport.aclose()
    return result
