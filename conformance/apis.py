"""The wire APIs whose cases run: a case lies below a folder of its API's name, those of Chat Completions do not."""

from __future__ import annotations

from collections.abc import Mapping

from svir_core.wire import anthropic_messages, gemini, openai_chat, openai_responses
from svir_core.wire.api import Api

APIS: Mapping[str, Api] = {
    api.name: api for api in (openai_chat.API, openai_responses.API, anthropic_messages.API, gemini.API)
}

DEFAULT_API = openai_chat.API.name
