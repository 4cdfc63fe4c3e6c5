"""Layered configuration files with nested sections, references and typed values."""

from .errors import ConfigError, ConversionError, ParseError, ReferenceLoop, UnknownKey
from .loader import Loader
from .parser import parse
from .settings import Settings

__all__ = [
    "ConfigError",
    "ConversionError",
    "Loader",
    "ParseError",
    "ReferenceLoop",
    "Settings",
    "UnknownKey",
    "parse",
]
