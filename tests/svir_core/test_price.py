"""What tokens cost: exact to the last digit, and unknown where a counter is."""

from __future__ import annotations

import decimal
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir_core.errors import ConfigError
from svir_core.price import Prices, cost
from svir_core.response import Usage

PLAIN = Prices(input="0.15", output="0.60")
NO_NUMBERS: list[Any] = [0.15, 1.0, True, None, "", "free", "0,15", b"1"]
CACHED = Prices(input=3, output=15, cache_read="0.30", cache_write="3.75")


def test_the_prices_are_of_a_million_tokens() -> None:
    assert cost(Usage(1_000_000, 0), PLAIN) == Decimal("0.15")
    assert cost(Usage(0, 1_000_000), PLAIN) == Decimal("0.60")
    assert cost(Usage(1, 1), PLAIN) == Decimal("0.00000075")
    assert str(cost(Usage(12_345, 678), PLAIN)) == "0.00225855"


def test_nothing_used_costs_nothing_and_that_is_known() -> None:
    assert cost(Usage(0, 0), PLAIN) == 0
    assert cost(Usage(5, 5), Prices(input=0, output=0)) == 0


@pytest.mark.parametrize("usage", [None, Usage(), Usage(1), Usage(output=1), Usage(total=2)])
def test_without_the_counters_the_cost_is_unknown(usage: Usage | None) -> None:
    assert cost(usage, PLAIN) is None


def test_what_came_from_a_cache_and_went_to_one_has_its_own_price() -> None:
    usage = Usage(1_000_000, 0, cache_read=600_000, cache_write=100_000)
    assert cost(usage, CACHED) == Decimal("0.18") + Decimal("0.375") + Decimal("0.9")
    assert cost(usage, PLAIN) == Decimal("0.15")


@pytest.mark.parametrize(
    "usage", [Usage(10, 1), Usage(10, 1, cache_read=5), Usage(10, 1, cache_write=5), Usage(10, 1, 11, 0)]
)
def test_a_cache_that_has_a_price_and_no_counter_makes_the_cost_unknown(usage: Usage) -> None:
    assert cost(usage, CACHED) is None
    assert cost(usage, PLAIN) is not None


def test_a_cache_without_a_price_of_its_own_needs_no_counter() -> None:
    only_reads = Prices(input=2, output=0, cache_read=1)
    assert cost(Usage(1_000_000, 0, cache_read=0), only_reads) == 2
    assert cost(Usage(1_000_000, 0, cache_read=1_000_000, cache_write=7), only_reads) == 1


def test_more_from_a_cache_than_there_was_is_no_report_to_count_by() -> None:
    assert cost(Usage(10, 1, cache_read=6, cache_write=5), CACHED) is None
    assert cost(Usage(11, 0, cache_read=6, cache_write=5), CACHED) is not None


def test_reasoning_is_part_of_the_output_and_the_total_is_not_looked_at() -> None:
    assert cost(Usage(10, 10, 999, 7), PLAIN) == cost(Usage(10, 10), PLAIN)


def test_a_table_has_the_prices_by_model() -> None:
    table = {"small": PLAIN, "large": CACHED}
    usage = Usage(1_000_000, 0, cache_read=0, cache_write=0)
    assert (cost(usage, table, "small"), cost(usage, table, model="large")) == (Decimal("0.15"), Decimal(3))


@pytest.mark.parametrize("model", [None, "other", "", 5, ["small"]])
def test_a_model_that_the_table_has_not_is_refused(model: Any) -> None:
    with pytest.raises(ConfigError, match="none for this model"):
        cost(Usage(1, 1), {"small": PLAIN}, model)


@pytest.mark.parametrize("prices", [None, "0.15", 5, {"small": 5}])
def test_what_are_no_prices_is_refused(prices: Any) -> None:
    with pytest.raises(ConfigError, match="prices must be a Prices"):
        cost(Usage(1, 1), prices, "small")


@pytest.mark.parametrize("usage", [5, {"input": 1}, "1"])
def test_what_is_no_usage_is_refused(usage: Any) -> None:
    with pytest.raises(ConfigError, match="usage must be a Usage"):
        cost(usage, PLAIN)


@pytest.mark.parametrize(
    "price",
    [*NO_NUMBERS, "-1", -1, Decimal("-0.1"), "NaN", "sNaN", Decimal("Infinity"), "1e30", "1e-31", "1e999999999"],
    ids=repr,
)
def test_a_price_is_a_decimal_number_of_zero_or_more(price: Any) -> None:
    for name in ("input", "output", "cache_read", "cache_write"):
        if price is None and name.startswith("cache"):
            continue
        prices: dict[str, Any] = {"input": 1, "output": 1, name: price}
        with pytest.raises(ConfigError, match=r"^a price is a decimal number of zero or more"):
            Prices(**prices)


def test_a_price_is_kept_as_it_was_written() -> None:
    prices = Prices(input=Decimal("0.10"), output=3, cache_read="0.30")
    assert (prices.input, prices.output, prices.cache_read, prices.cache_write) == ("0.10", "3", "0.30", None)


def test_the_callers_context_rounds_nothing() -> None:
    prices = Prices(input="0.123456789012345678", output="0.1")
    expected = cost(Usage(123_456_789, 7), prices)
    with decimal.localcontext() as context:
        context.prec = 3
        context.traps[decimal.Inexact] = True
        assert cost(Usage(123_456_789, 7), prices) == expected


PRICE = st.decimals(min_value=0, max_value=10**29, allow_nan=False, allow_infinity=False, places=20)
COUNT = st.integers(0, 2**64 - 1)


@given(COUNT, COUNT, COUNT, COUNT, PRICE, PRICE, st.none() | PRICE, st.none() | PRICE)
def test_the_cost_is_exact(
    fresh: int,
    output: int,
    read: int,
    written: int,
    price: Decimal,
    of_output: Decimal,
    of_read: Decimal | None,
    of_written: Decimal | None,
) -> None:
    usage = Usage(fresh + read + written, output, cache_read=read, cache_write=written)
    got = cost(usage, Prices(input=price, output=of_output, cache_read=of_read, cache_write=of_written))
    shares = ((fresh, price), (output, of_output), (read, of_read), (written, of_written))
    exact = sum(tokens * Fraction(price if of is None else of) for tokens, of in shares)
    assert got is not None
    assert Fraction(got) == exact / 1_000_000
