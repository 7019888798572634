"""What a call tells, without the secrets that it was sent with: its errors, and what stands beside its answer.

Two rules hold for all of it. The text of an answer, and its calls, are what the server said (50, Redaction: errors and
metadata). What holds no secret is given back as it is, the very same object.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import attrs

from svir_core.event import Completed, Events
from svir_core.http_message import ResponseHead
from svir_core.limits import ANOMALY_EXCERPT_BYTES
from svir_core.response import Anomaly, Completion, Partial

if TYPE_CHECKING:
    from svir_core.errors import SvirError
    from svir_core.redact import Redactor


def redact_error(error: SvirError, redactor: Redactor) -> None:
    """Take the secrets out of ``error`` where it stands: of what the server said, and what came before it."""
    said = error.server_message()
    if said is not None:
        error._say(redactor.cut(said))
    # an error of a caller's has anything there: what is none of ours is the caller's own
    if isinstance(error.anomalies, tuple) and all(isinstance(each, Anomaly) for each in error.anomalies):
        error.anomalies = _anomalies(error.anomalies, redactor)
    if isinstance(error.partial, Partial):
        error.partial = redact_partial(error.partial, redactor)


def redact_events(events: Events, redactor: Redactor) -> Events:
    """``events`` whose completion, when it is the last of them, holds no secret."""
    items = events.items
    if not items or not isinstance(last := items[-1], Completed):
        return events
    completion = redact_completion(last.completion, redactor)
    return events if completion is last.completion else Events((*items[:-1], Completed(completion)), events.error)


def redact_completion(completion: Completion, redactor: Redactor) -> Completion:
    """``completion`` whose model, id, finish in the server's word, extra and anomalies hold no secret."""
    anomalies = _anomalies(completion.anomalies, redactor)
    said = {name: getattr(completion, name) for name in ("model", "id", "raw_finish", "extra")}
    if anomalies is completion.anomalies and not redactor.finds(said):
        return completion
    return attrs.evolve(completion, anomalies=anomalies, **redactor.json(said))


def redact_partial(partial: Partial, redactor: Redactor) -> Partial:
    """``partial`` whose model and id hold no secret."""
    said = {"model": partial.model, "id": partial.id}
    return attrs.evolve(partial, **redactor.json(said)) if redactor.finds(said) else partial


def redact_head(head: ResponseHead, redactor: Redactor) -> ResponseHead:
    """``head`` whose values hold no secret."""
    if not redactor.finds([value for _, value in head.headers]):
        return head
    return ResponseHead(head.status, [(name, redactor.text(value)) for name, value in head.headers])


def _anomalies(anomalies: tuple[Anomaly, ...], redactor: Redactor) -> tuple[Anomaly, ...]:
    redacted = tuple(_anomaly(each, redactor) for each in anomalies)
    return anomalies if all(map(operator.is_, redacted, anomalies)) else redacted


def _anomaly(anomaly: Anomaly, redactor: Redactor) -> Anomaly:
    text = anomaly.excerpt.decode("latin-1")  # secrets are ASCII: every other byte comes back as it was
    left = redactor.cut(text)
    if left == text:
        return anomaly
    return attrs.evolve(anomaly, excerpt=left.encode("latin-1")[:ANOMALY_EXCERPT_BYTES])
