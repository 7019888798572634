"""Models of three providers, as data: one row each, with the day on which it was read (50, Catalogue; 51 section 7).

A row is an ordinary descriptor: any of it can be made by hand, and nothing asks whether a model is in the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from types import MappingProxyType
from typing import Final, NamedTuple

from svir_client.models.capability import TEXT, Capability
from svir_client.models.descriptor import ModelDescriptor
from svir_core.check import expect
from svir_core.errors import ConfigError

MULTIMODAL: Final = TEXT | {
    Capability.IMAGE_INPUT,
    Capability.FILE_INPUT,
    Capability.TOOLS,
    Capability.PARALLEL_TOOL_CALLS,
}
WITH_AUDIO: Final = MULTIMODAL | {Capability.AUDIO_INPUT}


class Row(NamedTuple):
    """What is known of one model, and the day on which it was read from its maker."""

    api: str
    id: str
    display_name: str
    context_window: int
    capabilities: frozenset[Capability]
    read_on: date

    def descriptor(self) -> ModelDescriptor:
        """It as a descriptor."""
        return ModelDescriptor(**self._asdict())


ROWS: Final = (
    Row("openai_responses", "gpt-5.6-sol", "GPT-5.6 Sol", 1_050_000, MULTIMODAL, date(2026, 7, 23)),
    Row("openai_responses", "gpt-5.6-terra", "GPT-5.6 Terra", 1_050_000, MULTIMODAL, date(2026, 7, 23)),
    Row("openai_responses", "gpt-5.6-luna", "GPT-5.6 Luna", 1_050_000, MULTIMODAL, date(2026, 7, 23)),
    Row("anthropic_messages", "claude-fable-5", "Claude Fable 5", 1_000_000, MULTIMODAL, date(2026, 7, 23)),
    Row("anthropic_messages", "claude-opus-4-8", "Claude Opus 4.8", 1_000_000, MULTIMODAL, date(2026, 7, 23)),
    Row("anthropic_messages", "claude-sonnet-5", "Claude Sonnet 5", 1_000_000, MULTIMODAL, date(2026, 7, 23)),
    Row("anthropic_messages", "claude-haiku-4-5-20251001", "Claude Haiku 4.5", 200_000, MULTIMODAL, date(2026, 7, 23)),
    Row("gemini", "gemini-3.6-flash", "Gemini 3.6 Flash", 1_048_576, WITH_AUDIO, date(2026, 7, 23)),
    Row("gemini", "gemini-3.5-flash", "Gemini 3.5 Flash", 1_048_576, WITH_AUDIO, date(2026, 7, 23)),
    Row("gemini", "gemini-3.5-flash-lite", "Gemini 3.5 Flash-Lite", 1_048_576, WITH_AUDIO, date(2026, 7, 23)),
    Row("gemini", "gemini-2.5-pro", "Gemini 2.5 Pro", 1_048_576, WITH_AUDIO, date(2026, 7, 23)),
)

CATALOGUE: Final[Mapping[str, ModelDescriptor]] = MappingProxyType({row.id: row.descriptor() for row in ROWS})
"""Every row by the model's id. None has ``max_output_tokens``, though makers name ceilings (OpenAI 128,000, Gemini
65,536): it would go out with every request, as a limit that nobody asked for."""


def find(id: str) -> ModelDescriptor:
    """The row of the model ``id``; ``ConfigError`` that lists the ids for one that is not in the table."""
    known = CATALOGUE.get(expect(id, str, "the id of a model"))
    if known is None:
        raise ConfigError(f"the catalogue has {', '.join(CATALOGUE)}; any other model is a ModelDescriptor of yours")
    return known
