from datetime import date
from decimal import Decimal

import pytest

from ledgerbook import LedgerError, Money
from ledgerbook.errors import UnknownRate


def test_rounds_half_to_even():
    assert Money.of("0.125", "EUR").amount == Decimal("0.12")
    assert Money.of("0.135", "EUR").amount == Decimal("0.14")


def test_yen_has_no_minor_unit():
    assert Money.of("12.7", "JPY").amount == Decimal("13")


def test_refuses_to_mix_currencies():
    with pytest.raises(LedgerError, match="EUR with USD"):
        Money.of(1, "EUR") + Money.of(1, "USD")


def test_rate_holds_until_the_next_quote(rates):
    assert rates.rate("EUR", "USD", date(2023, 2, 14)) == Decimal("1.25")
    assert rates.rate("EUR", "USD", date(2023, 5, 1)) == Decimal("1.00")


def test_inverse_rate(rates):
    assert rates.rate("USD", "EUR", date(2023, 2, 14)) == Decimal("0.8")


def test_cross_rate_through_the_pivot(rates):
    assert rates.rate("GBP", "USD", date(2023, 2, 14)) == Decimal("1.5625")


def test_unknown_rate(rates):
    with pytest.raises(UnknownRate, match="EUR/USD"):
        rates.rate("EUR", "USD", date(2022, 12, 30))


def test_convert_rounds(rates):
    assert rates.convert(Money.of("0.01", "GBP"), "USD", date(2023, 2, 1)) == Money.of(
        "0.02", "USD"
    )
