"""Lone surrogates inside deltas, in lenient mode (11 section B): a character whose halves came in two
deltas is joined, any other half becomes U+FFFD."""

from __future__ import annotations

from typing import Any, Final

from svir_core.slow_json import join_surrogates
from svir_core.wire.json_value import Json, is_array, is_object

TEXT_KEYS: Final = ("content", "reasoning_content", "reasoning", "refusal")


class Mender:
    """The first halves that wait for their second.

    Attributes:
        halves: by where they stand: a delta key, or a call's index.
    """

    __slots__ = ("halves",)

    def __init__(self) -> None:
        self.halves: dict[str | int, str] = {}

    def mend(self, delta: Json, raw: Json) -> Json:
        """``delta`` with its text taken from ``raw``, where lone surrogates still stand, and mended."""
        mended = dict(delta)
        for key in TEXT_KEYS:
            if isinstance(raw.get(key), str):
                mended[key] = self._join(key, raw[key])
        calls, raw_calls = delta.get("tool_calls"), raw.get("tool_calls")
        if is_array(calls) and is_array(raw_calls):
            pairs = zip(calls, raw_calls, strict=True)
            mended["tool_calls"] = [self._call(call, raw_call) for call, raw_call in pairs]
        return mended

    def _call(self, call: Any, raw: Any) -> Any:
        if not is_object(call):
            return call
        fields = call
        index, function, raw_function = fields.get("index"), fields.get("function"), raw.get("function")
        if not isinstance(index, int) or not is_object(function) or not is_object(raw_function):
            return fields
        arguments = raw_function.get("arguments")
        if not isinstance(arguments, str):
            return fields
        return {**fields, "function": {**function, "arguments": self._join(index, arguments)}}

    def _join(self, place: str | int, text: str) -> str:
        if not text:
            return text
        text = self.halves.pop(place, "") + text
        if "\ud800" <= text[-1] <= "\udbff":
            self.halves[place] = text[-1]
            text = text[:-1]
        return join_surrogates(text)
