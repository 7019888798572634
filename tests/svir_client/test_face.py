"""The face of the package: what it exports is what it imports, and nothing else."""

from __future__ import annotations

import ast
import inspect
import pathlib
import subprocess
import sys
from types import ModuleType
from typing import Any, cast

import pytest

import svir_client
from svir_client import function_model, generation, layers, models, session, sync, testing, tools, tracing


def imports(nodes: list[ast.stmt]) -> dict[str, str]:
    """The names that statements import, and from where."""
    return {
        alias.asname or alias.name: str(node.module)
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_the_face_exports_exactly_what_it_imports() -> None:
    tree = ast.parse(pathlib.Path(inspect.getfile(svir_client)).read_text(encoding="utf-8"))
    own = imports(tree.body)
    early = {name for name, module in own.items() if module.startswith("svir_")}
    (checking,) = (node for node in tree.body if isinstance(node, ast.If))
    late = imports(checking.body)
    assert isinstance(svir_client.__all__, tuple)
    assert len(set(svir_client.__all__)) == len(svir_client.__all__)
    assert set(svir_client.__all__) == early | set(late)
    assert not early & set(late)
    assert late == {name: module for module, names in svir_client._LATE.items() for name in names}
    assert set(svir_client.__all__) <= set(dir(svir_client))


PACKAGES = (function_model, generation, layers, models, session, testing, tools, tracing)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_a_package_exports_exactly_what_it_imports(package: ModuleType) -> None:
    tree = ast.parse(pathlib.Path(inspect.getfile(package)).read_text(encoding="utf-8"))
    names = cast("tuple[str, ...]", package.__all__)
    assert isinstance(names, tuple)
    assert sorted(names) == sorted(imports(tree.body))


def test_the_blocking_package_exports_exactly_what_it_imports_early_and_late() -> None:
    tree = ast.parse(pathlib.Path(inspect.getfile(sync)).read_text(encoding="utf-8"))
    early = {name for name, module in imports(tree.body).items() if module.startswith("svir_")}
    (checking,) = (node for node in tree.body if isinstance(node, ast.If))
    late = set(imports(checking.body))
    assert isinstance(sync.__all__, tuple)
    assert sorted(sync.__all__) == sorted(early | late)
    assert late == set(sync._LATE)
    assert all(hasattr(sync, name) for name in late)


def test_late_names_are_listed_before_anybody_asked_for_them() -> None:
    program = """
import sys
from svir_client import sync
assert set(sync.__all__) <= set(dir(sync))
assert "svir_client.sync.generation" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("package", [svir_client, sync], ids=lambda package: package.__name__)
def test_a_name_that_is_not_there_is_an_attribute_error(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        package.nothing  # noqa: B018


def test_what_most_programs_do_not_use_is_imported_when_asked_for() -> None:
    program = """
import sys, svir_client
names = ("function_model", "generation", "models", "session", "sync", "tools", "tracing")
late = tuple("svir_client." + name for name in names)
assert not [name for name in sys.modules if name.startswith(late)]
from svir_client import Client, FunctionModel, ModelDescriptor, Session, Tools, Trace, generate
assert {name for name in late} <= sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_every_public_name_and_method_says_what_it_does() -> None:
    for name in svir_client.__all__:
        exported: Any = getattr(svir_client, name)
        assert inspect.getdoc(exported), name
        members: dict[str, Any] = getattr(exported, "__dict__", {})  # a union has none
        for member in members:
            attribute: object = getattr(exported, member)
            if not member.startswith("_") and not inspect.ismemberdescriptor(attribute):
                assert inspect.getdoc(attribute), f"{name}.{member}"


def test_importing_the_client_loads_no_transport() -> None:

    program = "import sys, svir_client; print([name for name in sys.modules if name.startswith(('h11', 'ssl'))])"
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert output.strip() == "[]"
