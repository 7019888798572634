"""The client whose model is a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from svir_client.client import AsyncClient
from svir_client.driver import Driver
from svir_client.function_model.events import ModelFunction
from svir_client.function_model.transport import FunctionTransport
from svir_client.function_model.wire import NAME, FunctionApi
from svir_client.key import KeySource
from svir_client.layers.layer import Layer
from svir_client.options import CONNECT_SECONDS, IDLE_SECONDS
from svir_client.watch import expect_callable
from svir_core.errors import ConfigError
from svir_core.exchange import Exchange
from svir_core.http_message import Endpoint, HeadersLike, caller_headers
from svir_core.request import Request
from svir_core.secret import Withheld
from svir_core.wire.api import CodecOptions

if TYPE_CHECKING:
    from typing import Self


class FunctionModel(AsyncClient):
    """An ``AsyncClient`` whose model is ``function``, for tests and for models that run in this process.

    ``function(request)`` gets the request as it is, the files of its attachments unread. An async function runs in the
    task that calls, any other in a worker thread of its own; what it gives is

    | | the answer |
    | --- | --- |
    | a ``Completion`` | its deltas, then itself |
    | a ``str`` | that text, finished with ``stop`` |
    | an async iterable of events, as of an async generator | asked for as they are read, closed when they are not |
    | any other iterable of events | the same, but for a ``Sequence`` each step in a worker thread |
    | anything else | ``ConfigError`` |

    Events that end without ``Completed`` are a ``TruncatedStreamError``; after it no more is asked for. An iterator's
    ``finally`` has one second. Calls overlap. What the function raises, a ``SvirError`` or not, reaches the caller as
    it is: before its first event from entering the stream, so that ``Retry`` and ``Fallback`` act on it, and after it
    from reading.

    ``usage`` and ``timing`` are the function's; a ``timing`` of ``None`` is measured. ``send`` gives the events in
    svir's JSON form. ``list_models`` and ``count_tokens`` are ``UnsupportedError``; ``headers=`` of a call go nowhere.
    """

    def __init__(
        self,
        function: ModelFunction,
        *,
        layers: Sequence[Layer] = (),
        idle_timeout: float = IDLE_SECONDS,
        api: str = NAME,
    ) -> None:
        """A client of ``function``.

        Args:
            function: is asked for each answer.
            layers: as of every client.
            idle_timeout: seconds without an event, from the call to the first and from one to the next.
            api: the name of the wire API that it stands in for, as a ``ModelDescriptor`` and a ``Trace`` have it:
                ``anthropic_messages``. Any other is a name of your own, so one that is misspelt is not noticed here;
                a descriptor of a wire API refuses the client then.

        Raises:
            ConfigError: what is no function, or an option that is wrong.
        """
        stands_for = FunctionApi(api)
        super().__init__(
            stands_for,
            Endpoint.parse(stands_for.base_url),
            key=KeySource(),
            transport=FunctionTransport(expect_callable(function, "function")),
            layers=layers,
            options=CodecOptions(),
            compat=None,
            include_usage=True,
            connect_timeout=CONNECT_SECONDS,
            idle_timeout=idle_timeout,
        )
        self._owns_transport = True  # nobody else has it

    @classmethod
    def of(cls, *given: Any, **options: Any) -> Self:
        """Raises ``ConfigError``, and so do the other constructors by name: there is no server."""
        del given, options  # a traceback's locals show no key
        raise ConfigError("a FunctionModel has no server: make it of a function")

    async def check(self, request: Request, *, headers: HeadersLike | None = None) -> None:
        """As of every client; the function takes any request, so only ``ConfigError`` is raised, and no file is
        measured."""
        given = Withheld(headers)
        del headers  # a traceback's locals show no value
        self._exchange(request, given, None)

    def _exchange(
        self, request: Request, headers: Withheld[HeadersLike | None], idle_timeout: float | None
    ) -> Driver[Exchange]:
        """As of every client, but that no file is measured and no setting is filled in."""
        self._check_request(request)
        checked = () if headers.value is None else caller_headers(headers.value)

        async def begin() -> Exchange:
            return Exchange(FunctionApi(self.api), request, await self._endpoint_of_call(), headers=checked)

        return self._driver(begin, idle_timeout)
