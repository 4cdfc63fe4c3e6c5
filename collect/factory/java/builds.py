"""A Java project as the build tool made it once, to be laid out in other sandboxes."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from collect.factory.java.test_classes import test_classes
from collect.factory.project import Project, ProjectRefused
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import SandboxUnavailable
from sandbox.java.build import built_test
from sandbox.java.errors import BuildFailed, JavaError, JavaUnavailable
from sandbox.java.project import BuildKind, CompileStep, JavaProject


@dataclass(frozen=True)
class JavaBuild:
    """What the build tool made of a project."""

    modules: Mapping[str, JavaProject]
    """By the test path, relative to the workspace, of each module with tests."""
    outputs: Mapping[str, bytes] = field(repr=False)
    """The classes and other files that it wrote, relative to the workspace."""
    workspace: str
    """Where it lay: paths in `modules` are below it."""

    @property
    def steps(self) -> Sequence[CompileStep]:
        """The calls of javac, in order."""
        steps = [step for project in self.modules.values() for step in project.steps]
        return list({step.output: step for step in steps}.values())

    def step_of(self, path: str) -> CompileStep | None:
        """The call that compiles a file."""
        return next((step for step in self.steps if is_source(path, step, self.workspace)), None)

    def at(self, workspace: str) -> JavaBuild:
        """The same, in another workspace."""
        if workspace == self.workspace:
            return self
        modules = {
            tests: _moved(project, self.workspace, workspace)
            for tests, project in self.modules.items()
        }
        return JavaBuild(modules, self.outputs, workspace)


def is_source(path: str, step: CompileStep, workspace: str) -> bool:
    """Whether a call of javac is given a file, by its path relative to the workspace."""
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
