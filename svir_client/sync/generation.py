"""Generations without an event loop: what :mod:`svir_client.generation` gives, with its rules (50, Loop).

Tools that are async run on the loop thread, under asyncio; those that are not, each in a thread of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from svir_client import generation as twin
from svir_client.client import AsyncClient
from svir_client.generation.input import Input
from svir_client.generation.options import ResumeOptions, TurnOptions
from svir_client.generation.stream import GenerationStream
from svir_client.models import ModelDescriptor
from svir_client.session import Session
from svir_client.sync.client import Client
from svir_client.sync.feed import Feed
from svir_client.sync.loop_thread import Job, loop_thread, refuse_event_loop
from svir_client.sync.reader import SyncReader
from svir_client.unique import Unique
from svir_core.check import expect
from svir_core.errors import ConfigError, SvirError
from svir_core.event import TextDelta
from svir_core.generation import Generation, Progress
from svir_core.generation_event import GenerationEvent, RoundEvent
from svir_core.secret import Withheld

if TYPE_CHECKING:
    from typing import Self, Unpack


def generate_stream(
    client: Client,
    session: Session | None,
    input: Input,
    *,
    model: str | ModelDescriptor,
    **options: Unpack[TurnOptions],
) -> SyncGenerationStream:
    """The events of the rounds of a new turn: ``with`` it as ``run``, then ``for event in run``.

    As :func:`svir_client.generate_stream`.
    """
    given = Withheld(options)
    del options  # a traceback's locals show no header
    refuse_event_loop()
    return SyncGenerationStream(twin.generate_stream(_inner(client), session, input, model=model, **given.value))


def generate(
    client: Client,
    session: Session | None,
    input: Input,
    *,
    model: str | ModelDescriptor,
    **options: Unpack[TurnOptions],
) -> Generation:
    """What a new turn came to, as :func:`svir_client.generate` gives and raises."""
    given = Withheld(options)
    del options
    refuse_event_loop()
    inner = _inner(client)
    return _whole(lambda: twin.generate(inner, session, input, model=model, **given.value))


def resume_stream(client: Client, session: Session, **options: Unpack[ResumeOptions]) -> SyncGenerationStream:
    """The events of what is left of a generation that did not finish, as :func:`svir_client.resume_stream`."""
    given = Withheld(options)
    del options
    refuse_event_loop()
    return SyncGenerationStream(twin.resume_stream(_inner(client), session, **given.value))


def resume(client: Client, session: Session, **options: Unpack[ResumeOptions]) -> Generation:
    """What the generation came to that goes on, as :func:`svir_client.resume` gives and raises."""
    given = Withheld(options)
    del options
    refuse_event_loop()
    inner = _inner(client)
    return _whole(lambda: twin.resume(inner, session, **given.value))


def _whole(work: Callable[[], Coroutine[Any, Any, Generation]]) -> Generation:
    """What ``work`` gives. A wait that is interrupted cancels it, and ends when the session is given back."""
    job = Job(loop_thread(), work)
    try:
        job.start()
        return job.result()
    finally:
        job.cancel()
        job.join()


def _inner(client: Client) -> AsyncClient:
    given: Any = client
    if isinstance(given, AsyncClient):
        raise ConfigError("client must be a Client, not an AsyncClient: that is for generations of svir_client")
    inner = expect(client, Client, "client")
    inner._used = True
    return inner._client


class SyncGenerationStream(SyncReader[GenerationStream, GenerationEvent]):
    """The events of every round of one generation: the blocking twin of :class:`svir_client.GenerationStream`.

    A few reads are taken ahead of the loop that iterates, and tools are run as their calls come: who leaves early may
    find more in the session than was told.
    """

    __slots__ = ("_over_seen",)

    def __init__(self, response: GenerationStream) -> None:
        super().__init__(response)
        self._over_seen = False

    @staticmethod
    async def _read_once(response: GenerationStream) -> list[GenerationEvent]:
        return await response._next_read()

    def text(self) -> SyncGenerationTextStream:
        """The visible text alone, of all rounds, piece by piece; other events are passed over."""
        return SyncGenerationTextStream(self)

    @property
    def generation(self) -> Generation:
        """What it came to; raises its error, or ``ConfigError`` when it was not read to its end."""
        if self._over_seen:
            return self._response.generation
        raise ConfigError("the generation was not read to its end, so it came to nothing yet")

    @property
    def progress(self) -> Progress:
        """How far it has come, what was read ahead included."""
        return self._response.progress

    @property
    def run_id(self) -> str:
        """What traces and tools know it by; unique across processes."""
        return self._response.run_id

    def _is_whole(self) -> bool:
        return self._over_seen

    def _ended(self, feed: Feed[GenerationStream, GenerationEvent]) -> None:
        try:
            feed.result()
        except SvirError:
            self._over_seen = True
            raise
        self._over_seen = True


class SyncGenerationTextStream(Unique):
    """The text of a :class:`SyncGenerationStream`."""

    __slots__ = ("_run",)

    def __init__(self, run: SyncGenerationStream) -> None:
        self._run = run

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        for event in self._run:
            if isinstance(event, RoundEvent) and isinstance(event.event, TextDelta) and event.event.text:
                return event.event.text
        raise StopIteration
