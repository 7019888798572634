"""The transport of svir over a client of httpx2 or httpx, for asyncio and trio alike (30-client section 1)."""

from svir_transport.httpx.response import HttpxResponse
from svir_transport.httpx.transport import HttpxTransport

__all__ = ("HttpxResponse", "HttpxTransport")
