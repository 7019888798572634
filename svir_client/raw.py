"""The bytes of one answer, for a relay (30 section 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svir_client.driver import Driver
from svir_client.open_response import OpenResponse
from svir_core.errors import SvirError
from svir_core.exchange import Exchange

if TYPE_CHECKING:
    from typing import Self


class RawStream(OpenResponse):
    """The bytes of a successful response, as they came: ``async with client.send(request) as raw``.

    Entering sends the request, maps a refusal to its error and may retry once without optional fields,
    as for a :class:`svir_client.Stream`. The bytes are neither decoded nor bounded. A body that was cut
    off raises ``TransportError``, and silence ``ResponseTimeoutError``, each after every byte that came;
    iterating on raises the same error again. A :class:`svir_core.Tap` decodes them beside the relay.
    """

    __slots__ = ("_ended", "_error")

    def __init__(self, driver: Driver[Exchange]) -> None:
        super().__init__(driver)
        self._ended = False
        self._error: SvirError | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        self._claim()
        data: bytes | None = None
        try:
            if not self._ended:
                data = await anext(self._driver.body, None)
        except SvirError as error:
            self._error = error
        except BaseException as error:
            self._ended, self._error = True, self._cut_short(error)
            await self._driver.response.aclose()
            raise
        finally:
            self._reading = False
        self._check_open()
        if data is not None:
            return data
        self._ended = True
        await self._driver.response.aclose()
        raise self._error or StopAsyncIteration
