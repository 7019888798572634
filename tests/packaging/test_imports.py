"""Who may import whom: client → core ← transport, core reaches no I/O (00 sections 1 and 2), and any module may be
the first that a program imports."""

from __future__ import annotations

import ast
import os
import pathlib
import pkgutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import pytest
from packaging.requirements import Requirement

from tests.packaging.floors import FOLDERS, ROOT

OWN = {name: folder.partition("/")[0] for name, folder in FOLDERS.items()}
"""The package that each distribution adds to."""


def allowed(name: str) -> set[str]:
    """The packages, besides the standard library, that a distribution may import: its own, and what it asks for."""
    project = tomllib.loads((ROOT / FOLDERS[name] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {OWN[name]} | {
        OWN.get(each.name, each.name.replace("-", "_")) for each in map(Requirement, project["dependencies"])
    }


LATE = {
    "svir_core/structure_model.py": {"msgspec", "pydantic"},
    "svir_client/testing/cancel.py": {"trio"},
    "svir_client/tools/mcp.py": {"mcp", "mcp_types"},
    "svir_client/tools/result.py": {"msgspec"},
    "svir_client/testing/pytest_plugin.py": {"pytest"},
    "svir_client/tracing/sinks/opentelemetry.py": {"opentelemetry"},
}
"""Imported inside a function, for the caller who uses them; or by a module that only pytest imports."""

STANDARD = {
    "__future__", "abc", "base64", "binascii", "codecs", "collections", "contextlib", "dataclasses", "datetime",
    "decimal", "enum", "functools", "hashlib", "http", "ipaddress", "itertools", "json", "math", "operator", "os", "re",
    "sys", "textwrap", "time", "types", "typing", "urllib",
}  # fmt: skip
"""All of the standard library that core has business with. A module that is new here reaches no file, socket, thread
or process, or else it stands in ``PART`` too."""

PART = {
    "codecs": {"BOM_UTF8", "getincrementaldecoder"},
    "datetime": {"UTC", "datetime", "timedelta"},
    "http": {"HTTPStatus"},
    "os": {"PathLike", "fspath", "path"},
    "os.path": {"basename", "splitext"},  # of these names alone; they look at no file
    "sys": {"float_info", "modules"},
    "time": {"monotonic", "time"},
    "urllib": {"parse"},
}
"""What core uses of a module that could do I/O, or read a clock."""

NOW = {"now", "today", "utcnow"}
"""Methods of a ``datetime`` that read the clock."""

REACHING = {"__import__", "breakpoint", "compile", "eval", "exec", "input", "open", "print"}
"""Builtin functions that do I/O, or hide what does."""


def modules(package: str) -> list[pathlib.Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports(path: pathlib.Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield node.module


@pytest.mark.parametrize("name", FOLDERS)
def test_imports_only_what_its_distribution_asks_for(name: str) -> None:
    assert modules(FOLDERS[name])
    for path in modules(FOLDERS[name]):
        packages = allowed(name) | LATE.get(path.relative_to(ROOT).as_posix(), set())
        for imported in imports(path):
            top = imported.partition(".")[0]
            assert top in packages or top in sys.stdlib_module_names, f"{path} imports {imported}"


@pytest.mark.parametrize("name", FOLDERS)
def test_a_distribution_asks_for_nothing_that_it_does_not_import(name: str) -> None:
    used = {imported.partition(".")[0] for path in modules(FOLDERS[name]) for imported in imports(path)}
    assert allowed(name) <= used


def test_the_arrows() -> None:
    arrows = {name: allowed(name) & {"svir_core", "svir_transport", "svir_client"} for name in FOLDERS}
    assert arrows == {
        "svir-core": {"svir_core"},
        "svir-transport-h11": {"svir_transport", "svir_core"},
        "svir-transport-httpx": {"svir_transport", "svir_core"},
        "svir-client": {"svir_client", "svir_transport", "svir_core"},
    }
    for name, sibling in (("svir-transport-h11", "httpx"), ("svir-transport-httpx", "h11"), ("svir-client", "httpx")):
        for path in modules(FOLDERS[name]):
            for imported in imports(path):
                assert not f"{imported}.".startswith(f"svir_transport.{sibling}."), f"{path} imports {imported}"


def test_core_asks_for_attrs_and_orjson_alone() -> None:
    assert allowed("svir-core") == {"svir_core", "attrs", "orjson"}


def reaches(tree: ast.AST) -> Iterator[str]:
    """What a module of core uses that does I/O, or could."""
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names}
            yield from (alias.name for alias in node.names if foreign(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            if foreign(node.module):
                yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names if withheld(node.module, alias.name))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in REACHING:
            yield node.id
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, _, rest = ast.unparse(node.value).partition(".")
            of = modules[first] + (f".{rest}" if rest else "") if first in modules else ""
            if withheld(of, node.attr) or (first == "datetime" and node.attr in NOW):
                yield f"{of or first}.{node.attr}"


def foreign(module: str) -> bool:
    """Whether core has no business with ``module`` of the standard library."""
    top, _, rest = module.partition(".")
    return top in sys.stdlib_module_names and (top not in STANDARD or (bool(rest) and withheld(top, rest)))


def withheld(module: str, name: str) -> bool:
    """Whether core has no business with what ``module`` calls ``name``."""
    return module in PART and name not in PART[module]


def test_core_reaches_no_io() -> None:
    for path in modules("svir_core"):
        assert not list(reaches(ast.parse(path.read_text(encoding="utf-8")))), path


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import socket", "socket"),
        ("import logging.handlers", "logging.handlers"),
        ("from pathlib import Path", "pathlib"),
        ("from urllib.request import urlopen", "urllib.request"),
        ("from http import client", "http.client"),
        ("import os as o; o.environ['KEY']", "os.environ"),
        ("from os import getenv", "os.getenv"),
        ("import os; os.path.exists('f')", "os.path.exists"),
        ("from os.path import getsize", "os.path.getsize"),
        ("import sys; sys.stdout", "sys.stdout"),
        ("import time; time.sleep(1)", "time.sleep"),
        ("import codecs; codecs.open('f')", "codecs.open"),
        ("from datetime import datetime; datetime.now()", "datetime.now"),
        ("def f():\n    with open('f'): pass", "open"),
        ("__import__('socket')", "__import__"),
    ],
)
def test_what_reaching_io_looks_like(line: str, found: str) -> None:
    assert list(reaches(ast.parse(line))) == [found]


def test_no_core_module_is_named_like_one_of_the_standard_library() -> None:
    for path in modules("svir_core"):
        if path.name not in ("__init__.py", "__main__.py"):
            assert path.stem not in sys.stdlib_module_names, path


def test_transports_are_a_namespace() -> None:
    assert not (ROOT / "svir_transport" / "__init__.py").exists()


EACH_FIRST = """if True:
    import itertools, os, sys
    import anyio, anyio.to_thread, attrs, h11, orjson, pytest

    def alone(name, then=lambda: None):
        if (child := os.fork()) == 0:
            try:
                __import__(name)
                then()
            except BaseException:
                import traceback
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            sys.exit(f"{name} cannot be imported first")

    def below(names):
        for name in names:
            if name not in sys.modules:
                alone(name)

    for package, names in itertools.groupby(sorted(sys.argv[1:]), lambda name: name.rpartition(".")[0]):
        names = list(names)
        alone(package, lambda: below(names))
"""
"""Imports each module in a process of its own. A package is always imported before a module of it, so what it loads
has no other order; and what is loaded before all is of others."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("name", FOLDERS)
def test_any_module_may_be_imported_first(name: str) -> None:
    package = FOLDERS[name].replace("/", ".")
    names = [module.name for module in pkgutil.walk_packages([str(ROOT / FOLDERS[name])], f"{package}.")]
    command = [sys.executable, "-W", "error", "-c", EACH_FIRST, *names]
    done = subprocess.run(command, check=False, timeout=100, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


NOT_OF_THE_CLIENT = {
    "asyncio", "email", "h11", "http.client", "httpx", "httpx2", "msgspec", "multiprocessing", "pydantic", "pytest",
    "opentelemetry", "ssl", "trio",
}  # fmt: skip
"""What ``import svir_client`` leaves to whoever uses it: the time it takes is the program's."""


@pytest.mark.parametrize("line", ["import svir_client", "from svir_client import AsyncClient, Client"])
def test_the_client_loads_nothing_before_its_use(line: str) -> None:
    program = f"import sys; {line}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "svir_client" in loaded
    assert not loaded & NOT_OF_THE_CLIENT
    assert not any(name.startswith("svir_transport.") for name in loaded)
