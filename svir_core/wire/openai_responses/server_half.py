"""The server half as one object: what an ``Api`` gives to whoever answers in its words (00 section 7)."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import orjson

from svir_core.json_text import sanitize
from svir_core.wire.api import Model
from svir_core.wire.json_value import Json
from svir_core.wire.openai_responses.server import StreamEncoder


def _entry(model: Model) -> Json:
    entry: Json = {"id": sanitize(model.id), "object": "model", "created": 0, "owned_by": "svir"}
    return entry if model.name is None else {**entry, "name": sanitize(model.name)}


@attrs.frozen
class ServerHalf:
    """Writes answers and listings; holds no state. See ``wire.api.ServerHalf``."""

    def stream(
        self, model: str, id: str, created: int, *, include_usage: bool = True, refusal: bool = False
    ) -> StreamEncoder:
        """An encoder for one streamed answer; raises as ``StreamEncoder`` does. Usage is always reported."""
        return StreamEncoder(model, id, created, refusal=refusal)

    def models(self, models: Iterable[Model]) -> bytes:
        """``{"object": "list", "data": [...]}`` with every field that OpenAI's own client demands."""
        return orjson.dumps({"object": "list", "data": [_entry(model) for model in models]})
