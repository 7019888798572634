"""Transport cases (13): a scripted loopback server, every transport, both async backends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import anyio
import attrs

from conformance.calls import CallScript, call_script, perform
from conformance.case import Case, Variant
from conformance.fields import (
    CaseError,
    Fields,
    Json,
    content,
    flag,
    header_pairs,
    items,
    load_fixture,
    nullable,
    one_of,
    one_or_more,
    positive,
    text,
)
from conformance.requests_seen import ExpectedRequest, expected_requests, problems_of_requests
from conformance.run_decoder import cut
from conformance.secrecy import Watch
from svir_client import AsyncClient, Transport
from svir_client.testing import End, MockServer, Reply
from svir_core.errors import ConfigError
from svir_transport.h11 import H11Transport
from svir_transport.httpx import HttpxTransport

TRANSPORTS: Mapping[str, Callable[[], Transport]] = {"h11": H11Transport, "httpx2": HttpxTransport}
"""Every transport runs every case."""

BACKENDS = ("asyncio", "trio")

CASE_SECONDS = 60.0
"""No case of the notation lasts so long: one that does hangs."""

CLOSED_SECONDS = 1.0
"""How soon after the client's last action the server must see the connection closed (13)."""

ORIGIN = "{server}"

DEFAULT_TIMEOUT_MS = 300_000.0
"""The client's own default for head and idle (00 section 5)."""


@attrs.frozen
class _Config:
    """What the client is made with; ``{server}`` still stands in the URL."""

    base_urls: Sequence[str] = (ORIGIN,)
    api_key: str | None = None
    headers: Sequence[tuple[str, str]] = ()
    timeout_ms: float = DEFAULT_TIMEOUT_MS
    allow_http: bool = False

    def client(self, base_url: str, transport: Transport) -> AsyncClient:
        """The client; ``ConfigError`` when the configuration is rejected."""
        return AsyncClient.openai(
            base_url,
            api_key=self.api_key,
            headers=self.headers,
            allow_http=self.allow_http,
            transport=transport,
            include_usage=False,
            idle_timeout=self.timeout_ms / 1000,
        )


MakeReply: TypeAlias = Callable[[str], Reply]
"""A reply, made when the server's origin is known."""


@attrs.frozen
class _Case:
    config: _Config
    expect_config: str | None
    replies: Sequence[MakeReply]
    calls: Sequence[CallScript]
    requests: Sequence[ExpectedRequest] | None
    closed: bool


def read(path: Path, document: Json, api: str) -> Case:
    """The variants of one case; ``CaseError`` when it is not in the notation."""
    if api != "openai_chat":
        raise CaseError(f"no client speaks {api}")
    with Fields(document, "case") as fields:
        fields.optional("description", text, "")
        case = _Case(
            fields.optional("config", _config, _Config()),
            fields.optional("expect_config", one_of("accepted", "rejected"), None),
            fields.optional("server", items(partial(_reply, path.parent)), ()),
            fields.optional("calls", items(call_script), ()),
            fields.optional("expect_requests", expected_requests, None),
            fields.optional("expect_closed", flag, False),
        )
        notes = fields.optional("open", items(text), ())
    if case.expect_config is not None and case.calls:
        raise CaseError("case: with expect_config the client is only constructed, and makes no calls")
    if case.expect_config is None and not case.calls:
        raise CaseError("case: calls or expect_config is expected")
    return Case(list(_variants(case)), notes)


def _variants(case: _Case) -> Iterator[Variant]:
    several = len(case.config.base_urls) > 1
    for name, transport in TRANSPORTS.items():
        for backend in BACKENDS:
            for base_url in case.config.base_urls:
                labels = (name, backend, base_url) if several else (name, backend)
                yield Variant(labels, partial(_run, case, transport, backend, base_url))


def _run(case: _Case, transport: Callable[[], Transport], backend: str, base_url: str) -> list[str]:
    return anyio.run(_run_within_limit, case, transport, base_url, backend=backend)


async def _run_within_limit(case: _Case, make_transport: Callable[[], Transport], base_url: str) -> list[str]:
    with anyio.fail_after(CASE_SECONDS):
        async with MockServer() as server:
            server.add(*(reply(server.origin) for reply in case.replies))
            transport = make_transport()
            try:
                return await _run_case(case, transport, server, base_url.replace(ORIGIN, server.origin))
            finally:
                await transport.aclose()


async def _run_case(case: _Case, transport: Transport, server: MockServer, base_url: str) -> list[str]:
    with Watch([case.config.api_key, *(value for _, value in case.config.headers)], server) as watch:
        problems = await _run_watched(case, transport, server, base_url, watch)
    return problems + watch.problems


async def _run_watched(case: _Case, transport: Transport, server: MockServer, base_url: str, watch: Watch) -> list[str]:
    rejected = case.expect_config == "rejected"
    try:
        client = case.config.client(base_url, transport)
    except ConfigError as error:
        watch.error(error)
        return [] if rejected else [f"expected the configuration to be accepted, got {error.detail}"]
    if rejected:
        return ["expected the configuration to be rejected, and it was accepted"]
    async with client:
        watch.configuration(client)
        return await _run_calls(case, client, server, watch)


async def _run_calls(case: _Case, client: AsyncClient, server: MockServer, watch: Watch) -> list[str]:
    problems: list[str] = []
    for number, script in enumerate(case.calls):
        actual = await perform(client, script)
        watch.outcome(actual)
        found = [] if script.expect is None else script.expect.problems(actual)
        problems += [f"call {number}: {problem}" for problem in found]
    if case.closed:
        with anyio.move_on_after(CLOSED_SECONDS) as scope:
            await server.wait_closed()
        if scope.cancelled_caught:
            problems.append("the connection was not closed within 1 s")
    return problems + await problems_of_requests(server, case.requests)


# --- reading -------------------------------------------------------------------------------------


def _config(value: Json, where: str) -> _Config:
    with Fields(value, where) as fields:
        return _Config(
            fields.optional("base_url", one_or_more(text), (ORIGIN,)),
            fields.optional("api_key", nullable(text), None),
            fields.optional("headers", header_pairs, ()),
            fields.optional("timeout_ms", positive, DEFAULT_TIMEOUT_MS),
            fields.optional("allow_http", flag, False),
        )


def _reply(folder: Path, value: Json, where: str) -> MakeReply:
    with Fields(value, where) as fields:
        if "stall" in fields:
            fields.required("stall", one_of("headers"))
            return lambda origin: Reply.silence()
        status = fields.optional("status", positive, 200)
        headers = fields.optional("headers", header_pairs, ())
        body = _body(fields, folder)
        end = End.STALL if fields.optional("then", one_of("stall"), None) else End.FINISH
    return lambda origin: Reply(
        status, tuple((name, value.replace(ORIGIN, origin)) for name, value in headers), body, end=end
    )


def _body(fields: Fields, folder: Path) -> tuple[bytes, ...] | None:
    if "body" not in fields and "body_file" not in fields:
        return None
    if fields.only("body", "body_file") == "body":
        data = fields.required("body", content)
    else:
        data = load_fixture(folder, fields.required("body_file", text), f"{fields.where}.body_file")
    return (cut(data, fields),)
