"""Numbers as the papers print them: 60.8 (+1.0%), 347k, 1.55M."""

from __future__ import annotations

from collections.abc import Mapping

MISSING = "-"


def decimal(value: float | None) -> str:
    """One decimal, as rates and steps have it."""
    return MISSING if value is None else f"{value:.1f}"


def tokens(value: float | None) -> str:
    """Tokens with three significant digits: 640, 15.2k, 347k, 1.55M."""
    if value is None:
        return MISSING
    if value < 999.5:
        return f"{value:.0f}"
    if value < 99_950:
        return f"{value / 1e3:.1f}k"
    if value < 999_500:
        return f"{value / 1e3:.0f}k"
    return f"{value / 1e6:.2f}M"


def dollars(value: float | None) -> str:
    """Dollars; fractions of a cent where there are no whole ones."""
    if value is None:
        return MISSING
    return f"${value:.2f}" if value >= 1 or value == 0 else f"${value:.4f}"


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
