"""The driver of mutation testing, without mutmut: what it is told to mutate, what it explains, how a mutant gets in."""

from __future__ import annotations

import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from mutation.__main__ import explained
from mutation.plan import PLAN
from mutation.trial import code_at, function_at, in_child

ROOT = Path(__file__).parents[2]
SOURCE = """
class A:
    def plain(self): return 1
    @property
    def value(self): return 1
    @staticmethod
    def still(): return 1
def f(): return [one for one in (1,)]
"""


def text(module: str) -> str:
    lines = (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8").splitlines()
    return " ".join(line.strip() for line in lines)


def test_the_plan_names_modules_and_tests_that_are_there() -> None:
    for module, tests in PLAN.items():
        assert text(module)
        assert tests
        assert all((ROOT / test).is_file() for test in tests)


def test_what_is_explained_is_code_that_is_there() -> None:
    document = tomllib.loads((ROOT / "mutation" / "equivalent.toml").read_text(encoding="utf-8"))
    assert set(document) <= set(PLAN)
    for module, rows in document.items():
        assert all(set(row) == {"scope", "was", "now", "reason"} and row["reason"] for row in rows)
        assert len(explained(module)) == len(rows)
        for scope, was, now in explained(module):
            assert was in text(module), was
            assert was != now
            assert scope.rpartition(".")[2] in text(module)


@pytest.mark.parametrize("scope", ["A.plain", "A.value", "A.still", "f"])
def test_a_function_is_found_and_gets_other_code(scope: str) -> None:
    module = ModuleType("sample")
    exec(compile(SOURCE, "sample", "exec"), module.__dict__)
    function = function_at(module, scope)
    assert function is not None
    code = code_at(compile(SOURCE.replace("1", "2"), "sample", "exec"), scope)
    assert code is not None
    before = function(None) if scope == "A.plain" or scope == "A.value" else function()
    function.__code__ = code
    after = function(None) if scope == "A.plain" or scope == "A.value" else function()
    assert (before, after) in ((1, 2), ([1], [2]))


@pytest.mark.parametrize("scope", ["", "A", "A.other", "g.h"])
def test_what_is_no_function_is_not_found(scope: str) -> None:
    module = ModuleType("sample")
    exec(compile(SOURCE, "sample", "exec"), module.__dict__)
    assert function_at(module, scope) is None


def test_a_child_passes_fails_or_is_out_of_time() -> None:
    def fail() -> int:
        raise ValueError

    def hang() -> int:
        while True:
            pass

    assert in_child(lambda: 0, 30)
    assert not in_child(lambda: 1, 30)
    assert not in_child(fail, 30)
    assert not in_child(hang, 0.05)
