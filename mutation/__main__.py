"""``python -m mutation [MODULE...]``: mutate each module, and print what no test noticed.

The exit status is 1 when a mutant survived that equivalent.toml does not explain, or when that explains one too many.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

from mutation.mutants import Mutant, mutants
from mutation.plan import PLAN
from mutation.trial import (
    BASELINE_SECONDS,
    SLACK,
    Subject,
    preload,
    survives_anew,
    told_of_functions,
)

ROOT: Final = Path(__file__).parent.parent

Row = tuple[str, str, str]


@attrs.frozen
class Score:
    """What became of the mutants of one module."""

    module: str
    made: int
    killed: int
    equivalent: int
    survivors: tuple[Mutant, ...]
    stale: tuple[Row, ...]


def explained(module: str) -> frozenset[Row]:
    """The mutants of ``module`` that are known to change nothing: scope, was, now."""
    document = tomllib.loads((ROOT / "mutation" / "equivalent.toml").read_text(encoding="utf-8"))
    return frozenset((row["scope"], row["was"], row["now"]) for row in document.get(module, ()))


def score(module: str, part: str) -> Score:
    """Try every mutant of ``module``; with ``part`` only those whose line or scope has it."""
    path = ROOT / f"{module.replace('.', '/')}.py"
    source = path.read_text(encoding="utf-8")
    subject = Subject(module, str(path), tuple(str(ROOT / test) for test in PLAN[module]))
    made = [mutant for mutant in mutants(source) if part in f"{mutant.scope}: {mutant.was}"]
    known = explained(module)
    seen: set[Row] = set()
    survivors: list[Mutant] = []
    equivalent = 0
    for mutant in survivors_of(subject, source, made):
        row = (mutant.scope, mutant.was, mutant.now)
        if row in known:
            seen.add(row)
            equivalent += 1
        else:
            survivors.append(mutant)
            print(
                f"{path.relative_to(ROOT)}:{mutant.line} {mutant.scope}",
                f"  - {mutant.was}",
                f"  + {mutant.now}",
                sep="\n",
                flush=True,
            )
    stale = () if part else tuple(sorted(known - seen))
    return Score(module, len(made), len(made) - equivalent - len(survivors), equivalent, tuple(survivors), stale)


def survivors_of(subject: Subject, source: str, made: Sequence[Mutant]) -> Iterator[Mutant]:
    """The mutants that no test noticed."""
    unfit: list[int] = []
    whole = False
    for word, number in told_of_functions(subject, made):
        if word == "passed":
            yield made[number]
        elif word == "unfit":
            unfit.append(number)
        whole = word == "all"
    if not whole:
        raise SystemExit(f"the tests of {subject.name} fail already")
    before = os.times().children_user
    if not survives_anew(subject, source, BASELINE_SECONDS):
        raise SystemExit(f"the tests of {subject.name} fail in a process of their own")
    limit = SLACK * (1 + os.times().children_user - before)
    yield from (made[number] for number in unfit if survives_anew(subject, made[number].source, limit))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m mutation", description="Mutate the codec.")
    parser.add_argument("--part", default="", help="only mutants whose scope or line contains this")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"any of {', '.join(PLAN)}; all when none")
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.modules) - PLAN.keys():
        parser.error(f"not in the plan: {', '.join(sorted(unknown))}")
    if importlib.util.find_spec("mutmut") is None:
        print("mutation testing needs mutmut, which is not installed: make mutate installs it")
        return 2
    preload()
    scores = [score(module, chosen.part) for module in chosen.modules or PLAN]
    print(f"{'module':<36}{'mutants':>8}{'killed':>8}{'equivalent':>12}{'survived':>10}")
    for one in scores:
        print(f"{one.module:<36}{one.made:>8}{one.killed:>8}{one.equivalent:>12}{len(one.survivors):>10}")
        for row in one.stale:
            print("  explained, but killed or gone:", *row)
    return int(any(one.survivors or one.stale for one in scores))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
