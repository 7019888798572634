"""``python -m conformance run [--json REPORT] FOLDER...``: exit 0, or 1 on any failure.

``python -m conformance table`` prints the list of rules and cases that README.md holds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.coverage import table
from conformance.runner import Result, Status, report, run


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="conformance", description="Run conformance cases.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("run", help="run every case below the folders")
    command.add_argument("--json", type=Path, metavar="REPORT", help="write every run to this file")
    command.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    commands.add_parser("table", help="print which rule is held by which case")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; the exit code."""
    options = _arguments(arguments)
    if options.command == "table":
        print(table(), end="")
        return 0
    return _run(options)


def _run(options: argparse.Namespace) -> int:
    """Run the cases, print what failed and how many passed."""
    results: list[Result] = []
    for result in run(options.folders):
        results.append(result)
        if result.status is not Status.PASSED:
            print(result.describe(), flush=True)
    counts = {status: sum(result.status is status for result in results) for status in Status}
    for status in (Status.PENDING, Status.EXPECTED):
        if counts[status]:
            print(f"{counts[status]} {status}")
    if options.json is not None:
        options.json.write_text(report(results), encoding="ascii")
    print(f"{counts[Status.PASSED]} passed, {counts[Status.FAILED]} failed")
    return 1 if counts[Status.FAILED] else 0


if __name__ == "__main__":
    sys.exit(main())
