"""What whoever answers by a script tells about it, whichever way it is reached."""

from __future__ import annotations

import socket
import ssl
from typing import Generic, TypeVar

import attrs

from svir_client.testing.record import RecordedConnection, RecordedRequest
from svir_client.testing.reply import Reply
from svir_client.testing.script import Script
from svir_client.testing.seen import Seen

T = TypeVar("T")


class ScriptedPeer(Generic[T]):
    """The requests that were seen, and how they fit the script."""

    def __init__(self, script: Script[T], requests: Seen[RecordedRequest]) -> None:
        self._script = script
        self._requests = requests

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        """The requests so far, in the order in which they were complete; the latest ``remember`` of them."""
        return self._requests.latest

    @property
    def request_count(self) -> int:
        """How many requests there were."""
        return self._requests.count

    @property
    def unscripted(self) -> int:
        """How many requests came beyond the script."""
        return self._script.unscripted

    @property
    def unasked(self) -> int:
        """How much of the script nobody asked for."""
        return self._script.unasked

    def add(self, *outcomes: T) -> None:
        """Append to the script."""
        self._script.add(*outcomes)


@attrs.define(eq=False)
class ServerState:
    """What a server has in hand: its script, what it saw, the connections that are open, and where it listens."""

    script: Script[Reply]
    requests: Seen[RecordedRequest]
    connections: Seen[RecordedConnection]
    tls: ssl.SSLContext | None
    open: dict[int, RecordedConnection] = attrs.field(factory=dict[int, RecordedConnection])
    listener: socket.socket | None = None


class ScriptedServer(ScriptedPeer[Reply]):
    """What a server tells in any thread: where it is, and its connections beside the requests."""

    def __init__(self, state: ServerState) -> None:
        super().__init__(state.script, state.requests)
        self._state = state

    @property
    def port(self) -> int:
        """The port it listens on."""
        if self._state.listener is None:
            raise RuntimeError("a MockServer is used inside its `with` block")
        return int(self._state.listener.getsockname()[1])

    @property
    def origin(self) -> str:
        """Scheme, host and port: what a base URL starts with."""
        return f"{'http' if self._state.tls is None else 'https'}://127.0.0.1:{self.port}"

    @property
    def connections(self) -> tuple[RecordedConnection, ...]:
        """The connections so far, in the order in which they were accepted; the latest ``remember`` of them."""
        return self._state.connections.latest

    @property
    def connection_count(self) -> int:
        """How many connections were accepted."""
        return self._state.connections.count

    @property
    def open_connections(self) -> int:
        """How many connections neither side has closed."""
        return len(self._state.open)
