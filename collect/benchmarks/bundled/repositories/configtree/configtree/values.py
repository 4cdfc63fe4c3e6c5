"""Turning texts into typed values."""

from __future__ import annotations

import re
from typing import Callable, Dict, List

from .errors import ConversionError

_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}
_SECONDS = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")


def to_bool(text: str) -> bool:
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError("neither true nor false")


def to_seconds(text: str) -> float:
    """`"1h 30min"` as 5400. A number without a unit is in seconds."""
    text = text.strip().lower()
    if text.replace(".", "", 1).isdigit():
        return float(text)
    if _AMOUNT.sub("", text).strip() or not text:
        raise ValueError("not a duration")
    return sum(float(number) * _SECONDS[unit] for number, unit in _AMOUNT.findall(text))


def to_list(text: str) -> List[str]:
    """Comma-separated items. Empty ones are left out, so that a comma at the end does no harm."""
    return [item.strip() for item in text.split(",") if item.strip()]


CONVERTERS: Dict[str, Callable] = {
    "str": str,
    "int": lambda text: int(text.replace("_", ""), 0),
    "float": float,
    "bool": to_bool,
    "seconds": to_seconds,
    "list": to_list,
}


def convert(text: str, kind: str, path: str):
    """The text as a value of `kind`."""
    try:
        return CONVERTERS[kind](text)
    except (ValueError, KeyError) as error:
        raise ConversionError("%s = %r is no %s: %s" % (path, text, kind, error)) from error
