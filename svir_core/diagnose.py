"""Explain a recorded stream: decode it in every way that the rules allow, and say what was wrong where.

Three rules hold for all of it. A recording is only read: the same bytes give the same explanation. Nothing is
guessed: a quirk is named as what would complete the stream, never used by itself. The search is bounded: every
quirk alone, then every pair of which one member changes the failure, then one quirk more at a time, each time the
one that gets furthest among those that change the failure. That is at most 600 decodings, each up to its failure.
A way that completes and loses something is followed by one with the quirks that read it, as long as there are any.
Source: 00 section 2, 11 sections B and C.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from svir_core.check import as_bytes, wire_api
from svir_core.errors import ErrorKind
from svir_core.event import ToolCallDelta
from svir_core.explanation import Attempt, Explanation, Finding
from svir_core.limits import ANOMALY_EXCERPT_BYTES, Limits
from svir_core.quirk import NONE, Quirk
from svir_core.response import AnomalyCode, FinishReason
from svir_core.think import Think
from svir_core.wire.api import Api, CodecOptions, Mode
from svir_core.wire.policy import REFUSED

NEVER_REPAIRED: Final = frozenset({ErrorKind.SERVER, ErrorKind.CONTEXT_OVERFLOW, ErrorKind.RESPONSE_LIMIT})
"""What no quirk relaxes (11 section C), so none is tried."""

ONLY_NAMED: Final = Quirk.CHOICES_MERGED | Quirk.USAGE_INCREMENTS
"""Named in a finding and never added to a way that completes: several choices may be several answers, and several
reports totals."""

INCOMPLETE: Final = "the arguments of a tool call are not whole"

UNTERMINATED: Final = "the last event is not ended by a blank line"


class _Trials:
    """Decodes one recording, every way once."""

    def __init__(self, data: bytes, api: Api, think: Think | str, limits: Limits) -> None:
        self.data = data
        self._api = api
        self._think = think
        self._limits = limits
        self._made: dict[tuple[Mode, Quirk], Attempt] = {}

    def attempt(self, mode: Mode, quirks: Quirk = NONE) -> Attempt:
        """The recording decoded in this way."""
        made = self._made.get((mode, quirks))
        if made is None:
            options = CodecOptions(mode, self._think, self._limits, quirks=quirks)
            decoder = self._api.decoder(options, lambda: 0.0)
            events = decoder.push(self.data)
            if not decoder.done:
                events = decoder.finish()
            made = self._made[mode, quirks] = Attempt(mode, quirks, events.error or decoder.result())
        return made

    def best(self, quirks: Quirk) -> Attempt:
        """With ``quirks``, in strict mode where that completes."""
        strict = self.attempt(Mode.STRICT, quirks)
        return self.attempt(Mode.LENIENT, quirks) if strict.completion is None else strict

    def pieces(self, way: Attempt) -> dict[int, int]:
        """Where the event of each call's last piece begins, by the call's index."""
        places: dict[int, int] = {}
        decoder = self._api.decoder(CodecOptions(way.mode, self._think, self._limits, quirks=way.quirks), lambda: 0.0)
        offset = begun = 0
        for line in self.data.splitlines(keepends=True):
            for event in decoder.push(line).items:
                if isinstance(event, ToolCallDelta):
                    places[event.index] = begun
            offset += len(line)
            if not line.strip():
                begun = offset
        return places

    def completes(self, quirks: Quirk) -> bool:
        """Whether lenient mode with ``quirks`` completes."""
        return self.attempt(Mode.LENIENT, quirks).completion is not None

    def place(self, quirks: Quirk) -> tuple[int, str]:
        """How far lenient mode with ``quirks`` gets, and what stops it there; past the end when nothing does."""
        error = self.attempt(Mode.LENIENT, quirks).error
        return (len(self.data) + 1, "") if error is None else (error.offset or 0, error.detail)

    def reads(self, quirk: Quirk, without: Attempt, code: AnomalyCode) -> bool:
        """Whether ``quirk`` makes an anomaly of ``without`` rarer, and gets at least as far."""
        quirks = without.quirks | quirk
        rarer = len(_places(self.attempt(Mode.LENIENT, quirks)).get(code, ())) < len(_places(without)[code])
        return rarer and self.place(quirks)[0] >= self.place(without.quirks)[0]

    def excerpt(self, offset: int) -> bytes:
        """What stands at ``offset``, or before it when nothing does."""
        if offset >= len(self.data):
            return self.data[-ANOMALY_EXCERPT_BYTES:]
        return self.data[offset : offset + ANOMALY_EXCERPT_BYTES]


# --- the fewest quirks ------------------------------------------------------------------------------


def _fewest(trials: _Trials) -> list[Quirk]:
    """The smallest sets of quirks that complete the recording, the first to be preferred; none when there are none."""
    alone = [quirk for quirk in Quirk if trials.completes(quirk)]
    if alone:
        return alone
    before = trials.place(NONE)
    moving = [quirk for quirk in Quirk if trials.place(quirk) != before]
    pairs = [first | second for first in moving for second in Quirk if second is not first]
    complete = [pair for pair in dict.fromkeys(pairs) if trials.completes(pair)]
    return complete or list(_greedy(trials, moving))


def _greedy(trials: _Trials, moving: list[Quirk]) -> Iterator[Quirk]:
    """One set of more than two quirks, if adding the one that gets furthest leads to one."""
    chosen, further, seen = NONE, moving, {trials.place(NONE)}
    while further and not trials.completes(chosen):
        chosen = max((chosen | quirk for quirk in further), key=trials.place)
        seen.add(trials.place(chosen))
        further = [quirk for quirk in Quirk if trials.place(chosen | quirk) not in seen]  # a truncation may hide more
    if trials.completes(chosen):
        for quirk in Quirk:
            if trials.completes(chosen & ~quirk):
                chosen &= ~quirk
        yield chosen


# --- what was wrong ---------------------------------------------------------------------------------


def _words(code: AnomalyCode) -> tuple[ErrorKind | None, str]:
    if code is AnomalyCode.UNTERMINATED_EVENT:
        return None, UNTERMINATED
    error, detail = REFUSED[code]
    return error.kind, detail


def _forgiven(trials: _Trials, last: Attempt) -> Iterator[Finding]:
    """What lenient mode forgave, one finding for each code, and the first quirk that reads what it skipped."""
    offsets = _places(last)
    for code, places in offsets.items():
        kind, detail = _words(code)
        reads = next((quirk for quirk in Quirk if trials.reads(quirk, last, code)), NONE)
        yield Finding(detail, places[0], kind, True, code, len(places), reads, trials.excerpt(places[0]))


def _places(attempt: Attempt) -> dict[AnomalyCode, list[int]]:
    """Where each anomaly was."""
    offsets: dict[AnomalyCode, list[int]] = {}
    for anomaly in attempt.outcome.anomalies:
        offsets.setdefault(anomaly.code, []).append(anomaly.offset)
    return offsets


def _incomplete(trials: _Trials, way: Attempt) -> Iterator[Finding]:
    """The calls of a whole answer that are not, and the first quirk with which fewer are."""
    number = len(_cut_calls(way))
    if number:
        repairs = next((quirk for quirk in Quirk if _completes_calls(trials.best(way.quirks | quirk), way)), NONE)
        places = sorted(trials.pieces(way).items())
        for order in _cut_calls(way):
            offset = places[order][1] if order < len(places) else 0
            yield Finding(INCOMPLETE, offset, quirks=repairs, excerpt=trials.excerpt(offset))


def _cut_calls(way: Attempt) -> list[int]:
    """Which calls of an answer are not complete, though no limit cut them."""
    answer = way.completion
    if answer is None or answer.finish is FinishReason.LENGTH:
        return []
    return [order for order, call in enumerate(answer.calls) if not call.complete]


def _completes_calls(better: Attempt, way: Attempt) -> bool:
    """Whether ``better`` has the calls of ``way``, and more of them complete."""
    has, had = better.completion, way.completion
    return (
        has is not None
        and had is not None
        and len(has.calls) == len(had.calls)
        and len(_cut_calls(better)) < len(_cut_calls(way))
    )


def _stopped(trials: _Trials, attempt: Attempt, quirk: Quirk = NONE, *, lenient: bool = False) -> Iterator[Finding]:
    """What stops ``attempt``, and what repairs it."""
    error = attempt.error
    if error is not None:
        offset = error.offset or 0
        yield Finding(error.detail, offset, error.kind, lenient, quirks=quirk, excerpt=trials.excerpt(offset))


def _findings(trials: _Trials, strict: Attempt, last: Attempt) -> list[Finding]:
    """What was wrong: what ``last`` forgave, what each of its quirks repaired, what stopped it, and what stopped
    ``strict`` where that is none of these."""
    found = [*_forgiven(trials, last), *_incomplete(trials, last)]
    for quirk in last.quirks:
        found += _stopped(trials, trials.attempt(last.mode, last.quirks & ~quirk), quirk)
    found += _stopped(trials, last)
    known = {(finding.offset, finding.detail) for finding in found}
    if last.mode is Mode.LENIENT:
        first = _stopped(trials, strict, lenient=True)
        found += (finding for finding in first if (finding.offset, finding.detail) not in known)
    return sorted(found, key=lambda finding: finding.offset)


def explain(
    data: bytes | bytearray | memoryview,
    *,
    api: Api | None = None,
    think: Think | str = "split",
    limits: Limits | None = None,
) -> Explanation:
    """How ``data``, a whole recorded response body of ``api``, decodes: in strict mode, else in lenient mode, else
    with the fewest quirks; then with those that read what
    that way loses; and what was wrong at which byte. ``api`` is Chat Completions unless another is given;
    ``think`` and ``limits`` are those of a decoder.

    Never raises for what the recording holds: its failures are the explanation. ``ConfigError`` for an argument that
    is none of these.
    """
    if api is None:
        from svir_core.wire.openai_chat import API  # imported late: most programs never explain

        api = API
    trials = _Trials(as_bytes(data, "explain()"), wire_api(api), think, Limits() if limits is None else limits)
    attempts = [strict := trials.attempt(Mode.STRICT)]
    sets: list[Quirk] = []
    if strict.completion is None:
        attempts.append(lenient := trials.attempt(Mode.LENIENT))
        if lenient.error is not None and lenient.error.kind not in NEVER_REPAIRED:
            sets = _fewest(trials)
        if sets:
            attempts.append(trials.best(sets[0]))
    lost, added = _without_loss(trials, attempts)
    found = _findings(trials, strict, attempts[-1])
    known = {(finding.offset, finding.detail) for finding in lost}
    found = lost + [finding for finding in found if (finding.offset, finding.detail) not in known]
    others = [other | added for other in sets[1:] if trials.completes(other | added)]
    return Explanation(attempts, sorted(found, key=lambda finding: finding.offset), others)


def _without_loss(trials: _Trials, attempts: list[Attempt]) -> tuple[list[Finding], Quirk]:
    """Add the attempts that read what the last one loses. What was lost, and the quirks that read it."""
    lost: list[Finding] = []
    added = NONE
    while attempts[-1].completion is not None:
        last = attempts[-1]
        found = (*_forgiven(trials, last), *_incomplete(trials, last))
        losses = [finding for finding in found if finding.quirks & ~ONLY_NAMED]
        more = NONE
        for finding in losses:
            more |= finding.quirks
        better = trials.best(last.quirks | more)
        if not more or better.completion is None:
            break
        attempts.append(better)
        lost += losses
        added |= more
    return lost, added
