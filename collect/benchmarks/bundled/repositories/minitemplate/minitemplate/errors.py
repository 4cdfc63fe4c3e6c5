"""What can be wrong with a template. Lines count from 1."""

from __future__ import annotations


class TemplateError(Exception):
    """Base class; knows the line of the template."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


class TemplateSyntaxError(TemplateError):
    """The template can't be parsed."""


class UndefinedError(TemplateError):
    """A name that the template uses has no value."""
