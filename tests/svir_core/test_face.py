"""The face of the package: what it exports is what it imports, and every neutral type is there."""

from __future__ import annotations

import ast
import importlib
import inspect
import pathlib
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import svir_core
from svir_core.version import VERSION
from svir_core.wire import openai_chat

NEUTRAL = ("errors", "event", "message", "request", "response")
"""Modules whose every public class belongs to the face."""

MODULES = [module.name for module in pkgutil.walk_packages(svir_core.__path__, "svir_core.")]


@pytest.mark.parametrize("face", [svir_core, openai_chat], ids=lambda face: face.__name__)
def test_a_face_exports_exactly_what_it_imports(face: ModuleType) -> None:
    names: tuple[str, ...] = face.__all__
    tree = ast.parse(pathlib.Path(inspect.getfile(face)).read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert isinstance(names, tuple)
    assert len(set(names)) == len(names)
    assert set(names) == imported
    for name in names:
        assert getattr(face, name) is not None


@pytest.mark.parametrize("name", NEUTRAL)
def test_every_neutral_type_is_in_the_face(name: str) -> None:
    module = importlib.import_module(f"svir_core.{name}")
    for known, value in vars(module).items():
        if isinstance(value, type) and value.__module__ == module.__name__ and not known.startswith("_"):
            assert known in svir_core.__all__
            assert getattr(svir_core, known) is value


@pytest.mark.parametrize("name", [name for name in svir_core.__all__ if name[0].isalpha()])
def test_every_public_class_and_method_says_what_it_does(name: str) -> None:
    exported: object = getattr(svir_core, name)
    if not isinstance(exported, type):
        return
    assert inspect.getdoc(exported)
    members: dict[str, object] = dict(vars(exported))
    for member, value in members.items():
        if not member.startswith("_") and (inspect.isfunction(value) or type(value) in (property, classmethod)):
            assert inspect.getdoc(value), f"{name}.{member}"


def test_the_version() -> None:
    assert svir_core.__version__ == VERSION


def test_every_module_can_be_imported_first() -> None:
    program = """if True:
        import importlib, sys
        for name in sys.argv[1:]:
            for known in [known for known in sys.modules if known.startswith("svir_core")]:
                del sys.modules[known]
            importlib.import_module(name)
    """
    subprocess.run([sys.executable, "-c", program, *MODULES], check=True, timeout=60)


def test_importing_core_loads_no_io() -> None:
    program = "import sys, svir_core; from svir_core.wire import openai_chat; print(*sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert not set(output.split()) & {"socket", "ssl", "asyncio", "anyio", "http.client", "cattrs", "email"}
