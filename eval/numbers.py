"""Numbers as the papers print them: 60.8 (+1.0%), 347k, 1.55M."""

from __future__ import annotations

from collections.abc import Mapping

from collect import quantities

MISSING = "-"


def decimal(value: float | None) -> str:
    """One decimal, as rates and steps have it."""
    return MISSING if value is None else f"{value:.1f}"


def tokens(value: float | None) -> str:
    """Tokens: 640, 15.2k, 347k, 1.55M."""
    return MISSING if value is None else quantities.tokens(value)


def dollars(value: float | None) -> str:
    """Dollars: $0.0400, $12.30."""
    return MISSING if value is None else quantities.dollars(value)


def cost(value: float | None) -> str:
    """Dollars of one rollout, four decimals however many there are: $0.0215, $12.3000."""
    return MISSING if value is None else f"${value:.4f}"


def bracket(percent: float | None) -> str:
    """A relative change in brackets, with a leading space; nothing where there is none."""
    if percent is None:
        return ""
    return f" ({percent:+.0f}%)" if abs(percent) >= 99.95 else f" ({percent:+.1f}%)"


def span(low: float | None, high: float | None) -> str:
    """The two ends of an interval: 52.1-68.0."""
    return MISSING if low is None or high is None else f"{low:.1f}-{high:.1f}"


def counts(numbers: Mapping[str, int]) -> str:
    """Counts by name: budget 1, model 2."""
    return ", ".join(f"{name} {number}" for name, number in sorted(numbers.items())) or MISSING


def percentage(value: float | None) -> str:
    """A share: 67.87%."""
    return MISSING if value is None else f"{value:.2f}%"


def points(value: float | None) -> str:
    """A difference of two shares: +36.14%."""
    return MISSING if value is None else f"{value:+.2f}%"


def ratio(value: float | None) -> str:
    """Two decimals, as fixes an hour have them."""
    return MISSING if value is None else f"{value:.2f}"


def seconds(value: float | None) -> str:
    """A time: 121.74s."""
    return MISSING if value is None else f"{value:.2f}s"
