"""HTTP as data: an endpoint, a request to send, the head of a response; nothing here is sent.

Values that could give a caller away (keys, header values, hosts, paths) never appear in a ``repr``.
Source: 10-chat-completions section 11, 00-architecture section 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import attrs

from svir_core.errors import ConfigError
from svir_core.secret import Private, Secret
from svir_core.url import DEFAULT_PORTS, Url
from svir_core.version import VERSION

if TYPE_CHECKING:
    from typing import Self

    from svir_core.body import Body

Headers = tuple[tuple[str, str], ...]
HeadersLike = Mapping[str, str] | Iterable[tuple[str, str]]

OWNED_HEADERS: Final = frozenset(
    {"authorization", "content-type", "content-length", "accept", "host", "transfer-encoding", "connection"}
)
"""Headers that svir sets; a caller's are a ``ConfigError`` (10 section 11)."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_TARGET = re.compile(r"[\x21-\x7e]+")
_HOST = re.compile(r"[^\x00-\x20\x7f-\U0010ffff/?#@\[\]\\]+")


def _pairs(headers: object) -> Iterator[tuple[object, object]]:
    """Names and values of whatever shape; nothing is known of their types yet."""
    pairs: object = cast(Mapping[object, object], headers).items() if isinstance(headers, Mapping) else headers
    for pair in cast(Iterable[object], pairs) if isinstance(pairs, Iterable) else (None,):
        items = cast(Sequence[object], pair) if isinstance(pair, tuple | list) else ()
        if len(items) != 2:
            raise ConfigError("headers are a mapping, or pairs of a name and a value")
        yield items[0], items[1]


class _Withholding(tuple[tuple[str, str], ...]):
    """Headers as any tuple has them, whose ``repr`` shows the names alone."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name}: <withheld>" for name, _ in self) + "}"


def caller_headers(headers: HeadersLike) -> Headers:
    """A caller's headers, checked: lower-case names in the order given, values without outer blanks.

    Raises ``ConfigError``, which may show the name but never the value, for: a name that is no
    token, that svir owns (:data:`OWNED_HEADERS`), or that is given twice (in whatever letter case);
    a value that is no ``str``, or has a line end, another control character, or anything not ASCII.
    The ``repr`` of what it returns shows no value, and neither do the locals of what it raises.
    """
    try:
        return _Withholding(_checked(headers).items())
    except ConfigError as error:
        problem = error.detail
    del headers
    raise ConfigError(problem)


def _checked(headers: HeadersLike) -> dict[str, str]:
    checked: dict[str, str] = {}
    for name, value in _pairs(headers):
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise ConfigError("a header's name is not a token of ASCII letters, digits and !#$%&'*+-.^_`|~")
        lower = name.lower()
        if lower in OWNED_HEADERS:
            raise ConfigError(f"the header {lower!r} is set by svir and cannot be replaced")
        if lower in checked:
            raise ConfigError(f"the header {lower!r} is given twice")
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise ConfigError(
                f"the value of header {lower!r} must be str: ASCII, without line ends or control characters"
            )
        checked[lower] = value.strip(" \t")
    return checked


class Origin(NamedTuple):
    """Where connections are alike: scheme, host without brackets, port."""

    scheme: str
    host: str
    port: int

    def __repr__(self) -> str:
        return "Origin(<withheld>)"


def _fault(method: object, scheme: object, host: object, port: object, target: object, headers: object) -> str | None:
    """What of a request is not HTTP, in words that show no value; ``None`` when it is all right."""
    if not isinstance(method, str) or not _TOKEN.fullmatch(method):
        return "its method is not a token"
    if not isinstance(scheme, str) or scheme not in DEFAULT_PORTS:
        return "its scheme is neither 'http' nor 'https', in lower case"
    if not isinstance(host, str) or not _HOST.fullmatch(host):
        return "its host is no name or address, in ASCII and without brackets"
    if not isinstance(port, int) or isinstance(port, bool) or not 0 < port < 65536:
        return "its port is not in 1 to 65535"
    if not isinstance(target, str) or not _TARGET.fullmatch(target):
        return "its target is empty, or has a blank, a control character or one that is not ASCII"
    if not isinstance(headers, tuple):
        return "its headers are no tuple of pairs"
    try:
        pairs = list(_pairs(cast(object, headers)))
    except ConfigError:
        return "its headers are no tuple of pairs"
    for name, value in pairs:
        if not isinstance(name, str) or not _TOKEN.fullmatch(name) or name != name.lower():
            return "a header's name is not a token in lower case"
        if not isinstance(value, str) or not _VALUE.fullmatch(value) or value != value.strip(" \t"):
            return f"the value of header {name!r} is not ASCII, or has a line end, a control character or outer blanks"
    if [name for name, _ in pairs].count("host") != 1:
        return "it needs one host header"
    return None


@attrs.frozen(init=False)
class HttpRequest(Private):
    """One request, whole: what a transport needs and nothing else. It holds the key, and is not pickled.

    Raises ``ConfigError``, ``unsent``, which shows no value, for what is not HTTP or could be read in two
    ways, so that no transport has to look: an upper-case scheme, a blank in the target, a value not in ASCII.

    Attributes:
        method: ``POST`` or ``GET``; any token will do.
        scheme, host, port: where to connect: ``http`` or ``https``; the host without brackets; 1 to 65535.
        target: path and query, as they stand in the request line.
        headers: all of them, ``host`` and ``content-length`` included; names in lower case, ``host`` once.
        body: what to send, exactly ``content-length`` bytes, or ``None``; it can be produced again.
    """

    method: str
    scheme: str
    host: str = attrs.field(repr=False)
    port: int = attrs.field(repr=False)
    target: str = attrs.field(repr=False)
    headers: Headers
    body: Body | None = attrs.field(repr=False)

    def __init__(
        self,
        method: str,
        scheme: str,
        host: str,
        port: int,
        target: str,
        headers: Headers,
        body: Body | None = None,
    ) -> None:
        problem = _fault(method, scheme, host, port, target, headers)
        if problem is None:
            set_once = partial(object.__setattr__, self)
            set_once("method", method)
            set_once("scheme", scheme)
            set_once("host", host)
            set_once("port", port)
            set_once("target", target)
            set_once("headers", _Withholding(headers))
            set_once("body", body)
        else:
            del method, host, target, headers  # a traceback's locals show none of them: attrs' own __init__ would
            raise ConfigError(f"the request is not valid HTTP: {problem}", unsent=True)

    @property
    def origin(self) -> Origin:
        """Which requests may share a connection with this one."""
        return Origin(self.scheme, self.host, self.port)

    def get(self, name: str) -> str | None:
        """The value of a header, its name in any case; ``None`` when it is not there."""
        return dict(self.headers).get(name.lower())


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray):
        return value.decode("latin-1")
    raise ConfigError("the headers of a response are str or bytes")


def _received(headers: Iterable[tuple[str | bytes, str | bytes]]) -> Headers:
    return _Withholding((_text(name).lower(), _text(value).strip(" \t")) for name, value in _pairs(headers))


@attrs.frozen
class ResponseHead:
    """Status and headers of a response; names in lower case, values as Latin-1 text, order kept.

    Names and values are ``str`` or ``bytes``; anything else is a ``ConfigError``.
    """

    status: int
    headers: Headers = attrs.field(default=(), converter=_received)

    def get(self, name: str) -> str | None:
        """The value of a header, its name in any case; repeated ones joined by ``, ``; ``None`` without one."""
        wanted = name.lower()
        values = [value for known, value in self.headers if known == wanted]
        return ", ".join(values) if values else None


@attrs.frozen(repr=False)
class Endpoint(Private):
    """Where a server is, and what goes with every request to it. Made by :meth:`parse`; shows nothing, is not pickled.

    Attributes:
        base: the base URL without ``/v1``, or ``None`` when only ``override`` was given.
        override: the URL that takes requests, in place of one derived from ``base``.
        key: the API key, or ``None``.
        headers: the caller's headers, checked.
    """

    base: Url | None
    override: Url | None = None
    key: Secret | None = None
    headers: Headers = ()

    @classmethod
    def parse(
        cls,
        base_url: str | None,
        *,
        api_key: Secret | str | None = None,
        headers: HeadersLike = (),
        allow_http: bool = False,
        url: str | None = None,
        versions: tuple[str, ...] = ("/v1",),
    ) -> Self:
        """Read an endpoint; every fault is a ``ConfigError`` that shows neither URL nor value.

        ``url`` replaces the derived URL of requests as a whole, query included. The model listing
        always comes from ``base_url``: without one there is no listing (:meth:`at_base` raises).
        ``versions`` are what may end a base URL and is taken off, since an API's paths bring it (``Api.versions``).
        """
        if base_url is None and url is None:
            raise ConfigError("an endpoint needs a base URL, or the whole URL")
        try:
            return cls(
                None if base_url is None else Url.parse(base_url, allow_http=allow_http).as_base(versions),
                None if url is None else Url.parse(url, what="the endpoint URL", allow_http=allow_http, query=True),
                api_key if api_key is None or isinstance(api_key, Secret) else Secret(api_key),
                caller_headers(headers),
            )
        except ConfigError as error:
            problem = error.detail
        del base_url, api_key, headers, url  # a traceback's locals show none of them
        raise ConfigError(problem)

    @property
    def url(self) -> Url:
        """The URL that says where requests go: ``override``, else ``base``."""
        url = self.override or self.base
        if url is None:
            raise ConfigError("an endpoint needs a base URL, or the whole URL")
        return url

    @property
    def scheme(self) -> str:
        """``http`` or ``https``."""
        return self.url.scheme

    @property
    def host(self) -> str:
        """The host requests go to, without brackets."""
        return self.url.host

    @property
    def port(self) -> int:
        """The port requests go to."""
        return self.url.port

    @property
    def base_path(self) -> str:
        """The path above ``/v1``: ``""``, or it begins with ``/`` and does not end with one."""
        return "" if self.base is None else self.base.path

    def for_requests(self, path: str) -> Url:
        """The URL that takes requests: ``override``, else ``path`` below the base."""
        return self.override or self.at_base(path)

    def at_base(self, path: str) -> Url:
        """The URL of ``path`` below the base; ``ConfigError`` when the endpoint has no base URL."""
        if self.base is None:
            raise ConfigError("no base URL was given beside the endpoint URL: nothing else of the server is known")
        return self.base.below(path)

    def request(
        self,
        method: str,
        url: Url,
        accept: str,
        *,
        api_headers: Headers = (),
        key_headers: Headers = (),
        headers: Headers = (),
        body: Body | None = None,
    ) -> HttpRequest:
        """The request for ``url``: svir's headers, the API's, the endpoint's, ``headers`` of this call, the key's.

        ``headers`` are checked ones (:func:`caller_headers`). A later header replaces an earlier one of its name.
        Raises ``ConfigError``, which shows no value, for a header that would replace the key's, or be replaced.
        """
        for name, _ in key_headers:
            if any(name == other for other, _ in (*self.headers, *headers)):
                raise ConfigError(f"the header {name!r} carries the key: give one of the two")
        fields = {
            "host": url.authority,
            "user-agent": f"svir/{VERSION}",
            "accept": accept,
            "accept-encoding": "identity",
        }
        if body is not None:
            fields["content-type"] = "application/json"
            fields["content-length"] = str(body.length)
        fields.update(api_headers)
        fields.update(self.headers)
        fields.update(headers)
        fields.update(key_headers)
        return HttpRequest(method, url.scheme, url.host, url.port, url.target, tuple(fields.items()), body)

    def __repr__(self) -> str:
        return f"Endpoint(key={self.key!r}, headers={_Withholding(self.headers)!r})"
