"""Running folders of cases: which case runs how, what was expected to fail, and what is reported."""

from __future__ import annotations

import json
import tomllib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias, cast

import attrs

from conformance import run_decoder, run_encoder, run_transport
from conformance.apis import APIS, DEFAULT_API
from conformance.case import Case, Variant
from conformance.fields import CaseError, Json, load

ReadCase: TypeAlias = Callable[[Path, Json, str], Case]

COMPONENTS: Mapping[str, ReadCase] = {
    "decoder": run_decoder.read,
    "encoder": run_encoder.read,
    "transport": run_transport.read,
}
"""A case's component is the nearest folder above it that has one of these names."""


EXPECTED_FAILURES = "expected-failures.toml"
"""Lists cases of its own folder: ``"02-chunks/name.json" = "why it fails"``."""

FIXTURE_FIELDS = ("file", "body_file")


class Status(StrEnum):
    """How one run ended."""

    PASSED = "passed"
    FAILED = "failed"
    PENDING = "pending"
    EXPECTED = "expected failure"


@attrs.frozen
class Result:
    """One run of one case."""

    case: str
    labels: tuple[str, ...]
    status: Status
    problems: tuple[str, ...] = ()

    def describe(self) -> str:
        """The case, its mode, line ending and stride, and what was wrong."""
        labels = f" [{', '.join(self.labels)}]" if self.labels else ""
        lines = "".join(f"\n    {line}" for problem in self.problems for line in problem.splitlines())
        return f"{self.status.upper()} {self.case}{labels}{lines}"


def run(folders: Sequence[Path]) -> Iterator[Result]:
    """Run every case below the folders, in order; a case below two of them runs once."""
    done: set[Path] = set()
    for folder in folders:
        yield from _run_folder(folder, done)


def _failed(where: Path, problem: str) -> Result:
    return Result(str(where), (), Status.FAILED, (problem,))


def _run_folder(folder: Path, done: set[Path]) -> Iterator[Result]:
    if not folder.exists():
        yield _failed(folder, "there is no such folder")
        return
    files = sorted(folder.rglob("*.json")) if folder.is_dir() else [folder]
    documents = {path: _load(path) for path in files}
    fixtures = {found for path, document in documents.items() for found in _fixtures(path, document)}
    cases = {path: document for path, document in documents.items() if path.resolve() not in fixtures}
    if not cases:
        yield _failed(folder, "there are no cases")
    expected, faults = _expected_failures(folder, cases)
    yield from faults
    for path, document in cases.items():
        if path.resolve() not in done:
            done.add(path.resolve())
            yield from _run_expected(path, document, expected.get(path.resolve()))


def _load(path: Path) -> Json | CaseError:
    try:
        return load(path)
    except CaseError as error:
        return error


def _fixtures(path: Path, document: Json | CaseError) -> Iterator[Path]:
    """The files that a case names: they are its fixtures, and no cases themselves."""
    if not isinstance(document, dict):
        return
    server = document.get("server")
    for owner in (document, *(server if isinstance(server, list) else ())):
        if isinstance(owner, dict):
            for field in FIXTURE_FIELDS:
                name = owner.get(field)
                if isinstance(name, str):
                    yield (path.parent / name).resolve()


# --- one case ------------------------------------------------------------------------------------


def _run_expected(path: Path, document: Json | CaseError, reason: str | None) -> Iterator[Result]:
    """Run a case; with a reason, its failures are expected, and none of them is a failure."""
    if reason is None:
        yield from _run_case(path, document)
        return
    results = list(_run_case(path, document))
    if all(result.status is Status.PASSED for result in results):
        yield _failed(path, f"it is listed in {EXPECTED_FAILURES}, and passes: take it off the list")
    for result in results:
        failed = result.status is Status.FAILED
        yield attrs.evolve(result, status=Status.EXPECTED, problems=(reason,)) if failed else result


def _run_case(path: Path, document: Json | CaseError) -> Iterator[Result]:
    if isinstance(document, CaseError):
        yield _failed(path, str(document))
        return
    try:
        case = _read(path, document)
    except CaseError as error:
        yield _failed(path, str(error))
        return
    for variant in case.variants:
        yield _run_variant(path, case, variant)


def _read(path: Path, document: Json) -> Case:
    folders = [parent.name for parent in path.absolute().parents]
    component = next((name for name in folders if name in COMPONENTS), None)
    if component is None:
        raise CaseError(f"no folder above it is named {', '.join(COMPONENTS)}")
    api = next((name for name in folders if name in APIS), DEFAULT_API)
    return COMPONENTS[component](path, document, api)


def _run_variant(path: Path, case: Case, variant: Variant) -> Result:
    try:
        problems = tuple(variant.run())
    except Exception as error:  # noqa: BLE001 - whatever a case brings down is a failure of that case
        problems = tuple(_crash(error))
    if not problems:
        return Result(str(path), variant.labels, Status.PASSED)
    status = Status.PENDING if case.open else Status.FAILED
    return Result(str(path), variant.labels, status, (*problems, *(f"open: {note}" for note in case.open)))


def _crash(error: BaseException) -> Iterator[str]:
    """Where each exception of a crash came from, groups opened."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _crash(inner)
        return
    yield "crashed: " + "".join(traceback.format_exception(error, limit=-3)).strip()


# --- expected failures ---------------------------------------------------------------------------


def _expected_failures(folder: Path, cases: Mapping[Path, object]) -> tuple[dict[Path, str], list[Result]]:
    """The reasons by case, and what is wrong with the lists themselves."""
    reasons: dict[Path, str] = {}
    faults: list[Result] = []
    known = {path.resolve() for path in cases}
    for listing in sorted(folder.rglob(EXPECTED_FAILURES)) if folder.is_dir() else ():
        try:
            entries: dict[str, object] = tomllib.loads(listing.read_bytes().decode("ascii"))
        except (OSError, ValueError) as error:
            faults.append(_failed(listing, f"cannot be read: {error}"))
            continue
        for name, reason in entries.items():
            path = (listing.parent / name).resolve()
            if not isinstance(reason, str) or not reason.strip():
                faults.append(_failed(listing, f"{name!r} has no reason"))
            elif path not in known or not path.is_relative_to(listing.parent.resolve()):
                faults.append(_failed(listing, f"{name!r} is no case of this folder"))
            else:
                reasons[path] = reason
    return reasons, faults


# --- the report ----------------------------------------------------------------------------------


def report(results: Sequence[Result]) -> str:
    """Every run as JSON."""
    counts = {status.name.lower(): sum(result.status is status for result in results) for status in Status}
    runs = [
        {
            "case": result.case,
            "variant": list(result.labels),
            "status": str(result.status),
            "problems": list(result.problems),
        }
        for result in results
    ]
    return json.dumps({**counts, "runs": runs}, indent=1)
