"""Who may import whom: client → core ← transport, and core reaches no I/O (00 sections 1 and 2)."""

from __future__ import annotations

import ast
import pathlib
import sys
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[2]

ALLOWED = {
    "svir_core": {"svir_core", "attrs", "orjson"},
    "svir_transport/h11": {"svir_transport", "svir_core", "h11", "anyio"},
    "svir_transport/httpx": {"svir_transport", "svir_core", "anyio"},  # of httpx2 or httpx nothing by name
    "svir_client": {"svir_client", "svir_core", "svir_transport", "anyio", "attrs", "h11", "orjson"},
}
"""Which packages, besides the standard library, each distribution imports: what its pyproject.toml asks for."""

LATE = {
    "svir_core/structure_model.py": {"msgspec", "pydantic"},
    "svir_client/testing/cancel.py": {"trio"},
    "svir_client/testing/pytest_plugin.py": {"pytest"},
}
"""Imported inside a function, for the caller who uses them; or by a module that only pytest imports."""

NO_IO = {
    "asyncio", "concurrent", "fcntl", "glob", "http", "io", "logging", "mmap", "multiprocessing", "pathlib",
    "select", "selectors", "shutil", "socket", "ssl", "subprocess", "tempfile", "threading", "urllib.request",
}  # fmt: skip
"""Modules of the standard library that core has no business with: files, sockets, threads, logging."""


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


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_only_what_its_distribution_asks_for(package: str) -> None:
    assert modules(package)
    for path in modules(package):
        allowed = ALLOWED[package] | LATE.get(path.relative_to(ROOT).as_posix(), set())
        for name in imports(path):
            top = name.partition(".")[0]
            assert top in allowed or top in sys.stdlib_module_names, f"{path} imports {name}"


def test_core_imports_no_io() -> None:
    for path in modules("svir_core"):
        for name in imports(path):
            parts = name.split(".")
            prefixes = {".".join(parts[: count + 1]) for count in range(len(parts))}
            assert not prefixes & NO_IO, f"{path} imports {name}"


def test_core_reads_no_environment() -> None:
    for path in modules("svir_core"):
        source = path.read_text(encoding="utf-8")
        assert "os.environ" not in source, path
        assert "getenv" not in source, path


def test_no_core_module_is_named_like_one_of_the_standard_library() -> None:
    for path in modules("svir_core"):
        if path.name not in ("__init__.py", "__main__.py"):
            assert path.stem not in sys.stdlib_module_names, path


def test_transports_are_a_namespace() -> None:
    assert not (ROOT / "svir_transport" / "__init__.py").exists()
