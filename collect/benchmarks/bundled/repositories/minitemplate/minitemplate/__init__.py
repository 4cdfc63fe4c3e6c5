"""A small text template language: `{{ name|filter }}`, if, for, set and include."""

from .environment import Environment
from .errors import TemplateError, TemplateSyntaxError, UndefinedError

__all__ = ["Environment", "TemplateError", "TemplateSyntaxError", "UndefinedError"]
