"""The mutants of one module: its source with one thing changed.

mutmut's operators do most of it. They leave out what this code is made of, tables and conditions, which is
added here; and of the words in an error, which are for people, no mutants are made.
"""

from __future__ import annotations

import importlib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Final

import attrs

Node = Any
"""A node of libcst, which ``make mutate`` installs with mutmut; nothing else needs it."""

_PROSE: Final = re.compile(r"[a-z],? [a-z]")
_NOT_BEHAVIOUR: Final = frozenset({"__slots__", "__all__"})
_SKIPPED: Final = ("Annotation", "Decorator", "Import", "ImportFrom", "Comment", "Parameters")


@attrs.frozen
class Mutant:
    """One changed source.

    Attributes:
        scope: the class and function that it is in, ``""`` at the top.
        was: the changed lines as they were, without indentation.
        now: the same as they are in the mutant.
    """

    scope: str
    was: str
    now: str
    line: int
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of ``source``, in its order; none of them twice."""
    cst = importlib.import_module("libcst")
    module = cst.parse_module(source)
    seen = {source}
    operators = Operators(cst, module)
    for scope, node in _nodes(module, ""):
        for changed in operators.changes(node, top=not scope):
            code: str = module.deep_replace(node, changed).code
            if code not in seen and _compiles(code):
                seen.add(code)
                yield _mutant(scope, source, code)


def _compiles(code: str) -> bool:
    try:
        compile(code, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def _nodes(node: Node, scope: str) -> Iterator[tuple[str, Node]]:
    kind = type(node).__name__
    if kind in _SKIPPED or _is_no_behaviour(node, kind):
        return
    yield scope, node
    inner = scope
    if kind in ("ClassDef", "FunctionDef"):
        inner = f"{scope}.{node.name.value}".lstrip(".")
    for child in node.children:
        yield from _nodes(child, inner)
    if kind == "FunctionDef":
        for parameter in (*node.params.params, *node.params.kwonly_params):
            if parameter.default is not None:
                yield from _nodes(parameter.default, inner)


def _is_no_behaviour(node: Node, kind: str) -> bool:
    """Docstrings, slots, members that number themselves, and what only a type checker reads."""
    if kind == "Expr":
        return type(node.value).__name__ in ("SimpleString", "Ellipsis")
    if kind == "Assign":
        target = getattr(node.targets[0].target, "value", None)
        numbered = type(node.value).__name__ == "Call" and getattr(node.value.func, "value", None) == "auto"
        return target in _NOT_BEHAVIOUR or numbered
    if kind == "Call":
        return getattr(node.func, "value", None) == "cast"
    return kind == "If" and getattr(node.test, "value", None) == "TYPE_CHECKING"


def _mutant(scope: str, source: str, code: str) -> Mutant:
    before, after = source.splitlines(), code.splitlines()
    first = _alike(before, after)
    rest = _alike(before[first:][::-1], after[first:][::-1])
    was, now = (" ".join(line.strip() for line in lines[first : len(lines) - rest]) for lines in (before, after))
    return Mutant(scope, was, now, first + 1, code)


def _alike(some: Sequence[str], others: Sequence[str]) -> int:
    """With how many equal lines both begin."""
    pairs = enumerate(zip(some, others, strict=False))
    return next((number for number, (one, other) in pairs if one != other), min(len(some), len(others)))


class Operators:
    """What may become of a node."""

    def __init__(self, cst: ModuleType, module: Node) -> None:
        self._cst: Any = cst
        self._members = _members(module)
        self._mutmut: list[tuple[type, Any]] = list(
            importlib.import_module("mutmut.mutation.mutators").mutation_operators
        )

    def changes(self, node: Node, *, top: bool) -> Iterator[Node]:
        """The nodes that may stand in the place of ``node``."""
        kind = type(node).__name__
        if kind == "SimpleString" and _PROSE.search(node.value):
            return
        for type_, operator in self._mutmut:
            if isinstance(node, type_):
                # of a string one mutant is enough: the others change its case
                yield from itertools.islice(operator(node), 1 if kind == "SimpleString" else None)
        own = getattr(self, f"_{kind}", None)
        if own is not None:
            yield from own(node)
        if kind in ("Dict", "Set", "List") or (kind == "Tuple" and top):
            yield from _without_one(node)

    def _name(self, word: str) -> Node:
        return self._cst.Name(word)

    def _Dict(self, node: Node) -> Iterator[Node]:
        """Give an entry its neighbour's value."""
        elements = [one for one in node.elements if type(one).__name__ == "DictElement"]
        for one in elements:
            others = (other.value for other in _after(elements, one))
            value = next((other for other in others if not other.deep_equals(one.value)), None)
            if value is not None:
                yield node.deep_replace(one, one.with_changes(value=value))

    def _Attribute(self, node: Node) -> Iterator[Node]:
        """Another member of the same enumeration."""
        members = self._members.get(_dotted(node.value), ())
        if node.attr.value in members:
            place = members.index(node.attr.value)
            for other in members[place + 1 : place + 2] or members[:place][:1]:
                yield node.with_changes(attr=self._name(other))

    def _BooleanOperation(self, node: Node) -> Iterator[Node]:
        for one in (node.left, node.right):
            yield one.with_changes(lpar=node.lpar or one.lpar, rpar=node.rpar or one.rpar)

    def _If(self, node: Node) -> Iterator[Node]:
        for word in ("True", "False"):
            yield node.with_changes(test=self._name(word), whitespace_before_test=self._cst.SimpleWhitespace(" "))

    def _Return(self, node: Node) -> Iterator[Node]:
        if node.value is not None and getattr(node.value, "value", None) != "None":
            yield node.with_changes(value=self._name("None"), whitespace_after_return=self._cst.SimpleWhitespace(" "))

    def _Expr(self, node: Node) -> Iterator[Node]:
        yield self._cst.Pass()

    def _AugAssign(self, node: Node) -> Iterator[Node]:
        yield self._cst.Pass()

    def _Raise(self, node: Node) -> Iterator[Node]:
        yield self._cst.Pass()


def _members(module: Node) -> Mapping[str, tuple[str, ...]]:
    """The members of each enumeration that the module mentions."""
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for _, node in _nodes(module, ""):
        if type(node).__name__ == "Attribute" and node.attr.value.isupper():
            found[_dotted(node.value)][node.attr.value] = None
    return {name: tuple(members) for name, members in found.items()}


def _dotted(node: Node) -> str:
    return str(getattr(node, "value", ""))


def _without_one(node: Node) -> Iterator[Node]:
    """A literal without one of its elements."""
    for place in range(len(node.elements)):
        elements = [*node.elements[:place], *node.elements[place + 1 :]]
        if elements or type(node).__name__ != "Set":
            yield node.with_changes(elements=elements)


def _after(elements: list[Node], one: Node) -> Iterable[Node]:
    place = next(number for number, other in enumerate(elements) if other is one)
    return [*elements[place + 1 :], *elements[:place]]
