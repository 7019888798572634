"""What the server does wrong in one call, and what must then come of it: one table, drawn from by weight."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import attrs

from soak.answer import Answer
from svir_client.testing import End, Framing, Pause, Reply
from svir_core import ErrorKind

SHORT_SECONDS: Final = 0.3
"""The idle timeout of a call whose server falls silent."""

PAUSE_SECONDS: Final = 1.5
"""The longest pause between two pieces of a slow answer, at pace 1."""

EVENT_STREAM: Final = (("content-type", "text/event-stream"),)
RAW_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"

STATUSES: Final = {
    401: ErrorKind.AUTHENTICATION,
    403: ErrorKind.AUTHENTICATION,
    404: ErrorKind.UNSUPPORTED,
    408: ErrorKind.TIMEOUT,
    429: ErrorKind.RATE_LIMITED,
    500: ErrorKind.TRANSPORT,
    502: ErrorKind.TRANSPORT,
    503: ErrorKind.TRANSPORT,
    504: ErrorKind.TIMEOUT,
    529: ErrorKind.RATE_LIMITED,
}
"""Error statuses, and the errors they are."""


@attrs.frozen
class Refusal:
    """What a call must raise before it begins; ``status`` is ``None`` where no response came."""

    kind: ErrorKind
    status: int | None = None
    retry_after: float | None = None


@attrs.frozen
class Plan:
    """One call, from the server's side. As text it is what is needed to understand it; the seed gives it whole.

    Attributes:
        replies: to the first request; and to the second, which is the lean one.
        body: the bytes of the event stream that arrive, at most.
        ending: what the transport says after them; ``None`` when the message ends.
        lossy: fewer bytes may arrive, and the call may fail before it begins: a reset overtakes what was sent.
        refused: what is raised in place of an answer.
        idle_timeout: a short clock of this call; a busy machine may let it run out at any byte.
    """

    replies: tuple[Reply, ...]
    body: bytes = b""
    ending: ErrorKind | None = None
    lossy: bool = False
    refused: Refusal | None = None
    idle_timeout: float | None = None

    def __str__(self) -> str:
        replies = "; ".join(_described(reply) for reply in self.replies)
        return f"{replies}; {len(self.body)} bytes arrive, then {self.ending or 'the end'}"


def _described(reply: Reply) -> str:
    sizes = [len(piece) if isinstance(piece, bytes) else "wait" for piece in reply.body or ()]
    head = reply.status if reply.raw is None else reply.raw
    return f"{head!r} {reply.framing}, pieces {sizes}, cut at {reply.cut}, then {reply.end}"


def _framing(rng: random.Random) -> Framing:
    return rng.choice(list(Framing))


def _glued(rng: random.Random, pieces: tuple[bytes, ...]) -> list[bytes]:
    """The pieces, now and then several in one write, and cut anywhere."""
    body = b"".join(pieces)
    cuts = sorted(rng.sample(range(1, len(body)), k=min(rng.randint(0, 12), len(body) - 1)))
    return [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]


def _whole(rng: random.Random, answer: Answer, pace: float) -> Plan:
    return Plan((Reply.stream(*_glued(rng, answer.pieces), framing=_framing(rng)),), answer.body)


def _drip(rng: random.Random, answer: Answer, pace: float) -> Plan:
    pieces: list[bytes | Pause] = []
    for piece in answer.pieces:
        seconds = rng.uniform(0, PAUSE_SECONDS) * pace
        pieces += [Pause(seconds), piece] if seconds else [piece]
    return Plan((Reply.stream(*pieces, framing=_framing(rng)),), answer.body)


def _part(rng: random.Random, answer: Answer) -> int:
    """Anywhere in the body but at its end, where some framings would make it whole."""
    return rng.randrange(len(answer.body))


def _cut(rng: random.Random, answer: Answer, pace: float) -> Plan:
    framing, at = _framing(rng), _part(rng, answer)
    ending = None if framing is Framing.CLOSE else ErrorKind.TRANSPORT
    return Plan((Reply.stream(*answer.pieces, framing=framing, cut=at),), answer.body[:at], ending)


def _reset(rng: random.Random, answer: Answer, pace: float) -> Plan:
    at = _part(rng, answer)
    reply = Reply.stream(*answer.pieces, framing=_framing(rng), cut=at, end=End.RESET)
    return Plan((reply,), answer.body[:at], ErrorKind.TRANSPORT, lossy=True)


def _stall(rng: random.Random, answer: Answer, pace: float) -> Plan:
    at = _part(rng, answer)
    reply = Reply.stream(*answer.pieces, framing=_framing(rng), cut=at, end=End.STALL)
    return Plan((reply,), answer.body[:at], ErrorKind.TIMEOUT, idle_timeout=SHORT_SECONDS)


def _silence(rng: random.Random, answer: Answer, pace: float) -> Plan:
    return Plan((Reply.silence(),), refused=Refusal(ErrorKind.TIMEOUT), idle_timeout=SHORT_SECONDS)


def _drop(rng: random.Random, answer: Answer, pace: float) -> Plan:
    end = rng.choice((End.CLOSE, End.RESET))
    head = RAW_HEAD[: rng.randrange(len(RAW_HEAD))]
    return Plan((Reply(raw=head, end=end),), refused=Refusal(ErrorKind.TRANSPORT), lossy=True)


def _error_event(rng: random.Random, answer: Answer, pace: float) -> Plan:
    before = answer.pieces[: rng.randint(0, len(answer.pieces) - 1)]
    pieces = (*before, b'data: {"error":{"message":"the model fell over","code":500}}\n\n')
    return Plan((Reply.stream(*pieces, framing=_framing(rng)),), b"".join(pieces))


def _status(rng: random.Random, answer: Answer, pace: float) -> Plan:
    status = rng.choice(list(STATUSES))
    seconds = rng.choice((None, 0, 2, 3600))
    headers = (("content-type", "application/json"), *(() if seconds is None else (("retry-after", str(seconds)),)))
    body = b'{"error":{"message":"not now"}}'
    reply = Reply(status, headers, (body,), framing=_framing(rng))
    if rng.random() < 0.3:
        reply = attrs.evolve(reply, cut=rng.randrange(len(body)))
    capped = None if seconds is None else min(float(seconds), 30.0)
    return Plan((reply,), refused=Refusal(STATUSES[status], status, capped))


_BAD_FIELD: Final = Reply.document({"error": {"message": "no such field"}}, status=400, framing=Framing.LENGTH)


def _lean(rng: random.Random, answer: Answer, pace: float) -> Plan:
    plan = _cut(rng, answer, pace) if rng.random() < 0.3 else _whole(rng, answer, pace)
    return attrs.evolve(plan, replies=(_BAD_FIELD, *plan.replies))


def _refused_twice(rng: random.Random, answer: Answer, pace: float) -> Plan:
    return Plan((_BAD_FIELD, _BAD_FIELD), refused=Refusal(ErrorKind.UNSUPPORTED, 400))


def _longer_than_told(rng: random.Random, answer: Answer, pace: float) -> Plan:
    """The length says less than what comes: the message ends there, and the connection is of no further use."""
    at = rng.randrange(1, len(answer.body))
    head = RAW_HEAD + b"content-length: %d\r\n\r\n" % at
    return Plan((Reply(raw=head, body=(answer.body,)),), answer.body[:at])


def _shorter_than_told(rng: random.Random, answer: Answer, pace: float) -> Plan:
    head = RAW_HEAD + b"content-length: %d\r\n\r\n" % (len(answer.body) + rng.randint(1, 1000))
    return Plan((Reply(raw=head, body=answer.pieces),), answer.body, ErrorKind.TRANSPORT)


def _bad_chunk(rng: random.Random, answer: Answer, pace: float) -> Plan:
    good = answer.pieces[: rng.randint(0, len(answer.pieces) - 1)]
    chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in good]
    body = (RAW_HEAD + b"transfer-encoding: chunked\r\n\r\n", *chunks, b"no chunk\r\n")
    return Plan((Reply(raw=b"", body=body),), b"".join(good), ErrorKind.PROTOCOL)


def _no_http(rng: random.Random, answer: Answer, pace: float) -> Plan:
    return Plan((Reply(raw=b"this is no HTTP\r\n\r\n", body=answer.pieces),), refused=Refusal(ErrorKind.PROTOCOL))


Fault = Callable[[random.Random, Answer, float], Plan]

FAULTS: Final[dict[str, tuple[int, Fault]]] = {
    "none": (12, _whole),
    "slow drip": (55, _drip),
    "cut": (6, _cut),
    "reset": (4, _reset),
    "stall": (4, _stall),
    "no head": (2, _silence),
    "dropped head": (3, _drop),
    "error event": (3, _error_event),
    "error status": (4, _status),
    "refused, then lean": (2, _lean),
    "refused twice": (1, _refused_twice),
    "longer than told": (1, _longer_than_told),
    "shorter than told": (1, _shorter_than_told),
    "no chunk": (1, _bad_chunk),
    "no HTTP": (1, _no_http),
}
"""How often out of a hundred, and what."""
