"""Every way in which a generation fails that a call does not: its limits, its session, its store."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from svir_client import Client, Session, generate, sync
from svir_client.session import SessionChange, SessionClaim, SessionRecord, SessionStore
from svir_client.testing import Reply
from svir_core import Completion, FinishReason, LoopLimits, ToolCall
from svir_core.errors import MaxRoundsError, MaxToolCallsError, SessionInUseError, StoreError
from svir_core.wire.api import Api
from tests.secrecy.canary import CALL_HEADER
from tests.secrecy.paths import AnyClient, ErrorPath, Site

CALLS = Completion(FinishReason.TOOL_CALLS, (ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")))


async def generated(client: AnyClient, session: Session, limits: LoopLimits | None = None) -> None:
    """One turn, by whichever client this is."""
    headers = {"x-call": CALL_HEADER}
    if isinstance(client, Client):
        sync.generate(client, session, "hi", model="m", limits=limits, headers=headers)
    else:
        await generate(client, session, "hi", model="m", limits=limits, headers=headers)


class FullClaim(SessionClaim):
    async def read(self) -> SessionRecord | None:
        return None

    async def write(self, change: SessionChange) -> None:
        raise StoreError("the disk is full")

    async def release(self) -> None:
        pass


class FullStore(SessionStore):
    async def claim(self, id: str) -> SessionClaim:
        return FullClaim()

    async def read(self, id: str) -> SessionRecord | None:
        return None

    async def ids(self) -> tuple[str, ...]:
        return ()

    async def delete(self, id: str) -> bool:
        return False


def _within(limits: LoopLimits) -> Callable[[Site], Coroutine[Any, Any, object]]:
    async def run(site: Site) -> None:
        await generated(site.client(include_usage=False), Session(), limits)

    return run


async def _in_use(site: Site) -> None:
    session = Session()
    with session.lease():
        await generated(site.client(), session)


async def _unstored(site: Site) -> None:
    opened = FullStore().session("a")
    session = _first(opened.__aenter__())
    await generated(site.client(), session)


def _first(work: Coroutine[Any, Any, Session]) -> Session:
    """What ``work`` gives, which waits for nothing: the blocking client's path has no event loop."""
    try:
        work.send(None)
    except StopIteration as end:
        session: Session = end.value
        return session
    raise AssertionError("it waits")


def generations(api: Api) -> Iterator[ErrorPath]:
    calls = (Reply.completion(CALLS, api=api),)
    yield ErrorPath("a generation of too many rounds", MaxRoundsError, _within(LoopLimits(rounds=1)), calls)
    yield ErrorPath("a generation of too many calls", MaxToolCallsError, _within(LoopLimits(tool_calls=1)), calls)
    yield ErrorPath("a session in use", SessionInUseError, _in_use)
    yield ErrorPath("a store that fails", StoreError, _unstored)
