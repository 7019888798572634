"""What a load was, as a table for a terminal."""

from __future__ import annotations

from collections import Counter

from soak.kills import Kills
from soak.load import MARKS, Settings, Summary
from soak.rounds import Rounds


def rounds_table(rounds: Rounds, backend: str, transport: str, seed: int) -> str:
    """Rounds, by outcome."""
    title = f"{rounds.outcomes.total():,} calls cancelled at random on {backend} over {transport}, seed {seed}"
    return "\n".join(_counted(title, rounds.outcomes))


def kills_table(kills: Kills, seed: int) -> str:
    """Kills, by what the writer was doing."""
    return "\n".join(
        [
            *_counted(
                f"{kills.moments.total():,} writers of sessions killed, seed {seed}, while they were", kills.moments
            ),
            f"  {'saves acknowledged':<24}{kills.acknowledged:>10,}",
            f"  {'made, not acknowledged':<24}{kills.made:>10,}",
            f"  {'seconds':<24}{kills.seconds:>10.1f}",
        ]
    )


def _counted(title: str, counter: Counter[str]) -> list[str]:
    total = counter.total() or 1
    rows = [f"  {name:<24}{count:>10,}{count / total:>8.1%}" for name, count in counter.most_common()]
    return [title, *rows]


def table(settings: Settings, backend: str, summary: Summary) -> str:
    """Calls, by outcome and by fault; memory, descriptors, processor."""
    lines = [
        f"{settings.streams:,} streams at once on {backend} over {settings.transport}, seed {settings.seed}",
        f"  {'calls':<24}{summary.calls:>10,}{summary.calls / max(summary.seconds, 0.001):>8.1f}/s",
        f"  {'requests':<24}{summary.requests:>10,}",
        f"  {'seconds':<24}{summary.seconds:>10.1f}",
        f"  {'processor seconds':<24}{summary.processor:>10.1f}",
        *_counted("by outcome", summary.outcomes),
        *_counted("by fault", summary.faults),
    ]
    if summary.under_way:
        lines.append("calls under way")
        lines += [
            f"  {f'at {mark:.0%}':<24}{count:>10,}" for mark, count in zip(MARKS, summary.under_way, strict=False)
        ]
    if summary.resident:
        lines.append("resident memory of the client's process")
        lines += [
            f"  {f'at {mark:.0%}':<24}{size / 2**20:>10.1f} MiB"
            for mark, size in zip(MARKS, summary.resident, strict=False)
        ]
    if len(summary.descriptors) == 3:
        lines.append("its open file descriptors")
        names = ("before", "at a mark", "after")
        lines += [f"  {name:<24}{count:>10,}" for name, count in zip(names, summary.descriptors, strict=False)]
    return "\n".join(lines)
