"""What tokens cost, by prices of the caller's: svir knows none (50, Loop)."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Final

import attrs

from svir_core.check import expect
from svir_core.errors import ConfigError
from svir_core.response import Usage

PER: Final = 1_000_000
"""Prices are for so many tokens."""

DIGITS: Final = 30
"""Digits that a price may have before its point, and after it: more than that of any currency."""

_EXACT: Final = Context(prec=200)
"""Holds every digit of a sum of such prices times 64 bits of tokens, whatever the caller's own context holds."""


def _price(value: str | int | Decimal) -> str:
    """A price as the decimal number that was written: a float would not be."""
    if isinstance(value, str | int | Decimal) and not isinstance(value, bool):
        try:
            price = Decimal(value)
        except InvalidOperation:
            price = Decimal("NaN")
        places = price.as_tuple().exponent
        if isinstance(places, int) and price >= 0 and places >= -DIGITS and price.adjusted() < DIGITS:
            return str(price)
    raise ConfigError("a price is a decimal number of zero or more, as str, int or Decimal, of a currency's digits")


@attrs.frozen(kw_only=True)
class Prices:
    """Prices of a million tokens, in whatever currency, as decimal numbers.

    Attributes:
        input: of the prompt, as far as no other price is for it.
        output: of the answer, reasoning included.
        cache_read: of the part of the prompt that came from a cache; ``None`` is that of ``input``.
        cache_write: of the part that was written to one; ``None`` is that of ``input``.
    """

    input: str = attrs.field(converter=_price)
    output: str = attrs.field(converter=_price)
    cache_read: str | None = attrs.field(default=None, converter=attrs.converters.optional(_price))
    cache_write: str | None = attrs.field(default=None, converter=attrs.converters.optional(_price))


def cost(usage: Usage | None, prices: Prices | Mapping[str, Prices], model: str | None = None) -> Decimal | None:
    """What ``usage`` costs, exactly; ``None`` when a counter that it depends on was not reported, or more of
    the prompt came from a cache than there was.

    ``prices`` are those of one model, or a table of them by model, of which that of ``model`` counts. A cache's counter
    matters only where it has a price of its own. Raises ``ConfigError`` when the table has no such model.
    """
    if isinstance(prices, Mapping):
        if not isinstance(model, str) or model not in prices:
            raise ConfigError("the table of prices has none for this model")
        prices = prices[model]
    of = expect(prices, Prices, "prices")
    used = Usage() if usage is None else expect(usage, Usage, "usage")
    fresh = used.input
    if fresh is None or used.output is None:
        return None
    total = _EXACT.multiply(used.output, Decimal(of.output))
    for tokens, price in ((used.cache_read, of.cache_read), (used.cache_write, of.cache_write)):
        if price is None:
            continue
        if tokens is None:
            return None
        fresh -= tokens
        total = _EXACT.fma(tokens, Decimal(price), total)
    if fresh < 0:
        return None
    return _EXACT.divide(_EXACT.fma(fresh, Decimal(of.input), total), PER)
