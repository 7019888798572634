"""The server half as one object: what an ``Api`` gives to whoever answers in its words (00 section 7)."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import orjson

from svir_core.json_text import sanitize
from svir_core.wire.anthropic_messages.server import StreamEncoder
from svir_core.wire.api import Model
from svir_core.wire.json_value import Json


def _entry(model: Model) -> Json:
    return {
        "type": "model",
        "id": sanitize(model.id),
        "display_name": sanitize(model.name or ""),
        "created_at": "1970-01-01T00:00:00Z",
    }


@attrs.frozen
class ServerHalf:
    """Writes answers and listings; holds no state. See ``wire.api.ServerHalf``."""

    def stream(
        self, model: str, id: str, created: int, *, include_usage: bool = True, refusal: bool = False
    ) -> StreamEncoder:
        """An encoder for one streamed answer; raises as ``StreamEncoder`` does. A message does not say when it was
        made, always says its usage, and need not know that it is a refusal before its end."""
        return StreamEncoder(model, id)

    def models(self, models: Iterable[Model]) -> bytes:
        """A page, which is the last one, with every field that Anthropic's own client demands."""
        entries = [_entry(model) for model in models]
        ids = [entry["id"] for entry in entries] or [None]
        return orjson.dumps({"data": entries, "has_more": False, "first_id": ids[0], "last_id": ids[-1]})
