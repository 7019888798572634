"""JSON text that a model wrote, read into a type of the caller's: ``parse(T)`` (30 section 2).

An error says where and what was expected, and never shows what the model wrote: a key that the type
does not declare stands as ``[...]``. A foreign exception never leaves, since it holds the input.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar, cast

import orjson

from svir_core.errors import ConfigError, ProtocolError, SvirError
from svir_core.structure_fault import Misfit, Unreadable
from svir_core.structure_model import reads_itself
from svir_core.structure_type import reader_of

T = TypeVar("T")

FAULTS_SHOWN: Final = 5
"""An error names so many faults: enough to mend a call, short enough for a log line."""


def parse_json(text: str, into: type[T], *, what: str, complete: bool = True, faults: int = FAULTS_SHOWN) -> T:
    """``text`` as a ``T``: an attrs class, dataclass, TypedDict, NamedTuple, enum, ``dict``, ``list[...]``,
    union, ``Literal``, msgspec ``Struct`` or pydantic model, and all of these inside each other.

    Strict: ``"3"`` is no integer and unknown keys are refused (msgspec's and pydantic's classes have
    their own policy on those). Of a union, the first member that fits is taken.

    ``what`` says in errors what was read. Raises ``ProtocolError`` when it is not ``complete``, is
    not JSON, nests too deep, or does not fit ``into``, naming up to ``faults`` places; ``ConfigError`` when
    ``into`` is nothing that JSON can be read into.
    """
    if not complete:
        raise ProtocolError(f"{what}: incomplete, so not parsed")
    try:
        return cast(T, _read(text, into))
    except Unreadable as unreadable:
        error: SvirError = _unreadable(into, what, unreadable)
    except Misfit as misfit:
        error = ProtocolError(f"{what}: does not fit {_name(into)}: {_shown(misfit, faults)}")
    except orjson.JSONDecodeError:
        error = ProtocolError(f"{what}: not JSON")
    except RecursionError:
        error = ProtocolError(f"{what}: nested too deep for {_name(into)}")
    raise error


def check_readable(into: Any, *, what: str) -> None:
    """Raise the ``ConfigError`` of :func:`parse_json` before there is anything to read. No code of a class runs, so
    what msgspec or pydantic finds wrong with one of theirs is told when it is read."""
    try:
        reader_of(into)
    except Unreadable as unreadable:
        error = _unreadable(into, what, unreadable)
    else:
        return
    raise error


def _unreadable(into: Any, what: str, unreadable: Unreadable) -> ConfigError:
    return ConfigError(f"{what}: {_name(into)} is not a type that JSON can be read into{unreadable.reason}")


def _read(text: str, into: Any) -> Any:
    document = orjson.loads(text)  # also for those who read the text themselves: they differ on what is JSON
    itself = reads_itself(into) if isinstance(into, type) else None
    return reader_of(into)(document) if itself is None else itself(text.encode())


def _shown(misfit: Misfit, most: int) -> str:
    shown = "; ".join(f"${path}: {words}" for path, words in misfit.faults[:most])
    more = len(misfit.faults) - most
    return shown + (f"; and {more} more" if more > 0 else "")


def _name(into: Any) -> str:
    return str(getattr(into, "__name__", into))
