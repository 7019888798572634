"""Documents that answer a question beside the stream: listings of models, counts of tokens.

Three rules hold for all of it. A failure in place of an answer is a ``ServerError`` with the server's
words. Whatever else is no answer is a ``ProtocolError``; both keep what was sent behind
``server_message()``. No entry of a listing is left out.
Source: 10-chat-completions section 11, 20 section 13, 21 section 14, 22 section 12.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import Any

from svir_core.errors import ProtocolError, ServerError, SvirError
from svir_core.slow_json import loosely
from svir_core.wire.api import Model
from svir_core.wire.failure import sniff_body
from svir_core.wire.json_value import Json, is_array, is_object


def _no_answer(value: Any, shown: str, problem: str) -> SvirError:
    failure = sniff_body(value)
    if failure is None:
        return ProtocolError(problem, server_message=shown)
    return ServerError("the server told a failure in place of an answer", server_message=failure.message or shown)


def _object(document: bytes, what: str) -> tuple[Json, str]:
    """The object that ``document`` is, and the document as text."""
    text = document.removeprefix(BOM_UTF8)
    shown = text.decode("utf-8", "replace")
    value = loosely(text)
    if not is_object(value):
        raise _no_answer(value, shown, f"the {what} is not a JSON object")
    return value, shown


def model_listing(document: bytes, *, entries: str, model_id: str, name: str) -> tuple[Json, tuple[Model, ...]]:
    """The listing as an object, and the models of its array ``entries``, in the server's order.

    Each entry is an object with a ``model_id``, a string that is not empty, and perhaps a ``name``.
    """
    listing, shown = _object(document, "model listing")
    found = listing.get(entries)
    if not is_array(found):
        raise _no_answer(listing, shown, f"the model listing has no list named {entries!r}")
    return listing, tuple(_model(entry, number, model_id, name) for number, entry in enumerate(found))


def _model(entry: Any, number: int, model_id: str, name: str) -> Model:
    if is_object(entry):
        known, shown = entry.get(model_id), entry.get(name)
        if isinstance(known, str) and known:
            return Model(known, shown if isinstance(shown, str) and shown else None)
    raise ProtocolError(f"entry {number} of the model listing has no {model_id}")


def token_count(document: bytes, key: str) -> int:
    """The whole number from 0 that ``document`` has as ``key``."""
    counted, shown = _object(document, "token count")
    count = counted.get(key)
    if type(count) is not int or count < 0:
        raise _no_answer(counted, shown, f"the token count has no number named {key!r}")
    return count
