"""Profiles: what one kind of server needs, as data (11 section C, 12 section 1).

A profile is a set of quirks and request habits. Every row says where they were observed; what was not
observed is not in it. A server that needs nothing has a row too, so that a program can name any server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from svir_core.check import instance_of
from svir_core.compat import Compatibility
from svir_core.errors import ConfigError
from svir_core.quirk import NONE, Quirk
from svir_core.wire.api import Compat


@attrs.frozen
class Profile:
    """What one kind of server needs.

    Attributes:
        name: the name it is found by.
        seen: where that was observed.
        quirks: the repairs its answers need.
        omit: optional body fields that it refuses.
        rename: body fields and roles that it takes under another name.
    """

    name: str
    seen: str
    quirks: Quirk = attrs.field(default=NONE, validator=instance_of(Quirk))
    omit: frozenset[str] = frozenset()
    rename: Mapping[str, str] = attrs.field(factory=dict[str, str])

    @property
    def compat(self) -> Compat:
        """The request habits, as the encoder takes them."""
        return Compat(self.omit, self.rename)

    def compatibility(self) -> Compatibility:
        """A new memory of one server that knows the request habits from the start; ``compat=`` of a client."""
        memory = Compatibility()
        memory.learn(omit=self.omit, rename=self.rename)
        return memory


PROFILES: Final[Mapping[str, Profile]] = {
    row.name: row
    for row in (
        Profile("azure", "Azure OpenAI: content filter reports and annotations, which the protocol's rules cover"),
        Profile("cerebras", "Cerebras: whole arguments sent once more", Quirk.TOOL_ARGUMENTS_RESENT),
        Profile(
            "copilot",
            "Copilot: indices with gaps; text and calls in different choices",
            Quirk.TOOL_INDEX_GAPS | Quirk.CHOICES_MERGED,
        ),
        Profile("dashscope", "DashScope without incremental output", Quirk.CONTENT_CUMULATIVE),
        Profile(
            "gemini-compat",
            "Gemini's compatible endpoint: whole calls without index, some without id",
            Quirk.TOOL_INDEX_MISSING | Quirk.TOOL_ID_MISSING,
        ),
        Profile("glm-4", "GLM-4: an id of its own on every piece of a call", Quirk.TOOL_ID_DRIFTS),
        Profile("groq", "Groq: usage under x_groq, which the protocol's rules cover"),
        Profile("kimi-relay", "relays of Kimi: pieces of calls without index", Quirk.TOOL_INDEX_MISSING),
        Profile("litellm", "LiteLLM: indices with gaps", Quirk.TOOL_INDEX_GAPS),
        Profile("llama.cpp", "llama.cpp: recorded streams need no repair"),
        Profile("lm-studio", "LM Studio: recorded streams need no repair"),
        Profile("lmdeploy", "lmdeploy: an id of its own on every piece of a call", Quirk.TOOL_ID_DRIFTS),
        Profile(
            "minimax",
            "MiniMax: repeated names, arguments as objects, texts that grow, reasoning details",
            Quirk.TOOL_NAME_REPEATED | Quirk.TOOL_ARGUMENTS_OBJECT | Quirk.CONTENT_CUMULATIVE | Quirk.REASONING_DETAILS,
        ),
        Profile(
            "mistral",
            "Mistral: content as parts, finish reasons of its own",
            Quirk.CONTENT_PARTS | Quirk.FINISH_OPEN,
        ),
        Profile("mlx-lm", "mlx-lm and mlx-vlm: recorded streams need no repair"),
        Profile("nim", "NIM: the name on every piece of a call", Quirk.TOOL_NAME_REPEATED),
        Profile(
            "ollama",
            "Ollama: all calls on index 0; behind gateways, arguments as objects",
            Quirk.TOOL_INDEX_REUSED | Quirk.TOOL_ARGUMENTS_OBJECT,
        ),
        Profile("one-api-gemini", "one-api in front of Gemini: a finish reason on every chunk", Quirk.FINISH_EARLY),
        Profile(
            "openai-reasoning",
            "OpenAI's o-series and gpt-5 and later: max_tokens and the role system refused",
            rename={"max_tokens": "max_completion_tokens", "system": "developer"},
        ),
        Profile(
            "openrouter",
            "OpenRouter: reasoning details, finish reasons of the provider behind it",
            Quirk.REASONING_DETAILS | Quirk.FINISH_OPEN,
        ),
        Profile("sglang", "some of SGLang's tool parsers: calls that share an index", Quirk.TOOL_INDEX_REUSED),
        Profile(
            "tgi",
            "TGI: no [DONE], finish reasons of its own such as eos_token",
            Quirk.DONE_OPTIONAL | Quirk.FINISH_OPEN,
        ),
        Profile("vllm", "older vLLM: calls without id", Quirk.TOOL_ID_MISSING),
        Profile("vllm-mlx", "vllm-mlx: [DONE] without a finish reason", Quirk.FINISH_OPTIONAL),
    )
}
"""Every profile by name, in the order of the names. Sources: the table of 11 section C, 10 section 12, 12 section 1."""


def profile(name: str) -> Profile:
    """The profile named ``name``; ``ConfigError`` that lists the names for one that is unknown."""
    known = PROFILES.get(name)
    if known is None:
        raise ConfigError(f"a profile is one of {', '.join(PROFILES)}")
    return known
