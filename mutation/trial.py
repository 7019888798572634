"""Mutants on trial: their tests in a child of this process, one child for each mutant.

Two ways, since starting anew costs half a second. A mutant of a function is put into a session of pytest that has
imported everything: the function gets the other code. What is not within a function is imported from the changed
source, in a child that has pytest but nothing of svir yet.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import attrs
import hypothesis
import pytest

from mutation.mutants import Mutant

PRELOADED: Final = ("anyio.pytest_plugin", "hypothesis.strategies", "orjson", "pytest_timeout", "trio.testing")
OPTIONS: Final = (
    *("-x", "-q", "-s", "-p", "no:cacheprovider", "--hypothesis-profile=mutation"),
    "-Wignore::pytest.PytestAssertRewriteWarning",  # of the plugins that are loaded before pytest runs
)
EXAMPLES: Final = 40

SLACK: Final = 3.0
"""A trial may take so many times as long as the unchanged module's, and so many seconds more."""
BASELINE_SECONDS: Final = 300.0


@attrs.frozen
class Subject:
    """A module, its file, and the tests that are to notice."""

    name: str
    path: str
    tests: tuple[str, ...]


def preload() -> None:
    """Load what the tests need, except svir; and a profile that neither shrinks nor remembers."""
    for name in PRELOADED:
        importlib.import_module(name)
    hypothesis.settings.register_profile(
        "mutation",
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
    )


def in_child(work: Callable[[], int], seconds: float) -> bool:
    """Whether ``work``, in a child, gives 0 in time."""
    child = os.fork()
    if not child:
        status = 1
        try:
            silence = os.open(os.devnull, os.O_RDWR)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            status = work()
        finally:
            os._exit(status)
    ended = os.pidfd_open(child)
    try:
        if not select.select([ended], [], [], seconds)[0]:
            os.kill(child, signal.SIGKILL)
        return os.waitpid(child, 0)[1] == 0
    finally:
        os.close(ended)


# --- what is within a function ----------------------------------------------------------------------


class Session:
    """A pytest plugin that runs the tests once for each mutant, instead of once."""

    def __init__(self, subject: Subject, mutants: Sequence[Mutant]) -> None:
        self._subject = subject
        self._mutants = mutants
        self.passed: list[int] | None = None
        self.unfit: list[int] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            return True
        durations = self._durations(session)
        if durations is None:
            return True
        session.items.sort(key=lambda item: durations[item.nodeid])
        limit = SLACK * (1 + sum(durations.values()))
        passed: list[int] = []
        module = sys.modules[self._subject.name]
        for number, mutant in enumerate(self._mutants):
            function = function_at(module, mutant.scope)
            code = code_at(compile(mutant.source, self._subject.path, "exec"), mutant.scope)
            if function is None or code is None or function.__code__ == code:
                self.unfit.append(number)
                continue

            def work(function: FunctionType = function, code: CodeType = code) -> int:
                function.__code__ = code
                return run_items(session)

            if in_child(work, limit):
                passed.append(number)
        self.passed = passed
        return True

    def _durations(self, session: pytest.Session) -> dict[str, float] | None:
        """How long each test takes, or ``None`` when one fails."""
        reader, writer = os.pipe()
        durations: dict[str, float] = {}

        def work() -> int:
            status = 0
            for item in session.items:
                started = time.monotonic()
                status = status or run_items(session, [item])
                durations[item.nodeid] = time.monotonic() - started
            with os.fdopen(writer, "w") as told:
                json.dump(durations, told)
            return status

        # the pipe holds 64 KiB, which some hundred tests do not fill
        fine = in_child(work, BASELINE_SECONDS)
        os.close(writer)
        with os.fdopen(reader) as heard:
            return json.load(heard) if fine else None


def run_items(session: pytest.Session, items: Sequence[pytest.Item] | None = None) -> int:
    """Run the tests until one fails: 1, else 0."""
    chosen = session.items if items is None else items
    for item, following in zip(chosen, [*chosen[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return 1
    return 0


def function_at(module: ModuleType, scope: str) -> FunctionType | None:
    """The function of this qualified name."""
    found: Any = module
    for name in scope.split("."):
        members: Mapping[str, Any] = getattr(found, "__dict__", {})
        found = members.get(name)
        found = getattr(found, "fget", None) or getattr(found, "__func__", None) or found
    return found if isinstance(found, FunctionType) else None


def code_at(code: CodeType, scope: str) -> CodeType | None:
    """The code of the function of this qualified name, in the code of its module."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_qualname == scope:
                return constant
            if (inner := code_at(constant, scope)) is not None:
                return inner
    return None


def survivors_of_functions(subject: Subject, mutants: Sequence[Mutant]) -> tuple[list[int], list[int]] | None:
    """Which of ``mutants`` no test noticed, and which are in no function; ``None`` when the tests fail already."""
    reader, writer = os.pipe()

    def work() -> int:
        session = Session(subject, mutants)
        pytest.main([*OPTIONS, *subject.tests], plugins=[session])
        with os.fdopen(writer, "w") as told:
            json.dump([session.passed, session.unfit], told)
        return 0

    child = os.fork()
    if not child:
        try:
            os.close(reader)
            silence = os.open(os.devnull, os.O_RDWR)
            os.dup2(silence, 1)
            work()
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as heard:
        passed, unfit = json.loads(heard.read() or "[null, []]")
    os.waitpid(child, 0)
    return None if passed is None else (passed, unfit)


# --- what is not ------------------------------------------------------------------------------------


class Changed(MetaPathFinder, Loader):
    """Imports one module from another source."""

    def __init__(self, subject: Subject, source: str) -> None:
        self._subject, self._source = subject, source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._subject.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self._subject.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._source, self._subject.path, "exec"), module.__dict__)


def survives_anew(subject: Subject, source: str, seconds: float) -> bool:
    """Whether the tests pass although the module has this source; not to end in time is to notice."""

    def work() -> int:
        sys.meta_path.insert(0, Changed(subject, source))
        return int(any(pytest.main([*OPTIONS, test]) for test in subject.tests))

    return in_child(work, seconds)
