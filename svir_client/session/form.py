"""The JSON forms of a session: as one document, and in the pieces that a store keeps.

Built from the rows of ``svir_core.serial_table``: a value is an object with its ``type`` first, and a field that has
its default is left out. A generation that did not finish stands there without its history, which is the session's.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import NoneType
from typing import Any, Final

import attrs
import orjson

from svir_client.session.record import SessionRecord
from svir_core.check import an, expect, instance_of
from svir_core.errors import ConfigError, StoreError
from svir_core.json_form import STRING, Array, Optional
from svir_core.json_record import Rows, record
from svir_core.json_text import sanitize
from svir_core.loop import ToolLoop
from svir_core.message import Message, Role
from svir_core.serial_table import TABLE


def session_id(value: str) -> str:
    """``value`` as the id of a session: text that any store can hold; ``ConfigError`` for anything else."""
    text = expect(value, str, "the id of a session")
    if not text or "\0" in text or sanitize(text) != text:
        raise ConfigError("the id of a session is a text of valid Unicode, not empty, without NUL")
    return text


def system_text(value: str) -> str:
    """``value`` as a system instruction; ``ConfigError`` when it is none, or empty."""
    text = expect(value, str, "the system instruction of a session")
    if not text:
        raise ConfigError("the system instruction of a session must not be empty")
    return text


def history(values: Iterable[Message]) -> tuple[Message, ...]:
    """``values`` as messages of a session; ``ConfigError`` for what is none, and for the system's, which is its own."""
    if not isinstance(values, Iterable):
        raise ConfigError(f"the messages of a session: {an(type(values))} cannot be iterated")
    messages = tuple(values)
    for number, message in enumerate(messages):
        if not isinstance(message, Message):
            raise ConfigError(f"message {number} for a session is {an(type(message))}, not a Message")
        if message.role is Role.SYSTEM:
            raise ConfigError(f"message {number} for a session is the system's: its system instruction stands apart")
    return messages


def _system(value: str | None) -> str | None:
    return None if value is None else system_text(value)


@attrs.frozen
class Head:
    """What a session has beside its messages."""

    system: str | None = attrs.field(default=None, converter=_system)
    suspended: ToolLoop | None = attrs.field(default=None, validator=instance_of(ToolLoop, NoneType))


@attrs.frozen
class Document:
    """All of a session that is stored."""

    id: str = attrs.field(converter=session_id)
    system: str | None = attrs.field(default=None, converter=_system)
    messages: tuple[Message, ...] = attrs.field(default=(), converter=history)
    suspended: ToolLoop | None = attrs.field(default=None, validator=instance_of(ToolLoop, NoneType))


_START: Final = "$.suspended.start"
_ROWS: Final = Rows()
_MESSAGE: Final = _ROWS.tagged(Message)
_SUSPENDED: Final = Optional(_ROWS.tagged(ToolLoop))
_HEAD: Final = _ROWS.tagged(Head)
_DOCUMENT: Final = _ROWS.tagged(Document)
_ROWS.fill(
    (
        *TABLE,
        record("session_head", Head, system=Optional(STRING), suspended=_SUSPENDED),
        record("session", Document, id=STRING, system=Optional(STRING), messages=Array(_MESSAGE), suspended=_SUSPENDED),
    )
)


def _parsed(data: bytes | bytearray | memoryview | str, path: str) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        offset = error.pos
    raise ConfigError(f"{path}: not JSON, at character {offset}")


def check_start(suspended: ToolLoop | None, count: int, where: str) -> None:
    """``ConfigError``, naming ``where``, for a generation that began after the last of ``count`` messages: its turn
    would not be there."""
    start = None if suspended is None else suspended.start
    if start is not None and start >= count:
        raise ConfigError(f"{where}: {start}, and there are {count} messages")


def document_bytes(document: Document) -> bytes:
    """``document`` as JSON; ``ConfigError``, naming the path, for what has no form."""
    return orjson.dumps(_DOCUMENT.write(document, None))


def read_document(data: bytes | bytearray | memoryview | str) -> Document:
    """The inverse of :func:`document_bytes`; ``ConfigError``, naming the path, for what is not its form."""
    document: Document = _DOCUMENT.read(_parsed(data, "$"), None)
    check_start(document.suspended, len(document.messages), _START)
    return document


def message_text(message: Message) -> str:
    """``message`` as JSON text; ``ConfigError`` as above."""
    return orjson.dumps(_MESSAGE.write(message, None)).decode()


def head_text(head: Head) -> str:
    """``head`` as JSON text; ``ConfigError`` as above."""
    return orjson.dumps(_HEAD.write(head, None)).decode()


def read_record(id: str, stored: SessionRecord) -> Document:
    """What a store has of a session; ``StoreError``, naming the path, when it is not what was stored."""
    try:
        head: Head = _HEAD.read(_parsed(stored.head, "$"), None)
        messages = history(
            _MESSAGE.read(_parsed(text, f"$.messages[{number}]"), ((None, "messages"), number))
            for number, text in enumerate(stored.messages)
        )
        check_start(head.suspended, len(messages), _START)
    except ConfigError as error:
        detail = error.detail
    else:
        return Document(id, head.system, messages, head.suspended)
    raise StoreError(f"what the store has of this session cannot be read: {detail}")
