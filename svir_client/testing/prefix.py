"""Whether a longer conversation starts with the bytes of the shorter one, so that a server's prompt cache holds."""

from __future__ import annotations

from svir_client.files import blocks, measure
from svir_client.testing.given import one
from svir_core.body import Body
from svir_core.check import wire_api
from svir_core.request import Request
from svir_core.wire import openai_chat
from svir_core.wire.api import Api, CodecOptions, Compat

SHOWN_BYTES = 40
"""How much of both bodies an error shows on either side of the place where they part."""


def _bytes(value: Request | Body | bytes, api: Api) -> bytes:
    if isinstance(value, Request):
        value = api.encode(value, CodecOptions(), Compat(), measure(value))
    given = one(value, (bytes, Body), "what is compared")
    return given if isinstance(given, bytes) else b"".join(blocks(given))


def assert_prefix_stable(
    previous: Request | Body | bytes, following: Request | Body | bytes, *, api: Api = openai_chat.API
) -> None:
    """Assert that ``following``, a request with further turns, starts with the bytes of ``previous`` up to the first
    new turn (11 section D).

    Takes requests, which ``api`` encodes (files on disk are read), or bodies that are encoded already. A body must
    end with its messages, as those of every API of svir do. The ``AssertionError`` says at which byte the bodies
    part and shows what stands there: prompts, so keep it out of logs that others read.
    """
    wire_api(api)
    earlier, later = _bytes(previous, api), _bytes(following, api)
    if not earlier.endswith(b"]}"):
        raise AssertionError("the earlier body does not end with its messages, so nothing can be appended to it")
    if earlier == later:
        return
    stable = earlier[:-2]
    if later.startswith(stable):
        after = later[len(stable) : len(stable) + 1]
        if after == (b"{" if stable.endswith(b"[") else b","):
            return
    place = next((at for at, (one, other) in enumerate(zip(stable, later, strict=False)) if one != other), None)
    place = min(len(stable), len(later)) if place is None else place
    before = earlier[max(0, place - SHOWN_BYTES) : place]
    raise AssertionError(
        f"the bodies part at byte {place} of {len(earlier)}, after {before!r}: "
        f"{earlier[place : place + SHOWN_BYTES]!r} became {later[place : place + SHOWN_BYTES]!r}"
    )
