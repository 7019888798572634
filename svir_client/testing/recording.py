"""A recorded exchange as data, and the file it is kept in: JSON Lines, one exchange a line.

    {"version": 1,
     "request": {"method": "POST", "target": "/v1/chat/completions", "headers": [["accept", "*/*"], ...],
                 "body": {"text": "..."}},
     "response": {"status": 200, "headers": [["content-type", "text/event-stream"], ...], "seconds": 0.21,
                  "pieces": [{"seconds": 0.21, "text": "data: ..."}, {"seconds": 0.25, "base64": "/w=="}],
                  "complete": true},
     "error": null,
     "left_out": 0}

``body`` is ``null`` for a request without one, ``response`` for a call that failed before its head. Bytes
are ``text`` when they are UTF-8, else ``base64``. Times are seconds since the call began. ``error`` is an
:class:`~svir_core.errors.ErrorKind`, of the call or of the reading of its body. ``left_out`` counts the bytes of
both bodies that the recorder's ``limit`` left out; none when it is missing. Unknown keys are ignored.
"""

from __future__ import annotations

import base64
import json
import math
import os
import pathlib
from collections.abc import Sequence
from typing import Any, Final, cast

import attrs

from svir_client.testing import given
from svir_client.testing.wait import Pause, Wait
from svir_core.errors import ConfigError, ErrorKind

VERSION: Final = 1
Pairs = tuple[tuple[str, str], ...]


@attrs.frozen
class RecordedPiece:
    """What one read of the body gave, and when: seconds since the call began."""

    seconds: float
    data: bytes = attrs.field(repr=False)


@attrs.frozen
class Recording:
    """One exchange. What could be a credential was withheld when it was recorded.

    Attributes:
        method, target, request_headers, request_body: the request; the body ``None`` when there was none.
        status: of the response, ``None`` when the call failed before there was one.
        headers: of the response, names in lower case.
        head_seconds: when the head was there.
        pieces: the body, as it was read.
        complete: whether the message's end was read, and is here; false when it was cut off, or given up.
        error: the kind of error that ended it, or ``None``.
        left_out: bytes of both bodies that the recorder had no room for: the ends of them.
    """

    method: str
    target: str = attrs.field(repr=False)
    request_headers: Pairs = attrs.field(default=(), repr=False)
    request_body: bytes | None = attrs.field(default=None, repr=False)
    status: int | None = None
    headers: Pairs = attrs.field(default=(), repr=False)
    head_seconds: float = 0.0
    pieces: tuple[RecordedPiece, ...] = attrs.field(default=(), repr=False)
    complete: bool = False
    error: ErrorKind | None = None
    left_out: int = 0

    @property
    def length(self) -> int:
        """Bytes of the body that were read."""
        return sum(len(piece.data) for piece in self.pieces)

    def line(self) -> bytes:
        """The exchange as one line of a file, its line end included."""
        response = None
        if self.status is not None:
            response = {
                "status": self.status,
                "headers": self.headers,
                "seconds": self.head_seconds,
                "pieces": [{"seconds": piece.seconds, **_written(piece.data)} for piece in self.pieces],
                "complete": self.complete,
            }
        document = {
            "version": VERSION,
            "request": {
                "method": self.method,
                "target": self.target,
                "headers": self.request_headers,
                "body": None if self.request_body is None else _written(self.request_body),
            },
            "response": response,
            "error": self.error,
            "left_out": self.left_out,
        }
        return json.dumps(document, ensure_ascii=True, allow_nan=False).encode() + b"\n"


def load_recording(path: str | os.PathLike[str]) -> list[Recording]:
    """The exchanges of a file that a :class:`Recorder` wrote, in order.

    Raises ``ConfigError``: a file that cannot be read, or the first line that is no exchange, by its number.
    """
    failure = None
    data = b""
    try:
        data = pathlib.Path(given.path(path, "path")).read_bytes()
    except OSError as error:
        failure = ConfigError(f"the recording cannot be read: {type(error).__name__}")
    if failure is not None:
        raise failure
    return parse_recording(data)


def parse_recording(data: bytes) -> list[Recording]:
    """The exchanges of a file's content; raises as :func:`load_recording`."""
    recordings: list[Recording] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        failure = None
        try:
            recordings.append(_exchange(json.loads(line)))
        except _MisfitError as misfit:
            failure = f"line {number} of the recording: {misfit}"
        except (ValueError, RecursionError) as error:
            failure = f"line {number} of the recording is not JSON: {type(error).__name__}"
        if failure is not None:
            raise ConfigError(failure)
    return recordings


def replayed(recording: Recording, speed: float) -> tuple[Wait | None, tuple[bytes | Wait, ...]]:
    """The wait before the head, and the pieces with the waits between them; no waits at a ``speed`` of 0."""
    body: list[bytes | Wait] = []
    now = recording.head_seconds
    for piece in recording.pieces:
        wait = _pause(piece.seconds - now, speed)
        now = max(now, piece.seconds)
        body += [piece.data] if wait is None else [wait, piece.data]
    return _pause(recording.head_seconds, speed), tuple(body)


def finite_speed(speed: float) -> float:
    """``speed``, which must be a finite number of 0 or more."""
    if isinstance(speed, bool) or not isinstance(speed, int | float) or not 0 <= speed < math.inf:
        raise ConfigError("speed must be a finite number, 0 or more")
    return speed


def _pause(seconds: float, speed: float) -> Pause | None:
    return Pause(seconds / speed) if speed and seconds > 0 else None


def _written(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


# --- reading: nothing of a line is taken on trust ----------------------------------------------------


class _MisfitError(Exception):
    """What of a line is not as it should be."""


def _member(document: Any, key: str, kinds: tuple[type, ...], where: str) -> Any:
    if not isinstance(document, dict):
        raise _MisfitError(f"{where} is not an object")
    value: Any = cast("dict[str, Any]", document).get(key)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise _MisfitError(f"{key!r} of {where} is missing or of the wrong type")
    return value


def _exchange(document: Any) -> Recording:
    if _member(document, "version", (int,), "the exchange") != VERSION:
        raise _MisfitError("its version is not known")
    request: dict[str, Any] = _member(document, "request", (dict,), "the exchange")
    body, response = request.get("body"), document.get("response")
    return Recording(
        method=_member(request, "method", (str,), "the request"),
        target=_member(request, "target", (str,), "the request"),
        request_headers=_headers(request, "the request"),
        request_body=None if body is None else _data(body, "the request's body"),
        error=_error(document.get("error")),
        left_out=_left_out(document),
        **({} if response is None else _response(response)),
    )


def _response(response: Any) -> dict[str, Any]:
    status = _member(response, "status", (int,), "the response")
    if not 100 <= status <= 999:
        raise _MisfitError("the status is not one of HTTP")
    pieces: list[Any] = _member(response, "pieces", (list,), "the response")
    return {
        "status": status,
        "headers": _headers(response, "the response"),
        "head_seconds": _seconds(response, "the response"),
        "pieces": tuple(RecordedPiece(_seconds(piece, "a piece"), _data(piece, "a piece")) for piece in pieces),
        "complete": _member(response, "complete", (bool,), "the response"),
    }


def _seconds(document: Any, where: str) -> float:
    seconds = _member(document, "seconds", (int, float), where)
    if not 0 <= seconds < 1e9:  # a life; what is more would overflow a clock
        raise _MisfitError(f"'seconds' of {where} is out of range")
    return float(seconds)


def _left_out(document: dict[str, Any]) -> int:
    left_out: int = _member({"left_out": 0, **document}, "left_out", (int,), "the exchange")
    if left_out < 0:
        raise _MisfitError("'left_out' of the exchange is out of range")
    return left_out


def _headers(document: Any, where: str) -> Pairs:
    headers: list[tuple[str, str]] = []
    pairs: list[Any] = _member(document, "headers", (list,), where)
    for pair in pairs:
        items = tuple(cast("Sequence[Any]", pair)) if isinstance(pair, list) else ()
        if len(items) != 2 or not all(isinstance(item, str) and _one_line(item) for item in items):
            raise _MisfitError(f"a header of {where} is no pair of a name and a value")
        headers.append((items[0].lower(), items[1]))
    return tuple(headers)


def _one_line(text: str) -> bool:
    """Whether a head could carry it: a file must not smuggle further lines into a reply."""
    return text.isprintable() and all(ord(character) < 0x100 for character in text)


def _error(value: object) -> ErrorKind | None:
    if value is None:
        return None
    if not isinstance(value, str) or value not in set(ErrorKind):
        raise _MisfitError("its error is not known")
    return ErrorKind(value)


def _data(document: Any, where: str) -> bytes:
    if isinstance(document, dict) and "text" in document:
        try:
            return str(_member(document, "text", (str,), where)).encode()
        except UnicodeEncodeError:
            pass
        raise _MisfitError(f"the text of {where} is not Unicode")
    text = _member(document, "base64", (str,), where)
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        pass
    raise _MisfitError(f"the base64 of {where} cannot be read")
