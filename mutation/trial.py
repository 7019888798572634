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
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, TextIO

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
"""A trial may take so many times as long as the unchanged module's, plus so many seconds. It is the processor's time
that counts, since a busy machine is no fault of the mutant."""
BASELINE_SECONDS: Final = 300.0
WAITING_SECONDS: Final = 120.0
"""The time by the clock after which a trial that only waits is given up."""


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

    def __init__(self, subject: Subject, mutants: Sequence[Mutant], told: TextIO) -> None:
        self._subject = subject
        self._mutants = mutants
        self._told = told

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            return True
        durations = self._durations(session)
        if durations is None:
            return True
        session.items.sort(key=lambda item: durations[item.nodeid])
        module = sys.modules[self._subject.name]
        for number, mutant in enumerate(self._mutants):
            function = function_at(module, mutant.scope)
            code = code_at(compile(mutant.source, self._subject.path, "exec"), mutant.scope)
            if function is None or code is None or function.__code__ == code:
                self._tell("unfit", number)
                continue

            def work(function: FunctionType = function, code: CodeType = code) -> int:
                function.__code__ = code
                return run_items(session, session.items, durations)

            if in_child(work, WAITING_SECONDS):
                self._tell("passed", number)
        self._tell("all", len(self._mutants))
        return True

    def _tell(self, word: str, number: int) -> None:
        self._told.write(f"{word} {number}\n")
        self._told.flush()

    def _durations(self, session: pytest.Session) -> dict[str, float] | None:
        """The processor's seconds of each test, or ``None`` when one fails."""
        with tempfile.TemporaryFile("w+") as file:

            def work() -> int:
                durations: dict[str, float] = {}
                status = 0
                for item in session.items:
                    started = time.process_time()
                    status = status or run_items(session, [item], {item.nodeid: BASELINE_SECONDS})
                    durations[item.nodeid] = time.process_time() - started
                json.dump(durations, file)
                file.flush()
                return status

            fine = in_child(work, BASELINE_SECONDS)
            file.seek(0)
            return json.load(file) if fine else None


def run_items(session: pytest.Session, items: Sequence[pytest.Item], durations: Mapping[str, float]) -> int:
    """Run the tests until one fails: 1, else 0. One that takes too long ends the process."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        signal.setitimer(signal.ITIMER_VIRTUAL, SLACK * durations[item.nodeid] + 1)
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


def told_of_functions(subject: Subject, mutants: Sequence[Mutant]) -> Iterator[tuple[str, int]]:
    """The numbers of the mutants that no test noticed ("passed") or that are in no function ("unfit"), and last "all",
    which is missing when the tests fail already."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reader)
            silence = os.open(os.devnull, os.O_RDWR)
            os.dup2(silence, 1)
            with os.fdopen(writer, "w") as told:
                pytest.main([*OPTIONS, *subject.tests], plugins=[Session(subject, mutants, told)])
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as heard:
        for line in heard:
            word, number = line.split()
            yield word, int(number)
    os.waitpid(child, 0)


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
    """Whether the tests pass with this source of the module, in so many seconds of the processor."""

    def work() -> int:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        sys.meta_path.insert(0, Changed(subject, source))
        return int(any(pytest.main([*OPTIONS, test]) for test in subject.tests))

    return in_child(work, WAITING_SECONDS)
