"""A client's debugging: its own debug session, and its questions to the Debug Subagent.

Everything here blocks. Each client has a `LiveSession`, whose calls come one after the other.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, cast

from collect.agents.conversation import ConversationLog
from collect.agents.debug2fix import (
    DEBUG2FIX,
    DebugSubagent,
    SessionNotStarted,
    instructions_of,
    run_subagent,
)
from collect.agents.debug_tools import Control, StartSession, debug_tools
from collect.agents.file_tools import EditGate
from collect.agents.prompts import wording
from collect.agents.rollout_context import RoleModel, RolloutContext
from collect.agents.subagent_task import DebugSubagentArguments, caller_sees, parse_answer
from collect.agents.tools import Toolbox, ToolReply
from collect.benchmarks.base import Environment, Instance
from collect.config import RuntimeConfig
from collect.errors import ConfigError, ModelFailure, RolloutError, RolloutStopped
from collect.live.environment import EnvironmentArguments, SetEnvironment
from collect.live.repository import LiveRepository
from collect.live.workspace import LiveWorkspace
from collect.models.base import Completion, ConversationContext, Model, ModelBackend, Sampling
from collect.models.budget import Budget
from collect.models.config import LocalConfig, RemoteConfig, VllmConfig, trained_on
from collect.quantities import counted, first_of
from collect.store.messages import Message, ToolCall, ToolSchema
from collect.store.records import Role, ToolOutcome
from collect.threads import call_unless_stopped
from sandbox import Sandbox
from sandbox.debugger import Action, Debugger, DebugLimits, State, open_debugger
from sandbox.debugger.session import LAUNCH_ERRORS
from sandbox.errors import DebuggerError, SandboxError
from sandbox.languages.python.pytest_options import read_project_options

if TYPE_CHECKING:
    from collect.live.recording import ClientRecord

logger = logging.getLogger(__name__)
Report = Callable[[int, int, str], None]
"""Told of each step of the subagent: its number, the most there can be, and what it does."""
SHOWN = 100
"""Characters of a call's arguments in a report."""


class Subagent:
    """The model that plays the Debug Subagent for all clients, opened when it is first asked."""

    def __init__(self, runtime: RuntimeConfig, name: str) -> None:
        """Raises ConfigError if there is no such model, or it can't answer questions about a
        repository whose bugs are not known."""
        config = runtime.model_config_of(name)
        if not isinstance(config, RemoteConfig | VllmConfig | LocalConfig):
            raise ConfigError(
                f"the model {name} ({config.backend}) can't answer here: it plays recorded or "
                "known bugs alone; take an endpoint, a vllm or a local model"
            )
        self.name, self._config, self._agents = name, config, runtime.agents
        self._budget = Budget(runtime.runner.budget_dollars)
        self._stop, self._lock = threading.Event(), threading.Lock()
        self._backend: ModelBackend | None = None
        if isinstance(config, RemoteConfig):
            self.role_model()  # a missing key is told at once

    def role_model(self) -> RoleModel:
        """Raises ConfigError if the model can't be loaded or its server does not start."""
        from collect.rollouts.executor import open_model  # loads pyarrow: clients wait for a start

        with self._lock:
            if self._backend is None:
                self._backend = open_model(self.name, self._config, self._budget, self._stop)
        return RoleModel(self._backend, self._config.sampling)

    def warn_of_other_form(self, language: str) -> None:
        """Tell the user if the model was trained with other instructions than it will be given."""
        folders = getattr(self._config, "folders", ())
        known = {each for folder in folders for each in trained_on(folder, "instructions")}
        if known and instructions_of(self._agents)[language] not in known:
            logger.warning(
                f"the model {self.name} was trained with another form of instructions or tools "
                "than `agents` sets here: give the config of its run"
            )

    def close(self) -> None:
        self._stop.set()
        with self._lock:
            if self._backend is not None:
                self._backend.close()


class Ongoing:
    """A call under way, which another thread can end."""

    def __init__(self, report: Report, seconds: float = math.inf) -> None:
        """`seconds` limits an answer of the subagent."""
        self.report, self.seconds = report, seconds
        self.stop = threading.Event()
        self._deadline = time.monotonic() + seconds
        self._sandboxes: list[Sandbox] = []

    @property
    def seconds_left(self) -> float:
        return max(self._deadline - time.monotonic(), 0.0)

    def owns(self, sandbox: Sandbox) -> None:
        """The sandbox is closed when the call is ended: nothing else is lost with it."""
        self._sandboxes.append(sandbox)
        if self.stop.is_set():
            sandbox.close()

    def gives_up(self, sandbox: Sandbox) -> None:
        self._sandboxes.remove(sandbox)

    def end(self) -> None:
        self.stop.set()
        for sandbox in tuple(self._sandboxes):
            sandbox.close()


@dataclass(frozen=True)
class _StepByStep:
    """A model, or all its conversations, that reports its steps and stops when its call ends; an
    endpoint's request would go on until its reply."""

    backend: ModelBackend
    ongoing: Ongoing
    most_steps: int
    model: Model | None = None

    @property
    def name(self) -> str:
        return self.backend.name

    def open(self, context: ConversationContext) -> Model:
        return replace(self, model=self.backend.open(context))

    def close(self) -> None:
        """It is every client's."""

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> Completion:
        assert self.model is not None
        ask = partial(self.model.complete, messages, tools, sampling)
        ongoing = self.ongoing
        try:
            completion = call_unless_stopped(ask, ongoing.stop, ongoing.seconds_left)
        except TimeoutError:
            told = f"it did not answer within {ongoing.seconds:g} s, the time limit of a question"
            raise ModelFailure(told) from None
        step = 1 + sum(message.role == "assistant" for message in messages)
        calls = [f"{each.name} {each.arguments}"[:SHOWN] for each in completion.message.tool_calls]
        if step <= self.most_steps:
            ongoing.report(step, self.most_steps, "; ".join(calls) or "answers")
        return completion


@dataclass(frozen=True)
class Workplace:
    """What all clients share."""

    repository: LiveRepository
    runtime: RuntimeConfig
    subagent: Subagent | None
    """None: there are the debug tools alone."""
    answer_seconds: float = 600.0
    """Time limit of one question."""


@dataclass(frozen=True)
class _Asking(DebugSubagent):
    """The tool by which coding agents ask the subagent, in the same words as in training."""

    context: RolloutContext = field(default=cast(RolloutContext, None))
    gate: EditGate = field(default_factory=lambda: EditGate(is_open=True))
    session: LiveSession = field(default=cast("LiveSession", None))

    def call(self, arguments: DebugSubagentArguments, call_id: str) -> ToolReply:
        ongoing = self.session.ongoing
        assert ongoing is not None
        return self.session.ask(arguments, ongoing, call_id)


@dataclass
class _Open:
    """An open debug session, and the user's files when it was started."""

    workspace: LiveWorkspace
    debugger: Debugger
    toolbox: Toolbox
    instance: Instance
    test: str
    told: set[str] = field(default_factory=set)
    """Files whose changes were told."""


class LiveSession:
    """One client's session. Its calls must not overlap; any thread can call `close` at any time."""

    def __init__(self, place: Workplace, record: ClientRecord | None = None) -> None:
        self._place, self._record = place, record
        self._open: _Open | None = None
        self._spare: LiveWorkspace | None = None
        """One that an earlier start or question was in, for the next: to write and to remove all
        files of a large repository takes long."""
        self.ongoing: Ongoing | None = None
        """The call under way, or the last one."""
        self._known_notes: set[str] = set()
        """Notes on the tests' environment that the client has had."""
        self._closed, self._lock = False, threading.Lock()
        self._settings = EnvironmentArguments()
        self._environment: Environment | None = None
        """What the client has set for its starts; None: the server's."""
        nowhere = open_debugger(place.repository.language, cast(Sandbox, None))
        self._idle = self._toolbox(nowhere)
        self._setting = Toolbox([SetEnvironment(self._set_environment)])

    @property
    def schemas(self) -> list[ToolSchema]:
        """The tools as every client is offered them."""
        return [*self._idle.schemas(), *self._setting.schemas()]

    def call(self, call: ToolCall, ongoing: Ongoing) -> ToolReply:
        """Carry out a client's call, whatever comes of it. Raises RolloutStopped if the client has
        gone."""
        with self._lock:
            self._require_open()
            self.ongoing = ongoing
        unused = self._place.repository.left_out(call.text("test"))
        call = self._place.repository.from_inside(call)
        began = time.monotonic()
        try:
            if call.name == SetEnvironment.name:
                return self._setting.call(call)  # no debugging, and in no record
            if self._record is not None:
                self._record.begin(
                    call, self._place.repository, self._environment, self._idle.schemas()
                )
            reply = self._carry_out(call, ongoing)
            if unused and reply.event is not None:
                reply = _noting(reply, f"Not used here, of the command: {', '.join(unused)}.")
        except (ConfigError, RolloutError, SandboxError, DebuggerError) as error:
            reply = ToolReply(f"Error: {error}", ToolOutcome.ERROR)
        except RolloutStopped:
            reply = ToolReply("Error: this call was ended.", ToolOutcome.ERROR)
        if self._record is not None:
            self._record.end(call, reply, time.monotonic() - began)
        return reply

    def interrupt(self) -> None:
        """Interrupt the program where it is, if it runs; the debug session goes on. Thread-safe."""
        if (opened := self._open) is not None:
            opened.debugger.interrupt()

    def close(self) -> None:
        """End whatever runs, and refuse further calls. Thread-safe."""
        with self._lock:
            self._closed = True
            ongoing, opened = self.ongoing, self._open
        if ongoing is not None:
            ongoing.end()
        if opened is not None:
            opened.workspace.sandbox.close()

    def finish(self) -> None:
        """After `close`, once no call runs: leave nothing behind but the record of how the session
        ended. Raises SandboxError, ConfigError."""
        if self._open is not None:
            self._end(self._open)
        if self._spare is not None:
            self._spare.sandbox.close()
        if self._record is not None:
            self._record.finish(self._place.repository)

    def _require_open(self) -> None:
        if self._closed:
            raise RolloutStopped("the client has gone")

    def _carry_out(self, call: ToolCall, ongoing: Ongoing) -> ToolReply:
        opened = self._open
        if call.name == StartSession.name:
            return self._start(call, ongoing)
        if opened is None or call.name == DebugSubagent.name:
            return self._idle.call(call)
        if call.name == Control.name and call.text("action") == Action.RESTART:
            return self._restart(opened, call)
        try:
            reply = opened.toolbox.call(call)
        except (SandboxError, DebuggerError) as error:
            self._end(opened)
            return ToolReply(
                f"Error: {error}. The debug session is lost: start another.", ToolOutcome.ERROR
            )
        if opened.debugger.state is State.START:
            self._end(opened)
            return reply
        return self._noting_changes(opened, reply)

    # What the client sets for its next starts.

    def _set_environment(self, settings: EnvironmentArguments) -> str:
        """Use these settings from the next start on. Raises ConfigError, SandboxError."""
        decided = self._record is not None and bool(self._record.recording.tests)
        if decided and (settings.variables or settings.pytest_options):
            raise ConfigError(
                "this session is recorded with tests that decide it: variables and pytest_options "
                "are up to who runs this server"
            )
        self._environment = self._place.repository.environment(settings)
        self._settings = settings
        goes_on = " The open session goes on as it was started; start again to use them."
        return "" if self._open is None else goes_on

    def _now(self, files: Mapping[str, bytes] | None = None) -> Instance:
        return self._place.repository.now(files, self._environment)

    @property
    def _limits(self) -> DebugLimits:
        limits, seconds = self._place.runtime.agents.debugger, self._settings.seconds
        if seconds is None:
            return limits
        return replace(limits, start_timeout=seconds, action_timeout=seconds)

    # The client's own debug session.

    def _toolbox(self, debugger: Debugger) -> Toolbox:
        place = self._place
        tools = debug_tools(debugger, place.runtime.agents.debug_run_code)
        asking = [_Asking(session=self)] if place.subagent is not None else []
        words = wording(place.repository.language)
        # What a client writes below /tmp is not in the sandbox.
        return Toolbox([*asking, *tools], {**words, "test_id": words["own_test_id"]})

    def _start(self, call: ToolCall, ongoing: Ongoing) -> ToolReply:
        """Start a session on the files as they are now. One that is open ends once the other has
        found its test."""
        repository, earlier, test = self._place.repository, self._open, call.text("test")
        goes_on = "" if earlier is None else f"The session on `{earlier.test}` goes on."
        files = repository.files()
        unknown = repository.not_there(files, test) if test else None
        if unknown is not None:
            return _noting(ToolReply(f"Error: {unknown}.", ToolOutcome.ERROR), goes_on)
        instance = self._now(files)
        with ExitStack() as undo:
            # pytest's settings may depend on the folder of the test.
            asked = replace(instance, fail_to_pass=repository.places(test))
            workspace = self._take(asked, ongoing)
            undo.callback(self._keep, workspace, ongoing)
            debugger = open_debugger(instance.language, workspace.sandbox, self._limits)
            undo.callback(debugger.close)
            started = _Open(workspace, debugger, self._toolbox(debugger), instance, test)
            reply = started.toolbox.call(call)
            reply = _noting(reply, repository.import_hint(reply.text, instance.environment))
            reply = _noting(reply, *self._news(asked))
            refused = reply.event is None or reply.event.error_kind in LAUNCH_ERRORS
            if refused:
                cases = repository.cases(workspace.sandbox, files, test)
                return _noting(reply, cases, goes_on)
            with self._lock:
                self._require_open()
                self._open = started
                ongoing.gives_up(workspace.sandbox)
                undo.pop_all()
        if earlier is not None:
            earlier.debugger.close()
            self._keep(earlier.workspace)
            reply = _noting(reply, f"The earlier debug session, on `{earlier.test}`, was ended.")
        return reply

    def _news(self, asked: Instance) -> list[str]:
        """What the client does not know yet of the environment in which the test runs."""
        environment = asked.environment
        lacks = [f"The tests' environment: {note}" for note in environment.deficiencies()]
        notes = [*environment.runs(), *lacks]
        if left_out := read_project_options(asked.files, asked.fail_to_pass).note:
            notes.append(f"Not used here, of the {left_out}.")
        news = [note for note in notes if note not in self._known_notes]
        self._known_notes.update(news)
        return news

    def _restart(self, opened: _Open, call: ToolCall) -> ToolReply:
        """Restart on the files as they are now: neither as the program left them, nor as the user
        had them at the start."""
        repository, files = self._place.repository, self._place.repository.files()
        unknown = repository.not_there(files, opened.test, opened.instance.files)
        if unknown is not None:
            return ToolReply(f"Error: {unknown}. The session goes on.", ToolOutcome.ERROR)
        opened.debugger.end_program()  # it could still write files
        opened.instance = replace(opened.instance, files=files)
        opened.told = set()
        repository.prepare(opened.workspace, files)
        return opened.toolbox.call(call)

    def _noting_changes(self, opened: _Open, reply: ToolReply) -> ToolReply:
        changed = set(self._place.repository.changed_since(opened.instance.files))
        if changed <= opened.told:
            return reply
        opened.told |= changed
        have = "has" if len(changed) == 1 else "have"
        note = (
            f"{first_of(sorted(changed))} {have} changed since this session was started, which "
            "still debugs the files as they were: restart to debug them as they are."
        )
        return _noting(reply, note)

    def _end(self, opened: _Open) -> None:
        self._open = None
        opened.debugger.close()
        self._keep(opened.workspace)

    # Workspaces.

    def _take(self, instance: Instance, ongoing: Ongoing) -> LiveWorkspace:
        """A workspace with these files, which the call owns: the spare one if it fits. Raises
        SandboxError."""
        repository = self._place.repository
        spare, self._spare = self._spare, None
        if spare is not None and spare.fits(repository.sandbox, instance):
            ongoing.owns(spare.sandbox)
            with suppress(SandboxError):
                spare.empty_tmp(keep_builds=instance.language == "java")
                repository.prepare(spare, instance.files)
                return spare
        if spare is not None:
            spare.sandbox.close()
        with ExitStack() as undo:
            workspace = LiveWorkspace.open(repository.sandbox, instance)
            undo.callback(workspace.sandbox.close)
            ongoing.owns(workspace.sandbox)
            repository.prepare(workspace, instance.files)
            undo.pop_all()
        return workspace

    def _keep(self, workspace: LiveWorkspace, ongoing: Ongoing | None = None) -> None:
        """Keep a workspace, in which no program runs any more, as the spare one."""
        if ongoing is not None:
            ongoing.gives_up(workspace.sandbox)
            if ongoing.stop.is_set():  # whoever ends the call is closing it
                workspace.sandbox.close()
                return
        other, self._spare = self._spare, workspace
        if other is not None:
            other.sandbox.close()

    # Questions to the subagent, each in a sandbox of its own.

    def ask(
        self, arguments: DebugSubagentArguments, ongoing: Ongoing, call_id: str | None = None
    ) -> ToolReply:
        """The subagent's answer. Raises RolloutError, RolloutStopped, SandboxError, ConfigError."""
        place = self._place
        assert place.subagent is not None
        repository, config = place.repository, place.runtime.agents
        if arguments.lines and not arguments.path:
            return ToolReply("Error: lines are of a path: give that too.", ToolOutcome.INVALID)
        files = repository.files()
        refused = repository.not_there(files, arguments.test)
        if refused is not None:
            return ToolReply(f"Error: {refused}.", ToolOutcome.ERROR)
        ongoing.report(0, config.sub_max_steps, f"starts `{arguments.test}` under the debugger")
        instance, player = self._now(files), place.subagent.role_model()
        player = replace(player, backend=_StepByStep(player.backend, ongoing, config.sub_max_steps))
        logs = [] if self._record is None else self._record.logs
        asked = replace(instance, fail_to_pass=repository.places(arguments.test))
        workspace = self._take(asked, ongoing)
        try:
            context = RolloutContext(
                instance=instance,
                variant=DEBUG2FIX.name,
                attempt=0,
                sandbox=workspace.sandbox,
                config=config,
                role_models={Role.DEBUG_SUBAGENT: player},
                stop=ongoing.stop,
                logs=logs,
            )
            log = run_subagent(context, arguments, call_id, must_start=True)
        except SessionNotStarted as failure:
            hint = repository.import_hint(str(failure), instance.environment)
            cases = repository.cases(workspace.sandbox, files, arguments.test)
            return _noting(ToolReply(f"Error: {failure}", ToolOutcome.ERROR), hint, cases)
        except SandboxError:
            if ongoing.stop.is_set():
                raise RolloutStopped("the call was ended") from None
            raise
        finally:
            self._keep(workspace, ongoing)
        return self._answered(log, instance)

    def _answered(self, log: ConversationLog, instance: Instance) -> ToolReply:
        seen = "\n".join(row.message.content for row in log.rows if row.message.role != "system")
        hint = self._place.repository.import_hint(seen, instance.environment)
        meanwhile = ""
        if changed := self._place.repository.changed_since(instance.files):
            meanwhile = (
                f"{first_of(changed)} changed meanwhile: the answer is about the files before."
            )
        said = log.final_answer.strip()
        if parse_answer(said) is None:
            told = f"Error: the debug subagent gave no answer after {counted(log.steps, 'step')}."
            reply = ToolReply(f"{told}\n{said}".strip(), ToolOutcome.ERROR)
        else:
            reply = ToolReply(caller_sees(said))
        return _noting(reply, hint, meanwhile)


def _noting(reply: ToolReply, *notes: str) -> ToolReply:
    """The reply with these notes added, less empty ones."""
    return replace(reply, notes=(*reply.notes, *filter(None, notes)))
