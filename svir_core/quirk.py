"""Quirks: named repairs for servers known to break the protocol in a way that changes the answer when it
is guessed wrong (11 section C).

Three rules hold for all of them. None is ever on by default, or guessed: the caller names them, alone or
by a ``profile``. None relaxes truncation (beyond what two of them name), a failure inside the stream,
conflicting arguments, or a limit. A stream that needs no repair reads the same with and without them,
but for those whose streams look right and are not; docs/quirks.md names them.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Flag, auto
from typing import Final

from svir_core.errors import ConfigError


class Quirk(Flag):
    """What a server does against the protocol, as a set: ``Quirk.DONE_OPTIONAL | Quirk.FINISH_OPEN``.

    ``Quirk(0)`` is none. docs/quirks.md has what each answer would be without its quirk.
    """

    TOOL_INDEX_MISSING = auto()
    """Pieces of calls have no ``index``. One with the id of a call belongs to it, else one with a name opens
    a call, else it belongs to the call opened last. Seen on Gemini's compatible endpoint and Kimi relays."""
    TOOL_INDEX_REUSED = auto()
    """Several calls share an index: a new id with a name opens a call. Seen on Ollama and some SGLang parsers."""
    TOOL_ID_DRIFTS = auto()
    """Later pieces of a call carry new ids, without a name: the first id stays. Seen on GLM-4 and lmdeploy."""
    TOOL_ID_MISSING = auto()
    """Calls have no id: ``call_<n>`` is made when the answer is whole. Seen on older vLLM and Gemini."""
    TOOL_INDEX_GAPS = auto()
    """The indices have gaps: calls stand in order of first appearance. Seen on Copilot and LiteLLM."""
    TOOL_NAME_REPEATED = auto()
    """Later pieces repeat the whole name: it is not appended. Seen on NIM and MiniMax."""
    TOOL_ARGUMENTS_OBJECT = auto()
    """Arguments are a JSON object: it is written as JSON text, once. Seen on Ollama via gateways and MiniMax."""
    TOOL_ARGUMENTS_RESENT = auto()
    """Whole arguments are sent once more: the same again is dropped, others are ``ProtocolError``. Seen on
    Cerebras."""
    DONE_OPTIONAL = auto()
    """The input ends after a finish reason, without ``[DONE]``. Seen on TGI and many gateways."""
    FINISH_OPTIONAL = auto()
    """``[DONE]`` comes without a finish reason: the finish is ``other``. Seen on vllm-mlx and some gateways."""
    FINISH_OPEN = auto()
    """The finish reason is a word of the server's own: the finish is ``other``, and ``raw_finish`` has the word.
    Seen on OpenRouter, TGI and Mistral."""
    FINISH_EARLY = auto()
    """The answer goes on after its finish reason; the last one counts. Seen on one-api in front of Gemini."""
    CONTENT_PARTS = auto()
    """Content is a list of ``text`` and ``thinking`` parts. Seen on Mistral."""
    CONTENT_CUMULATIVE = auto()
    """Each delta repeats the whole text so far. Seen on DashScope and MiniMax."""
    CHOICES_MERGED = auto()
    """One answer is spread over several choices. Seen on Copilot."""
    REASONING_DETAILS = auto()
    """Deltas carry ``reasoning_details``: merged by index and type, and kept for the way back. Seen on OpenRouter
    and MiniMax."""
    USAGE_INCREMENTS = auto()
    """Every usage report is an increment: they are summed. Seen on some gateways."""


NONE: Final = Quirk(0)


def names_of(quirks: Quirk) -> list[str]:
    """The names of ``quirks``, in the order of the class."""
    return [quirk.name for quirk in Quirk if quirk in quirks and quirk.name is not None]


def spelled(quirks: Quirk) -> str:
    """``quirks`` in words, as ``A | B``; ``""`` when there are none."""
    return " | ".join(names_of(quirks))


def named(names: Iterable[str]) -> Quirk:
    """The set of quirks with these names; ``ConfigError`` that lists all names for one that is none."""
    quirks = NONE
    for name in names:
        if name not in Quirk.__members__:
            raise ConfigError(f"a quirk is one of {', '.join(Quirk.__members__)}")
        quirks |= Quirk[name]
    return quirks
