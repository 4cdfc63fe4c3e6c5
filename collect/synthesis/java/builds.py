"""A Java project, built once with its build tool and copied into other sandboxes."""

from __future__ import annotations

import dataclasses
import posixpath
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from tree_sitter import Node

from collect.benchmarks.projects.project import Project, ProjectRefused, is_below
from collect.code.java_tree import has_modifier, parse, text_of, walk, words
from collect.synthesis.java_mutations.base import CLASSES, METHODS, field_text
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import BuildFailed, JavaError, JavaUnavailable, SandboxUnavailable
from sandbox.java.build import built_test
from sandbox.java.javac import FAST, compile_sources
from sandbox.java.jdk import find_jdk
from sandbox.java.project import BuildJob, BuildKind, CompileStep, JavaProject, Scan
from sandbox.shell import FOLDER, write_bytes

_NAMED = re.compile(r"Test\w*|\w+(?:Test|Tests|TestCase)")
"""Surefire's default patterns."""
_ANNOTATIONS = words("Test ParameterizedTest RepeatedTest TestFactory TestTemplate")


def test_classes(files: Mapping[str, bytes], folder: str) -> Iterator[str]:
    """The top-level classes with tests below a folder, with their packages, in path order."""
    for path in sorted(files):
        if not path.endswith(".java") or not is_below(path, (folder,)):
            continue
        root = parse(files[path])
        package = _package_of(root)
        for node in root.named_children:
            name = field_text(node, "name")
            if node.type != "class_declaration" or has_modifier(node, "abstract"):
                continue
            if _NAMED.fullmatch(name) or any(
                part.type in ("marker_annotation", "annotation")
                and field_text(part, "name") in _ANNOTATIONS
                for part in walk(node)
            ):
                yield f"{package}.{name}".lstrip(".")


def _package_of(root: Node) -> str:
    """The package that a file declares; empty if none."""
    for node in root.named_children:
        if node.type == "package_declaration":
            return text_of(node.named_children[-1])
    return ""


@dataclass(frozen=True)
class JavaBuild:
    """The result of building a project."""

    modules: Mapping[str, JavaProject]
    """Modules with tests, by test path relative to the workspace."""
    outputs: Mapping[str, bytes] = field(repr=False)
    """The classes and other files that the build wrote, relative to the workspace."""
    workspace: str
    """The workspace of the build: paths in `modules` are below it."""

    @property
    def steps(self) -> Sequence[CompileStep]:
        """The javac calls, in order."""
        steps = [step for project in self.modules.values() for step in project.steps]
        return list({step.output: step for step in steps}.values())

    def step_of(self, path: str) -> CompileStep | None:
        """The javac call that compiles a file, whose path is relative to the workspace."""
        return next((step for step in self.steps if self.compiles(step, path)), None)

    def compiles(self, step: CompileStep, path: str) -> bool:
        full = posixpath.join(self.workspace, path)
        return path.endswith(".java") and any(full.startswith(f"{r}/") for r in step.source_roots)

    def at(self, workspace: str) -> JavaBuild:
        """This build in another workspace."""
        modules = {
            tests: _moved(project, self.workspace, workspace)
            for tests, project in self.modules.items()
        }
        return JavaBuild(modules, self.outputs, workspace)


def _moved(value: Any, old: str, new: str) -> Any:
    """A module, or a part of it, with its paths in another folder."""
    if isinstance(value, str):
        return new if value == old else value.replace(f"{old}/", f"{new}/")
    if isinstance(value, tuple):
        return tuple(_moved(each, old, new) for each in value)
    if isinstance(value, Mapping):
        return {name: _moved(each, old, new) for name, each in value.items()}
    if isinstance(value, JavaProject | CompileStep):
        names = [each.name for each in dataclasses.fields(value) if each.name != "module"]
        return replace(value, **{name: _moved(getattr(value, name), old, new) for name in names})
    return value


def build_project(project: Project, sandbox: SandboxConfig) -> JavaBuild:
    """Build every module that has tests, with the build tool, in a fresh sandbox.

    Raises ProjectRefused, SandboxError.
    """
    with open_sandbox(sandbox) as opened:
        opened.write_files(project.source.files)
        modules: dict[str, JavaProject] = {}
        for tests in project.test_paths:
            if names := list(test_classes(project.source.files, tests)):
                modules[tests] = _built(project, opened, names[0])
        if not modules:
            raise ProjectRefused(
                f"{project.source.slug}: no test classes in {', '.join(project.test_paths)}"
            )
        folders = {
            posixpath.relpath(path, opened.workspace)
            for module in modules.values()
            for path in module.class_path
            if path.startswith(f"{opened.workspace}/") and not path.endswith(".jar")
        }
        outputs: dict[str, bytes] = {}
        for folder in sorted(folders):
            if opened.run(Command(["test", "-d", folder])).exit_code == 0:
                for path, data in opened.read_tree(folder).items():
                    outputs[posixpath.join(folder, path)] = data
        return JavaBuild(modules, outputs, opened.workspace)


def _built(project: Project, sandbox: Sandbox, test_class: str) -> JavaProject:
    try:
        built = built_test(sandbox, test_class)[1]
    except JavaUnavailable as error:
        raise SandboxUnavailable(str(error)) from error
    except (BuildFailed, JavaError) as error:
        raise ProjectRefused(f"{project.source.slug}: {error}") from error
    if built.module.kind is BuildKind.PLAIN or not built.steps or not built.class_path:
        raise ProjectRefused(
            f"{project.source.slug}: how {built.module.folder} is compiled can't be told from its "
            "build: sources are generated, or other plugins than the usual ones make its classes"
        )
    return built


# Compile an edited Java project in a sandbox with its build.
#
# If an edit changes only method bodies, no other class is affected: only its file is compiled, with
# the build tool's options. Otherwise everything is.

COMPILE_TIMEOUT = 120.0
"""Seconds."""
_COMPILE = r"""
output=$1; names=$2; shift 2
set -f
cd "$output" 2>/dev/null && { set +f; rm -f $names; set -f; cd "$OLDPWD"; }
exec "$@"
"""


class Compilation:
    """Compiles sources of a build in one sandbox."""

    def __init__(
        self,
        sandbox: Sandbox,
        build: JavaBuild,
        files: Mapping[str, bytes],
        class_path: tuple[str, ...] = (),
    ) -> None:
        """`files` are the current sources, `class_path` additional entries. Must finish within
        COMPILE_TIMEOUT from now. Raises JavaUnavailable, SandboxError."""
        deadline = time.monotonic() + COMPILE_TIMEOUT
        self._job = BuildJob(sandbox, find_jdk(sandbox), Scan(), deadline)
        self.build = build.at(sandbox.workspace)
        self._files, self._class_path = files, class_path

    def changed(self, before: Mapping[str, bytes]) -> None:
        """Compile what differs from the tree that was built.

        Raises BuildFailed, SandboxError.
        """
        steps = {
            path: step
            for path, data in self._files.items()
            if before.get(path) != data and (step := self.build.step_of(path)) is not None
        }
        if any(
            _outside_bodies(before.get(path, b"")) != _outside_bodies(self._files[path])
            for path in steps
        ):
            self.all()
            return
        for path, step in steps.items():
            own = self._with_class_path(step, step.output)
            words = [*own.options, "-implicit:none", self._job.absolute(path)]
            arguments = f"{FOLDER}/javac-one"
            write_bytes(self._job.sandbox, arguments, "\n".join(map(_quoted, words)).encode())
            argv = [self._job.jdk.javac, *FAST, f"@{arguments}"]
            patterns = " ".join(_class_files(self._files[path]))
            result = self._job.run(_COMPILE, step.output, patterns, *argv)
            if result.exit_code != 0:
                raise BuildFailed(f"the edited file does not compile:\n{result.output}", True)

    def all(self) -> None:
        """Compile everything. Raises BuildFailed, SandboxError."""
        for step in self.build.steps:
            sources = [path for path in self._files if self.build.compiles(step, path)]
            if sources:
                absolute = [self._job.absolute(path) for path in sources]
                compile_sources(self._job, self._with_class_path(step), absolute)

    def _with_class_path(self, step: CompileStep, *first: str) -> CompileStep:
        """The step with a longer class path, and with no search for other sources."""
        options: list[str] = []
        class_path = [*first, *self._class_path]
        words = iter(step.options)
        for word in words:
            if word in ("-classpath", "-cp", "--class-path"):
                class_path.append(next(words, ""))
            elif word in ("-sourcepath", "--source-path"):
                next(words, "")
            else:
                options.append(word)
        whole = ":".join(filter(None, class_path))
        return replace(step, options=("-classpath", whole, *options) if whole else tuple(options))


def _quoted(word: str) -> str:
    """Quoted for javac's argument files."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@lru_cache(maxsize=256)
def _outside_bodies(source: bytes) -> bytes:
    """A file without the bodies of methods and initialisers, which no other class depends on."""
    parts, position = [], 0
    pending = [parse(source)]
    while pending:
        node = pending.pop()
        body = node.child_by_field_name("body") if node.type in METHODS else None
        if node.type == "static_initializer":
            body = node.named_children[-1]
        elif node.type == "block" and node.parent is not None and node.parent.type == "class_body":
            body = node
        if body is not None:
            parts.append(source[position : body.start_byte])
            position = body.end_byte
        else:
            pending += reversed(node.named_children)
    return re.sub(rb"\s+", b" ", b"".join([*parts, source[position:]]))


def _class_files(source: bytes) -> Iterator[str]:
    """Patterns of a file's class files, in the classes folder."""
    root = parse(source)
    folder = _package_of(root).replace(".", "/")
    for node in root.named_children:
        if node.type in CLASSES | {"annotation_type_declaration"}:
            path = posixpath.join(folder, field_text(node, "name"))
            yield from (f"{path}.class", f"{path}$*.class")
