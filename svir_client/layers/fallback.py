"""Another client when one fails (30 section 3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from svir_client.layers.attempt import Failure, Phase, Until, attempt
from svir_client.layers.layer import Layer
from svir_core.call import LOCAL_KINDS
from svir_core.check import choice, expect
from svir_core.errors import ConfigError, ErrorKind
from svir_core.request import Request

if TYPE_CHECKING:
    from svir_client.client import AsyncClient
    from svir_client.layers.chain import Next
    from svir_client.stream import Stream

ELSEWHERE: Final = frozenset(
    {
        ErrorKind.TRANSPORT,
        ErrorKind.TIMEOUT,
        ErrorKind.RATE_LIMITED,
        ErrorKind.TRUNCATED_STREAM,
        ErrorKind.SERVER,
    }
)
"""What one server fails of, and another may not: the default of ``on``."""


class Fallback(Layer):
    """Asks the next client when a call fails, by the kind of its error.

    | the call | ``until="response"`` | ``until="first_event"`` |
    | --- | --- | --- |
    | fails before its response began, with a kind of ``on`` | the next client | the next client |
    | fails before its first event, with a kind of ``on`` | given on | the next client |
    | fails after its first event | given on | given on |
    | fails after a layer or an inspector inside has read an event | raised | raised |
    | fails with another kind, or what is no ``SvirError``; is cancelled | raised | raised |
    | fails, and there is no next client | raised | raised |

    The error that is raised is that of the client asked last. Another client goes through its own layers, with its own
    key and headers: those of the call are for the first server alone. It gets the request as it is, the model's name
    included; a layer of that client can change it.
    """

    def __init__(
        self,
        *clients: AsyncClient,
        on: Iterable[ErrorKind | str] = ELSEWHERE,
        until: Until | str = Until.RESPONSE,
    ) -> None:
        """``clients`` in the order they are asked, after the one that has this layer; they are the caller's to close.

        ``on`` are kinds of errors, a used-up quota among ``rate_limited``; ``until`` as for ``Retry.transient``.
        Raises ``ConfigError`` without a client, for what is none, and for kinds that another server cannot mend
        (``config``, ``attachment``).
        """
        from svir_client.client import AsyncClient  # imported late: the client imports the layers

        if not clients:
            raise ConfigError("Fallback needs a client to fall back to")
        self._clients = tuple(expect(client, AsyncClient, "each client of Fallback") for client in clients)
        if isinstance(on, str):
            raise ConfigError("Fallback: on is a collection of kinds")
        self._on = frozenset(choice(ErrorKind, kind, "Fallback: on") for kind in on)
        if self._on & LOCAL_KINDS:
            raise ConfigError("Fallback: a mistake of this side (config, attachment) is one with every server")
        self._until = choice(Until, until, "until")

    async def __call__(self, request: Request, next: Next) -> Stream:
        """The stream of the first client that does not fail; raises the error of the last."""
        outcome = await attempt(lambda: next(request), self._until, lambda: next.events_read)
        for client in self._clients:
            if not self._goes_on(outcome):
                break
            outcome = await self._ask(client, request, next)
        if isinstance(outcome, Failure):
            raise outcome.error
        return outcome

    def _goes_on(self, outcome: Stream | Failure) -> bool:
        """Whether the next client is asked."""
        if not isinstance(outcome, Failure):
            return False
        return outcome.error.kind in self._on and outcome.phase is not Phase.AFTER_EVENT

    async def _ask(self, client: AsyncClient, request: Request, next: Next) -> Stream | Failure:
        stream = client.stream(request)
        outcome = await attempt(stream.__aenter__, self._until, stream._events_read)
        if isinstance(outcome, Failure) and outcome.phase is Phase.AFTER_EVENT:
            next.events_read_elsewhere()
        return outcome

    def __repr__(self) -> str:
        return f"Fallback({', '.join(map(repr, self._clients))})"
