"""The HTTP/1.1 transport of svir: h11 on anyio, for asyncio and trio alike (30-client section 1)."""

from svir_transport.h11.response import H11Response
from svir_transport.h11.transport import H11Transport

__all__ = ("H11Response", "H11Transport")
