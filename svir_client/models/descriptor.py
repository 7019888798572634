"""What is known of a model, and the requests and checks that follow from it (50, Catalogue and Options).

Two rules hold for all of it. A descriptor is data: nothing here, and nothing that reads one, asks what a model is
called. What a call says wins over what its model says: settings by name, further fields key by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any, Final

import attrs

from svir_client.models.capability import TEXT, Capability, capabilities_of, needed
from svir_client.models.merge import merge_extra
from svir_core.check import an, at_least, expect
from svir_core.errors import ConfigError, UnsupportedError
from svir_core.message import Message, Part, Text
from svir_core.request import Request, Tool, Toolbox

HABITS: Final = tuple(
    field.name
    for field in attrs.fields(Request)
    if field.name not in {"model", "system", "messages", "tools", "max_tokens", "extra"}
)
"""The settings of a request that may be a habit of a model; its limit and further fields have places of their own."""

SETTINGS: Final = frozenset({*HABITS, "max_tokens"})
"""The settings that a call may give."""


def _known(names: Iterable[str], known: Iterable[str], where: str) -> None:
    unknown = sorted(set(names).difference(known))
    if unknown:
        raise ConfigError(f"{where} has no setting named {', '.join(unknown)}")


def _settings(value: Mapping[str, Any]) -> dict[str, Any]:
    """``value`` in the types of a request, so that equal habits are equal however they are spelled."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ConfigError("ModelDescriptor.settings is a mapping with strings as keys")
    _known(value, HABITS, "ModelDescriptor.settings")
    request = Request("").replace(**value)
    return {name: getattr(request, name) for name in value}


def _extra(value: Mapping[str, Any]) -> dict[str, Any]:
    return merge_extra({}, value)


def _not_empty(_instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not expect(value, str, f"ModelDescriptor.{attribute.name}"):
        raise ConfigError(f"ModelDescriptor.{attribute.name} must not be empty")


def _day(_instance: object, _attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and (isinstance(value, datetime) or not isinstance(value, date)):
        raise ConfigError(f"ModelDescriptor.read_on must be a date or None, not {type(value).__name__}")


@attrs.frozen
class ModelDescriptor:
    """What is known of a model. Immutable, compared by value; ``attrs.evolve`` makes one that differs.

    Attributes:
        id: the server's name for it.
        api: the wire API that it is described for, as ``Api.name`` has it ("openai_responses"); ``None`` for any.
        display_name: what to show a user; ``id`` unless it is given.
        capabilities: what it can do; text in and out unless they are given.
        context_window: tokens of prompt and answer together, or ``None`` when that is not known. Nothing is refused
            by it: ``context_tokens`` of a client is what holds requests to a length.
        max_output_tokens: ``max_tokens`` of a request that sets none; ``None`` leaves it to the server.
        settings: habits: settings of :class:`svir_core.Request` by name, for calls that do not give them.
        extra: further fields, under those of the call.
        read_on: the day on which this was read from the model's maker; ``None`` when it was not.
    """

    id: str = attrs.field(validator=_not_empty)
    api: str | None = attrs.field(default=None, kw_only=True, validator=attrs.validators.optional(_not_empty))
    display_name: str = attrs.field(
        default=attrs.Factory(lambda self: self.id, takes_self=True), kw_only=True, validator=_not_empty
    )
    capabilities: frozenset[Capability] = attrs.field(default=TEXT, kw_only=True, converter=capabilities_of)
    context_window: int | None = attrs.field(
        default=None, kw_only=True, validator=attrs.validators.optional(at_least(1))
    )
    max_output_tokens: int | None = attrs.field(
        default=None, kw_only=True, validator=attrs.validators.optional(at_least(1))
    )
    settings: Mapping[str, Any] = attrs.field(factory=dict[str, Any], kw_only=True, converter=_settings)
    extra: Mapping[str, Any] = attrs.field(factory=dict[str, Any], kw_only=True, converter=_extra)
    read_on: date | None = attrs.field(default=None, kw_only=True, validator=_day)

    def request(
        self,
        *,
        system: str | None = None,
        messages: Iterable[Message] = (),
        tools: Iterable[Tool] | Toolbox = (),
        extra: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Request:
        """A request to this model: ``settings`` over the model's habits, ``extra`` over its own (:func:`merge_extra`),
        ``max_tokens`` its ``max_output_tokens`` unless it is given; ``None`` lifts that.

        Typed settings win over ``extra`` of both when the request is encoded. Capabilities are not checked here.
        Raises ``ConfigError`` for a setting that does not exist or has a wrong value.
        """
        _known(settings, SETTINGS, "ModelDescriptor.request()")
        merged = merge_extra(self.extra, {} if extra is None else extra)
        request = Request(self.id, system=system, messages=messages, tools=tools, extra=merged)
        return request.replace(**{"max_tokens": self.max_output_tokens, **self.settings, **settings})

    def check(self, content: Message | Part | str | Iterable[Part | str], where: str = "content") -> None:
        """Refuse what the model cannot take in: a message, a part, or parts, those inside results too.

        Raises ``UnsupportedError`` that names the part, by its place below ``where``, and the capability that is
        missing; ``ConfigError`` for what is no part.
        """
        for part, place in _parts(content, where):
            for at, name, capability in needed(part, place):
                if capability not in self.capabilities:
                    raise UnsupportedError(f"{at} is {name}, and the model has no {capability.value}")

    def check_tools(self) -> None:
        """Refuse, by ``UnsupportedError``, tools for a model without the capability."""
        if Capability.TOOLS not in self.capabilities:
            raise UnsupportedError(f"tools are offered, and the model has no {Capability.TOOLS.value}")


def _parts(content: Message | Part | str | Iterable[Part | str], where: str) -> Iterable[tuple[Part, str]]:
    if isinstance(content, Part):
        return [(content, where)]
    if isinstance(content, str):
        return [(Text(content), where)]
    parts: Iterable[object] = content.parts if isinstance(content, Message) else content
    if not isinstance(parts, Iterable):
        raise ConfigError(f"{where} is {an(type(content))}, not a message, a part, or parts")
    below = f"{where}.parts" if isinstance(content, Message) else where
    return [_one(part, f"{below}[{number}]") for number, part in enumerate(parts)]


def _one(value: object, where: str) -> tuple[Part, str]:
    part = Text(value) if isinstance(value, str) else value
    if not isinstance(part, Part):
        raise ConfigError(f"{where} is {an(type(value))}, not a part")
    return part, where
