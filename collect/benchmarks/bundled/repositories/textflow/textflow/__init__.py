"""Plain-text layout: wrapping, alignment, columns and pages."""

from .document import Document
from .pages import Page
from .style import Style

__all__ = ["Document", "Page", "Style"]
