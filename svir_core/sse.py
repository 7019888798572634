"""Server-sent events: bytes in at any cut, frames out (10 section 1).

Three rules hold for all of it. A line is judged when its end is there, never before, so that the cut
does not matter. A byte is searched once: the framer remembers how far it looked, works with offsets
into what arrived, and keeps an unfinished line as bytes while it is small and as a list of pieces
when it is not. What a frame means is the codec's business: the framer knows neither modes nor JSON.

Lines end in LF, CRLF or a lone CR; a CRLF may be cut in two. An event's size is the length of its field lines
and one byte for each of their ends, so that it does not depend on the kind of line end.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from svir_core.check import count, expect
from svir_core.errors import ResponseLimitError
from svir_core.slow_json import Nesting


class Kind(Enum):
    """What a frame holds."""

    EVENT = auto()
    """An event: its type (``None`` when the default) and its data, which may be empty for a typed one."""
    FIELD = auto()
    """A line whose field nobody knows: the line."""
    TYPE = auto()
    """An event type the codec does not know, at its line: the line."""
    TEXT = auto()
    """A known field, other than ``data``, that is not UTF-8: the line."""
    BARE = auto()
    """Lines that look like JSON without ``data:``, from the one that starts with ``{`` or ``[{``."""
    DROPPED = auto()
    """Data that belongs to no event the codec knows: of interest only when it is a failure."""
    REST = auto()
    """At the end of input: the data of an event that never ended."""
    CUT = auto()
    """At the end of input: a line that never ended and begins no field. No event goes on like that."""


_EVENT: Final = Kind.EVENT  # reading a member off its enum costs as much as a find()

Frame = tuple[Kind, int, str | None, bytes]
"""Kind, offset of the body's byte where it begins, event type, bytes."""

DEFAULT_TYPE: Final = "message"
"""The type an event has when it names none; a frame then says ``None``."""

SMALL_TAIL: Final = 4096
"""An unfinished line is joined with what follows while it is below this: one copy of a few KiB is
cheaper than a list; above it, ``tail + data`` would be quadratic (60, findings)."""

LF: Final = 10
CR: Final = 13
COLON: Final = 58
BRACE: Final = 123

_IGNORED: Final = frozenset({b"id", b"retry"})
_FIELDS: Final = frozenset({b"data", b"event"}) | _IGNORED
_KNOWN: Final = _FIELDS | {b"error"}


def split_field(line: bytes) -> tuple[bytes, bytes]:
    """The name and the value of a field line; one space after the colon belongs to neither."""
    name, _, value = line.partition(b":")
    return name, value[1:] if value[:1] == b" " else value


class Framer:
    """One body, line by line. Feed it with :meth:`push`, then say :meth:`finish`.

    Args:
        types: the event types the codec knows, or ``None`` when it takes any.
        terminator: data that ends the stream at its own line, without waiting for the event's end.
        limit: the greatest size of an event, of a line, and of collected bare JSON, in bytes.

    Raises ``ConfigError`` for an argument that is none of these.

    Attributes:
        count: how many events and comments were seen.
        unfinished: whether the input ended inside a line, an event or collected JSON; known after :meth:`finish`.
        error: ``ResponseLimitError`` when ``limit`` was passed, after the frames of the same push.
        ended: whether the terminator was seen at its own line. After that, or an error, push no more.
    """

    __slots__ = (
        "_after_cr",
        "_bare",
        "_base",
        "_idle",
        "_known",
        "_limit",
        "_lines",
        "_open",
        "_parts",
        "_parts_size",
        "_pending",
        "_size",
        "_start",
        "_tail",
        "_terminator",
        "_type",
        "_types",
        "count",
        "ended",
        "error",
        "unfinished",
    )

    def __init__(self, *, types: frozenset[str] | None, terminator: bytes | None, limit: int) -> None:
        self._types = None if types is None else expect(types, frozenset, "types")
        self._terminator = None if terminator is None else expect(terminator, bytes, "terminator")
        self._limit = count(limit, 1, "limit")
        self.count = 0
        self.error: ResponseLimitError | None = None
        self.ended = False
        self.unfinished = False
        self._base = 0  # the offset in the body of the tail, or of the next push when there is none
        self._tail = b""  # an unfinished line, while it is small
        self._parts: list[bytes] = []  # an unfinished line, when it is not
        self._parts_size = 0
        self._pending = False  # whether any of the three is in use
        self._idle = True  # whether nothing at all is unfinished
        self._after_cr = False  # the last byte was a CR: an LF now is the rest of that line end
        self._bare: _Bare | None = None
        self._start = 0
        self._reset()

    def _reset(self) -> None:
        self._open = False  # whether the event has a field yet
        self._lines: list[bytes] = []  # its data
        self._type: str | None = None
        self._known = True
        self._size = 0

    def start_at(self, offset: int) -> None:
        """The first push begins at this byte of the body."""
        self._base = offset

    # --- whole lines: the hot path ---------------------------------------------------------------

    def single(self, data: bytes) -> bytes | None:
        """The payload of ``data`` when it is exactly one event of one line, and nothing is unfinished: what a live
        stream is made of. Otherwise ``None``, and nothing done: then :meth:`push` it."""
        payload = data[6:-2]
        if (
            payload
            and self._idle
            and LF not in payload
            and CR not in payload
            and data.startswith(b"data: ")
            and data.endswith(b"\n\n")
            and len(data) <= self._limit
        ):
            self._base += len(data)
            self.count += 1
            return payload
        return None

    def push(self, data: bytes) -> list[Frame]:
        """The frames that ``data`` completes, up to the terminator or to what sets ``error``."""
        frames: list[Frame] = []
        searched = 0
        if self._pending:
            data, searched = self._resume(data)
        try:
            position = 0
            if CR not in data and self._bare is None and not self._open:
                position = self._blocks(data, frames)
            if position < len(data) and not self.ended:
                position = self._lines_from(data, position, max(position, searched), frames)
            if not self.ended:
                self._base += position
                if position < len(data):
                    self._keep(data[position:] if position else data)
                self._pending = position < len(data) or self._after_cr or bool(self._parts)
                self._idle = not (self._pending or self._open or self._bare is not None)
        except ResponseLimitError as error:
            self.error = error.with_traceback(None)
        return frames

    def _blocks(self, data: bytes, frames: list[Frame]) -> int:
        """Read the events of ``data`` that end with LF LF, without looking at each line: nearly all do, in one line of
        ``data``. The position after them."""
        position = 0
        blocks = data.split(b"\n\n")
        blocks.pop()  # what follows the last blank line
        for block in blocks:
            if block[:6] == b"data: " and LF not in block:
                if len(block) >= self._limit:
                    self._check(len(block) + 1, self._base + position)
                self.count += 1
                payload = block[6:]
                if payload:
                    frames.append((_EVENT, self._base + position, None, payload))
                    if payload == self._terminator:
                        self.ended = True
                        break
            else:
                offset = self._base + position
                for line in (*block.split(b"\n"), b""):
                    frames += self._line(line, offset)
                    offset += len(line) + 1
                    if self.ended:
                        return position
                if self._bare is not None:  # goes on beyond the blank line
                    return position + len(block) + 2
            position += len(block) + 2
        return position

    def _lines_from(self, data: bytes, position: int, searched: int, frames: list[Frame]) -> int:
        """Read ``data`` line by line from ``position``, where a line begins and no end was found before ``searched``.
        The position after the last whole line."""
        base = self._base
        size = len(data)
        lf = _find(data, b"\n", searched)
        cr = _find(data, b"\r", searched) if CR in data else size
        while (end := min(lf, cr)) < size:
            after = end + 1
            if end == cr:
                if after == size:
                    self._after_cr = True
                elif data[after] == LF:
                    after += 1
            frames += self._line(data[position:end], base + position)
            position = after
            if self.ended:
                break
            if lf < position:
                lf = _find(data, b"\n", position)
            if cr < position:
                cr = _find(data, b"\r", position)
        return position

    def _resume(self, data: bytes) -> tuple[bytes, int]:
        """``data`` after what was unfinished, and how much of it was searched already."""
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == LF:
                data = data[1:]
                self._base += 1
        if self._tail:
            searched = len(self._tail)
            data = self._tail + data
            self._tail = b""
            return data, searched
        if self._parts and (LF in data or CR in data):
            searched = self._parts_size
            data = b"".join((*self._parts, data))
            self._parts.clear()
            self._parts_size = 0
            return data, searched
        return data, 0

    def _keep(self, tail: bytes) -> None:
        """Keep an unfinished line, or one more piece of a large one."""
        size = self._parts_size + len(tail)
        self._check(size, self._base)
        if size > SMALL_TAIL:
            self._parts.append(tail)
            self._parts_size = size
        else:
            self._tail = tail

    def _check(self, size: int, offset: int) -> None:
        """Whether ``size`` more bytes, at ``offset``, still fit."""
        before = self._size if self._bare is None else self._bare.size
        if before + size > self._limit:
            raise ResponseLimitError(f"an event is larger than {self._limit} bytes", offset=offset)

    # --- one line --------------------------------------------------------------------------------

    def _line(self, line: bytes, offset: int) -> Sequence[Frame]:
        """What a whole line, without its end, completes."""
        if line or self._bare is not None:
            self._check(len(line) + 1, offset)
        if self._bare is not None:
            return self._bare_line(self._bare, line, offset)
        if not line:
            return self._dispatch()
        if line[0] == COLON:
            self.count += 1
            return ()
        if line[0] == BRACE or _begins_an_array(line):
            self._bare = _Bare(offset)
            return self._bare_line(self._bare, line, offset)
        return self._field(line, offset)

    def _field(self, line: bytes, offset: int) -> Sequence[Frame]:
        if not self._open:
            self._open = True
            self._start = offset
        self._size += len(line) + 1
        name, value = split_field(line)
        if name == b"data":
            self._lines.append(value)
            if value == self._terminator and len(self._lines) == 1 and self._type is None:
                self.ended = True
                return self._dispatch()
            return ()
        if name not in _KNOWN or name == b"error":
            return ((Kind.FIELD, offset, None, line),)
        if name == b"event":
            return self._event_type(line, value, offset)
        return () if _is_utf8(line) else ((Kind.TEXT, offset, None, line),)

    def _event_type(self, line: bytes, value: bytes, offset: int) -> Sequence[Frame]:
        name = value.decode("utf-8", "replace")
        self._type = None if name in ("", DEFAULT_TYPE) else name
        self._known = self._type is None or self._types is None or self._type in self._types
        return () if self._known else ((Kind.TYPE, offset, None, line),)

    def _dispatch(self) -> Sequence[Frame]:
        """The event that a blank line ends."""
        if not self._open:
            return ()
        self.count += 1
        payload = b"\n".join(self._lines)
        kind = Kind.EVENT if self._known else Kind.DROPPED
        frame = (kind, self._start, self._type, payload)
        self._reset()
        return (frame,) if payload or (frame[2] is not None and kind is Kind.EVENT) else ()

    # --- JSON without ``data:`` ------------------------------------------------------------------

    def _bare_line(self, bare: _Bare, line: bytes, offset: int) -> Sequence[Frame]:
        """Collect ``line``, until the braces balance or a line comes that cannot be JSON: one that begins with a
        field of ours. No JSON text has one there, since its strings hold no line ends."""
        if line[:1] == b":":
            self.count += 1
            return ()
        if split_field(line)[0] in _KNOWN:
            return (*self._end_of_bare(bare), *self._line(line, offset))
        return self._end_of_bare(bare) if bare.push(line) else ()

    def _end_of_bare(self, bare: _Bare) -> Sequence[Frame]:
        self._bare = None
        frame = (Kind.BARE, bare.offset, None, b"\n".join(bare.lines))
        return (frame, *self._dispatch()) if bare.blank else (frame,)

    # --- the end of input ------------------------------------------------------------------------

    def finish(self) -> list[Frame]:
        """What the end of input leaves: a terminator whose line never ended is an event; of the rest only the data
        (``REST``) and what may be a failure."""
        frames: list[Frame] = []
        tail = b"".join(self._parts) or self._tail
        whole = _begins_a_field(tail)
        self.unfinished = bool(tail) or self._open or self._bare is not None
        if self._bare is not None:
            if not whole and split_field(tail)[0] != b"error":
                self._bare.push(tail)  # it may be what closes the braces
            frames += self._end_of_bare(self._bare)
        frames += self._unfinished(tail)
        if self._open:
            kind = Kind.REST if self._known else Kind.DROPPED
            frames.append((kind, self._start, self._type, b"\n".join(self._lines)))
        if not whole:
            frames.append((Kind.CUT, self._base, None, tail))
        return frames

    def _unfinished(self, line: bytes) -> Sequence[Frame]:
        """What a field without its end adds to its event. It is not judged."""
        name, value = split_field(line)
        return self._field(line, self._base) if name == b"data" or (name, value) == (b"event", b"error") else ()


class _Bare:
    """Lines of JSON without ``data:``, while they are collected."""

    __slots__ = ("_nesting", "blank", "lines", "offset", "size")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.lines: list[bytes] = []
        self.size = 0
        self.blank = False  # whether an event ended in between
        self._nesting = Nesting()

    def push(self, line: bytes) -> bool:
        """Whether ``line`` closes the outermost brace."""
        self.lines.append(line)
        self.size += len(line) + 1
        self.blank = self.blank or not line
        return self._nesting.push(line) is not None


def _find(data: bytes, byte: bytes, start: int) -> int:
    """The position of ``byte`` from ``start`` on; the length of ``data`` when it is not there."""
    found = data.find(byte, start)
    return len(data) if found < 0 else found


def _begins_an_array(line: bytes) -> bool:
    """Whether a line may begin an array of objects, as some servers wrap a failure."""
    return line[:1] == b"[" and line[1:].lstrip()[:1] in (b"", b"{")


def _begins_a_field(line: bytes) -> bool:
    """Whether a line whose end is not there may be, or become, a comment or a field of an event."""
    name, colon, _ = line.partition(b":")
    return name in _FIELDS or not name if colon else any(field.startswith(name) for field in _FIELDS)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
