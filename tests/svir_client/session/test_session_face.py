"""The face of the package: what it exports is what it imports, and each of it says what it is."""

from __future__ import annotations

import ast
import inspect
import pathlib

from svir_client import session


def test_the_face_exports_exactly_what_it_imports() -> None:
    tree = ast.parse(pathlib.Path(inspect.getfile(session)).read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert isinstance(session.__all__, tuple)
    assert len(set(session.__all__)) == len(session.__all__)
    assert set(session.__all__) == imported


def test_every_public_class_and_method_says_what_it_does() -> None:
    for name in session.__all__:
        exported: type = getattr(session, name)
        assert inspect.getdoc(exported), name
        for member in vars(exported):
            attribute: object = getattr(exported, member)
            if not member.startswith("_") and (inspect.isfunction(attribute) or isinstance(attribute, property)):
                assert inspect.getdoc(attribute), f"{name}.{member}"
