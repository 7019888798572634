"""URL rules (10 section 11): what a caller may give as a server's address, and what it means.

Three rules hold for all of it. Whatever could send the key to another place than the one that is
read aloud from the text is refused, not repaired. A refusal names the rule, never the URL. Nothing
is looked up.

A URL is ASCII: a path is percent-encoded by the caller, a host is written in its ``xn--`` form
(Python's own IDNA table is of 2003 and maps some names to other hosts than browsers do).
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final

import attrs

from svir_core.check import expect
from svir_core.errors import ConfigError

if TYPE_CHECKING:
    from typing import Self

DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_PARTS = re.compile(
    r"(?P<scheme>[^:/?#]*)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?P<fragment>#.*)?"
)
_AUTHORITY = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_TARGET = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*")

REQUEST_PATHS: Final = ("/chat/completions", "/responses", "/messages", ":generateContent", ":streamGenerateContent")
"""How a URL ends that was copied from an API's documentation in place of the base URL."""


def _host(text: str, what: str) -> str:
    """The host in lower case and without brackets; an address in its canonical spelling."""
    if text.startswith("["):
        try:
            address = ipaddress.IPv6Address(text[1:-1])
        except ValueError:
            address = None
        if address is None or address.scope_id is not None:  # a zone belongs to one machine, not into a URL
            raise ConfigError(f"{what}: the host in brackets is not an IPv6 address without a zone")
        return str(address)
    host = text.lower()
    if not host:
        raise ConfigError(f"{what} has no host")
    labels = host.removesuffix(".").split(".")
    if _NUMBER.fullmatch(labels[-1]):
        # a resolver would read 127.1, 0x7f.1 or 2130706433 as an address; only one spelling is taken
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            pass
        raise ConfigError(f"{what}: a host that ends in a number must be an IPv4 address of four decimal numbers")
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ConfigError(f"{what}: the host is not a DNS name or an address")
    return host


def is_loopback(host: str) -> bool:
    """Whether ``host`` never leaves this machine: ``localhost``, 127/8, ``::1``; no name is looked up."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return address.is_loopback
    return address == ipaddress.IPv6Address("::1")


@attrs.frozen(repr=False)
class Url:
    """An absolute http or https URL, checked. Its ``repr`` shows nothing.

    Attributes:
        scheme: ``http`` or ``https``.
        host: lower case, no brackets.
        port: the one given, or the scheme's.
        path: as given, percent-encoded; ``""`` or beginning with ``/``.
        query: with its ``?``, or ``""``.
    """

    scheme: str
    host: str
    port: int
    path: str
    query: str = ""

    @classmethod
    def parse(cls, text: str, *, what: str = "the base URL", allow_http: bool = False, query: bool = False) -> Self:
        """Read ``text``; raises ``ConfigError`` (begun with ``what``) for anything the rules refuse.

        Plain ``http`` needs a loopback host or ``allow_http``; a query is taken only with ``query``;
        userinfo, a fragment, and characters that belong percent-encoded never are.
        """
        expect(allow_http, bool, "allow_http")
        if not isinstance(text, str):
            raise ConfigError(f"{what} must be str, not {type(text).__name__}")
        if any(character <= " " or character >= "\x7f" for character in text):
            raise ConfigError(f"{what} has a space, a control character, or one that is not ASCII: encode it")
        parts = _PARTS.fullmatch(text)
        scheme = parts["scheme"].lower() if parts else ""
        if parts is None or scheme not in DEFAULT_PORTS:
            raise ConfigError(f"{what} must begin with http:// or https://")
        if "@" in parts["authority"]:
            raise ConfigError(f"{what} must not hold a user name or password: give a key as api_key or a header")
        if parts["fragment"] is not None:
            raise ConfigError(f"{what} must not have a fragment")
        if parts["query"] is not None and not query:
            raise ConfigError(f"{what} must not have a query")
        authority = _AUTHORITY.fullmatch(parts["authority"])
        if authority is None:
            raise ConfigError(f"{what} has a bad port or a bad IPv6 address")
        host = _host(authority["host"], what)
        port = DEFAULT_PORTS[scheme] if authority["port"] is None else int(authority["port"])
        if not 0 < port < 65536:
            raise ConfigError(f"{what} has a port that is not in 1 to 65535")
        target = parts["path"] + (parts["query"] or "")
        if not _TARGET.fullmatch(target):
            raise ConfigError(f"{what} has a character in its path that must be percent-encoded")
        if scheme == "http" and not allow_http and not is_loopback(host):
            raise ConfigError(f"{what} is plain http to another machine: use https, or allow_http=True")
        return cls(scheme, host, port, parts["path"], parts["query"] or "")

    @property
    def target(self) -> str:
        """What stands in the request line."""
        return (self.path or "/") + self.query

    @property
    def authority(self) -> str:
        """The ``host`` header: an IPv6 address in brackets, the port unless it is the scheme's."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def as_base(self, versions: tuple[str, ...] = ("/v1",)) -> Url:
        """The same URL without trailing slashes and a last one of ``versions``, which an API's paths bring themselves.

        Raises ``ConfigError`` when it ends with the path of an API's requests: that is no base.
        """
        path = self.path.rstrip("/")
        if path.endswith(REQUEST_PATHS):
            raise ConfigError("the base URL ends with the path of an API's requests: give what stands before /v1")
        version = next((version for version in versions if path.endswith(version)), "")
        return attrs.evolve(self, path=path.removesuffix(version).rstrip("/"))

    def below(self, path: str) -> Url:
        """The URL of ``path``, which may bring a query, below this one."""
        path, mark, query = path.partition("?")
        return attrs.evolve(self, path=self.path + path, query=mark + query)

    def __repr__(self) -> str:
        return "Url(<withheld>)"
