"""What a generation is to do: a new turn of the user, or one that did not finish (50, Loop)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from svir_client.generation.input import user_message
from svir_client.tools.toolbox import Toolbox, approval_of
from svir_core.errors import ConfigError
from svir_core.loop import ToolLoop
from svir_core.loop_limits import LoopLimits
from svir_core.message import Message, Role
from svir_core.request import Request
from svir_core.secret import Withheld

if TYPE_CHECKING:
    from svir_client.client import AsyncClient
    from svir_client.models import ModelDescriptor
    from svir_client.session import Session
    from svir_core.http_message import HeadersLike


@attrs.frozen(kw_only=True)
class Plan(ABC):
    """What every generation is given.

    Attributes:
        model: what its model can; ``None`` when nothing is known of it.
        tools: what runs its calls.
        rollback: whether the session is as it was before, when it does not finish.
        on_error: told of the exceptions of tools that the model is not told of.
        headers, idle_timeout: of each of its calls.
    """

    model: ModelDescriptor | None
    tools: Toolbox | None
    rollback: bool
    on_error: Callable[[Exception], object] | None
    headers: Withheld[HeadersLike | None]
    idle_timeout: float | None

    @property
    def input(self) -> Message | None:
        """The turn of the user that begins it; ``None`` for one that goes on."""
        return None

    @abstractmethod
    def loop(self, session: Session) -> ToolLoop:
        """The loop over the session's history; raises ``ConfigError`` when there can be none."""

    async def check(self, client: AsyncClient, loop: ToolLoop) -> None:
        """Refuse what ``client`` and its model cannot carry, before anything is stored or sent."""
        if self.model is not None:
            if self.model.api not in (None, client.api):
                raise ConfigError(f"the model is described for {self.model.api}, and the client speaks {client.api}")
            if loop.request.tools:
                self.model.check_tools()
        self.check_parts(loop.request.messages[loop.start :])
        await client.check(loop.request, headers=self.headers.value)

    def check_parts(self, messages: Iterable[Message]) -> None:
        """Refuse, by ``UnsupportedError``, what the model cannot take in: of the user's parts, and of results."""
        if self.model is None:
            return
        for message in messages:
            if message.role is not Role.ASSISTANT:
                self.model.check(message, f"the message of the {message.role.value} role")


@attrs.frozen(kw_only=True)
class Turn(Plan):
    """A new turn."""

    message: Message = attrs.field(converter=user_message)
    name: str
    settings: Mapping[str, Any]
    limits: LoopLimits

    @property
    def input(self) -> Message | None:
        """The turn of the user."""
        return self.message

    def loop(self, session: Session) -> ToolLoop:
        """One over the history and the turn."""
        fields: dict[str, Any] = {
            **self.settings,
            "system": session.system,
            "messages": (*session.messages, self.message),
            "tools": () if self.tools is None else self.tools,
        }
        request = Request(self.name, **fields) if self.model is None else self.model.request(**fields)
        return ToolLoop(request, limits=self.limits, requires_approval=approval_of(self.tools))


@attrs.frozen(kw_only=True)
class Resumption(Plan):
    """What was suspended goes on."""

    approvals: Mapping[str, bool] | None
    limits: LoopLimits | None

    def loop(self, session: Session) -> ToolLoop:
        """A copy of the suspended one, told what is new."""
        suspended = session.suspended
        if suspended is None:
            raise ConfigError("the session has no generation that did not finish")
        loop = attrs.evolve(suspended)
        loop.resume(self.limits)
        if self.approvals is not None:
            loop.approved(self.approvals)
        return loop
