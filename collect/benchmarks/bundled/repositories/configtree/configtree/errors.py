"""What can be wrong with a configuration."""


class ConfigError(Exception):
    """Base of all errors of this package."""


class ParseError(ConfigError):
    """A line that can't be understood."""


class UnknownKey(ConfigError, LookupError):
    """A key or section that nobody set."""


class ReferenceLoop(ConfigError):
    """Values that refer to each other in a circle."""


class ConversionError(ConfigError, ValueError):
    """A value that isn't of the type that was asked for."""
