"""The face of the package: what it exports is what it imports, and nothing else."""

from __future__ import annotations

import ast
import inspect
import pathlib
import subprocess
import sys

import svir_client


def test_the_face_exports_exactly_what_it_imports() -> None:
    tree = ast.parse(pathlib.Path(inspect.getfile(svir_client)).read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert isinstance(svir_client.__all__, tuple)
    assert len(set(svir_client.__all__)) == len(svir_client.__all__)
    assert set(svir_client.__all__) == imported


def test_every_public_name_and_method_says_what_it_does() -> None:
    for name in svir_client.__all__:
        exported: type = getattr(svir_client, name)
        assert inspect.getdoc(exported), name
        for member in vars(exported):
            attribute: object = getattr(exported, member)
            if not member.startswith("_") and not inspect.ismemberdescriptor(attribute):
                assert inspect.getdoc(attribute), f"{name}.{member}"


def test_importing_the_client_loads_no_transport() -> None:

    program = "import sys, svir_client; print([name for name in sys.modules if name.startswith(('h11', 'ssl'))])"
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert output.strip() == "[]"
