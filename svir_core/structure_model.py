"""Classes that bring their own reader: msgspec's and pydantic's, each by its own policy on unknown keys.

Neither library is ever imported for its own sake: a class of theirs exists only where it already is.
Their messages may quote what was read, so only what they say about types is passed on.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Union, cast, get_args

import orjson

from svir_core.structure_fault import Misfit, Reader, Unreadable

if TYPE_CHECKING:
    import msgspec
    import pydantic

_MSGSPEC_SAFE: Final = re.compile(r"Expected `[^`]*`, got `[a-z]+`|Object missing required field `[^`]*`")
_MSGSPEC_PATH: Final = re.compile(r" - at (?:`key` in )?`\$([^`]*)`$")


def reads_itself(kind: type) -> Reader | None:
    """A function from bytes of JSON to a ``kind``, where ``kind`` is a msgspec or pydantic class."""
    for module, base, reader in _LIBRARIES:
        if module in sys.modules and issubclass(kind, getattr(sys.modules[module], base)):
            return lambda data: reader(data, cast(Any, kind))
    return None


def tagged_reader(members: list[Any]) -> tuple[tuple[type, ...], Reader] | None:
    """Those ``members`` of a union that are msgspec Structs with tags, when they are several, and what reads them."""
    if "msgspec" not in sys.modules:
        return None
    import msgspec

    structs = (each for each in members if isinstance(each, type) and issubclass(each, msgspec.Struct))
    tagged = tuple(each for each in structs if each.__struct_config__.tag is not None)
    if len(tagged) < 2:
        return None
    union = cast("Any", Union)[tagged]
    return tagged, lambda value: _by_msgspec(orjson.dumps(value), union)


def _by_msgspec(data: bytes, kind: type[msgspec.Struct]) -> object:
    import msgspec

    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        message = str(error)
    except TypeError:
        raise Unreadable from None
    path = _MSGSPEC_PATH.search(message)
    safe = _MSGSPEC_SAFE.match(message)
    raise Misfit(faults=[(path[1] if path else "", safe[0].lower() if safe else "was refused")])


def _by_pydantic(data: bytes, kind: type[pydantic.BaseModel]) -> object:
    import pydantic

    try:
        return kind.model_validate_json(data, strict=True)
    except pydantic.ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
    except pydantic.errors.PydanticUserError:
        raise Unreadable from None
    declared = set(_declared(kind, set()))
    raise Misfit(faults=[(_path(fault["loc"], declared), fault["type"].replace("_", " ")) for fault in faults])


def _declared(annotation: Any, seen: set[Any]) -> Iterator[str]:
    """The names of all fields that pydantic models below ``annotation`` declare."""
    if annotation in seen:
        return
    seen.add(annotation)
    for name, field in getattr(annotation, "model_fields", {}).items():
        yield from (name, field.alias or name)
        yield from _declared(field.annotation, seen)
    for argument in get_args(annotation):
        yield from _declared(argument, seen)


def _path(location: tuple[int | str, ...], declared: set[str]) -> str:
    """The way down; a key that no model declares is what was read, so it is not shown."""
    return "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" if step in declared else "[...]" for step in location
    )


def schema_of_model(kind: type) -> dict[str, Any] | None:
    """The JSON Schema that msgspec or pydantic makes of a class of theirs, else ``None``."""
    for module, base, make in _SCHEMAS:
        if module in sys.modules and issubclass(kind, getattr(sys.modules[module], base)):
            try:
                return make(cast(Any, kind))
            except Exception:  # noqa: BLE001 - each library has its own for a field that JSON cannot carry
                raise Unreadable from None
    return None


def _msgspec_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    import msgspec

    return msgspec.json.schema(kind)


def _pydantic_schema(kind: type[pydantic.BaseModel]) -> dict[str, Any]:
    return kind.model_json_schema()


_SCHEMAS: Final = (("msgspec", "Struct", _msgspec_schema), ("pydantic", "BaseModel", _pydantic_schema))

_LIBRARIES: Final = (("msgspec", "Struct", _by_msgspec), ("pydantic", "BaseModel", _by_pydantic))
