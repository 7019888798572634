"""What ``explain`` finds out about a recorded stream: which way of decoding completes it, and what was wrong where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from svir_core.check import choice
from svir_core.errors import ErrorKind, SvirError
from svir_core.quirk import NONE, Quirk, spelled
from svir_core.response import AnomalyCode, Completion
from svir_core.wire.api import Mode


def _mode(value: Mode | str) -> Mode:
    return choice(Mode, value, "Attempt.mode")


def _kind(value: ErrorKind | str | None) -> ErrorKind | None:
    return None if value is None else choice(ErrorKind, value, "Finding.kind")


def _code(value: AnomalyCode | str | None) -> AnomalyCode | None:
    return None if value is None else choice(AnomalyCode, value, "Finding.code")


@attrs.frozen
class Attempt:
    """One way of decoding the recording, and what it came to.

    Attributes:
        mode, quirks: the way.
        outcome: the completion, or the error. The timing of a completion is all zeros: a recording has no times.
    """

    mode: Mode = attrs.field(converter=_mode)
    quirks: Quirk
    outcome: Completion | SvirError = attrs.field(repr=False)

    @property
    def completion(self) -> Completion | None:
        """The answer, if this way completes."""
        return self.outcome if isinstance(self.outcome, Completion) else None

    @property
    def error(self) -> SvirError | None:
        """Why there is no answer, if there is none."""
        return self.outcome if isinstance(self.outcome, SvirError) else None

    def __str__(self) -> str:
        way = f"{self.mode.value} with {spelled(self.quirks)}" if self.quirks else self.mode.value
        if isinstance(self.outcome, Completion):
            return f"{way}: completes, finish {self.outcome.finish.value}"
        return f"{way}: {self.outcome.kind.value} error at byte {self.outcome.offset}: {self.outcome.detail}"


@attrs.frozen
class Finding:
    """One thing that is wrong with the recording.

    Attributes:
        detail: what, in our words.
        offset: the byte of the recording where the event at fault begins; of a truncated one its length.
        kind: the error that it is where nothing repairs it; ``None`` when it never is an error.
        lenient: whether lenient mode reads past it.
        code: the anomaly that lenient mode then records; ``None`` where there is nothing to record, as when the
            answer is a choice that strict mode does not take.
        count: how often it comes, of the 100 anomalies that are kept; ``offset`` is then the first.
        quirks: the quirk that repairs it, or that reads what lenient mode skips; none when nothing does.
        excerpt: the first 80 bytes from ``offset`` on (withheld in ``repr``), the last 80 when it is truncated.
    """

    detail: str
    offset: int
    kind: ErrorKind | None = attrs.field(default=None, converter=_kind)
    lenient: bool = False
    code: AnomalyCode | None = attrs.field(default=None, converter=_code)
    count: int = 1
    quirks: Quirk = NONE
    excerpt: bytes = attrs.field(default=b"", repr=False)

    @property
    def repaired(self) -> bool:
        """Whether lenient mode or a quirk reads past it."""
        return self.lenient or bool(self.quirks)

    def __str__(self) -> str:
        times = "" if self.count == 1 else f", {self.count} times"
        quirks = spelled(self.quirks)
        if self.lenient:
            recorded = "" if self.code is None else f" and records {self.code.value}"
            repair = f"lenient reads past it{recorded}" + (f", {quirks} would read it" if quirks else "")
        else:
            repair = f"{quirks or 'nothing'} repairs it"
        return f"byte {self.offset}{times}: {self.detail}; {repair}"


def _attempts(values: Iterable[Attempt]) -> tuple[Attempt, ...]:
    return tuple(values)


def _findings(values: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(values)


def _alternatives(values: Iterable[Quirk]) -> tuple[Quirk, ...]:
    return tuple(values)


@attrs.frozen
class Explanation:
    """How a recording decodes. ``str()`` is a report in our words alone, without any byte of the recording.

    Attributes:
        attempts: strict, lenient where strict fails, then the fewest quirks that complete it where lenient fails
            too. Each is made only when those before it fail. Where one completes and loses something that quirks
            read, the same with those follows. The last is the outcome.
        findings: what is wrong, in the order of the recording; where nothing completes, up to what stops it.
        alternatives: other sets of as many quirks that complete it too, each perhaps with another answer. Which of
            them the server needs is for the caller to judge.
    """

    attempts: tuple[Attempt, ...] = attrs.field(converter=_attempts)
    findings: tuple[Finding, ...] = attrs.field(default=(), converter=_findings)
    alternatives: tuple[Quirk, ...] = attrs.field(default=(), converter=_alternatives)

    @property
    def outcome(self) -> Completion | SvirError:
        """What the last attempt came to."""
        return self.attempts[-1].outcome

    @property
    def mode(self) -> Mode:
        """The mode of the last attempt."""
        return self.attempts[-1].mode

    @property
    def quirks(self) -> Quirk:
        """The quirks of the last attempt."""
        return self.attempts[-1].quirks

    def report(self, *, excerpts: bool = False) -> str:
        """The explanation as lines of text; with ``excerpts`` also what stands where something is wrong, which is
        the server's text and may be a user's."""
        return "\n".join(self._lines(excerpts))

    def _lines(self, excerpts: bool) -> Iterator[str]:
        yield from map(str, self.attempts)
        for finding in self.findings:
            yield f"- {finding}"
            if excerpts:
                yield f"  {finding.excerpt!r}"
        for other in self.alternatives:
            yield f"{spelled(other)} would complete it too"

    def __str__(self) -> str:
        return self.report()
