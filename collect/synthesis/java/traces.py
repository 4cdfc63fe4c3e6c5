"""A build of a project whose classes record which statements and methods run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tree_sitter import Node

from collect.benchmarks.projects.project import Project, ProjectRefused
from collect.code.java_tree import line_of, parse, walk, words
from collect.synthesis.java.builds import Compilation, JavaBuild
from collect.synthesis.java_mutations.base import BLOCKS, CLASSES, METHODS, field_text
from collect.synthesis.java_mutations.finding import scope_name
from collect.synthesis.mutations.base import Mutation
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import BuildFailed, SandboxFileError
from sandbox.java.javac import FAST
from sandbox.java.jdk import find_jdk
from sandbox.java.project import JavaProject

# Instrument Java source to record which statements and methods run, with the same line numbers.


TRACE = "stepinto_trace.Trace"
_BODIES = ("body", "consequence", "alternative")
_BRANCHING = words("if_statement for_statement enhanced_for_statement while_statement do_statement")
_NO_STATEMENTS = words("switch_label line_comment block_comment explicit_constructor_invocation")
_DECLARATIONS = words("local_variable_declaration yield_statement") | CLASSES


@dataclass
class Instrumented:
    """An instrumented file, and the meaning of its numbers."""

    next_number: int
    """The next free number."""
    source: bytes = b""
    statements: dict[int, int] = field(default_factory=dict)
    """The line of each statement."""
    methods: dict[int, str] = field(default_factory=dict)
    """Each method's key: see `_method_key`."""


def instrument(source: bytes, first: int) -> Instrumented:
    """Instrument a file, numbering statements and methods from `first`."""
    found = Instrumented(first)
    opening: list[tuple[int, str]] = []
    closing: list[tuple[int, str]] = []

    def call(place: int, what: str) -> None:
        opening.append((place, f" {TRACE}.{what}({found.next_number}); "))
        found.next_number += 1

    def statement(node: Node) -> None:
        found.statements[found.next_number] = line_of(node)
        call(node.start_byte, "at")

    for node in walk(parse(source)):
        body = node.child_by_field_name("body")
        if node.type in METHODS and body is not None:
            found.methods[found.next_number] = _method_key(node)
            first_one = next(iter(body.named_children), None)
            if first_one is not None and first_one.type == "explicit_constructor_invocation":
                call(first_one.end_byte, "enter")
            else:
                call(body.start_byte + 1, "enter")
        if node.type in BLOCKS:
            for child in node.named_children:
                if child.type not in _NO_STATEMENTS:
                    statement(child)
        if node.type in _BRANCHING:
            for branch in filter(None, map(node.child_by_field_name, _BODIES)):
                if branch.type not in BLOCKS | _DECLARATIONS:
                    opening.append((branch.start_byte, "{"))
                    statement(branch)
                    closing.append((branch.end_byte, "}"))
    # At the same place, closing text comes first, the innermost before the outer.
    ends = [(place, 0, -order, text) for order, (place, text) in enumerate(closing)]
    starts = [(place, 1, order, text) for order, (place, text) in enumerate(opening)]
    parts: list[bytes] = []
    position = 0
    for place, _, _, text in sorted([*ends, *starts]):
        parts += [source[position:place], text.encode()]
        position = place
    found.source = b"".join([*parts, source[position:]])
    return found


def _method_key(method: Node) -> str:
    """A key that identifies a method within its file, independent of position."""
    return scope_name(method) + field_text(method, "parameters")


FOLDER = ".stepinto-trace"
"""Folder in the workspace with the class that instrumented code calls, and its output."""
CLASS = f"{FOLDER}/stepinto_trace/Trace.class"
NAMES = f"{FOLDER}/classes.txt"
OUTPUT = f"{FOLDER}/output.txt"


@dataclass(frozen=True)
class TracedBuild:
    """A project's instrumented sources and their classes."""

    sources: Mapping[str, bytes] = field(repr=False)
    build: JavaBuild
    statements: Mapping[int, tuple[str, int]] = field(repr=False)
    """File and line of each statement number."""
    next_number: int

    def modules(
        self, workspace: str, properties: Mapping[str, object]
    ) -> Mapping[str, JavaProject]:
        """The modules with the settings to run them with `Trace`, by test path."""
        told = {**properties, "output": f"{workspace}/{OUTPUT}", "classes": f"{workspace}/{NAMES}"}
        options = [f"-Dstepinto.trace.{name}={value}" for name, value in told.items()]
        return {
            tests: replace(
                project,
                class_path=(*project.class_path, f"{workspace}/{FOLDER}"),
                jvm_options=(*(project.jvm_options or ("-ea",)), *options),
            )
            for tests, project in self.build.at(workspace).modules.items()
        }

    def edited(
        self, files: Mapping[str, bytes], edits: Sequence[Mutation]
    ) -> tuple[dict[str, bytes], list[int]]:
        """The instrumented sources of an edited tree, and the numbers of its faulty methods."""
        path = edits[0].path
        own = instrument(files[path], self.next_number)
        spans = [edit.scope_lines for edit in edits]
        keys = {
            _method_key(node)
            for node in walk(parse(edits[0].source.encode()))
            if node.type in METHODS and (line_of(node), node.end_point.row + 1) in spans
        }
        faults = [number for number, key in own.methods.items() if key in keys]
        return {**self.sources, path: own.source}, faults


def trace_project(project: Project, build: JavaBuild, sandbox: SandboxConfig) -> TracedBuild:
    """Instrument and compile a project. Raises ProjectRefused, SandboxError."""
    sources: dict[str, bytes] = {}
    statements: dict[int, tuple[str, int]] = {}
    number = 0
    for path, data in project.source.files.items():
        if build.step_of(path) is None or parse(data).has_error:
            continue
        own = instrument(data, number)
        sources[path], number = own.source, own.next_number
        statements |= {each: (path, line) for each, line in own.statements.items()}
    with open_sandbox(sandbox) as opened:
        opened.write_files({**project.source.files, **build.outputs, **sources})
        compiled = _compiled(project, build, opened, sources)
    return TracedBuild(sources, replace(build, outputs=compiled), statements, number)


def _compiled(
    project: Project, build: JavaBuild, sandbox: Sandbox, sources: Mapping[str, bytes]
) -> dict[str, bytes]:
    trace = f"{FOLDER}/Trace.java"
    sandbox.write_file(trace, Path(__file__).with_name("Trace.java").read_bytes())
    compiler = [find_jdk(sandbox).javac, *FAST, "-nowarn", "-source", "8", "-target", "8"]
    result = sandbox.run(Command([*compiler, "-Xlint:-options", "-d", FOLDER, trace]))
    if result.exit_code != 0:
        raise ProjectRefused(f"{project.source.slug}: its JDK can't compile: {result.output}")
    extra = (f"{sandbox.workspace}/{FOLDER}",)
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
        outputs |= {f"{root}/{path}": data for path, data in sandbox.read_tree(root).items()}
        names += [
            path.removeprefix(f"{root}/").removesuffix(".class").replace("/", ".")
            for path in outputs
            if path.startswith(f"{root}/") and path.endswith(".class")
        ]
    outputs[CLASS] = sandbox.read_file(CLASS)
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
