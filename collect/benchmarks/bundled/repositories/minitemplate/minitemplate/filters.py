"""The filters that every environment has."""

from __future__ import annotations

from typing import Any, Callable, Iterable


def default(value: Any, fallback: Any = "") -> Any:
    """The value, or a fallback where it is None."""
    return fallback if value is None else value


def join(values: Iterable[Any], separator: str = "") -> str:
    """The values in a row."""
    return separator.join(str(value) for value in values)


def truncate(text: str, length: int, end: str = "...") -> str:
    """Text of at most `length` characters, its end included."""
    return text if len(text) <= length else text[: length - len(end)] + end


FILTERS: dict[str, Callable[..., Any]] = {
    "default": default,
    "join": join,
    "length": len,
    "lower": lambda value: str(value).lower(),
    "truncate": truncate,
    "upper": lambda value: str(value).upper(),
}
