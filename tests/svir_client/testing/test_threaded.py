"""The scripted server for code that blocks."""

from __future__ import annotations

import http.client
import time

import pytest

from svir_client.testing import Gate, MockServer, RecordedRequest, Reply, ThreadedMockServer


def ask(server: ThreadedMockServer) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request("POST", "/v1/x", b'{"a":1}')
        return connection.getresponse().read()
    finally:
        connection.close()


def test_a_blocking_client_is_answered() -> None:
    with MockServer(Reply.stream(b"one")).in_thread() as server:
        server.add(Reply.stream(b"two"))
        assert server.origin == f"http://127.0.0.1:{server.port}"
        assert server.unasked == 2
        assert [ask(server), ask(server)] == [b"one", b"two"]
        assert b"beyond the script" in ask(server)
        assert [request.json() for request in server.wait_requests(3)] == [{"a": 1}] * 3
        server.wait_closed()
        assert len(server.wait_connections(3)) == len(server.connections) == server.connection_count == 3
        assert (server.request_count, server.unscripted, server.unasked, server.open_connections) == (3, 1, 0, 0)
        assert server.requests[0].target == "/v1/x"


def test_a_gate_is_opened_from_the_test() -> None:
    with MockServer().in_thread() as server:
        gate = server.call(Gate)
        server.add(Reply.stream(b"a", gate, b"b"))
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        connection.request("GET", "/")
        response = connection.getresponse()
        assert response.read(1) == b"a"
        server.call(gate.reached)
        server.call(gate.open)
        assert response.read() == b"b"
        connection.close()


def test_a_wait_has_a_limit() -> None:
    with MockServer().in_thread() as server:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            server.wait_requests(1, 0.01)
        assert time.monotonic() - began < 10


def test_what_the_answer_raises_fails_the_test() -> None:
    def broken(request: RecordedRequest) -> Reply:
        raise LookupError(request.target)

    with pytest.raises(LookupError, match="/v1/x"), MockServer(answer=broken).in_thread() as server:
        assert ask(server) == b"answer raised LookupError"


def test_outside_of_its_block_it_is_not_there() -> None:
    server = MockServer().in_thread()
    with pytest.raises(RuntimeError, match="with"):
        server.wait_closed()
    with server:
        port = server.port
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.1", port, timeout=10).connect()
