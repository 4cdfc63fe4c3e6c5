"""A build of a project whose classes record which statements and methods run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tree_sitter import Node

from collect.benchmarks.projects.project import Project, ProjectRefused
from collect.code.java_tree import line_of, parse, text_of, walk, words
from collect.synthesis.candidates import Candidate
from collect.synthesis.java.builds import Compilation, JavaBuild
from collect.synthesis.java_mutations.variables import CLASSES, METHODS
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import BuildFailed, SandboxFileError
from sandbox.java.javac import FAST
from sandbox.java.jdk import find_jdk
from sandbox.java.project import JavaProject

# Instrument Java source to record which statements and methods run, with the same line numbers.


TRACE = "stepinto_trace.Trace"
_BLOCKS = words("block constructor_body switch_block_statement_group")
_BODIES = ("body", "consequence", "alternative")
_BRANCHING = words("if_statement for_statement enhanced_for_statement while_statement do_statement")
_NO_STATEMENTS = words("switch_label line_comment block_comment explicit_constructor_invocation")
_DECLARATIONS = words("local_variable_declaration yield_statement") | CLASSES


@dataclass(frozen=True)
class Instrumented:
    """An instrumented file, and the meaning of its numbers."""

    source: bytes
    statements: Mapping[int, int]
    """The line of each statement."""
    methods: Mapping[int, str]
    """Each method's key: see `method_key`."""
    next_number: int
    """The next free number."""


def instrument(source: bytes, first: int) -> Instrumented:
    """Instrument a file, numbering statements and methods from `first`."""
    writer = _Writer(source, first)
    writer.visit(parse(source))
    return Instrumented(writer.result(), writer.statements, writer.methods, writer.number)


def method_key(method: Node) -> str:
    """A key that identifies a method within its file, independent of position."""
    parts: list[str] = []
    around: Node | None = method
    while around is not None:
        if around.type in CLASSES | METHODS:
            name, given = (around.child_by_field_name(each) for each in ("name", "parameters"))
            shown = [text_of(each) for each in (name, given) if each is not None]
            parts.append("".join(shown))
        around = around.parent
    return ".".join(reversed(parts))


def methods_at(source: bytes, lines: tuple[int, int]) -> list[str]:
    """The keys of the methods that start at the first of these lines and end at the last."""
    return [
        method_key(node)
        for node in walk(parse(source))
        if node.type in METHODS and (line_of(node), node.end_point.row + 1) == lines
    ]


@dataclass
class _Writer:
    """Collects the text insertions."""

    source: bytes
    number: int
    statements: dict[int, int] = field(default_factory=dict)
    methods: dict[int, str] = field(default_factory=dict)
    opening: list[tuple[int, str]] = field(default_factory=list)
    closing: list[tuple[int, str]] = field(default_factory=list)

    def visit(self, root: Node) -> None:
        for node in walk(root):
            if node.type in METHODS:
                self._method(node)
            if node.type in _BLOCKS:
                self._block(node)
            if node.type in _BRANCHING:
                self._branches(node)

    def _method(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        if body is None:
            return
        first = next(iter(body.named_children), None)
        calls_other = first is not None and first.type == "explicit_constructor_invocation"
        place = first.end_byte if first is not None and calls_other else body.start_byte + 1
        self.methods[self.number] = method_key(node)
        self._put(place, "enter")

    def _block(self, node: Node) -> None:
        for child in node.named_children:
            if child.type not in _NO_STATEMENTS:
                self.statements[self.number] = line_of(child)
                self._put(child.start_byte, "at")

    def _branches(self, node: Node) -> None:
        """Add braces to a branch or loop without them."""
        for name in _BODIES:
            body = node.child_by_field_name(name)
            if body is not None and body.type not in _BLOCKS | _DECLARATIONS:
                self.statements[self.number] = line_of(body)
                self.opening.append((body.start_byte, "{"))
                self._put(body.start_byte, "at")
                self.closing.append((body.end_byte, "}"))

    def _put(self, place: int, what: str) -> None:
        self.opening.append((place, f" {TRACE}.{what}({self.number}); "))
        self.number += 1

    def result(self) -> bytes:
        # At the same place, closing text comes first, the innermost before the outer.
        ends = [(place, 0, -order, text) for order, (place, text) in enumerate(self.closing)]
        starts = [(place, 1, order, text) for order, (place, text) in enumerate(self.opening)]
        parts: list[bytes] = []
        position = 0
        for place, _, _, text in sorted([*ends, *starts]):
            parts += [self.source[position:place], text.encode()]
            position = place
        return b"".join([*parts, self.source[position:]])


FOLDER = ".stepinto-trace"
"""Folder in the workspace with the class that instrumented code calls, and its output."""
OBSERVER = "stepinto_trace.Trace"
SOURCE = f"{FOLDER}/Trace.java"
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

    def project(
        self, project: JavaProject, workspace: str, properties: Mapping[str, object]
    ) -> JavaProject:
        """The module with the settings to run it with `Trace`."""
        folder = f"{workspace}/{FOLDER}"
        told = {**properties, "output": f"{workspace}/{OUTPUT}", "classes": f"{workspace}/{NAMES}"}
        options = [f"-Dstepinto.trace.{name}={value}" for name, value in told.items()]
        return replace(
            project,
            class_path=(*project.class_path, folder),
            jvm_options=(*(project.jvm_options or ("-ea",)), *options),
        )

    def edited(
        self, files: Mapping[str, bytes], candidate: Candidate
    ) -> tuple[dict[str, bytes], list[int]]:
        """The instrumented sources of an edited tree, and the numbers of its faulty methods."""
        path = candidate.mutation.path
        own = instrument(files[path], self.next_number)
        source = candidate.mutation.source.encode()
        keys = {key for part in candidate.parts for key in methods_at(source, part.scope_lines)}
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
    here = build.at(sandbox.workspace)
    sandbox.write_file(SOURCE, Path(__file__).with_name("Trace.java").read_bytes())
    compiler = [find_jdk(sandbox).javac, *FAST, "-nowarn", "-source", "8", "-target", "8"]
    result = sandbox.run(Command([*compiler, "-Xlint:-options", "-d", FOLDER, SOURCE]))
    if result.exit_code != 0:
        raise ProjectRefused(f"{project.source.slug}: its JDK can't compile: {result.output}")
    files = {**project.source.files, **sources}
    extra = (f"{sandbox.workspace}/{FOLDER}",)
    try:
        Compilation.of(sandbox, build, files, extra).all()
    except BuildFailed as error:
        raise ProjectRefused(
            f"{project.source.slug}: its coverage can't be measured, for its sources do not "
            f"compile with calls in them that tell what runs: {error}"
        ) from error
    outputs = dict(build.outputs)
    roots = [step.output.removeprefix(f"{here.workspace}/") for step in here.steps]
    for root in roots:
        for path, data in sandbox.read_tree(root).items():
            outputs[f"{root}/{path}"] = data
    outputs[CLASS] = sandbox.read_file(CLASS)
    outputs[NAMES] = "\n".join(_class_names(outputs, roots)).encode()
    return outputs


def _class_names(outputs: Mapping[str, bytes], roots: Sequence[str]) -> list[str]:
    return [
        path.removeprefix(f"{root}/").removesuffix(".class").replace("/", ".")
        for root in roots
        for path in outputs
        if path.startswith(f"{root}/") and path.endswith(".class")
    ]


def read_output(sandbox: Sandbox) -> list[str]:
    """The lines that `Trace` wrote; removes the file."""
    try:
        text = sandbox.read_file(OUTPUT).decode("utf-8", "replace")
    except SandboxFileError:
        return []
    sandbox.run(Command(["rm", "-f", OUTPUT]))
    return text.splitlines()
