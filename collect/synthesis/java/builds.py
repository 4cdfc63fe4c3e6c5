"""A Java project, built once with its build tool and copied into other sandboxes."""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from tree_sitter import Node

from collect.benchmarks.projects.layout import is_below
from collect.benchmarks.projects.project import Project, ProjectRefused
from collect.code.java_tree import has_modifier, parse, text_of, walk, words
from collect.synthesis.java_mutations.variables import CLASSES, METHODS
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import BuildFailed, JavaError, JavaUnavailable, SandboxUnavailable
from sandbox.java.build import built_test
from sandbox.java.javac import FAST, compile_sources
from sandbox.java.jdk import find_jdk
from sandbox.java.project import BuildJob, BuildKind, CompileStep, JavaProject
from sandbox.java.scan import Scan
from sandbox.shell import FOLDER, write_bytes

# Find a project's test classes in its sources.


_NAMED = re.compile(r"Test\w*|\w+(?:Test|Tests|TestCase)")
"""Surefire's default patterns."""
_ANNOTATIONS = words("Test ParameterizedTest RepeatedTest TestFactory TestTemplate")


def test_classes(files: Mapping[str, bytes], folder: str) -> Iterator[str]:
    """The top-level classes with tests below a folder, with their packages, in path order."""
    for path in sorted(files):
        if path.endswith(".java") and is_below(path, (folder,)):
            root = parse(files[path])
            package = package_of(root)
            yield from (f"{package}.{name}".lstrip(".") for name in _classes(root))


def package_of(root: Node) -> str:
    """The package that a file declares; empty if none."""
    for node in root.named_children:
        if node.type == "package_declaration":
            return text_of(node.named_children[-1])
    return ""


def _classes(root: Node) -> Iterator[str]:
    for node in root.named_children:
        name = node.child_by_field_name("name")
        if node.type != "class_declaration" or name is None or has_modifier(node, "abstract"):
            continue
        if _NAMED.fullmatch(text_of(name)) or _has_tests(node):
            yield text_of(name)


def _has_tests(node: Node) -> bool:
    return any(
        part.type in ("marker_annotation", "annotation")
        and (name := part.child_by_field_name("name")) is not None
        and text_of(name) in _ANNOTATIONS
        for part in walk(node)
    )


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
        """The javac call that compiles a file."""
        return next((step for step in self.steps if is_source(path, step, self.workspace)), None)

    def at(self, workspace: str) -> JavaBuild:
        """This build in another workspace."""
        if workspace == self.workspace:
            return self
        modules = {
            tests: _moved(project, self.workspace, workspace)
            for tests, project in self.modules.items()
        }
        return JavaBuild(modules, self.outputs, workspace)


def is_source(path: str, step: CompileStep, workspace: str) -> bool:
    """Whether a file is an input of a javac call; its path is relative to the workspace."""
    full = posixpath.join(workspace, path)
    return path.endswith(".java") and any(full.startswith(f"{r}/") for r in step.source_roots)


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
        return JavaBuild(modules, dict(_outputs(opened, modules.values())), opened.workspace)


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


def _outputs(sandbox: Sandbox, modules: Iterable[JavaProject]) -> Iterator[tuple[str, bytes]]:
    folders = {
        posixpath.relpath(path, sandbox.workspace)
        for module in modules
        for path in module.class_path
        if path.startswith(f"{sandbox.workspace}/") and not path.endswith(".jar")
    }
    for folder in sorted(folders):
        if sandbox.run(Command(["test", "-d", folder])).exit_code == 0:
            for path, data in sandbox.read_tree(folder).items():
                yield posixpath.join(folder, path), data


def _moved(project: JavaProject, old: str, new: str) -> JavaProject:
    def one(text: str) -> str:
        return text.replace(f"{old}/", f"{new}/")

    def each(texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(one(text) for text in texts)

    steps = [
        CompileStep(one(step.output), each(step.source_roots), each(step.options))
        for step in project.steps
    ]
    return replace(
        project,
        folder=new if project.folder == old else one(project.folder),
        class_path=each(project.class_path),
        class_roots=each(project.class_roots),
        source_roots=each(project.source_roots),
        jvm_options=each(project.jvm_options),
        environment={name: one(value) for name, value in project.environment.items()},
        steps=tuple(steps),
    )


# Compile an edited Java project in a sandbox with its build.
#
# If an edit changes only method bodies, no other class is affected: only its file is compiled, with
# the build tool's options. Otherwise everything is.


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
    """Compiles sources of a build in one sandbox."""

    job: BuildJob
    build: JavaBuild
    files: Mapping[str, bytes]
    """The current sources, by path."""
    class_path: tuple[str, ...] = ()
    """Additional class path entries."""

    @classmethod
    def of(
        cls,
        sandbox: Sandbox,
        build: JavaBuild,
        files: Mapping[str, bytes],
        class_path: tuple[str, ...] = (),
    ) -> Compilation:
        """A compilation that must finish within COMPILE_TIMEOUT from now. Raises JavaUnavailable,
        SandboxError."""
        deadline = time.monotonic() + COMPILE_TIMEOUT
        job = BuildJob(sandbox, find_jdk(sandbox), Scan(), deadline)
        return cls(job, build.at(sandbox.workspace), files, class_path)

    def changed(self, before: Mapping[str, bytes]) -> None:
        """Compile what differs from the tree that was built.

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
        """The step with a longer class path, and with no search for other sources."""
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
    """Quoted for javac's argument files."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _body(node: Node) -> Node | None:
    """A method's or initialiser's block, which no other class depends on."""
    if node.type == "static_initializer":
        return node.named_children[-1]
    if node.type == "block" and node.parent is not None and node.parent.type == "class_body":
        return node
    return node.child_by_field_name("body") if node.type in METHODS else None


@lru_cache(maxsize=256)
def _outside_bodies(source: bytes) -> bytes:
    """A file without its method bodies."""
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
    """Patterns of a file's class files, in the classes folder."""
    root = parse(source)
    folder = package_of(root).replace(".", "/")
    for node in root.named_children:
        name = node.child_by_field_name("name")
        if node.type in CLASSES | {"annotation_type_declaration"} and name is not None:
            path = posixpath.join(folder, text_of(name))
            yield from (f"{path}.class", f"{path}$*.class")
