"""What one server is known to refuse, and how that is learned from its refusals (10 section 11, 30 section 2).

Only two things are ever learned: that an optional field is refused, and that a field or a role goes
by another name. Requirements (tools, tool choice, response format) are neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import attrs
import orjson

from svir_core.errors import ConfigError
from svir_core.wire.api import Alternative, Compat
from svir_core.wire.failure import Failure
from svir_core.wire.json_value import is_array, is_object
from svir_core.wire.names import optional_names, other_names

REFUSAL_CODES: Final = frozenset({"unsupported_parameter", "unknown_parameter"})
"""``error.code`` of a field that is refused as such, named by ``error.param``. Seen on OpenAI."""

_UNKNOWN: Final = r"(?:unsupported|unknown|unrecogni[sz]ed|unexpected)"
_FIELD: Final = r"(?:parameter|argument|field|key|property|option|input|name|role|variant)s?"
_FIELDS: Final = r"(?:parameters|arguments|fields|keys|properties|options|inputs|names|values|roles)"
_NOT: Final = rf"(?:not (?:supported|permitted|allowed|accepted|recogni[sz]ed)|{_UNKNOWN}|deprecated)"
_REFUSED_FIELD: Final = re.compile(
    rf"{_UNKNOWN}(?: request| keyword)? {_FIELD}\b|\b{_FIELD} (?:is|are) {_NOT}", re.IGNORECASE
)
_REFUSED_NAMES: Final = (
    _UNKNOWN + r"(?: request| keyword)? " + _FIELD + r"\b[^.;]{0,40}?(?<!\w)NAME(?!\w)",
    r"(?:not support|" + _UNKNOWN + r")[\s:'\"`]+NAME(?!\w)",
    r"(?<!\w)NAME['\"`]?(?: " + _FIELD + r")?(?: is| are| was| were)? " + _NOT,
    r"(?<!\w)NAME\W{1,6}msg\W{1,6}extra inputs are not permitted",
    r"\b(?:extra|additional) " + _FIELD + r" (?:is|are) not (?:permitted|allowed)[^.;]{0,40}?(?<!\w)NAME(?!\w)",
)
"""How servers say that a field is refused as such, and not for its value: ``max_tokens is too large; use
4096 instead`` is no wish for another name, and a server that does not know the other one would drop it."""

_ACCEPTED: Final = re.compile(
    r"\bexpected (?:one of\b|['\"`])[^.;]*"
    rf"|(?<!not )\b(?:allowed|supported|accepted|permitted|valid|known|available) {_FIELDS}\b[^.;]*",
    re.IGNORECASE,
)
"""The list of what a server does take, which names fields that it does not refuse: ``unknown field `a`,
expected one of `b`, `c` `` (every server whose JSON is read by serde, in Rust)."""


def _strings(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


@attrs.define(repr=False)
class Compatibility:
    """The memory of one server: share one between the clients, tasks and threads that talk to it.

    Nothing waits and no update is lost: every fact is one item of a dict, and the interpreter sets
    an item, and copies a dict, as one step. Two memories are equal when they know the same.
    """

    _omitted: dict[str, None] = attrs.field(factory=dict[str, None], init=False)
    _names: dict[str, str] = attrs.field(factory=dict[str, str], init=False)

    def known(self) -> Compat:
        """What is known now, as the encoder takes it."""
        return Compat(frozenset(self._omitted.copy()), self._names.copy())

    def learn(self, *, omit: Iterable[str] = (), rename: Mapping[str, str] | None = None) -> None:
        """Remember refused optional fields, and names under which the server takes what svir calls otherwise.

        ``rename`` maps svir's name to the server's; a name to itself forgets an earlier rename.
        ``ConfigError``, and nothing learned, when these are no names.
        """
        names = None if isinstance(omit, str) or not isinstance(omit, Iterable) else tuple(omit)
        if names is None or not _strings(names):
            raise ConfigError("'omit' of a compatibility memory is a list of strings")
        others: Mapping[str, str] = dict[str, str]() if rename is None else rename
        if not isinstance(others, Mapping) or not _strings((*others, *others.values())):
            raise ConfigError("'rename' of a compatibility memory is an object of strings")
        for name in names:
            self._omitted[name] = None
        for name, other in others.items():
            if name == other:
                self._names.pop(name, None)
            else:
                self._names[name] = other

    def explain(self) -> str:
        """What is known, one fact a line, for people."""
        known = self.known()
        lines = [
            f"{name}: refused by the server, {'left out of requests' if name in optional_names() else 'never left out'}"
            for name in sorted(known.omit)
        ]
        lines += [f"{name}: sent as {other}" for name, other in sorted(known.rename.items())]
        return "\n".join(lines) or "nothing learned: requests go out as asked"

    def to_json(self) -> str:
        """What is known, as JSON: ``{"omit": [..], "rename": {..}}``, in a stable order."""
        known = self.known()
        value = {"omit": sorted(known.omit), "rename": dict(known.rename)}
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Compatibility:
        """A memory from :meth:`to_json`; ``ConfigError`` for anything else, and for what no encoder acts on:
        a field that is never left out, a name that is never changed, or not to that one. It is named."""
        value: Any = None
        with suppress(orjson.JSONDecodeError):
            value = orjson.loads(text)
        if not is_object(value) or value.keys() != {"omit", "rename"}:
            raise ConfigError("a compatibility memory is a JSON object of 'omit' and 'rename'")
        if not is_array(value["omit"]) or not is_object(value["rename"]):
            raise ConfigError("'omit' of a compatibility memory is a list, and 'rename' an object")
        memory = cls()
        memory.learn(**value)
        memory._check_names()
        return memory

    def _check_names(self) -> None:
        """Refuse what no encoder acts on."""
        for name in self._omitted:
            if name not in optional_names():
                raise ConfigError(
                    f"'omit' of a compatibility memory: {name!r} is not optional, so it is never left out"
                )
        for name, other in self._names.items():
            if other not in other_names().get(name, ()):
                raise ConfigError(f"'rename' of a compatibility memory: {name!r} is never sent as {other!r}")

    def __repr__(self) -> str:
        known = self.known()
        return f"Compatibility(omit={sorted(known.omit)!r}, rename={dict(sorted(known.rename.items()))!r})"

    def __reduce__(self) -> tuple[Callable[..., Compatibility], tuple[frozenset[str], dict[str, str]]]:
        known = self.known()
        return (_remembered, (known.omit, dict(known.rename)))


def _remembered(omit: frozenset[str], rename: dict[str, str]) -> Compatibility:
    """A copy of a memory, which is taken for what it was."""
    memory = Compatibility()
    memory.learn(omit=omit, rename=rename)
    return memory


@attrs.frozen
class Lesson:
    """What a refusal suggests; it is learned when the retry without these fields is taken.

    Attributes:
        omit: the optional fields to remember as refused.
        rename: svir's name to the one to use from now on.
    """

    omit: frozenset[str] = frozenset()
    rename: Mapping[str, str] = attrs.field(factory=dict[str, str])


def _at_fault(failure: Failure, name: str) -> bool:
    """Whether ``error.param`` is ``name``, or something inside it."""
    return failure.param is not None and re.split(r"[.\[]", failure.param, maxsplit=1)[0] == name


def _refusing(failure: Failure) -> str:
    """The server's words without what it says that it does take."""
    return _ACCEPTED.sub("", failure.message or "")


def _accepting(failure: Failure) -> str:
    """What the server says that it does take."""
    return " ".join(_ACCEPTED.findall(failure.message or ""))


def _has_word(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE) is not None


def _names(failure: Failure, name: str) -> bool:
    """Whether the server named ``name``: as the field at fault, or as a word of its message."""
    return _at_fault(failure, name) or _has_word(_refusing(failure), name)


def _refuses(failure: Failure, name: str) -> bool:
    """Whether the server refused ``name`` as such."""
    message = _refusing(failure)
    if _at_fault(failure, name) and (failure.code in REFUSAL_CODES or _REFUSED_FIELD.search(message)):
        return True
    patterns = (pattern.replace("NAME", re.escape(name)) for pattern in _REFUSED_NAMES)
    return any(re.search(pattern, message, re.IGNORECASE) for pattern in patterns)


def _renamed(failure: Failure, sent: str, wanted: str, about: str | None) -> bool:
    """Whether the server may take ``wanted`` in place of ``sent``: it spoke of the one, or refused the other,
    or listed the one and not the other among what it takes.

    ``about`` must be spoken of too: ``system`` alone is an everyday word.
    """
    spoken_of = f"{failure.param or ''} {failure.message or ''}".lower()
    if about is not None and about not in spoken_of:
        return False
    accepted = _accepting(failure)
    listed = _has_word(accepted, wanted) and not _has_word(accepted, sent)
    return listed or _names(failure, wanted) or _refuses(failure, sent)


def lesson(
    failure: Failure, optional: frozenset[str], alternatives: Iterable[Alternative], known: Mapping[str, str]
) -> Lesson | None:
    """What to try after ``failure``, or ``None`` when nothing that was sent could be at fault.

    ``optional`` are the optional fields that were sent; the retry leaves out all of them. Those that
    the server named are remembered, or all of them when it named none. ``alternatives`` are the names
    that have another one, ``known`` the renames that were in use.
    """
    faults = (failure, *failure.others)
    rename: dict[str, str] = {}
    for alternative in alternatives:
        sent = known.get(alternative.name, alternative.name)
        wanted = alternative.other if sent == alternative.name else alternative.name
        if any(_renamed(fault, sent, wanted, alternative.about) for fault in faults):
            rename[alternative.name] = wanted
    named = frozenset(name for name in optional if any(_names(fault, name) for fault in faults))
    if named or rename:
        return Lesson(named, rename)
    return Lesson(optional) if optional else None
