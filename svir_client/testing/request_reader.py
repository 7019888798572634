"""One request after another from a connection, as records."""

from __future__ import annotations

import h11

from svir_client.testing.link import Link
from svir_client.testing.record import RecordedConnection, RecordedRequest


class RequestReader:
    """Reads one request, bytes of the next one kept apart."""

    def __init__(self, link: Link, record: RecordedConnection, rest: bytes) -> None:
        self._link = link
        self._record = record
        self._parser = h11.Connection(h11.SERVER)
        if rest:
            self._parser.receive_data(rest)

    async def _event(self) -> h11.Event | None:
        """The next event of the parser; ``None`` when the connection ends or the bytes are no HTTP."""
        while True:
            try:
                event = self._parser.next_event()
            except h11.RemoteProtocolError as error:
                self._record.fault = str(error)
                return None
            if isinstance(event, h11.ConnectionClosed):
                return None
            if isinstance(event, h11.Event):
                return event
            self._parser.receive_data(await self._link.receive())

    async def head(self) -> RecordedRequest | None:
        """The request without its body; ``None`` when there is none."""
        event = await self._event()
        if not isinstance(event, h11.Request):
            return None
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers)
        return RecordedRequest(
            event.method.decode("ascii"), event.target.decode("latin-1"), headers, connection=self._record.number
        )

    async def body(self, request: RecordedRequest) -> bool:
        """Read the body into ``request``; false when the connection ended inside it."""
        data = bytearray()
        while isinstance(event := await self._event(), h11.Data):
            data += event.data
        request.body = bytes(data)
        request.complete = event is not None
        return request.complete

    def rest(self) -> bytes:
        """What was received beyond the request."""
        return self._parser.trailing_data[0]
