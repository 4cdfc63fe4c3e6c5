"""Paragraph styles, which inherit from each other."""

from __future__ import annotations

ALIGNMENTS = ("left", "right", "center", "justify")


class Style:
    """A set of layout options. Unset options have the values of `DEFAULTS`."""

    DEFAULTS = {
        "align": "left",
        "indent": 0,
        "first_indent": 0,
        "space_after": 1,
        "keep_with_next": False,
    }

    def __init__(self, **options: object) -> None:
        self._options = dict(self.DEFAULTS)
        self._apply(options)

    def derive(self, **changes: object) -> Style:
        """A new style with this one's options, except for `changes`."""
        child = Style.__new__(Style)
        child._options = dict(self._options)
        child._apply(changes)
        return child

    def __getitem__(self, name: str):
        return self._options[name]

    def _apply(self, options: dict) -> None:
        for name, value in options.items():
            if name not in self.DEFAULTS:
                raise ValueError("unknown style option: %s" % name)
            if name == "align" and value not in ALIGNMENTS:
                raise ValueError("unknown alignment: %s" % value)
            self._options[name] = value
