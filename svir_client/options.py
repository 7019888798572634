"""The options of a client, by name: what every constructor takes (30 section 2)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypedDict

from svir_client.key import ApiKey
from svir_client.layers.layer import Layer
from svir_client.transport import Transport
from svir_core.compat import Compatibility
from svir_core.http_message import HeadersLike
from svir_core.limits import Limits
from svir_core.quirk import Quirk
from svir_core.think import Think
from svir_core.wire.api import Mode

CONNECT_SECONDS: Final = 10.0
"""A server that is there accepts within one round trip; this covers a lost packet or three."""

IDLE_SECONDS: Final = 300.0
"""Head and silence between bytes: a long prompt on a local model is silent for minutes."""


class ClientOptions(TypedDict, total=False):
    """The options of :meth:`AsyncClient.of` that say nothing of the address and the key."""

    headers: HeadersLike | None
    endpoint: str | None
    allow_http: bool
    transport: Transport | None
    layers: Sequence[Layer]
    connect_timeout: float
    idle_timeout: float
    mode: Mode | str
    think: Think | str
    limits: Limits | None
    compat: Compatibility | None
    include_usage: bool
    context_tokens: int | None
    image_tokens: int | None
    quirks: Quirk
    extra: bool


class KeyedOptions(ClientOptions, total=False):
    """The options of every constructor: :meth:`AsyncClient.of` says what each means."""

    api_key: ApiKey | None
    api_key_env: str | None
    api_key_file: str | os.PathLike[str] | None
