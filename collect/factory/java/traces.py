"""A build of a project whose classes tell which of their statements and methods run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from collect.factory.candidates import Candidate
from collect.factory.java.builds import JavaBuild
from collect.factory.java.compiling import Compilation
from collect.factory.java.instrumenting import instrument, methods_at
from collect.factory.project import Project, ProjectRefused
from collect.java_tree import parse
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import SandboxFileError
from sandbox.java.errors import BuildFailed
from sandbox.java.javac import FAST
from sandbox.java.jdk import find_jdk
from sandbox.java.project import JavaProject

FOLDER = ".stepinto-trace"
"""In the workspace: what the instrumented classes call, and what it writes."""
OBSERVER = "stepinto_trace.Trace"
SOURCE = f"{FOLDER}/Trace.java"
CLASS = f"{FOLDER}/stepinto_trace/Trace.class"
NAMES = f"{FOLDER}/classes.txt"
OUTPUT = f"{FOLDER}/output.txt"


@dataclass(frozen=True)
class TracedBuild:
    """A project's instrumented sources, and their classes."""

    sources: Mapping[str, bytes] = field(repr=False)
    build: JavaBuild
    statements: Mapping[int, tuple[str, int]] = field(repr=False)
    """File and line of each statement's number."""
    next_number: int

    def project(
        self, project: JavaProject, workspace: str, properties: Mapping[str, object]
    ) -> JavaProject:
        """A module as it is run with these settings of `Trace`."""
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
    """The lines that `Trace` wrote; the file is removed."""
    try:
        text = sandbox.read_file(OUTPUT).decode("utf-8", "replace")
    except SandboxFileError:
        return []
    sandbox.run(Command(["rm", "-f", OUTPUT]))
    return text.splitlines()
