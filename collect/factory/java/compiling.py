"""Compile an edited Java project in a sandbox where its build is laid out.

Where an edit stays inside the bodies of methods, no other class can tell: its file alone is
compiled, with the build tool's own options. Else everything is.
"""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from tree_sitter import Node

from collect.factory.java.builds import JavaBuild, is_source
from collect.factory.java.test_classes import package_of
from collect.java_tree import parse, text_of
from collect.mutations.java.variables import CLASSES, METHODS
from sandbox import Sandbox
from sandbox.java.errors import BuildFailed
from sandbox.java.javac import FAST, compile_sources
from sandbox.java.jdk import find_jdk
from sandbox.java.job import BuildJob
from sandbox.java.project import CompileStep
from sandbox.java.scan import Scan
from sandbox.shell import FOLDER, write_bytes

COMPILE_TIMEOUT = 120.0
"""Seconds."""
_CLASS_PATH = ("-classpath", "-cp", "--class-path")
_COMPILE = r"""
output=$1; names=$2; shift 2
set -f
cd "$output" 2>/dev/null && { set +f; rm -f $names; set -f; cd "$OLDPWD"; }
exec "$@"
"""


@dataclass(frozen=True)
class Compilation:
    """Compiles sources of a laid-out build in one sandbox."""

    job: BuildJob
    build: JavaBuild
    files: Mapping[str, bytes]
    """The sources as they lie there, by path."""
    class_path: tuple[str, ...] = ()
    """More to compile with."""

    @classmethod
    def of(
        cls,
        sandbox: Sandbox,
        build: JavaBuild,
        files: Mapping[str, bytes],
        class_path: tuple[str, ...] = (),
    ) -> Compilation:
        """To be done in COMPILE_TIMEOUT from now. Raises JavaUnavailable, SandboxError."""
        deadline = time.monotonic() + COMPILE_TIMEOUT
        job = BuildJob(sandbox, find_jdk(sandbox), Scan(), deadline)
        return cls(job, build.at(sandbox.workspace), files, class_path)

    def changed(self, before: Mapping[str, bytes]) -> None:
        """Compile what differs from the tree that the classes were made of.

        Raises BuildFailed, SandboxError.
        """
        paths = [path for path, data in self.files.items() if before.get(path) != data]
        sources = [path for path in paths if self.build.step_of(path) is not None]
        if all(
            _outside_bodies(before.get(path, b"")) == _outside_bodies(self.files[path])
            for path in sources
        ):
            for path in sources:
                self._one(path)
        else:
            self.all()

    def all(self) -> None:
        """Compile everything. Raises BuildFailed, SandboxError."""
        for step in self.build.steps:
            sources = [path for path in self.files if is_source(path, step, self.build.workspace)]
            if sources:
                absolute = [self.job.absolute(path) for path in sources]
                compile_sources(self.job, self._with_class_path(step), absolute)

    def _one(self, path: str) -> None:
        step = self.build.step_of(path)
        if step is None:
            return
        own = self._with_class_path(step, step.output)
        arguments = f"{FOLDER}/javac-one"
        words = [*own.options, "-implicit:none", self.job.absolute(path)]
        write_bytes(self.job.sandbox, arguments, "\n".join(map(_quoted, words)).encode())
        argv = [self.job.jdk.javac, *FAST, f"@{arguments}"]
        patterns = " ".join(_class_files(self.files[path]))
        result = self.job.run(_COMPILE, step.output, patterns, *argv)
        if result.exit_code != 0:
            raise BuildFailed(f"the edited file does not compile:\n{result.output}", True)

    def _with_class_path(self, step: CompileStep, *first: str) -> CompileStep:
        """With more on its class path, and with no sources looked for beside those it is given."""
        extra = ":".join([*first, *self.class_path])
        options: list[str] = []
        words = iter(step.options)
        found = ""
        for word in words:
            if word in _CLASS_PATH:
                found = next(words, "")
            elif word in ("-sourcepath", "--source-path"):
                next(words, "")
            else:
                options.append(word)
        whole = ":".join(part for part in (extra, found) if part)
        return replace(step, options=("-classpath", whole, *options) if whole else tuple(options))


def _quoted(word: str) -> str:
    """As javac's argument files want it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _body(node: Node) -> Node | None:
    """What no other class can see: a method's block, or one that initialises."""
    if node.type == "static_initializer":
        return node.named_children[-1]
    if node.type == "block" and node.parent is not None and node.parent.type == "class_body":
        return node
    return node.child_by_field_name("body") if node.type in METHODS else None


@lru_cache(maxsize=256)
def _outside_bodies(source: bytes) -> bytes:
    """A file without the bodies of its methods."""
    parts, position = [], 0
    pending = [parse(source)]
    while pending:
        node = pending.pop()
        body = _body(node)
        if body is not None:
            parts.append(source[position : body.start_byte])
            position = body.end_byte
        else:
            pending += reversed(node.named_children)
    return re.sub(rb"\s+", b" ", b"".join([*parts, source[position:]]))


def _class_files(source: bytes) -> Iterator[str]:
    """Patterns of the classes that a file gives, in the folder of classes."""
    root = parse(source)
    folder = package_of(root).replace(".", "/")
    for node in root.named_children:
        name = node.child_by_field_name("name")
        if node.type in CLASSES | {"annotation_type_declaration"} and name is not None:
            path = posixpath.join(folder, text_of(name))
            yield from (f"{path}.class", f"{path}$*.class")
