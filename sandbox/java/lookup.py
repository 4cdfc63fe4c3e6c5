"""Finds the test or the main class that a launch names, in the workspace's sources."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from sandbox.base import Sandbox
from sandbox.java.errors import NoSuchTest
from sandbox.java.names import ACCEPTED, Named
from sandbox.java.outline import JavaClass
from sandbox.java.scan import Scan
from sandbox.java.sources import TEST_CASES, Sources

NEAREST = 6
"""Names shown in place of one that does not exist."""
FRAMEWORKS = ("org.junit", "junit.framework", "org.testng", "spock.", "net.jqwik")


@dataclass(frozen=True)
class Found:
    """A test or a main class."""

    file: str
    """Its source, relative to the workspace."""
    class_name: str
    """As the JVM names it: `demo.Outer$Inner`."""
    method: str | None
    """The test method; None for all of a class, and for a main class."""
    methods: tuple[str, ...]
    """The test methods that will run; `main` for a main class."""
    test: bool
    arguments: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()

    @property
    def selector(self) -> str:
        """As the test runner takes it."""
        return f"{self.class_name}#{self.method}" if self.method else self.class_name


class Lookup:
    """Looks in one workspace."""

    def __init__(self, sandbox: Sandbox, scan: Scan) -> None:
        self._sources = Sources(sandbox, scan)

    def find(self, named: Named) -> Found:
        """Raises NoSuchTest with the nearest names, SandboxDead."""
        candidates = list(self._candidates(named)) or list(self._searched(named))
        if not candidates:
            raise NoSuchTest(self._nothing(named))
        chosen = _preferred(candidates, named.module)
        return self._found(*chosen, named)

    def _candidates(self, named: Named) -> Iterator[tuple[str, JavaClass, str | None]]:
        """Classes in files of their own name, and the method that the name has at its end."""
        if named.name.endswith(".java") or "/" in named.name:
            path = named.name if named.name.endswith(".java") else f"{named.name}.java"
            for file in self._sources.files(path):
                yield from self._of_file(file, named.method)
            return
        parts = [part for part in re.split(r"[.$]", named.name) if part]
        for length in range(len(parts), 0, -1):
            matches = list(self._sources.files("/".join(parts[:length]) + ".java"))
            for file in matches:
                yield from self._of_parts(file, parts[length - 1 :], named.method)
            if matches:
                return

    def _of_file(
        self, file: str, method: str | None
    ) -> Iterator[tuple[str, JavaClass, str | None]]:
        """The file's first class, or the one of its classes that has the method."""
        classes = self._sources.outline(file).classes
        with_method = [each for each in classes if method and each.method(method)]
        stem = posixpath.basename(file).removesuffix(".java")
        named = [each for each in classes if each.simple_name == stem]
        entries = [each for each in classes if any(m.entry for m in each.methods)]
        for each in [*with_method, *named, *entries, *classes][:1]:
            yield file, each, method

    def _of_parts(
        self, file: str, parts: list[str], method: str | None
    ) -> Iterator[tuple[str, JavaClass, str | None]]:
        """`Outer`, `Outer.Inner` or `Outer.method` within the file of `Outer`."""
        outer, *inner = parts
        for each in self._sources.outline(file).classes:
            names = each.name.rpartition(".")[2].split("$")
            if names[0] != outer and not fnmatchcase(names[0], outer):
                continue
            if names[1:] == inner:
                yield file, each, method
            elif method is None and names[1:] == inner[:-1] and not self._nested(file, each, inner):
                yield file, each, inner[-1]

    def _nested(self, file: str, outer: JavaClass, inner: list[str]) -> bool:
        nested = f"{outer.name}${inner[-1]}"
        return any(each.name == nested for each in self._sources.outline(file).classes)

    def _searched(self, named: Named) -> Iterator[tuple[str, JavaClass, str | None]]:
        """Classes in files of another name, and bare names of test methods."""
        parts = [part for part in re.split(r"[.$/]", named.name.removesuffix(".java")) if part]
        tail = [part for part in parts if re.fullmatch(r"\w+", part)][-2:]
        if not tail:
            return
        pattern = rf"(class|enum|record)[[:space:]]+({'|'.join(tail)})\b"
        for file in self._sources.grep(pattern):
            for each in self._sources.outline(file).classes:
                if each.simple_name == tail[-1]:
                    yield file, each, named.method
                elif len(tail) > 1 and each.simple_name == tail[-2] and each.method(tail[-1]):
                    yield file, each, tail[-1]
        if len(parts) == 1 and named.method is None:
            for file in self._sources.grep(rf"\b{parts[0]}[[:space:]]*\("):
                for each in self._sources.outline(file).classes:
                    method = each.method(parts[0])
                    if method is not None and method.test:
                        yield file, each, parts[0]

    def _found(self, file: str, chosen: JavaClass, method: str | None, named: Named) -> Found:
        imports = self._sources.outline(file).imports
        entry = any(each.entry for each in chosen.methods)
        if named.main or (method == "main" and entry):
            if not entry:
                raise NoSuchTest(
                    f"{chosen.name} ({file}) has no `public static void main(String[])`"
                )
            return Found(file, chosen.name, None, ("main",), False, named.arguments, imports)
        if not chosen.concrete and not entry:
            raise NoSuchTest(self._abstract(file, chosen))
        if method is not None:
            self._require_method(file, chosen, method)
            return Found(file, chosen.name, method, (method,), True, (), imports)
        tests = tuple(dict.fromkeys(m.name for m in self._sources.tests(file, chosen)))
        if not tests and entry:
            return Found(file, chosen.name, None, ("main",), False, (), imports)
        if not tests and not _uses_framework(imports):
            nearest = self._nearest_classes(chosen.simple_name)
            raise NoSuchTest(f"{chosen.name} ({file}) holds no test and no main method{nearest}")
        return Found(file, chosen.name, None, tests, True, (), imports)

    def _abstract(self, file: str, chosen: JavaClass) -> str:
        """Where the tests of a class run that has no objects of its own."""
        name = chosen.simple_name
        heirs = [
            each.name
            for path in self._sources.grep(rf"extends[[:space:]]+[A-Za-z0-9_.]*{name}\b")
            for each in self._sources.outline(path).classes
            if each.concrete and (each.parent or "").rpartition(".")[2] == name
        ]
        shown = f"; name one of its subclasses: {', '.join(heirs[:NEAREST])}" if heirs else ""
        return f"{chosen.name} ({file}) is abstract, so that no test of it can run{shown}"

    def _require_method(self, file: str, chosen: JavaClass, method: str) -> None:
        """A test method may be inherited, from the workspace or from a library."""
        family = list(self._sources.family(file, chosen))
        if any(each.method(method) for _, each in family):
            return
        last_file, last = family[-1]
        if last.parent not in (None, *TEST_CASES) or re.search(
            rf"\b{method}\s*\(", self._sources.text(last_file)
        ):
            return
        known = list(dict.fromkeys(m.name for m in self._sources.tests(file, chosen)))
        close = difflib.get_close_matches(method, known, NEAREST, 0.4) or known[:NEAREST]
        nearest = f"; its nearest tests: {', '.join(close)}" if close else "; it holds no tests"
        raise NoSuchTest(f"{chosen.name} ({file}) has no method {method}{nearest}")

    def _nothing(self, named: Named) -> str:
        if not self._sources.paths:
            return "the workspace holds no Java sources"
        what = "main class" if named.main else "test"
        shown = named.name + (f"#{named.method}" if named.method else "")
        simple = re.split(r"[./$]", named.name.removesuffix(".java"))
        return f"there is no {what} {shown}{self._nearest_classes(*simple[-2:])}; {ACCEPTED}"

    def _nearest_classes(self, *names: str) -> str:
        """Sources with like names, those of tests first where none is alike."""
        stems = {
            posixpath.basename(path).removesuffix(".java"): path for path in self._sources.paths
        }
        close = [
            match
            for name in reversed(names)
            for match in difflib.get_close_matches(name, stems, NEAREST, 0.6)
        ]
        tests = [stem for stem, path in stems.items() if "test" in path.lower()]
        shown = list(dict.fromkeys([*close, *([] if close else tests or stems)]))[:NEAREST]
        return f"; the nearest: {', '.join(stems[stem] for stem in shown)}" if shown else ""


def _preferred(
    candidates: list[tuple[str, JavaClass, str | None]], module: str | None
) -> tuple[str, JavaClass, str | None]:
    """One of several of the same name: in the module that was named, a test, the shortest path."""

    def rank(candidate: tuple[str, JavaClass, str | None]) -> tuple[bool, bool, int]:
        file = candidate[0]
        elsewhere = module is not None and f"/{module}/" not in f"/{file}"
        return elsewhere, "test" not in file.lower(), len(file)

    return min(candidates, key=rank)


def _uses_framework(imports: tuple[str, ...]) -> bool:
    return any(name.startswith(FRAMEWORKS) for name in imports)
