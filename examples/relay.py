"""A proxy that relays Chat Completions unchanged, byte for byte as they come, and decodes them beside it.

python -m examples.relay http://127.0.0.1:1234 --port 8080

It prints one line for each call: the model, the finish, the tokens and their speed, or the kind of the
error; never a word of the text. The decoder is lenient and never in the way: a stream that it cannot
read is relayed all the same. A caller that leaves ends its upstream call at once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable
from functools import partial

import anyio
import anyio.abc
import h11
import orjson

from svir_client import files
from svir_core import Body, Completion, Endpoint, HttpRequest, SvirError, Tap
from svir_core.wire import openai_chat
from svir_transport.h11 import H11Response, H11Transport

PATH = "/v1/chat/completions"
MOST = 64 * 1024 * 1024  # of a request's body: it is kept in memory, to be sent with its length
GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)

Report = Callable[[str], object]


def line(outcome: Completion | SvirError | None) -> str:
    """What came of a call, in one line."""
    if outcome is None:
        return "no answer"
    if isinstance(outcome, SvirError):
        return f"{outcome.kind.value}: {outcome.detail}"
    usage, speed = outcome.usage, outcome.tokens_per_second
    tokens = "tokens not reported" if usage is None else f"{usage.input} + {usage.output} tokens"
    return f"{outcome.finish.value}, {tokens}" + ("" if speed is None else f", {speed:.1f} tokens/s")


class Caller:
    """One connection of a caller: one request, one response."""

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.SERVER)

    async def request(self) -> tuple[h11.Request, bytes]:
        """The request and its whole body; raises ``h11.RemoteProtocolError`` when it is none."""
        request: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._more())
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > MOST:
                    raise h11.RemoteProtocolError("the body is too large", error_status_hint=413)
            elif request is not None and isinstance(event, h11.EndOfMessage):
                return request, bytes(body)
            else:
                raise h11.RemoteProtocolError("no request came")

    async def _more(self) -> bytes:
        if self._http.they_are_waiting_for_100_continue:
            await self.send(h11.InformationalResponse(status_code=100, headers=[]))
        try:
            return await self._stream.receive()
        except anyio.EndOfStream:
            return b""

    async def send(self, *events: h11.Event) -> None:
        """Write a part of the response."""
        for event in events:
            await self._stream.send(self._http.send(event) or b"")

    async def refuse(self, status: int, message: str) -> None:
        """Answer with an error in the shape that clients of this API know."""
        body = orjson.dumps({"error": {"message": message, "type": "relay_error", "param": None, "code": None}})
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        head = h11.Response(status_code=status, headers=headers)
        await self.send(head, h11.Data(data=body), h11.EndOfMessage())

    async def relay(self, response: H11Response, tap: Tap) -> None:
        """Pass ``response`` on as it comes. When it breaks off, so does this one: without its end."""
        kind = response.head.get("content-type") or "application/octet-stream"
        headers = [("content-type", kind), ("transfer-encoding", "chunked"), ("connection", "close")]
        await self.send(h11.Response(status_code=response.head.status, headers=headers))
        async for data in response:
            await self.send(h11.Data(data=data))
            tap.push(data)
        await self.send(h11.EndOfMessage())

    async def left(self, scope: anyio.CancelScope) -> None:
        """Cancel ``scope`` when the caller closes its connection: after the request, nothing else can come."""
        try:
            await self._stream.receive(1)
        except GONE:
            scope.cancel()


def upstream_request(endpoint: Endpoint, body: bytes) -> HttpRequest:
    """The caller's body, unchanged, with the relay's own key."""
    keys = () if endpoint.key is None else openai_chat.API.key_headers(endpoint.key)
    url = endpoint.for_requests(PATH)
    return endpoint.request("POST", url, "text/event-stream", key_headers=keys, body=Body((body,)))


async def call(caller: Caller, body: bytes, transport: H11Transport, endpoint: Endpoint) -> str:
    """One upstream call, relayed; what came of it."""
    request = upstream_request(endpoint, body)
    tap = Tap(openai_chat.Decoder(mode="lenient"))
    try:
        response = await transport.open(request, None if request.body is None else files.stream(request.body))
    except SvirError as error:
        await caller.refuse(502, error.detail)
        return line(error)
    try:
        await caller.relay(response, tap)
    except SvirError as error:
        tap.finish()
        return f"cut off, {line(error)}"
    finally:
        await response.aclose()
    tap.finish()
    return line(tap.outcome) if response.head.status == 200 else f"status {response.head.status}"


async def serve(stream: anyio.abc.ByteStream, transport: H11Transport, endpoint: Endpoint, report: Report) -> None:
    """One connection of a caller."""
    caller = Caller(stream)
    outcome = "the caller left"
    with contextlib.suppress(*GONE):
        async with stream:
            try:
                request, body = await caller.request()
            except h11.RemoteProtocolError as error:
                await caller.refuse(error.error_status_hint, str(error))
                return
            if (request.method, request.target) != (b"POST", PATH.encode()):
                await caller.refuse(404, f"the relay knows POST {PATH}")
                return
            async with anyio.create_task_group() as group:
                group.start_soon(caller.left, group.cancel_scope)
                with contextlib.suppress(*GONE):
                    outcome = await call(caller, body, transport, endpoint)
                group.cancel_scope.cancel()
    report(outcome)


async def run(endpoint: Endpoint, port: int, report: Report) -> None:
    """Relay until cancelled; the first report says where."""
    transport = H11Transport()
    try:
        async with await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port) as listener:
            address = listener.extra(anyio.abc.SocketAttribute.local_address)
            report(f"listening on http://{address[0]}:{address[1]}")
            await listener.serve(partial(serve, transport=transport, endpoint=endpoint, report=report))
    finally:
        await transport.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description="relay Chat Completions, and tell what came of each call")
    parser.add_argument("upstream", help="the base URL of the server; its key is taken from UPSTREAM_API_KEY")
    parser.add_argument("--port", type=int, default=8080)
    options = parser.parse_args()
    try:
        endpoint = Endpoint.parse(options.upstream, api_key=os.environ.get("UPSTREAM_API_KEY"))
    except SvirError as error:
        parser.error(error.detail)
    with contextlib.suppress(KeyboardInterrupt):
        anyio.run(run, endpoint, options.port, partial(print, flush=True))


if __name__ == "__main__":
    main()
