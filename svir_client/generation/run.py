"""A generation, whole or as a stream: the model is asked and its calls are run until it has nothing more to ask (50).

``generate_stream`` is one; ``generate`` reads it to its end; the two that resume go on with one that did not finish.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from svir_client.client import AsyncClient
from svir_client.generation.checked import approvals_of, common, limits_of, name_of, request_of
from svir_client.generation.input import Input, user_message
from svir_client.generation.options import Given, ResumeOptions, TurnOptions, check_names
from svir_client.generation.plan import Plan, Resumption, Turn
from svir_client.generation.stream import GenerationStream
from svir_client.models import ModelDescriptor
from svir_client.session import Session
from svir_client.sync.client import Client
from svir_core.check import expect
from svir_core.errors import ConfigError
from svir_core.generation import Generation
from svir_core.loop_limits import LoopLimits
from svir_core.secret import Withheld

if TYPE_CHECKING:
    from typing import Unpack


def generate_stream(
    client: AsyncClient,
    session: Session | None,
    input: Input,
    *,
    model: str | ModelDescriptor,
    **options: Unpack[TurnOptions],
) -> GenerationStream:
    """The events of the rounds of a new turn: ``async with`` it as ``run``, then ``async for event in run``.

    ``client`` asks the model; its layers are around the call of each round, and a ``Trace`` among them reports the
    generation and its calls of tools too. ``session`` is the conversation; ``None`` is one that nobody keeps.
    ``input`` is the turn of the user: a text, parts, or a message. ``model`` is a name; or a description, whose
    capabilities are checked and whose settings hold where ``options`` have none.

    | option | default | |
    | --- | --- | --- |
    | ``tools`` | none | what the model may call: a registry, an MCP session's |
    | ``limits`` | ``LoopLimits()`` | what the generation may cost |
    | ``rollback`` | ``False`` | a generation that does not finish leaves the session as it was before |
    | ``on_tool_error`` | nobody | told of the exceptions of tools that the model is not told of |
    | ``headers``, ``idle_timeout`` | the client's | of the call of each round |
    | ``temperature``, ``effort``, ``extra`` and on | the model's | the settings of :class:`svir_core.Request` |

    Raises ``ConfigError`` at once for an argument that is wrong. Entering raises, before anything is stored or sent,
    ``UnsupportedError`` for what the model or its API cannot carry, ``SessionInUseError``, ``AttachmentError``,
    ``ContextOverflowError`` and ``ConfigError``. Iterating raises what a call does, ``MaxRoundsError``,
    ``MaxToolCallsError`` and ``StoreError``. What entering and iterating raise has ``progress``.
    """
    given: Given = Withheld(options)
    del options  # a traceback's locals show no header
    check_names(given, TurnOptions)
    plan = Turn(
        message=user_message(input),
        model=model if isinstance(model, ModelDescriptor) else None,
        request=request_of(model, given),
        limits=limits_of(given) or LoopLimits(),
        common=common(given),
    )
    return _stream(client, Session() if session is None else session, plan)


async def generate(
    client: AsyncClient,
    session: Session | None,
    input: Input,
    *,
    model: str | ModelDescriptor,
    **options: Unpack[TurnOptions],
) -> Generation:
    """What a new turn came to; takes and raises what :func:`generate_stream` does.

    Its ``outcome`` is ``AWAITING_APPROVAL`` when calls wait for somebody's yes or no: :func:`resume` tells.
    """
    given = Withheld(options)
    del options
    return await _whole(generate_stream(client, session, input, model=model, **given.value))


def resume_stream(client: AsyncClient, session: Session, **options: Unpack[ResumeOptions]) -> GenerationStream:
    """The session's generation that failed, was left or cancelled, or waits, as the events of what is left of it.

    It begins with the step that was not done: the call of the model, or the calls of its answer, all of them, that
    have no results yet. Settings and offered tools are as they were; ``client`` may speak another API. ``tools`` runs
    the calls, and is needed when the generation offers any.

    | option | default | |
    | --- | --- | --- |
    | ``approvals`` | none | a yes or no for each call that waits, by its id |
    | ``model`` | as before | another name; or a description, whose capabilities are checked, and nothing else of it |
    | ``limits`` | as before | what the generation may cost, what it cost already included |

    The other options, and what is raised, are those of :func:`generate_stream`; ``ConfigError`` when there is nothing
    to resume: what is appended to a session forgets it.
    """
    given: Given = Withheld(options)
    del options
    check_names(given, ResumeOptions)
    model = given.value.get("model")
    plan = Resumption(
        model=model if isinstance(model, ModelDescriptor) else None,
        name=None if model is None else name_of(model),
        approvals=approvals_of(given),
        limits=limits_of(given),
        common=common(given),
    )
    return _stream(client, session, plan)


async def resume(client: AsyncClient, session: Session, **options: Unpack[ResumeOptions]) -> Generation:
    """What the generation came to that goes on; takes and raises what :func:`resume_stream` does."""
    given = Withheld(options)
    del options
    return await _whole(resume_stream(client, session, **given.value))


async def _whole(run: GenerationStream) -> Generation:
    async with run:
        async for _ in run:
            pass
    return run.generation


def _stream(client: AsyncClient, session: Session, plan: Plan) -> GenerationStream:
    given: Any = client
    if isinstance(given, Client):
        raise ConfigError("client must be an AsyncClient, not a Client: that is for generations of svir_client.sync")
    return GenerationStream(expect(given, AsyncClient, "client"), expect(session, Session, "session"), plan)
