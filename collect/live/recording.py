"""Keep what external agents ask, and what the sessions show, as rollouts of a run folder."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from collect.agents.conversation import ConversationLog
from collect.agents.debug2fix import DEBUG2FIX, DEBUG_TOOLS_ONLY
from collect.agents.rollout_context import RoleModel
from collect.agents.tools import ToolReply
from collect.benchmarks.base import Environment, Instance, TestResults, TestStatus
from collect.benchmarks.local import BUGS_FILE, LocalBenchmark, LocalBug
from collect.benchmarks.running import run_tests
from collect.benchmarks.workspace import write_folder
from collect.code.patches import diff_trees, outside
from collect.config import RuntimeConfig
from collect.live.repository import LiveRepository
from collect.live.workspace import LiveWorkspace
from collect.models.base import Sampling
from collect.models.replay import ReplayBackend
from collect.rollouts.rollout import (
    FAIL_TO_PASS,
    MAX_PATCH_LINES,
    RolloutSettings,
    RolloutSpec,
    RolloutTrace,
    Verdict,
)
from collect.rollouts.rows import RunIdentity, rows_of
from collect.store.files import TextFile, replacing_folder, write_text
from collect.store.messages import Message, ToolCall, ToolSchema
from collect.store.records import MODEL_TEACHER, Role, StopReason, TestRow
from collect.store.run_store import RunStore
from sandbox.languages.python.own_environment import read_environment

NOT_KNOWN = "(What {client} was asked and thought is not known. These are its calls.)"


class Recording:
    """A run folder that is written to. Raises ConfigError if another process writes to it."""

    def __init__(
        self,
        folder: Path,
        runtime: RuntimeConfig,
        subagent: str | None,
        config_hash: str,
        tests: Sequence[str] = (),
    ) -> None:
        """`subagent` is its model's name; `tests` decide whether a session resolved the bug, which
        without any is not known."""
        self.folder, self.runtime, self.tests = folder, runtime, tuple(tests)
        self.subagent, self.config_hash = subagent, config_hash
        self.store = RunStore.open(folder)
        self._lock = threading.Lock()

    def client(self, name: str) -> ClientRecord:
        """The record of a new client session."""
        return ClientRecord(self, name)

    def keep(
        self, name: str, test: str, repository: LiveRepository, now: Instance
    ) -> tuple[Instance, int]:
        """Keep the repository as it is now as a bug of the run, and number it."""
        deciding = self._deciding(repository, now, self.tests or (test,))
        content = b"".join(path.encode() + b"\0" + data for path, data in now.files.items())
        tree = f"{now.repository}-{hashlib.sha256(content).hexdigest()[:12]}"
        with self._lock:
            kept = TextFile(self.folder / BUGS_FILE).read() or ""
            number = kept.count("\n")
            folder = self.folder / "repositories" / tree
            if not folder.is_dir():
                with replacing_folder(folder) as written:
                    write_folder(written, now.files)
            bug = LocalBug(
                id=f"{tree}-{number}",
                repository=f"repositories/{tree}",
                project=now.repository,
                language=now.language,
                problem_statement=f"{name} asked about `{test}`.",
                fail_to_pass=deciding,
                test_paths=now.test_paths or _files_of(deciding),
                python=now.environment.python,
                packages=_packages(now.environment),
                import_paths=now.environment.import_paths,
                variables=now.environment.variables,
                version=now.environment.version,
            )
            line = bug.model_dump_json(exclude_defaults=True)
            write_text(self.folder / BUGS_FILE, f"{kept}{line}\n")
            benchmark = LocalBenchmark(self.folder, languages=("python", "java"))
            kept_bug = next(each for each in benchmark.instances() if each.id == bug.id)
            return replace(kept_bug, is_users=True), number

    def _deciding(
        self, repository: LiveRepository, now: Instance, tests: Sequence[str]
    ) -> tuple[str, ...]:
        """The node ids of these tests: a verdict is about each case of a parametrised one."""
        if all("[" in test or "#" in test for test in tests):
            return tuple(tests)
        workspace = LiveWorkspace.open(repository.sandbox, now)
        with workspace.sandbox as sandbox:
            repository.prepare(workspace, now.files)
            return repository.expanded(sandbox, tests)


def _files_of(tests: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(test.partition("::")[0] for test in tests))


def _packages(environment: Environment) -> tuple[str, ...]:
    """The packages of an environment, for machines that lack the user's own one."""
    if environment.folder is None:
        return environment.packages
    return (*environment.packages, *read_environment(Path(environment.folder)).released)


@dataclass
class ClientRecord:
    """One client session as a rollout: its calls, and the subagent's conversations that answer
    them. It is stored after each call, since clients may kill the server."""

    recording: Recording
    client: str
    logs: list[ConversationLog] = field(default_factory=list)
    """The client's own first; empty before the first call that names a test."""
    _spec: RolloutSpec | None = None
    _trace: RolloutTrace = field(default_factory=RolloutTrace)
    _began: float = field(default_factory=time.monotonic)

    def begin(
        self,
        call: ToolCall,
        repository: LiveRepository,
        environment: Environment | None,
        tools: Sequence[ToolSchema],
    ) -> None:
        """Note a call, on the repository in this environment. Raises ConfigError."""
        recording, test = self.recording, call.text("test")
        if self._spec is None:
            files = repository.files() if test else {}
            if not test or repository.not_there(files, test):
                return
            now = repository.now(files, environment)
            instance, number = recording.keep(self.client, test, repository, now)
            sub = recording.subagent
            system = DEBUG2FIX if sub is not None else DEBUG_TOOLS_ONLY
            self._spec = RolloutSpec(instance, system.name, self.client, sub, number)
            self.logs.append(ConversationLog(0, Role.MAIN, self.client, MODEL_TEACHER, "{}", tools))
            self.logs[0].add(Message("user", NOT_KNOWN.format(client=self.client)))
            self._trace, self._began = RolloutTrace(self.logs), time.monotonic()
        self.logs[0].steps += 1
        self.logs[0].add(Message("assistant", tool_calls=(call,)))

    def end(self, call: ToolCall, reply: ToolReply, seconds: float) -> None:
        """Note its answer, and store the session so far."""
        if self._spec is None:
            return
        log = self.logs[0]
        said = [at for at, row in enumerate(log.rows) if row.message.role == "assistant"]
        log.note(call, reply, said[-1], seconds)
        log.add_answer(call, reply, seconds)
        self._trace.stop_reason = log.finish(StopReason.FINISHED)
        self._store()

    def finish(self, repository: LiveRepository) -> None:
        """Store how the session ended: what the user's files are now, and whether the tests pass.
        Raises SandboxError, ConfigError."""
        if self._spec is None:
            return
        bug, current = self._spec.instance, repository.files()
        old, new = (outside(files, bug.test_paths) for files in (bug.files, current))
        self._trace.patch = diff_trees(old, new, MAX_PATCH_LINES)
        if self.recording.tests:
            tests = bug.fail_to_pass
            before, after = (_results(repository, bug, files) for files in (bug.files, current))
            statuses = [(before.statuses[test], after.statuses[test]) for test in tests]
            # If none failed, there was nothing to resolve.
            if any(earlier is not TestStatus.PASSED for earlier, _ in statuses):
                rows = (TestRow(t, FAIL_TO_PASS, *s) for t, s in zip(tests, statuses, strict=True))
                self._trace.verdict = Verdict(tuple(rows), tampered=after.tampered)
        self._store()

    def _store(self) -> None:
        assert self._spec is not None
        recording, trace, runtime = self.recording, self._trace, self.recording.runtime
        models = {
            name: RoleModel(ReplayBackend(name, []), Sampling())
            for name in (self.client, recording.subagent)
            if name is not None
        }
        trace.seconds = time.monotonic() - self._began
        settings = RolloutSettings(
            LocalBenchmark(recording.folder),
            runtime.sandbox,
            runtime.agents,
            models,
            threading.Event(),
        )
        identity = RunIdentity(recording.folder.name, runtime.seed)
        recording.store.add(*rows_of(self._spec, trace, settings, identity, recording.config_hash))


def _results(repository: LiveRepository, bug: Instance, files: Mapping[str, bytes]) -> TestResults:
    """Run the tests that decide, on these files."""
    environment = repository.now().environment
    bug = replace(bug, files=files, is_scored=True, environment=environment)
    workspace = LiveWorkspace.open(repository.sandbox, bug)
    with workspace.sandbox as sandbox:
        repository.prepare(workspace, files)
        return run_tests(bug, sandbox, bug.fail_to_pass, repository.benchmark.test_timeout)
