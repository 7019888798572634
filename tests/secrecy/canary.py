"""Words that must show nowhere, and the places where they could show: what an error says, what it leads
to, what it is stored as, what is logged, and what a traceback shows of our frames' locals."""

from __future__ import annotations

import gc
import logging
import pathlib
import pickle
import traceback
from collections.abc import Iterator
from types import (
    AsyncGeneratorType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
    TracebackType,
)
from typing import TYPE_CHECKING, Any, cast

from svir_core import serial
from svir_core.errors import SvirError

if TYPE_CHECKING:
    from typing import Self

KEY = "sk-canary-key-7f3a"
HEADER = "canary-header-7f3a"
TOKEN = "canary-token-7f3a"
CALL_HEADER = "canary-call-header-7f3a"
HOST = "canary-host-7f3a.invalid"
PATH = "canary-path-7f3a"
QUERY = "canary-query-7f3a"
SERVER = "canary-server-7f3a"

OURS = (KEY, HEADER, TOKEN, CALL_HEADER, HOST, PATH, QUERY)
"""What the caller gave: no form of an error may hold it."""

ROOT = pathlib.Path(__file__).parents[2]

LOGGERS = ("", "asyncio", "trio", "anyio", "h11", "httpx", "httpcore", "httpx2", "httpcore2", "svir")
"""Whose records are looked at: the root's, and those of what lies below us."""

QUIET = ("hpack",)
"""Loggers that write the headers of requests at DEBUG, and so the key: to be left at INFO (docs/client.md)."""

OTHERS_URLS = frozenset({"httpx", "httpcore", "httpx2", "httpcore2"})
"""Loggers that by their own doing write the URL of a request, and the headers of its response: a caller silences
them. What svir gives them to send, they do not write."""


def found(text: str, *canaries: str) -> list[str]:
    """The canaries that ``text`` shows."""
    return [canary for canary in canaries if canary in text]


def shown(error: BaseException) -> Iterator[tuple[str, str]]:
    """Where an error is put into words, and the words."""
    yield "str", str(error)
    yield "repr", repr(error)
    yield "args", repr(error.args)
    yield "a format", f"{error} {error!r} {[error]} {vars(error).get('__notes__')}"
    yield "a traceback", "".join(traceback.format_exception(error))


def of_tests(filename: str) -> bool:
    """Whether a file is one of these tests, which hold every canary."""
    return pathlib.Path(filename).is_relative_to(ROOT / "tests")


def _shown_as(value: object) -> str:
    """The ``repr`` of a local, as a tool that reports tracebacks makes it: an object half made may have none."""
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - whatever a half-made object raises
        return f"<no repr: {type(error).__name__}>"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and those that it came from."""
    waiting: list[BaseException | None] = [error]
    seen: list[BaseException] = []
    while waiting:
        one = waiting.pop()
        if one is not None and one not in seen:
            seen.append(one)
            waiting += [one.__cause__, one.__context__]
            yield one


def locals_shown(error: BaseException) -> Iterator[tuple[str, str]]:
    """What a traceback with locals shows of every frame that is not of a test."""
    for one in _chain(error):
        for frame, line in traceback.walk_tb(one.__traceback__):
            code = frame.f_code
            if not of_tests(code.co_filename):
                for name, value in frame.f_locals.items():
                    yield f"{pathlib.Path(code.co_filename).name}:{line} {code.co_name}.{name}", _shown_as(value)


HOLDERS = (FunctionType, MethodType, FrameType, CoroutineType, GeneratorType, AsyncGeneratorType)
"""What holds whatever it was made or stopped with: an error that leads to one leads anywhere."""


def reachable(error: BaseException) -> Iterator[object]:
    """Everything that an error leads to, but by its traceback: a frame of ours has the call in hand."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, type | ModuleType | TracebackType):
            continue
        seen.add(id(value))
        yield value
        if not isinstance(value, HOLDERS):
            waiting += gc.get_referents(value)


def text_of(value: object) -> str:
    """The text in a string or in bytes; of anything else none."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(cast("bytes", value)).decode("latin-1")
    return ""


def stored(error: SvirError) -> Iterator[tuple[str, str]]:
    """The pickles of an error, by every protocol, and its JSON form."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        yield f"pickle protocol {protocol}", pickle.dumps(error, protocol).decode("latin-1")
    yield "its JSON form", serial.dumps(error).decode("utf-8")


class Log(logging.Handler):
    """Everything that is logged while it is entered, at DEBUG."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append((record.name, f"{record.getMessage()} {record.args} {record.exc_info}"))

    def __enter__(self) -> Self:
        self._levels = {name: logging.getLogger(name).level for name in (*LOGGERS, *QUIET)}
        for name in self._levels:
            logging.getLogger(name).setLevel(logging.INFO if name in QUIET else logging.DEBUG)
        logging.getLogger().addHandler(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        logging.getLogger().removeHandler(self)
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)


def leaks(error: BaseException, log: Log, *addresses: str) -> list[str]:
    """Every place where a canary shows. What the server said may be read by ``server_message()`` alone, without the
    secrets of the call (50, Redaction), and a pickle and a JSON form keep that one string (10 section 11)."""
    canaries = (*OURS, *addresses)
    problems = [
        f"{where} shows {found(text, *canaries, SERVER)}"
        for where, text in (*shown(error), *locals_shown(error))
        if found(text, *canaries, SERVER)
    ]
    for name, text in log.records:
        others = name.partition(".")[0] in OTHERS_URLS
        logged = found(text, *((KEY, HEADER, TOKEN, CALL_HEADER) if others else (*canaries, SERVER)))
        if logged:
            problems.append(f"the log of {name!r} shows {logged}")
    said = error.server_message() if isinstance(error, SvirError) else None
    for value in reachable(error):
        if found(text_of(value), *canaries) or (value is not said and found(text_of(value), SERVER)):
            problems.append(f"it leads to a {type(value).__name__}: {text_of(value)[:80]!r}")
        elif isinstance(value, HOLDERS):
            problems.append("it leads to a function or a frame, and so to whatever that holds")
    if isinstance(error, SvirError):
        problems += [
            f"{where} shows {found(text, *canaries)}" for where, text in stored(error) if found(text, *canaries)
        ]
        fields: dict[str, Any] = {**error._fields(), "server_message": None}
        dumb = type(error)(error.detail, **fields)
        problems += [f"{where} shows what the server said" for where, text in stored(dumb) if SERVER in text]
    return problems
