"""Ask a model over the standard library's http.client: the exchange decides, this file only moves bytes.

python examples/http_client.py http://127.0.0.1:1234 MODEL "Explain ownership in one paragraph."
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead

from svir_core import Endpoint, Event, Exchange, ReadError, Request, Retry, SvirError, TextDelta, TransportError
from svir_core.wire import openai_chat


def read(response: HTTPResponse) -> bytes:
    """The next bytes of the body; none when it ended or was cut off, which the exchange tells apart."""
    try:
        return response.read1(65536)
    except IncompleteRead:
        return b""


def ask(exchange: Exchange, timeout: float = 300.0) -> Iterator[Event]:
    """The events of one call as they come; then its error is raised, when there is one."""
    request, failure = exchange.start(), None
    while failure is None:
        kind = HTTPSConnection if request.scheme == "https" else HTTPConnection
        connection = kind(request.host, request.port, timeout=timeout)
        try:
            body = request.body.blocks() if request.body else None
            connection.request(request.method, request.target, body, dict(request.headers))
            socket = connection.sock
            with connection.getresponse() as response:
                step = exchange.head(response.status, response.getheaders())
                if isinstance(step, ReadError):
                    socket.settimeout(step.seconds or timeout)
                while not exchange.done and (data := read(response)):
                    yield from exchange.push(data)
            last = exchange.finish()
            if not isinstance(last, Retry):
                yield from last
                return
            request = last.http_request
        except SvirError:
            raise
        except (OSError, HTTPException) as error:
            failure = exchange.fail(TransportError(f"the connection failed: {type(error).__name__}"))
        finally:
            connection.close()
    raise failure


if __name__ == "__main__":
    base_url, model, prompt = sys.argv[1:] if len(sys.argv) == 4 else sys.exit(__doc__)
    for event in ask(Exchange(openai_chat.API, Request(model).user(prompt), Endpoint.parse(base_url))):
        if isinstance(event, TextDelta):
            print(event.text, end="", flush=True)
    print()
