"""The face of the test kit: what it exports is what it imports, and each of it says what it is."""

from __future__ import annotations

import ast
import inspect
import pathlib
import subprocess
import sys

from svir_client import testing


def test_the_face_exports_exactly_what_it_imports() -> None:
    tree = ast.parse(pathlib.Path(inspect.getfile(testing)).read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert isinstance(testing.__all__, tuple)
    assert len(set(testing.__all__)) == len(testing.__all__)
    assert set(testing.__all__) == imported


def test_every_public_class_and_method_says_what_it_does() -> None:
    for name in testing.__all__:
        exported: object = getattr(testing, name)
        if not inspect.isclass(exported):
            continue
        assert inspect.getdoc(exported), name
        for member in vars(exported):
            attribute: object = getattr(exported, member)
            if not member.startswith("_") and (inspect.isfunction(attribute) or isinstance(attribute, property)):
                assert inspect.getdoc(attribute), f"{name}.{member}"


def test_the_kit_does_not_import_pytest() -> None:
    program = "import sys, svir_client.testing; print([name for name in sys.modules if name.startswith('pytest')])"
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert output.strip() == "[]"
