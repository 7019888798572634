"""What of a request is checked before the library sees it, so that each refuses the same."""

from __future__ import annotations

import re
from typing import Final

from svir_core.errors import ConfigError
from svir_core.http_message import HttpRequest

TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
TARGET: Final = re.compile(r"[\x21-\x7e]+")
SCHEMES: Final = ("http", "https")


def check(request: HttpRequest) -> None:
    """Raises ``ConfigError`` for a request that is not HTTP; no value is shown."""
    names = [name for name, _ in request.headers]
    if not (TOKEN.fullmatch(request.method) and TARGET.fullmatch(request.target) and request.scheme in SCHEMES):
        raise ConfigError("the request is not valid HTTP: its method, target or scheme", unsent=True)
    if not all(TOKEN.fullmatch(name) and VALUE.fullmatch(value) for name, value in request.headers):
        raise ConfigError("the request is not valid HTTP: a header", unsent=True)
    if names.count("host") != 1:
        raise ConfigError("the request is not valid HTTP: it needs one host header", unsent=True)


def url_of(request: HttpRequest) -> str:
    """Where to connect and what to ask for; what stands in the ``host`` header is the request's own matter."""
    host = f"[{request.host}]" if ":" in request.host else request.host
    return f"{request.scheme}://{host}:{request.port}{request.target}"


def raw_headers(request: HttpRequest) -> list[tuple[bytes, bytes]]:
    """The headers as they go out."""
    return [(name.encode("ascii"), value.encode("latin-1")) for name, value in request.headers]
