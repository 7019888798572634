"""The client: a request in, a typed answer out, over a transport (30 section 2)."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import attrs

from svir_client import files
from svir_client.constructor import Constructors, Given
from svir_client.driver import Driver
from svir_client.key import ApiKey, KeySource
from svir_client.layers.chain import Chain
from svir_client.layers.layer import Layer, checked_layers
from svir_client.options import CONNECT_SECONDS, IDLE_SECONDS
from svir_client.parsed import Parsed, asking_for, parsed
from svir_client.raw import RawStream
from svir_client.stream import Stream
from svir_client.transport import Transport
from svir_client.unique import Unique
from svir_core.call import Call
from svir_core.check import an, expect, seconds, wire_api
from svir_core.compat import Compatibility
from svir_core.document_call import Counting, Listing
from svir_core.errors import ConfigError, ProtocolError
from svir_core.exchange import Exchange
from svir_core.http_message import Endpoint, HeadersLike, caller_headers
from svir_core.limits import Limits
from svir_core.quirk import NONE, Quirk
from svir_core.redact import Redactor
from svir_core.request import Request
from svir_core.response import Completion
from svir_core.secret import Withheld
from svir_core.think import Think
from svir_core.wire.api import Api, CodecOptions, Mode, Model, ModelPage

if TYPE_CHECKING:
    from typing import Self

C = TypeVar("C", bound=Call)
T = TypeVar("T")


class AsyncClient(Constructors, Unique):
    """A client of one server, made by :meth:`openai`, :meth:`responses`, :meth:`anthropic`, :meth:`gemini`, :meth:`of`
    or :meth:`from_env`; used with ``async with``, or closed by :meth:`aclose`. Tasks share it, and with the h11
    transport event loops do too.

    A mistake of the caller raises ``ConfigError``, ``UnsupportedError``, ``AttachmentError`` or
    ``ContextOverflowError`` before a byte is sent. Its ``repr`` shows neither address nor key.
    """

    def __init__(
        self,
        api: Api,
        endpoint: Endpoint,
        *,
        key: KeySource,
        transport: Transport | None,
        layers: Sequence[Layer],
        options: CodecOptions,
        compat: Compatibility | None,
        include_usage: bool,
        connect_timeout: float,
        idle_timeout: float,
    ) -> None:
        self._closed = False
        self._api = api
        self._endpoint = endpoint
        self._key = key
        self._options = options
        self._compat = expect(Compatibility() if compat is None else compat, Compatibility, "compat")
        self._include_usage = expect(include_usage, bool, "include_usage")
        self._connect_timeout = seconds(connect_timeout, "connect_timeout")
        self._idle_timeout = seconds(idle_timeout, "idle_timeout")
        self._layers = checked_layers(layers)
        self._owns_transport = transport is None
        self._transport = _default_transport() if transport is None else _checked(transport)

    @classmethod
    def of(
        cls,
        api: Api,
        base_url: str | None = None,
        *,
        api_key: ApiKey | None = None,
        api_key_env: str | None = None,
        api_key_file: str | os.PathLike[str] | None = None,
        headers: HeadersLike | None = None,
        endpoint: str | None = None,
        allow_http: bool = False,
        transport: Transport | None = None,
        layers: Sequence[Layer] = (),
        connect_timeout: float = CONNECT_SECONDS,
        idle_timeout: float = IDLE_SECONDS,
        mode: Mode | str = Mode.STRICT,
        think: Think | str = "split",
        limits: Limits | None = None,
        compat: Compatibility | None = None,
        include_usage: bool = True,
        context_tokens: int | None = None,
        image_tokens: int | None = None,
        quirks: Quirk = NONE,
        extra: bool = False,
    ) -> Self:
        """A client of a server that speaks ``api``. Nothing is sent yet.

        Args:
            api: the wire API: ``openai_chat.API``, or one of the caller's own.
            base_url: with or without the API's version at its end; ``None`` is where who made the API hosts it,
                or nothing beside ``endpoint``.
            api_key: the key, or a function, async too, that is asked for it before each call.
            api_key_env: the environment variable that holds the key; read now.
            api_key_file: the file that holds it, blanks around it stripped; read now.
            headers: sent with every request, the model listing included.
            endpoint: the whole URL that takes requests, in place of the one derived from ``base_url``.
            allow_http: plain ``http`` to another machine.
            transport: moves the bytes; the caller closes it. By default an ``H11Transport`` of its own.
            layers: steps around ``complete`` and ``stream``, the outermost first: ``[Retry.transient(3)]``.
            connect_timeout: seconds for connecting.
            idle_timeout: seconds without a byte of the response, its head included.
            mode: "strict", or "lenient" for a decoder that forgives and records it.
            think: how ``<think>`` tags are read: "split", "keep", "inside", or a ``Think``.
            limits: what one response may cost.
            compat: what the server is known to refuse; share one handle between clients of one server.
            include_usage: ask for token counts; ``request.include_usage``, when set, wins.
            context_tokens: refuse a request that cannot fit, before it is sent.
            image_tokens: what an image counts for that, in place of its encoded length.
            quirks: repairs for a server known to need them: ``Quirk.DONE_OPTIONAL``, ``profile("ollama").quirks``.
            extra: keep what the server says beyond the protocol on ``completion.extra``.

        Raises:
            ConfigError: any of it is wrong: more than one key, a URL that the rules refuse, a timeout
                or a limit that is zero, negative or no number.
        """
        key = KeySource(api_key, api_key_env, api_key_file)
        address = _Address(base_url, endpoint, () if headers is None else headers)
        del api_key, base_url, endpoint, headers  # a traceback's locals show none of them
        key.read(Withheld(os.environ))
        return cls(
            wire_api(api),
            address.parse(allow_http, api),
            key=key,
            transport=transport,
            layers=layers,
            options=CodecOptions(
                mode, think, Limits() if limits is None else limits, context_tokens, image_tokens, quirks, extra
            ),
            compat=compat,
            include_usage=include_usage,
            connect_timeout=connect_timeout,
            idle_timeout=idle_timeout,
        )

    @classmethod
    def _made(cls, api: Api, given: Given) -> Self:
        return cls.of(api, given.value[0], **given.value[1])

    async def complete(
        self, request: Request, *, headers: HeadersLike | None = None, idle_timeout: float | None = None
    ) -> Completion:
        """The whole answer. Nothing stays open, however it ends; raises what :meth:`stream` raises."""
        given = Withheld(headers)
        del headers
        async with self._stream(request, given, idle_timeout) as stream:
            async for _ in stream:
                pass
        return stream.completion

    async def parse(
        self, request: Request, into: type[T], *, headers: HeadersLike | None = None, idle_timeout: float | None = None
    ) -> Parsed[T]:
        """The whole answer as a ``T``, and the answer itself: ``value, completion = await client.parse(request, T)``.

        The answer must fit ``Schema.of(into)``, unless the request has a ``response_format`` of its own. Raises what
        :meth:`complete` raises; ``ConfigError`` for a type that JSON cannot be read into; ``ProtocolError``, with what
        came on ``.partial``, for an answer that finished otherwise than with ``stop``, is not JSON, or does not fit.
        """
        given = Withheld(headers)
        del headers  # a traceback's locals show no value
        self._check_request(request)
        asked = asking_for(request, into)
        return parsed(await self.complete(asked, headers=given.value, idle_timeout=idle_timeout), into)

    def stream(
        self, request: Request, *, headers: HeadersLike | None = None, idle_timeout: float | None = None
    ) -> Stream:
        """The answer's events as they come: ``async with client.stream(request) as stream``.

        ``headers`` replace the client's of the same name for this call; ``idle_timeout`` replaces the
        client's. Entering and iterating raise; see :class:`Stream`.
        """
        given = Withheld(headers)
        del headers  # a traceback's locals show no value
        return self._stream(request, given, idle_timeout)

    def send(
        self, request: Request, *, headers: HeadersLike | None = None, idle_timeout: float | None = None
    ) -> RawStream:
        """The answer's bytes as they come, for a relay: ``async with client.send(request) as raw``.

        Refusals and the one lean retry are handled as for :meth:`stream`; nothing is decoded, and no layer sees it.
        """
        given = Withheld(headers)
        del headers  # a traceback's locals show no value
        return RawStream(self._exchange(request, given, idle_timeout))

    async def list_models(self) -> tuple[Model, ...]:
        """The models that the server lists below the base URL, in its order, none left out.

        A listing in pages is read to its end. Raises what an error status means, ``ProtocolError`` for an answer
        that is no listing or that goes round in a circle, and ``ResponseLimitError`` for a page of more than 16 MiB.
        """
        models: list[Model] = []
        asked: set[str | None] = set()
        after: str | None = None
        while after not in asked:
            asked.add(after)
            page = await self._page(after)
            models += page.models
            after = page.after
            if after is None:
                return tuple(models)
        raise ProtocolError("the model listing goes round in a circle")

    async def count_tokens(
        self, request: Request, *, headers: HeadersLike | None = None, idle_timeout: float | None = None
    ) -> int:
        """How many tokens the server counts in ``request``, without answering it.

        Raises ``UnsupportedError`` when the API has no such endpoint (Chat Completions), what the encoder raises,
        what an error status means, and ``ProtocolError`` for an answer that counts nothing.
        """
        given = Withheld(headers)
        del headers  # a traceback's locals show no value
        self._check_request(request)
        checked = () if given.value is None else caller_headers(given.value)

        async def begin() -> Counting:
            return Counting(
                self._api,
                request,
                await self._endpoint_of_call(),
                self._compat.known(),
                options=self._options,
                measured=await files.measure_in_thread(request),
                headers=checked,
            )

        return (await self._driver(begin, idle_timeout).answered()).result()

    async def check(self, request: Request, *, headers: HeadersLike | None = None) -> None:
        """Raise what a call of ``request`` would before a byte of it is sent: ``UnsupportedError`` for what the API
        cannot carry, ``AttachmentError``, ``ContextOverflowError``, ``ConfigError``. Its files are measured.
        """
        given = Withheld(headers)
        del headers  # a traceback's locals show no value
        self._check_request(request)
        if given.value is not None:
            caller_headers(given.value)
        measured = await files.measure_in_thread(request)
        self._api.encode(request, self._options, self._compat.known(), measured)

    @property
    def api(self) -> str:
        """The name of the wire API that it speaks: ``openai_chat``."""
        return self._api.name

    async def aclose(self) -> None:
        """Refuse further calls, and close the transport when this client made it. Idempotent."""
        self._closed = True
        if self._owns_transport:
            await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._api.name} {'closed' if self._closed else 'open'}>"

    async def _page(self, after: str | None) -> ModelPage:
        async def begin() -> Listing:
            return Listing(self._api, await self._endpoint_of_call(), after=after)

        return (await self._driver(begin).answered()).result()

    def _check_request(self, request: Request) -> None:
        self._check_open()
        if not isinstance(request, Request):
            raise ConfigError(f"a call takes a Request, not {an(type(request))}")

    def _check_open(self) -> None:
        if self._closed:
            raise ConfigError("the client is closed")

    async def _endpoint_of_call(self) -> Endpoint:
        self._check_open()
        return attrs.evolve(self._endpoint, key=await self._key.current())

    def _redactor(self, headers: Withheld[HeadersLike | None]) -> Redactor:
        """What takes the secrets out of a text that are known before a call with these headers is made."""
        sent = () if headers.value is None else caller_headers(headers.value)
        return Redactor.of_headers(self._endpoint.headers, sent, key=self._key.known)

    def _exchange(
        self, request: Request, headers: Withheld[HeadersLike | None], idle_timeout: float | None
    ) -> Driver[Exchange]:
        self._check_request(request)
        checked = () if headers.value is None else caller_headers(headers.value)

        async def begin() -> Exchange:
            return Exchange(
                self._api,
                request,
                await self._endpoint_of_call(),
                self._compat,
                options=self._options,
                measured=await files.measure_in_thread(request),
                headers=checked,
                include_usage=self._include_usage,
            )

        return self._driver(begin, idle_timeout)

    def _stream(self, request: Request, headers: Withheld[HeadersLike | None], idle_timeout: float | None) -> Stream:
        driver = self._exchange(request, headers, idle_timeout)
        if not self._layers:
            return Stream(driver)
        chain = Chain(
            self._layers, lambda asked: self._exchange(asked, headers, idle_timeout), request, api=self._api.name
        )
        return Stream(driver, chain)

    def _driver(self, begin: Callable[[], Awaitable[C]], idle_timeout: float | None = None) -> Driver[C]:
        return Driver(
            begin,
            self._transport,
            connect_timeout=self._connect_timeout,
            idle_timeout=self._idle_timeout if idle_timeout is None else seconds(idle_timeout, "idle_timeout"),
        )


@attrs.frozen(repr=False)
class _Address:
    """Where the server is, as the caller gave it; its ``repr`` shows nothing."""

    base_url: str | None
    endpoint: str | None
    headers: HeadersLike

    def parse(self, allow_http: bool, api: Api) -> Endpoint:
        hosted = self.base_url is None and self.endpoint is None
        return Endpoint.parse(
            api.base_url if hosted else self.base_url,
            headers=self.headers,
            allow_http=allow_http,
            url=self.endpoint,
            versions=api.versions,
        )


def _checked(transport: Transport) -> Transport:
    if not callable(getattr(transport, "open", None)):
        raise ConfigError(f"transport must have the methods of a Transport, and {an(type(transport))} has not")
    return transport


def _default_transport() -> Transport:
    from svir_transport.h11 import H11Transport  # imported late: who brings a transport may not have it

    return H11Transport()
