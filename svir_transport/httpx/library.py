"""httpx2 or httpx, whichever there is: found by name, imported when it is needed, and never typed against."""

from __future__ import annotations

import importlib
import importlib.util
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, NamedTuple, Protocol

from svir_core.check import an
from svir_core.errors import ConfigError
from svir_core.http_message import HttpRequest
from svir_core.secret import Withheld

NAMES: Final = ("httpx2", "httpx")
"""The libraries, the preferred one first."""


class Headers(Protocol):
    """The headers of a response."""

    @property
    def raw(self) -> list[tuple[bytes, bytes]]:
        """Names and values as they came."""
        ...


class RawBody(Protocol):
    """An async generator of a body's bytes, with whatever coding is on them."""

    async def __anext__(self) -> bytes:
        """The next bytes."""
        ...

    async def aclose(self) -> None:
        """End the generator."""
        ...


class Response(Protocol):
    """As much of a response of either library as is used here."""

    @property
    def status_code(self) -> int:
        """The status."""
        ...

    @property
    def headers(self) -> Headers:
        """The headers."""
        ...

    @property
    def extensions(self) -> dict[str, Any]:
        """``http_version`` and ``network_stream`` among others."""
        ...

    def aiter_raw(self) -> RawBody:
        """The body, once."""
        ...

    async def aclose(self) -> None:
        """Close the response."""
        ...


class Options(NamedTuple):
    """How a client of our own is made; without an ``ssl_context`` with the system's trust."""

    max_connections: int
    max_idle: int
    idle_expiry: float
    ssl_context: ssl.SSLContext | None
    http2: bool


def installed() -> str:
    """The name of the library to use; ``ConfigError`` when there is none."""
    for name in NAMES:
        if importlib.util.find_spec(name) is not None:
            return name
    raise ConfigError("HttpxTransport needs httpx2 or httpx: pip install 'svir-transport-httpx[httpx2]'")


def library_of(client: object) -> str:
    """The name of the library that ``client`` is of; ``ConfigError`` when it is of none, or not async."""
    roots = [kind.__module__.partition(".")[0] for kind in type(client).__mro__]
    name = next((root for root in roots if root in NAMES), None)
    bases = {kind.__name__ for kind in type(client).__mro__}
    if name is None or not bases & {"AsyncClient", "AsyncBaseTransport"}:
        raise ConfigError(f"client must be an AsyncClient of httpx2 or httpx, not {an(type(client))}")
    return name


def make_client(library: str, options: Options, context: ssl.SSLContext) -> Any:
    """A transport of ``library``, which is all that a client without options would add nothing to.

    It is the layer below the library's client: no redirects, no cookies, no environment, no log of URLs.
    """
    module = importlib.import_module(library)
    limits = module.Limits(
        max_connections=options.max_connections,
        max_keepalive_connections=options.max_idle,
        keepalive_expiry=options.idle_expiry,
    )
    return module.AsyncHTTPTransport(verify=context, http2=options.http2, limits=limits, trust_env=False)


async def send(client: Any, request: Withheld[Any]) -> Response:
    """Send ``request`` as it is and wait for the head: no redirects, no authentication of the client's own."""
    if hasattr(client, "handle_async_request"):
        response: Response = await client.handle_async_request(request.value)
    else:
        response = await client.send(request.value, stream=True, auth=None, follow_redirects=False)
    return response


def make_request(
    library: str, request: HttpRequest, blocks: Callable[[], AsyncIterator[bytes]], extensions: dict[str, object]
) -> Withheld[Any]:
    """The library's request: exactly these headers, and the body that ``blocks`` iterates.

    Its ``repr`` is the URL, so no local of ours holds it, nor the URL.
    """
    module = importlib.import_module(library)

    def iterate(_: object) -> AsyncIterator[bytes]:
        return blocks()

    stream: Any = type("Body", (module.AsyncByteStream,), {"__aiter__": iterate})
    made = Withheld(
        module.Request(
            request.method,
            # What stands in the `host` header is the request's own matter.
            f"{request.scheme}://{_authority(request)}{request.target}",
            headers=[(name.encode("ascii"), value.encode("ascii")) for name, value in request.headers],
            stream=stream(),
            extensions=extensions,
        )
    )
    if made.value.url.raw_path != request.target.encode("ascii"):  # the library tidies paths; the server's is as given
        made.value.extensions["target"] = request.target.encode("ascii")
    return made


def _authority(request: HttpRequest) -> str:
    return f"[{request.host}]:{request.port}" if ":" in request.host else f"{request.host}:{request.port}"


Trace = Callable[[str, dict[str, Any]], Awaitable[None]]
"""The library's ``trace`` extension: told of every step of a request by name."""
