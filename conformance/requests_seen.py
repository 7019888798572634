"""What a case expects of the requests the server saw, and what must hold for each of them (13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import anyio
import attrs

from conformance.fields import CaseError, Fields, Json, anything, items, mapping, parse, text
from conformance.outcome import equal, shown
from svir_client.testing import MockServer, RecordedRequest

ARRIVAL_SECONDS = 1.0
"""A request that was cancelled may still be under way to the server when the call is over."""


@attrs.frozen
class ExpectedRequest:
    """One entry of ``expect_requests``; what it does not name is not compared."""

    method: str | None
    path: str | None
    headers: Mapping[str, str]
    absent_headers: Sequence[str]
    body_includes: Mapping[str, Json]
    body_excludes: Sequence[str]

    def problems(self, request: RecordedRequest, origin: str) -> list[str]:
        """Every difference, in words."""
        problems: list[str] = []
        if self.method is not None and request.method != self.method:
            problems.append(f"method: expected {shown(self.method)}, got {shown(request.method)}")
        if self.path is not None and request.target != self.path:
            problems.append(f"path: expected {shown(self.path)}, got {shown(request.target)}")
        for name, value in self.headers.items():
            values = request.header_values(name)
            if values != (value.replace("{server}", origin),):
                problems.append(f"header {name}: expected once {shown(value)}, got {shown(values)}")
        problems += [
            f"header {name}: expected none" for name in self.absent_headers if request.header(name) is not None
        ]
        return problems + self._body_problems(request)

    def _body_problems(self, request: RecordedRequest) -> list[str]:
        if not self.body_includes and not self.body_excludes:
            return []
        try:
            body = parse(request.body)
        except CaseError as error:
            return [f"the body is {error}"]
        if not isinstance(body, dict):
            return ["the body is no object"]
        problems = [f"body: {name!r} is there" for name in self.body_excludes if name in body]
        for name, value in self.body_includes.items():
            if name not in body:
                problems.append(f"body: {name!r} is missing")
            elif not equal(value, body[name]):
                problems.append(f"body {name!r}: expected {shown(value)}, got {shown(body[name])}")
        return problems


def expected_requests(value: Json, where: str) -> Sequence[ExpectedRequest] | None:
    """The list, or ``{"open": note}``, with which nothing is compared."""
    if isinstance(value, dict):
        with Fields(value, where) as fields:
            fields.required("open", text)
        return None
    return items(_expected_request)(value, where)


def _expected_request(value: Json, where: str) -> ExpectedRequest:
    with Fields(value, where) as fields:
        return ExpectedRequest(
            fields.optional("method", text, None),
            fields.optional("path", text, None),
            fields.optional("headers", mapping(text), dict[str, str]()),
            fields.optional("absent_headers", items(text), ()),
            fields.optional("body_includes", mapping(anything), dict[str, Json]()),
            fields.optional("body_excludes", items(text), ()),
        )


async def problems_of_requests(server: MockServer, expected: Sequence[ExpectedRequest] | None) -> list[str]:
    """Everything wrong with the requests the server saw."""
    if expected is not None:
        with anyio.move_on_after(ARRIVAL_SECONDS):
            await server.wait_requests(len(expected))
    problems: list[str] = []
    if server.unscripted:
        problems.append(f"{server.unscripted} requests came beyond the script")
    seen = server.requests
    if expected is not None and len(expected) != len(seen):
        problems.append(f"expected {len(expected)} requests, got {len(seen)}")
    for number, request in enumerate(seen):
        found = _general(request)
        if expected is not None and number < len(expected):
            found += expected[number].problems(request, server.origin)
        problems += [f"request {number}: {problem}" for problem in found]
    for connection in server.connections:
        if connection.fault is not None:
            problems.append(f"connection {connection.number}: no HTTP: {connection.fault}")
        if connection.trailing:
            problems.append(f"connection {connection.number}: {connection.trailing} bytes beyond the content-length")
    return problems


def _general(request: RecordedRequest) -> list[str]:
    """What holds for every POST: JSON, its exact length, never chunked."""
    if request.method != "POST":
        return []
    problems: list[str] = []
    if request.header_values("content-type") != ("application/json",):
        problems.append(f"content-type is {shown(request.header_values('content-type'))}")
    if request.header_values("content-length") != (str(len(request.body)),):
        problems.append(
            f"content-length is {shown(request.header_values('content-length'))} for {len(request.body)} bytes"
        )
    if request.header("transfer-encoding") is not None:
        problems.append("a transfer-encoding was sent")
    return problems
