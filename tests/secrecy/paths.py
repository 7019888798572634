"""Every way in which a call can fail, as a table: its name, its error, and how to get there over a real socket."""

from __future__ import annotations

import inspect
import json
import pathlib
import socket
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, cast

import attrs
import trustme

from svir_client import AsyncClient, Client, RawStream, Stream, SyncRawStream, SyncStream
from svir_client.testing import End, Framing, Reply
from svir_client.transport import Transport
from svir_core.errors import (
    AttachmentError,
    AuthenticationError,
    ConfigError,
    ContentFilterError,
    ContextOverflowError,
    ProtocolError,
    RateLimitedError,
    ResponseLimitError,
    ResponseTimeoutError,
    ServerError,
    SvirError,
    TransportError,
    TruncatedStreamError,
    UnsupportedError,
)
from svir_core.event import TextDelta
from svir_core.limits import DOCUMENT_BYTES, Limits
from svir_core.message import Image, Message, TextFile
from svir_core.request import Effort, Request, ToolChoice
from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from svir_core.wire.api import Api
from tests.secrecy.canary import CALL_HEADER, HEADER, HOST, KEY, PATH, QUERY, SERVER, TOKEN
from tests.svir_client.chat import DONE, FINISH, chunk, text

HI = Request("m").user("hi")

ECHO = f"{SERVER} {KEY} {TOKEN}"
"""What the server says, of the key and of a sensitive header too."""


AnyClient = AsyncClient | Client


@attrs.frozen
class Site:
    """A server that is there, a transport, and what a client of it is made with.

    Attributes:
        kind: the class of its clients.
        api: the constructor of that class.
    """

    origin: str
    transport: Transport
    kind: type[AsyncClient] | type[Client] = AsyncClient
    api: str = "openai"

    def make(self, base: Any, **options: Any) -> AnyClient:
        """A client of these options alone."""
        make: Callable[..., AnyClient] = getattr(self.kind, self.api)
        return make(base, **options)

    def client(self, base: str | None = None, **options: Any) -> AnyClient:
        """A client that was given every canary of its caller."""
        given: dict[str, Any] = {
            "api_key": KEY,
            "headers": {"x-tenant": HEADER, "x-session-token": TOKEN},
            "endpoint": f"{self.origin}/{PATH}/chat?api-version={QUERY}",
            "transport": self.transport,
            "idle_timeout": 5,
        }
        if self.api == "gemini":
            del given["endpoint"]  # a URL for each model, made of the base
        return self.make(f"{self.origin}/{PATH}" if base is None else base, **{**given, **options})


Call = Callable[[AnyClient, Request], Awaitable[object]]


async def done(value: object) -> None:
    """Wait until a call is over: one of a blocking client is, once it returns."""
    if inspect.isawaitable(value):
        await value


async def read_all(response: Stream | RawStream | SyncStream | SyncRawStream) -> None:
    """Enter a response, and read it to its end."""
    if isinstance(response, Stream | RawStream):
        async with response:
            async for _ in response:
                pass
        return
    with response:
        for _ in response:
            pass


async def complete(client: AnyClient, request: Request) -> None:
    await done(client.complete(request, headers={"x-call": CALL_HEADER}))


async def stream(client: AnyClient, request: Request) -> None:
    await read_all(client.stream(request, headers={"x-call": CALL_HEADER}))


async def send(client: AnyClient, request: Request) -> None:
    await read_all(client.send(request, headers={"x-call": CALL_HEADER}))


async def list_models(client: AnyClient, _request: Request) -> None:
    await done(client.list_models())


async def count_tokens(client: AnyClient, request: Request) -> None:
    await done(client.count_tokens(request, headers={"x-call": CALL_HEADER}))


@attrs.frozen
class ErrorPath:
    """One way to an error.

    Attributes:
        name: of the test.
        error: its class, exactly.
        run: gets there.
        replies: what the server says.
        tls: the server's context, when it speaks https.
        not_over: a transport that this path is not for.
    """

    name: str
    error: type[Exception]
    run: Callable[[Site], Coroutine[Any, Any, object]]
    replies: tuple[Reply, ...] = ()
    tls: ssl.SSLContext | None = None
    not_over: str | None = None


def calling(
    name: str,
    error: type[Exception],
    *replies: Reply,
    call: Call = stream,
    request: Request = HI,
    base: str | None = None,
    tls: ssl.SSLContext | None = None,
    **options: Any,
) -> ErrorPath:
    """A path by a call of a client that could be made."""

    async def run(site: Site) -> None:
        client = site.client(base, **{"include_usage": False, **options})
        await call(client, request)

    return ErrorPath(name, error, run, replies, tls)


# --- refusals --------------------------------------------------------------------------------------

HEADERS = {"x-request-id": SERVER, "location": f"http://127.0.0.1/{SERVER}", "retry-after": SERVER, "server": SERVER}

STATUSES: dict[int, type[SvirError]] = {
    302: UnsupportedError,
    400: UnsupportedError,
    401: AuthenticationError,
    403: AuthenticationError,
    404: UnsupportedError,
    408: ResponseTimeoutError,
    413: UnsupportedError,
    418: UnsupportedError,
    422: UnsupportedError,
    425: TransportError,
    429: RateLimitedError,
    500: TransportError,
    503: TransportError,
    504: ResponseTimeoutError,
    524: TransportError,
    529: RateLimitedError,
    599: UnsupportedError,
}

BODIES: dict[str, bytes] = {
    "an object": json.dumps({"error": {"message": ECHO, "code": ECHO, "type": ECHO, "param": ECHO}}).encode(),
    "a string": json.dumps({"error": ECHO}).encode(),
    "a detail": json.dumps({"detail": ECHO}).encode(),
    "a located detail": json.dumps({"detail": [{"loc": ["body", ECHO], "msg": ECHO, "type": ECHO}] * 3}).encode(),
    "a list": json.dumps([{"error": {"message": ECHO}}]).encode(),
    "a nested detail": json.dumps({"message": {"detail": [{"loc": ["body", ECHO], "msg": ECHO}]}}).encode(),
    "base_resp": json.dumps({"base_resp": {"status_code": 1, "status_msg": ECHO}}).encode(),
    "other json": json.dumps({ECHO: [ECHO]}).encode(),
    "a page": f"<html>{ECHO}</html>".encode(),
    "words": ECHO.encode(),
    "no utf-8": b"\xff" + ECHO.encode(),
    "cut json": b'{"error":{"message":"' + ECHO.encode(),
    "too much": ECHO.encode() * 8000,
}


def refusal(status: int, body: bytes, **settings: Any) -> Reply:
    return Reply(status, {"content-type": f"application/json; x={SERVER}", **HEADERS}, (body,), **settings)


def refusals() -> Iterator[ErrorPath]:
    said = BODIES["an object"]
    for status, error in STATUSES.items():
        for call in (complete, send, list_models):
            yield calling(f"status {status}, {call.__name__}", error, refusal(status, said), call=call)
    for name, body in BODIES.items():
        yield calling(f"a refusal that is {name}", UnsupportedError, refusal(400, body))
        yield calling(f"a failure that is {name}", TransportError, refusal(500, body))
    overflow = json.dumps({"error": {"message": f"{ECHO} context length"}}).encode()
    yield calling("an overflow", ContextOverflowError, refusal(400, overflow))
    filtered = json.dumps({"error": {"message": ECHO, "code": "content_filter", "innererror": {ECHO: ECHO}}})
    yield calling("a filtered prompt", ContentFilterError, refusal(422, filtered.encode()))
    yield calling(
        "a lean retry that fails too", UnsupportedError, refusal(400, said), refusal(401, said), include_usage=True
    )
    yield calling(
        "a lean retry that is cut off",
        UnsupportedError,
        refusal(400, said),
        Reply(raw=b"", end=End.RESET),
        request=HI.replace(effort=Effort.LOW),
    )
    yield calling("a refusal that stalls", TransportError, refusal(500, said, end=End.STALL))
    yield calling("a refusal that is reset", TransportError, refusal(500, said, end=End.RESET))
    yield calling(
        "a refusal that is compressed",
        UnsupportedError,
        Reply(400, {"content-encoding": SERVER}, (SERVER.encode(),)),
    )
    for kind in (f"text/{SERVER}", "text/html", "application/json"):
        yield calling(f"a success of {kind}", UnsupportedError, Reply(200, {"content-type": kind}, (SERVER.encode(),)))
    yield calling("a success without a type", UnsupportedError, Reply(200, {}, (SERVER.encode(),)))
    yield calling(
        "a compressed success",
        UnsupportedError,
        Reply(200, {"content-type": "text/event-stream", "content-encoding": SERVER}, (SERVER.encode(),)),
    )


# --- streams that go wrong -------------------------------------------------------------------------


NOTHING: dict[str, Any] = {}


def sse(value: object, event: str | None = None) -> bytes:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return (b"" if event is None else f"event: {event}\n".encode()) + b"data: " + data + b"\n\n"


def call_piece(**fields: Any) -> bytes:
    return chunk({"tool_calls": [{"index": 0, "type": "function", **fields}]})


_CALL = call_piece(id="c1", function={"name": "f", "arguments": "{}"})

STREAMS: dict[str, tuple[type[SvirError], tuple[bytes, ...]]] = {
    "an error": (ServerError, (sse({"error": {"message": ECHO, "code": ECHO}}),)),
    "an error string": (ServerError, (sse({"error": ECHO}),)),
    "an error list": (ServerError, (sse({"error": [ECHO]}),)),
    "an error event": (ServerError, (sse({"message": ECHO}, "error"),)),
    "an error event in words": (ServerError, (sse(ECHO.encode(), "error"),)),
    "an overflow": (ContextOverflowError, (sse({"error": f"{ECHO} context window"}),)),
    "a detail": (ServerError, (sse({"detail": [{"loc": ["body", ECHO], "msg": ECHO}]}),)),
    "an error of a choice": (ServerError, (sse({"choices": [{"index": 0, "error": {"message": ECHO}}]}),)),
    "an error finish": (
        ServerError,
        (sse({"choices": [{"index": 0, "delta": NOTHING, "finish_reason": "error"}], "x": ECHO}),),
    ),
    "base_resp": (ServerError, (sse({"base_resp": {"status_code": 9, "status_msg": ECHO}}),)),
    "bare json": (ServerError, (json.dumps({"error": {"message": ECHO}}, indent=1).encode() + b"\n",)),
    "an error field": (ServerError, (b'error: {"message": "' + ECHO.encode() + b'"}\n\n',)),
    "an unknown field": (UnsupportedError, (SERVER.encode() + b": " + ECHO.encode() + b"\n\n",)),
    "an unknown event": (UnsupportedError, (sse({"x": ECHO}, SERVER),)),
    "no json": (ProtocolError, (sse(ECHO.encode()),)),
    "no object": (ProtocolError, (sse([ECHO]),)),
    "no utf-8": (ProtocolError, (sse(b"\xff" + ECHO.encode()),)),
    "an unknown delta key": (UnsupportedError, (chunk({ECHO: ECHO}),)),
    "a wrong type": (ProtocolError, (chunk({"content": {ECHO: ECHO}}),)),
    "a wrong role": (ProtocolError, (chunk({"role": [ECHO]}),)),
    "an unknown finish": (UnsupportedError, (chunk({"content": "x"}, ECHO),)),
    "a finish that is no string": (
        UnsupportedError,
        (sse({"choices": [{"index": 0, "delta": NOTHING, "finish_reason": [ECHO]}]}),),
    ),
    "a changed id": (ProtocolError, (sse({"id": ECHO, "choices": [{"index": 0, "delta": {"content": "x"}}]}),)),
    "a changed model": (
        ProtocolError,
        (sse({"id": "c", "model": ECHO, "choices": [{"index": 0, "delta": NOTHING}]}),),
    ),
    "another choice": (UnsupportedError, (sse({"id": "c", "choices": [{"index": 1, "delta": {"content": ECHO}}]}),)),
    "an index that is none": (ProtocolError, (sse({"id": "c", "choices": [{"index": ECHO, "delta": NOTHING}]}),)),
    "no choices": (ProtocolError, (sse({"id": "c", "choices": [], "x": ECHO}),)),
    "a changed call id": (ProtocolError, (_CALL, call_piece(id=ECHO))),
    "a call whose name is none": (ProtocolError, (call_piece(id="c1", function={"name": [ECHO]}),)),
    "a call of another kind": (UnsupportedError, (call_piece(id="c1", type=ECHO),)),
    "a call that is none": (ProtocolError, (chunk({"tool_calls": [ECHO]}),)),
    "a call without an index": (ProtocolError, (chunk({"tool_calls": [{"id": ECHO}]}),)),
    "a call without a name": (ProtocolError, (call_piece(id="c1", x=ECHO), chunk({}, "tool_calls"), DONE)),
    "too many calls": (ResponseLimitError, (chunk({"tool_calls": [{"index": 64, "id": ECHO}]}),)),
    "a refusal in an answer": (ProtocolError, (chunk({"refusal": ECHO}),)),
    "more after the finish": (UnsupportedError, (FINISH, text(ECHO))),
    "a finish that does not fit": (ProtocolError, (chunk({}, "tool_calls", x=ECHO), DONE)),
    "usage that is none": (
        ProtocolError,
        (sse({"id": "c", "choices": [{"index": 0, "delta": NOTHING}], "usage": [ECHO]}),),
    ),
    "figures that are none": (ProtocolError, (chunk({}, usage={"prompt_tokens": ECHO, "completion_tokens": 1}),)),
    "an early end": (TruncatedStreamError, (DONE + ECHO.encode(),)),
    "an end inside an event": (TruncatedStreamError, (b'data: {"x": "' + ECHO.encode(),)),
    "an endless event": (ResponseLimitError, (b"data: " + ECHO.encode() * 20_000,)),
    "a deep nest": (ProtocolError, (sse(b'{"x":' * 1100 + b'"' + ECHO.encode() + b'"' + b"}" * 1100),)),
}

BODIES_IN_PLACE: dict[str, tuple[type[SvirError], bytes]] = {
    "a page": (UnsupportedError, b"<html>" + ECHO.encode()),
    "gzip": (UnsupportedError, b"\x1f\x8b" + ECHO.encode()),
    "a document": (UnsupportedError, json.dumps({"x": ECHO}).encode()),
    "an error": (ServerError, json.dumps({"error": {"message": ECHO}}).encode()),
    "nothing": (TruncatedStreamError, b""),
}


NEUTRAL = ("an error event in words", "an unknown field", "no json", "no object", "no utf-8",
           "an end inside an event", "an endless event", "a deep nest")  # fmt: skip
"""Streams that are wrong for every API."""


def begun(api: Api) -> tuple[bytes, ...]:
    """The pieces of an answer up to its first words."""
    return tuple(piece for piece in Reply.events(TextDelta("Hel"), api=api).body or () if isinstance(piece, bytes))


def streams_of(api: Api) -> Iterator[ErrorPath]:
    """Streams of an API that go wrong after their first words."""
    said = begun(api)
    for name in NEUTRAL:
        error, pieces = STREAMS[name]
        reply = Reply(200, {"content-type": "text/event-stream", **HEADERS}, (*said, *pieces))
        for call in (complete, stream):
            # Responses has another default for an event
            limits = Limits(event_bytes=200_000)
            yield calling(f"a stream with {name}, {call.__name__}", error, reply, call=call, limits=limits)
    failed = Reply.events(TextDelta("Hello"), ServerError(ECHO), api=api)
    yield calling("an error in a stream", ServerError, failed)
    yield calling("a stream that ends early", TruncatedStreamError, Reply.stream(*said))
    yield calling("too many bytes", ResponseLimitError, Reply.stream(*said), limits=Limits(wire_bytes=50))


def streams() -> Iterator[ErrorPath]:
    for name, (error, pieces) in STREAMS.items():
        reply = Reply(200, {"content-type": "text/event-stream", **HEADERS}, (text("Hello"), *pieces))
        if name == "a call of another kind":
            yield calling(f"a stream with {name}", error, reply)
            continue
        for call in (complete, stream):
            # Responses has another default for an event
            limits = Limits(event_bytes=200_000)
            yield calling(f"a stream with {name}, {call.__name__}", error, reply, call=call, limits=limits)
    for name, (error, body) in BODIES_IN_PLACE.items():
        yield calling(f"{name} for a stream", error, Reply.stream(body))
    yield calling("too many bytes", ResponseLimitError, Reply.stream(text(ECHO)), limits=Limits(wire_bytes=50))
    for mode in ("strict", "lenient"):
        yield calling(f"a cut stream, {mode}", TruncatedStreamError, Reply.stream(text("a")), mode=mode)
    yield calling(
        "a document that is too long",
        ResponseLimitError,
        Reply(200, {"content-type": "application/json"}, (b'{"x":"' + ECHO.encode() + b"x" * DOCUMENT_BYTES,)),
        mode="lenient",
    )


# --- listings --------------------------------------------------------------------------------------

LISTINGS: dict[str, tuple[type[SvirError], bytes]] = {
    "a failure": (ServerError, json.dumps({"error": {"message": ECHO}}).encode()),
    "no json": (ProtocolError, ECHO.encode()),
    "no list": (ProtocolError, json.dumps({"data": ECHO}).encode()),
    "a model without an id": (ProtocolError, json.dumps({"data": [{"name": ECHO}]}).encode()),
    "too much": (ResponseLimitError, ECHO.encode() + b" " * DOCUMENT_BYTES),
}


def listings() -> Iterator[ErrorPath]:
    for name, (error, body) in LISTINGS.items():
        reply = Reply(200, {"content-type": "application/json"}, (body,))
        yield calling(f"a listing that is {name}", error, reply, call=list_models)
    cut = Reply(200, {"content-type": "application/json"}, (SERVER.encode(),), framing=Framing.LENGTH, cut=15)
    yield calling("a listing that is cut off", TransportError, cut, call=list_models)


# --- the wire --------------------------------------------------------------------------------------

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"

RAW: dict[str, tuple[type[SvirError], bytes]] = {
    "no http": (ProtocolError, SERVER.encode() + b"\r\n\r\n"),
    "a bad header": (ProtocolError, _HEAD + SERVER.encode() + b"\r\n\r\n"),
    "a bad length": (ProtocolError, _HEAD + b"content-length: " + SERVER.encode() + b"\r\n\r\n"),
    "half a head": (TransportError, _HEAD + b"x: " + SERVER.encode()),
    "an endless head": (ResponseLimitError, _HEAD + b"x: " + SERVER.encode() * 20_000),
    "a switch of protocols": (ProtocolError, b"HTTP/1.1 101 " + SERVER.encode() + b"\r\nupgrade: x\r\n\r\n"),
}

_BAD_CHUNK = Reply(raw=_HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n" + SERVER.encode() + b"\r\n")


def of_nobody() -> ssl.SSLContext:
    """A server's side of TLS, with a certificate that no client trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate: Any = trustme.CA().issue_cert("127.0.0.1")
    certificate.configure_cert(context)
    return context


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def wires(api: Api = openai_chat.API) -> Iterator[ErrorPath]:
    for name, (error, raw) in RAW.items():
        yield calling(f"{name} for a response", error, Reply(raw=raw, end=End.CLOSE))
    yield calling("a chunk that is none", ProtocolError, _BAD_CHUNK)
    yield calling("a chunk that is none, relayed", ProtocolError, _BAD_CHUNK, call=send)
    yield calling("no answer", ResponseTimeoutError, Reply.silence(), idle_timeout=0.1)
    for call in (complete, stream, send):
        stalled = Reply.stream(*begun(api), end=End.STALL)
        yield calling(f"silence inside, {call.__name__}", ResponseTimeoutError, stalled, idle_timeout=0.1, call=call)
        reset = Reply.stream(*begun(api), framing=Framing.CHUNKED, end=End.RESET)
        cut = TransportError if call is send else TruncatedStreamError
        yield calling(f"a reset inside, {call.__name__}", cut, reset, call=call)
    yield calling("a reset in place of a head", TransportError, Reply(raw=b"", end=End.RESET))
    refused = f"http://127.0.0.1:{closed_port()}"
    for attempt in (complete, list_models):
        yield calling(
            f"nobody there, {attempt.__name__}",
            TransportError,
            call=attempt,
            base=f"{refused}/{PATH}",
            endpoint=f"{refused}/{PATH}",
        )
    yield calling(
        "a name that is none",
        TransportError,
        endpoint=f"https://{HOST}/{PATH}?api-version={QUERY}",
    )
    yield calling("a certificate of nobody", TransportError, tls=of_nobody())

    async def plain(site: Site) -> None:
        secure = site.origin.replace("http:", "https:")
        await complete(site.client(f"{secure}/{PATH}", endpoint=f"{secure}/{PATH}?{QUERY}", connect_timeout=0.2), HI)

    # httpx2 2.16 leaves the socket of a TLS handshake that ran out of time to the collector, which warns
    yield ErrorPath("no TLS where TLS is asked for", ResponseTimeoutError, plain, not_over="httpx2")


# --- the caller's own mistakes -----------------------------------------------------------------------


def making(name: str, *, base: Any = f"http://127.0.0.1:1/{PATH}", **options: Any) -> ErrorPath:
    """A client that cannot be made."""

    async def run(site: Site) -> None:
        given: dict[str, Any] = {"api_key": KEY, "headers": {"x-tenant": HEADER}, **options}
        site.make(base, **given)

    return ErrorPath(f"making a client with {name}", ConfigError, run)


ENVIRONMENT = {"SVIR_URL": f"ftp://{HOST}/{PATH}?{QUERY}", "SVIR_API_KEY": f"{KEY}\t{KEY}", "CANARY_KEY": f"two {KEY}"}
"""What the variables hold while a path is gone."""


async def _from_env(site: Site) -> None:
    site.kind.from_env(headers={"x-tenant": HEADER})


def _key_file(name: str, content: bytes) -> ErrorPath:
    """A client whose key is in a file that holds none."""

    async def run(site: Site) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "key"
            path.write_bytes(content)
            site.make(f"http://127.0.0.1:1/{PATH}", api_key_file=path, headers={"x-tenant": HEADER})

    return ErrorPath(f"a key file with {name}", ConfigError, run)


def mistakes() -> Iterator[ErrorPath]:
    yield ErrorPath("an environment that is wrong", ConfigError, _from_env)
    yield making("a variable without a key", api_key=None, api_key_env="CANARY_KEY")
    yield making("a variable that is not there", api_key=None, api_key_env="CANARY_NONE")
    yield making("a key file that is not there", api_key=None, api_key_file="/nowhere/key")
    yield _key_file("two lines", f"{KEY}\n{KEY}\n".encode())
    yield _key_file("no utf-8", b"\xff" + KEY.encode())
    yield _key_file("too much", KEY.encode() * 5000)
    yield making("user and password in the URL", base=f"http://{KEY}:{KEY}@127.0.0.1/{PATH}")
    yield making("a query in the base URL", base=f"http://127.0.0.1/{PATH}?{QUERY}")
    yield making("a fragment", base=f"http://127.0.0.1/{PATH}#{QUERY}")
    yield making("another scheme", base=f"ftp://{HOST}/{PATH}")
    yield making("plain http elsewhere", base=f"http://{HOST}/{PATH}")
    yield making("a host that is none", base=f"https://{HOST}../{PATH}")
    yield making("an address that is none", base=f"https://[{HOST}]/{PATH}")
    yield making("a port that is none", base=f"http://127.0.0.1:{QUERY}/{PATH}")
    yield making("a port out of range", base=f"http://127.0.0.1:99999/{PATH}")
    yield making("a path to encode", base=f"http://127.0.0.1/{PATH}/[]")
    yield making("a blank in the URL", base=f"http://127.0.0.1/{PATH} {QUERY}")
    yield making("an API's own path", base=f"http://127.0.0.1/{PATH}/v1/chat/completions")
    yield making("a base URL that is bytes", base=f"http://127.0.0.1/{PATH}".encode())
    yield making("an endpoint elsewhere", endpoint=f"http://{HOST}/{PATH}?{QUERY}")
    yield making("an endpoint with a password", endpoint=f"http://{KEY}@127.0.0.1/{PATH}?{QUERY}")
    yield making("a header with a line end", headers={"x-a": f"{HEADER}\r\nx-b: {HEADER}"})
    yield making("a header that is bytes", headers={"x-a": HEADER.encode()})
    yield making("a header twice", headers=[("x-a", HEADER), ("X-A", HEADER)])
    yield making("svir's own header", headers={"Authorization": f"Bearer {KEY}"})
    yield making("a header whose name is its value", headers={f"{HEADER}: {HEADER}": "1"})
    yield making("headers that are none", headers=[HEADER])
    yield making("headers that are text", headers=f"x-a: {HEADER}")
    yield making("two keys", api_key_env="HOME")
    for bad in (f"{KEY}\n", f"two {KEY}", f"{KEY}\u00e9", KEY.encode(), [KEY]):
        yield making(f"the key {bad!r}".replace(KEY, "KEY"), api_key=bad)
    yield making("a bad option", connect_timeout=0)
    yield making("a bad mode", mode="quick")
    yield making("a bad transport", transport=7)
    yield making("a bad limit", limits=7)
    yield calling("a closed client", ConfigError, call=_after_close)
    yield calling("no request", ConfigError, request=cast("Request", 7))
    for call in (_bad_header, _bad_idle):
        yield calling(f"a call with {call.__name__}", ConfigError, call=call)
    for what, give in KEY_FUNCTIONS.items():
        yield calling(f"a key function that gives {what}", ConfigError, api_key=give)
    for raising in (_sealed, _sealed_later):
        yield calling(f"a key function that raises, {raising.__name__}", LookupError, api_key=raising)
    yield calling("no base URL to list", ConfigError, call=_no_base)
    yield calling("a tool that is not there", UnsupportedError, request=HI.replace(tool_choice=ToolChoice.tool("x")))
    yield calling("a full context", ContextOverflowError, context_tokens=5)
    for part in (Image.path("/nowhere/a.png"), TextFile.path("/nowhere/a.txt")):
        yield calling(
            f"no {type(part).__name__}", AttachmentError, request=Request("m").message(Message.user("x", part))
        )


async def _after_close(client: AnyClient, request: Request) -> None:
    if isinstance(client, AsyncClient):
        await client.aclose()
    else:
        client.close()
    await complete(client, request)


async def _bad_header(client: AnyClient, request: Request) -> None:
    await done(client.complete(request, headers={"x-call": f"{CALL_HEADER}\n"}))


async def _bad_idle(client: AnyClient, request: Request) -> None:
    await done(client.complete(request, headers={"x-call": CALL_HEADER}, idle_timeout=0))


async def _no_base(client: AnyClient, _request: Request) -> None:
    url = f"http://127.0.0.1/{PATH}?{QUERY}"
    await list_models(type(client).openai(None, endpoint=url, api_key=KEY, headers={"x-a": HEADER}), HI)


async def _bad_key() -> str:
    return f"{KEY}\r\nx: y"


def _sealed() -> str:
    raise LookupError("the vault is sealed")


async def _sealed_later() -> str:
    raise LookupError("the vault is sealed")


KEY_FUNCTIONS: dict[str, Callable[[], Any]] = {
    "a line end": lambda: f"{KEY}\n",
    "bytes": KEY.encode,
    "nothing": lambda: None,
    "a list": lambda: [KEY],
    "two lines, later": _bad_key,
}

PATHS: tuple[ErrorPath, ...] = (*refusals(), *streams(), *listings(), *wires(), *mistakes())


def counts() -> Iterator[ErrorPath]:
    for status, error in STATUSES.items():
        yield calling(f"counting, status {status}", error, refusal(status, BODIES["an object"]), call=count_tokens)
    for name, body in {"no json": ECHO.encode(), "no count": json.dumps({"x": ECHO}).encode()}.items():
        reply = Reply(200, {"content-type": "application/json"}, (body,))
        yield calling(f"counting, {name}", ProtocolError, reply, call=count_tokens)


APIS: dict[str, Api] = {
    "responses": openai_responses.API,
    "anthropic": anthropic_messages.API,
    "gemini": gemini.API,
}
"""The constructors beside ``openai``, and their APIs."""


def paths_of(constructor: str) -> tuple[ErrorPath, ...]:
    """The ways to an error of a client of another API."""
    api = APIS[constructor]
    return (*refusals(), *streams_of(api), *listings(), *wires(api), *counts(), *mistakes())
