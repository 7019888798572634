"""Models of a server of the user's own: nothing is known of them but what the user says (50, Catalogue)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from svir_client.models.capability import TEXT, Capability, capabilities_of
from svir_client.models.descriptor import ModelDescriptor


def local(
    id: str,
    *,
    capabilities: Iterable[Capability | str] = (),
    context_window: int | None = None,
    max_output_tokens: int | None = None,
    settings: Mapping[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> ModelDescriptor:
    """A model behind Chat Completions (llama.cpp, LM Studio, Ollama, vLLM, ...) that has ``capabilities`` beside text
    in and out. ``context_window`` is what the server was started with, which may be less than the model's.

    What the server itself needs is a :func:`svir_core.profile`, for the client. Raises ``ConfigError`` as
    :class:`ModelDescriptor` does.
    """
    return ModelDescriptor(
        id,
        api="openai_chat",
        capabilities=TEXT | capabilities_of(capabilities),
        context_window=context_window,
        max_output_tokens=max_output_tokens,
        settings={} if settings is None else settings,
        extra={} if extra is None else extra,
    )
