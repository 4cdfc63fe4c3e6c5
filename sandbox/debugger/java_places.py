"""Which class a line of Java source belongs to, read off the source: jdb wants classes.

Comments and strings are blanked, then braces are matched. Classes are named as the compiler names
them, anonymous ones by their number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LITERALS = re.compile(
    r'//[^\n]*|/\*.*?\*/|"""(?:\\.|.)*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S
)
PACKAGE = re.compile(r"\bpackage\s+([\w.]+)\s*;")
OPENING = re.compile(
    r"\b(?:class|interface|enum|record)\s+(?P<name>\w+)[^;{}()]*(?:\([^{}]*?\)[^;{}()]*)?\{"
    r"|\bnew\s+[\w.<>?,\s\[\]]+\([^;{}]*\)\s*(?P<anonymous>\{)"
    r"|(?P<open>\{)|(?P<close>\})"
)
METHOD = re.compile(
    r"(?<![.\w])(?<!\bnew )(?<!\brecord )(?P<name>[A-Za-z_$][\w$]*)"
    r"\s*\([^(){};]*\)\s*(?:throws\s[\w.,\s]+)?\{"
)
NOT_METHODS = frozenset(["if", "for", "while", "switch", "catch", "synchronized", "try", "return"])
NO_CODE = re.compile(r"[\s{};()]*(?:@\w+.*|else|try|\}\s*else)?[\s{};]*")


@dataclass(frozen=True)
class JavaClass:
    """A class and the lines that it spans, 1-based and inclusive."""

    name: str
    """Binary: `demo.Calc$Node`."""
    first: int
    last: int


class JavaFile:
    """The classes and methods of one source file."""

    def __init__(self, text: str) -> None:
        blanked = LITERALS.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
        self.lines = blanked.split("\n")
        self._text = blanked
        package = PACKAGE.search(blanked)
        self.package = package.group(1) if package else ""
        self.classes = self._classes()

    def class_at(self, line: int) -> str | None:
        """The innermost class around a line."""
        around = [found for found in self.classes if found.first <= line <= found.last]
        return min(around, key=lambda found: found.last - found.first).name if around else None

    def code_line(self, line: int) -> int:
        """The line itself, or the first after it that looks like code."""
        for number in range(line, len(self.lines) + 1):
            if not NO_CODE.fullmatch(self.lines[number - 1]):
                return number
        return line

    def methods(self) -> list[str]:
        """Each method as `demo.Calc$Node.twice`, a constructor as `demo.Calc.<init>`."""
        found = []
        for match in METHOD.finditer(self._text):
            owner = self.class_at(self._line(match.start()))
            if owner is None or match["name"] in NOT_METHODS:
                continue
            simple = re.split(r"[.$]", owner)[-1]
            name = "<init>" if match["name"] == simple else match["name"]
            found.append(f"{owner}.{name}")
        return list(dict.fromkeys(found))

    def _classes(self) -> list[JavaClass]:
        found: list[JavaClass] = []
        stack: list[tuple[str | None, int]] = []
        anonymous: dict[str, int] = {}
        for match in OPENING.finditer(self._text):
            if match["close"]:
                name, first = stack.pop() if stack else (None, 0)
                if name:
                    found.append(JavaClass(name, first, self._line(match.start())))
                continue
            outer = next((name for name, _ in reversed(stack) if name), None)
            stack.append((self._name(match, outer, anonymous), self._line(match.start())))
        return found

    def _name(
        self, match: re.Match[str], outer: str | None, anonymous: dict[str, int]
    ) -> str | None:
        if match["anonymous"] and outer:
            anonymous[outer] = anonymous.get(outer, 0) + 1
            return f"{outer}${anonymous[outer]}"
        if not match["name"]:
            return None
        if outer:
            return f"{outer}${match['name']}"
        return f"{self.package}.{match['name']}" if self.package else match["name"]

    def _line(self, offset: int) -> int:
        return self._text.count("\n", 0, offset) + 1
