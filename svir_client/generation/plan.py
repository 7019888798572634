"""What a generation is to do: a new turn of the user, or one that did not finish (50, Loop)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import attrs

from svir_client.tools.toolbox import Toolbox, approval_of
from svir_core.errors import ConfigError
from svir_core.loop import ToolLoop
from svir_core.loop_limits import LoopLimits
from svir_core.loop_step import AskApproval
from svir_core.message import Message, Role
from svir_core.request import Request
from svir_core.secret import Withheld

if TYPE_CHECKING:
    from svir_client.client import AsyncClient
    from svir_client.models import ModelDescriptor
    from svir_client.session import Session
    from svir_core.http_message import HeadersLike


@attrs.frozen(kw_only=True)
class Common:
    """What every generation is given, a new turn or one that goes on.

    Attributes:
        tools: what runs its calls.
        rollback: whether the session is as it was before, when it does not finish.
        on_tool_error: told of the exceptions of tools that the model is not told of.
        headers, idle_timeout: of each of its calls.
    """

    tools: Toolbox | None
    rollback: bool
    on_tool_error: Callable[[Exception], object] | None
    headers: Withheld[HeadersLike | None]
    idle_timeout: float | None


@attrs.frozen(kw_only=True)
class Plan(ABC):
    """What one generation is given.

    Attributes:
        model: what its model can; ``None`` when nothing is known of it.
        common: what every generation is given.
    """

    model: ModelDescriptor | None
    common: Common

    @property
    def input(self) -> Message | None:
        """The turn of the user that begins it; ``None`` for one that goes on."""
        return None

    @abstractmethod
    def check(self, client: AsyncClient) -> None:
        """Refuse what needs no session to be seen wrong: ``ConfigError``, ``UnsupportedError``."""

    @abstractmethod
    def loop(self, client: AsyncClient, session: Session) -> ToolLoop:
        """The loop over the session's history. ``ConfigError`` when there can be none; ``UnsupportedError``."""

    def check_parts(self, messages: Iterable[Message]) -> None:
        """Refuse, by ``UnsupportedError``, what the model cannot take in: of the user's parts, and of results."""
        if self.model is None:
            return
        for message in messages:
            if message.role is not Role.ASSISTANT:
                self.model.check(message, "input" if message.role is Role.USER else "results")

    def _check_model(self, client: AsyncClient, request: Request, messages: Iterable[Message]) -> None:
        """Refuse a model of another API, and what it cannot do of the tools of ``request`` and with ``messages``."""
        if self.model is None:
            return
        if self.model.api not in (None, client.api):
            raise ConfigError(f"the model is described for {self.model.api}, and the client speaks {client.api}")
        if request.tools:
            self.model.check_tools()
        self.check_parts(messages)


@attrs.frozen(kw_only=True)
class Turn(Plan):
    """A new turn.

    Attributes:
        message: of the user.
        request: to the model, without instruction and history.
        limits: what it may cost.
    """

    message: Message
    request: Request
    limits: LoopLimits

    @property
    def input(self) -> Message | None:
        """The turn of the user."""
        return self.message

    def check(self, client: AsyncClient) -> None:
        """The capabilities of the model, for the turn alone: what went before is no fault of it."""
        self._check_model(client, self.request, (self.message,))

    def loop(self, client: AsyncClient, session: Session) -> ToolLoop:
        """One over the history and the turn."""
        request = self.request.replace(system=session.system, messages=(*session.messages, self.message))
        return ToolLoop(request, limits=self.limits, requires_approval=approval_of(self.common.tools))


@attrs.frozen(kw_only=True)
class Resumption(Plan):
    """What was suspended goes on.

    Attributes:
        name: of the model from now on; ``None`` for the one that it was.
        approvals: a yes or no for each call that waits, by its id; ``None`` when nothing is said.
        limits: what it may cost from now on; ``None`` for those that it had.
    """

    name: str | None
    approvals: Mapping[str, bool] | None
    limits: LoopLimits | None

    def check(self, client: AsyncClient) -> None:
        """Nothing: all of it is the session's."""

    def loop(self, client: AsyncClient, session: Session) -> ToolLoop:
        """A copy of the suspended one, told what is new."""
        suspended = session.suspended
        if suspended is None:
            raise ConfigError("the session has no generation that did not finish")
        request = suspended.request
        if request.tools and self.common.tools is None:
            raise ConfigError("the generation offers tools, and without tools= nothing would run their calls")
        self._check_model(client, request, request.messages[suspended.start :])
        loop = attrs.evolve(suspended, request=request if self.name is None else request.replace(model=self.name))
        loop.resume(self.limits)
        if self.approvals is not None:
            _approve(loop, self.approvals)
        return loop


def _approve(loop: ToolLoop, approvals: Mapping[str, bool]) -> None:
    if loop.error is not None:  # its limits forbid the answer that waits: the first step raises that
        return
    step = loop.next()
    if not isinstance(step, AskApproval):
        raise ConfigError("approvals: no call of the generation waits for one")
    asked = {call.id for call in step.calls}
    missing, strange = len(asked - approvals.keys()), len(approvals.keys() - asked)
    if missing or strange:
        raise ConfigError(
            f"approvals has none for {missing} of the {len(asked)} calls that wait, and {strange} for calls that do not"
        )
    loop.approved(approvals)
