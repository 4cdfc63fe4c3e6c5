"""A Java project, built once with its build tool and copied into other sandboxes; also with classes
that record which statements and methods run."""

from __future__ import annotations

import json
import posixpath
import re
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from pydantic import TypeAdapter
from tree_sitter import Node

from collect.benchmarks.projects.project import Project, ProjectRefused, is_below
from collect.code.java_tree import field_text, has_modifier, line_of, parse, text_of, walk, words
from collect.synthesis.java_mutations.base import (
    BLOCKS,
    CLASSES,
    METHODS,
    parameters_of,
)
from collect.synthesis.java_mutations.finding import scope_name
from collect.synthesis.mutations.base import Mutation
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import (
    BuildFailed,
    JavaError,
    JavaUnavailable,
    SandboxFileError,
    SandboxUnavailable,
)
from sandbox.java.build import built_test
from sandbox.java.javac import FAST, compile_sources
from sandbox.java.jdk import find_jdk
from sandbox.java.project import BuildJob, BuildKind, CompileStep, JavaProject, Scan
from sandbox.shell import FOLDER, write_bytes

_MODULES = TypeAdapter(dict[str, JavaProject])
_NAMED = re.compile(r"Test\w*|\w+(?:Test|Tests|TestCase)")
"""Surefire's default patterns."""
_ANNOTATIONS = words("Test ParameterizedTest RepeatedTest TestFactory TestTemplate")


def test_classes(files: Mapping[str, bytes], folder: str) -> Iterator[str]:
    """The top-level classes with tests below a folder, with their packages, in path order."""
    for path in sorted(files):
        if not path.endswith(".java") or not is_below(path, (folder,)):
            continue
        root = parse(files[path])
        package = ""
        for node in root.named_children:
            if node.type == "package_declaration":
                package = f"{text_of(node.named_children[-1])}."
            name = field_text(node, "name")
            if node.type != "class_declaration" or has_modifier(node, "abstract"):
                continue
            if _NAMED.fullmatch(name) or any(
                part.type in ("marker_annotation", "annotation")
                and field_text(part, "name") in _ANNOTATIONS
                for part in walk(node)
            ):
                yield f"{package}{name}"


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
        told = _MODULES.dump_json(dict(self.modules)).decode()
        # Every path below the workspace, and the workspace itself.
        moved = re.sub(rf'{re.escape(self.workspace)}(?=[/"])', lambda _: workspace, told)
        return JavaBuild(_MODULES.validate_json(moved), self.outputs, workspace)


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
            # javac's argument files quote and escape as JSON does.
            quoted = [json.dumps(word, ensure_ascii=False) for word in words]
            write_bytes(self._job.sandbox, arguments, "\n".join(quoted).encode())
            argv = [self._job.jdk.javac, *FAST, f"@{arguments}"]
            result = self._job.run('exec "$@"', *argv)
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


# Instrument Java source to record which statements and methods run, with the same line numbers.

TRACE = "stepinto_trace.Trace"
_BODIES = ("body", "consequence", "alternative")
_BRANCHING = words("if_statement for_statement enhanced_for_statement while_statement do_statement")
_NO_STATEMENTS = words("switch_label line_comment block_comment explicit_constructor_invocation")
_DECLARATIONS = words("local_variable_declaration yield_statement") | CLASSES
_NESTED = CLASSES | {"lambda_expression", "class_body"}
_BOXED = {
    **{"boolean": "Boolean", "char": "Character", "byte": "Byte", "short": "Short"},
    **{"int": "Integer", "long": "Long", "float": "Float", "double": "Double"},
}


def instrument(
    source: bytes, first: int, faulty: Set[str] = frozenset()
) -> tuple[bytes, list[int]]:
    """Instrument a file, and tell the lines of its statements, which are numbered from `first`.
    `faulty` are the keys of methods whose arguments and results are told, too: see `_method_key`.
    """
    lines: list[int] = []
    # At the same place, closing text comes first, the innermost before the outer.
    inserted: list[tuple[int, bool, int, str]] = []

    def before(place: int, text: str) -> None:
        inserted.append((place, True, len(inserted), text))

    def after(place: int, text: str) -> None:
        inserted.append((place, False, -len(inserted), text))

    def statement(node: Node) -> None:
        before(node.start_byte, f" {TRACE}.at({first + len(lines)}); ")
        lines.append(line_of(node))

    def method(node: Node, body: Node) -> None:
        first_one = next(iter(body.named_children), None)
        place = body.start_byte + 1
        if first_one is not None and first_one.type == "explicit_constructor_invocation":
            place = first_one.end_byte
        if _method_key(node) not in faulty:
            before(place, f" {TRACE}.enter(); ")
            return
        given = ", ".join(_given(node))
        before(place, f" {TRACE}.enter(new Object[] {{{given}}}); try {{ ")
        after(body.end_byte - 1, f" }} finally {{ {TRACE}.leave(); }} ")
        kind = field_text(node, "type")
        cast = f"({kind})" if kind in _BOXED else ""
        for value in _returned(body):
            before(value.start_byte, f"{TRACE}.<{_BOXED.get(kind, kind)}>result({cast} (")
            after(value.end_byte, "))")

    for node in walk(parse(source)):
        body = node.child_by_field_name("body")
        if node.type in METHODS and body is not None:
            method(node, body)
        if node.type in BLOCKS:
            for child in node.named_children:
                if child.type not in _NO_STATEMENTS:
                    statement(child)
        if node.type in _BRANCHING:
            for branch in filter(None, map(node.child_by_field_name, _BODIES)):
                if branch.type not in BLOCKS | _DECLARATIONS:
                    before(branch.start_byte, "{")
                    statement(branch)
                    after(branch.end_byte, "}")
    parts: list[bytes] = []
    position = 0
    for place, _, _, text in sorted(inserted):
        parts += [source[position:place], text.encode()]
        position = place
    return b"".join([*parts, source[position:]]), lines


def _method_key(method: Node) -> str:
    """A key that identifies a method within its file, independent of position."""
    return scope_name(method) + field_text(method, "parameters")


def _given(method: Node) -> Iterator[str]:
    """What a method gets, as expressions."""
    if not has_modifier(method, "static"):
        yield "this"
    yield from parameters_of(method)


def _returned(body: Node) -> Iterator[Node]:
    """The values that a method returns, without those of lambdas and classes in it."""
    pending = [body]
    while pending:
        node = pending.pop()
        if node.type == "return_statement":
            yield from (each for each in node.named_children if "comment" not in each.type)
        elif node.type not in _NESTED:
            pending += node.named_children


TRACE_FOLDER = ".stepinto-trace"
"""Folder in the workspace with the class that instrumented code calls, and its output."""
NAMES = f"{TRACE_FOLDER}/classes.txt"
OUTPUT = f"{TRACE_FOLDER}/output.txt"


@dataclass(frozen=True)
class TracedBuild:
    """A project's instrumented sources and their classes."""

    sources: Mapping[str, bytes] = field(repr=False)
    build: JavaBuild
    statements: Sequence[tuple[str, int]] = field(repr=False)
    """File and line of each statement, by its number."""

    def modules(
        self, workspace: str, properties: Mapping[str, object]
    ) -> Mapping[str, JavaProject]:
        """The modules with the settings to run them with `Trace`, by test path."""
        told = {**properties, "output": f"{workspace}/{OUTPUT}", "classes": f"{workspace}/{NAMES}"}
        options = [f"-Dstepinto.trace.{name}={value}" for name, value in told.items()]
        return {
            tests: replace(
                project,
                class_path=(*project.class_path, f"{workspace}/{TRACE_FOLDER}"),
                jvm_options=(*(project.jvm_options or ("-ea",)), *options),
            )
            for tests, project in self.build.at(workspace).modules.items()
        }

    def edited(self, files: Mapping[str, bytes], edits: Sequence[Mutation]) -> dict[str, bytes]:
        """The instrumented sources of an edited tree, which tell what its faulty methods do."""
        path = edits[0].path
        spans = [edit.scope_lines for edit in edits]
        faulty = {
            _method_key(node)
            for node in walk(parse(edits[0].source.encode()))
            if node.type in METHODS and (line_of(node), node.end_point.row + 1) in spans
        }
        return {**self.sources, path: instrument(files[path], len(self.statements), faulty)[0]}


def trace_project(project: Project, build: JavaBuild, sandbox: SandboxConfig) -> TracedBuild:
    """Instrument and compile a project. Raises ProjectRefused, SandboxError."""
    sources: dict[str, bytes] = {}
    statements: list[tuple[str, int]] = []
    for path, data in project.source.files.items():
        if build.step_of(path) is None or parse(data).has_error:
            continue
        sources[path], lines = instrument(data, len(statements))
        statements += [(path, line) for line in lines]
    with open_sandbox(sandbox) as opened:
        opened.write_files({**project.source.files, **build.outputs, **sources})
        compiled = _compiled(project, build, opened, sources)
    return TracedBuild(sources, replace(build, outputs=compiled), statements)


def _compiled(
    project: Project, build: JavaBuild, sandbox: Sandbox, sources: Mapping[str, bytes]
) -> dict[str, bytes]:
    own = [Path(__file__).with_name(f"{name}.java") for name in ("Trace", "Contents")]
    told = [f"{TRACE_FOLDER}/{path.name}" for path in own]
    for path in own:
        sandbox.write_file(f"{TRACE_FOLDER}/{path.name}", path.read_bytes())
    compiler = [find_jdk(sandbox).javac, *FAST, "-nowarn", "-source", "8", "-target", "8"]
    result = sandbox.run(Command([*compiler, "-Xlint:-options", "-d", TRACE_FOLDER, *told]))
    if result.exit_code != 0:
        raise ProjectRefused(f"{project.source.slug}: its JDK can't compile: {result.output}")
    extra = (f"{sandbox.workspace}/{TRACE_FOLDER}",)
    compilation = Compilation(sandbox, build, {**project.source.files, **sources}, extra)
    try:
        compilation.all()
    except BuildFailed as error:
        raise ProjectRefused(
            f"{project.source.slug}: its coverage can't be measured, for its sources do not "
            f"compile with calls in them that tell what runs: {error}"
        ) from error
    outputs = dict(build.outputs)
    names: list[str] = []
    for step in compilation.build.steps:
        root = step.output.removeprefix(f"{sandbox.workspace}/")
        tree = sandbox.read_tree(root)
        outputs |= {f"{root}/{path}": data for path, data in tree.items()}
        classes = [path.removesuffix(".class") for path in tree if path.endswith(".class")]
        names += [path.replace("/", ".") for path in classes]
    traces = sandbox.read_tree(TRACE_FOLDER)
    outputs |= {f"{TRACE_FOLDER}/{path}": data for path, data in traces.items()}
    outputs[NAMES] = "\n".join(names).encode()
    return outputs


def read_output(sandbox: Sandbox) -> list[str]:
    """The lines that `Trace` wrote; removes the file."""
    try:
        text = sandbox.read_file(OUTPUT).decode("utf-8", "replace")
    except SandboxFileError:
        return []
    sandbox.run(Command(["rm", "-f", OUTPUT]))
    return text.splitlines()
