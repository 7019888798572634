"""The server half as one object: what an ``Api`` gives to whoever answers in its words (00 section 7)."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import orjson

from svir_core.json_text import sanitize
from svir_core.wire.api import Model
from svir_core.wire.gemini.server import StreamEncoder
from svir_core.wire.json_value import Json


def _entry(model: Model) -> Json:
    name = model.id if model.id.startswith("tunedModels/") else f"models/{model.id}"
    entry: Json = {"name": sanitize(name), "supportedGenerationMethods": ["generateContent"]}
    return entry if model.name is None else {**entry, "displayName": sanitize(model.name)}


@attrs.frozen
class ServerHalf:
    """Writes answers and listings; holds no state. See ``wire.api.ServerHalf``."""

    def stream(
        self, model: str, id: str, created: int, *, include_usage: bool = True, refusal: bool = False
    ) -> StreamEncoder:
        """An encoder for one streamed answer; raises as ``StreamEncoder`` does. Usage is always told, and there are no
        refusals."""
        return StreamEncoder(model, id, created)

    def models(self, models: Iterable[Model]) -> bytes:
        """A page, which is the last one."""
        return orjson.dumps({"models": [_entry(model) for model in models]})
