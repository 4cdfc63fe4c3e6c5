"""Numeric series: rolling statistics, resampling, interpolation and trends."""

from .series import Series, SeriesError

__all__ = ["Series", "SeriesError"]
