"""One bug's questions: its tests run twice each in fresh sandboxes, patched ones too."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass

from collect.benchmarks.base import Benchmark, Instance, TestStatus
from collect.benchmarks.workspace import open_instance_sandbox
from collect.errors import InfrastructureFailure
from collect.models.oracle.source import function_at, read_source
from collect.patches import PatchError, apply_patch, changed_lines, changed_paths, diff_trees
from collect.questions.choosing import Chooser, Funnel
from collect.questions.config import QuestionsConfig
from collect.questions.program import Program
from collect.questions.records import Question
from collect.questions.tracing import Trace, Tracer
from collect.questions.workspace import lay_out, with_files
from collect.questions.writing import Runs
from sandbox import SandboxConfig
from sandbox.debugger import DebugLimits
from sandbox.debugger.opening import open_debugger

LIMITS = DebugLimits(value_chars=400, max_frames=60)


class NoQuestions(Exception):
    """Why nothing can be asked about a bug."""


@dataclass(frozen=True)
class Investigator:
    """Investigates bugs of one benchmark. Thread-safe."""

    benchmark: Benchmark
    sandbox: SandboxConfig
    config: QuestionsConfig

    def questions(self, instance: Instance, funnel: Funnel) -> list[Question]:
        """Everything worth asking about a bug. Raises NoQuestions, SandboxError."""
        files = self._files(instance)
        program = Program.of(instance, files)
        if not program.modules:
            raise NoQuestions("no source file in a language that is traced")
        chooser = Chooser(instance, self.config, funnel)
        failing = [test for test in instance.fail_to_pass if test in instance.public_tests][
            : self.config.max_tests
        ]
        traced = [runs for test in failing if (runs := self._runs(instance, program, test))]
        if not traced:
            raise NoQuestions("no failing test comes to its end under the debugger")
        for runs in traced:
            chooser.add_runs(runs)
        for patch in self._patches(instance, files):
            self._add_fix(chooser, instance, files, traced[0].test, patch)
        return chooser.questions()

    def _files(self, instance: Instance) -> Mapping[str, bytes]:
        if instance.files:
            return instance.files
        with open_instance_sandbox(self.sandbox, instance) as sandbox:
            self.benchmark.prepare(instance, sandbox)
            return sandbox.read_tree()

    def _runs(
        self, instance: Instance, program: Program, test: str, patch: str = ""
    ) -> Runs | None:
        """Two traces; None where one does not come to its end."""
        try:
            first = self._trace(instance, program, test, patch)
            second = self._trace(instance, program, test, patch)
        except InfrastructureFailure:
            return None
        if first.ending is None or second.ending is None:
            return None
        return Runs(test, program, first, second, patch)

    def _trace(self, instance: Instance, program: Program, test: str, patch: str) -> Trace:
        files = changed_paths(patch) if patch else None
        with open_instance_sandbox(self.sandbox, instance) as sandbox:
            lay_out(self.benchmark, instance, sandbox, patch)
            tracer = Tracer(program, self.config.max_stops, self.config.test_timeout)
            with closing(open_debugger(instance.language, sandbox, LIMITS)) as debugger:
                return tracer.trace(debugger, test, files)

    def _add_fix(
        self,
        chooser: Chooser,
        instance: Instance,
        files: Mapping[str, bytes],
        test: str,
        patch: str,
    ) -> None:
        """Ask about a changed program, where the change can be made and the test then ends."""
        try:
            program = Program.of(instance, with_files(instance, files, patch).files)
            status = self._status(instance, test, patch)
        except PatchError:
            return
        if status not in (TestStatus.PASSED, TestStatus.FAILED):
            return
        runs = self._runs(instance, program, test, patch)
        if runs is not None:
            chooser.add_fix(runs, status is TestStatus.PASSED)

    def _status(self, instance: Instance, test: str, patch: str) -> TestStatus:
        """How the test ends without a debugger; what the gold patch does to it is known."""
        if patch == instance.gold_patch:
            return TestStatus.PASSED
        with open_instance_sandbox(self.sandbox, instance) as sandbox:
            lay_out(self.benchmark, instance, sandbox, patch)
            return self.benchmark.run_tests(instance, sandbox, [test]).statuses[test]

    def _patches(self, instance: Instance, files: Mapping[str, bytes]) -> Iterator[str]:
        """The gold patch, and wrong ones of the same function."""
        if not instance.gold_patch:
            return
        yield instance.gold_patch
        wrong = list(wrong_patches(instance, files))
        random.Random(f"{self.config.seed}\0{instance.id}").shuffle(wrong)
        yield from wrong[: self.config.wrong_patches]


def wrong_patches(instance: Instance, files: Mapping[str, bytes]) -> Iterator[str]:
    """Patches of the function that the gold patch changes, each with another small edit."""
    try:
        fixed = apply_patch(files, instance.gold_patch)
    except PatchError:
        return
    seen: set[str] = set()
    for changed in changed_lines(instance.gold_patch):
        source = read_source(changed.path, files[changed.path])
        function = function_at(source, changed.end) if source is not None else None
        if source is None or function is None or function.name in seen:
            continue
        seen.add(function.name)
        for mutation in source.mutations(function):
            text = mutation.text.encode()
            if text != fixed.get(changed.path):
                yield diff_trees({changed.path: files[changed.path]}, {changed.path: text})
