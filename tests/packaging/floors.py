"""``python -m tests.packaging.floors``: every dependency at the lowest version that its pyproject.toml allows.

What the distributions ask for, their extras included, and what their tests run with, as a requirements file:
``make floors`` installs it and runs the tests. There is no second list of versions.
"""

from __future__ import annotations

import pathlib
import tomllib
from collections.abc import Iterable, Iterator
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT: Final = pathlib.Path(__file__).parents[2]

FOLDERS: Final = {
    "svir-core": "svir_core",
    "svir-transport-h11": "svir_transport/h11",
    "svir-transport-httpx": "svir_transport/httpx",
    "svir-client": "svir_client",
}
"""Each distribution, and the folder of its pyproject.toml."""

NOT_FOR_TESTS: Final = {
    "basedpyright", "build", "editables", "hatchling", "mypy", "pytest-cov", "ruff", "types-jsonschema",
    "anthropic", "google-genai", "llmock",  # the oracles of tests/peers, with dependencies of their own
}  # fmt: skip
"""What of the development project no test of a shipped package runs with."""


def asked(folder: str, extras: Iterable[str] | None = None) -> Iterator[Requirement]:
    """What the project in ``folder`` asks of others: without and, when it says no more, with each of its ``extras``."""
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional: dict[str, list[str]] = project.get("optional-dependencies", {})
    lines = [
        *project["dependencies"],
        *(line for extra in (optional if extras is None else extras) for line in optional[extra]),
    ]
    for requirement in map(Requirement, lines):
        if requirement.name not in FOLDERS:
            yield requirement


def floor(requirement: Requirement) -> Version:
    """The lowest version that ``requirement`` allows; ``ValueError`` when it names none."""
    bounds = [Version(bound.version) for bound in requirement.specifier if bound.operator == ">="]
    if len(bounds) != 1:
        raise ValueError(f"{requirement} has no floor")
    return bounds[0]


def floors() -> dict[str, Version]:
    """The highest floor of each library: what one environment for all four distributions holds at the least."""
    wanted = [requirement for folder in FOLDERS.values() for requirement in asked(folder)]
    wanted += [each for each in asked("", ["dev"]) if each.name not in NOT_FOR_TESTS]
    found: dict[str, Version] = {}
    for requirement in wanted:
        name = canonicalize_name(requirement.name)
        found[name] = max(floor(requirement), found.get(name, Version("0")))
    return found


if __name__ == "__main__":
    print(*(f"{name}=={version}" for name, version in sorted(floors().items())), sep="\n")
