"""Debug2Fix: a main agent, and a Debug Subagent that answers its questions about runtime behaviour.

Its four systems (section 5.5) differ only in the main agent's tools and prompt.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from collect.agents.config import AgentsConfig
from collect.agents.conversation import AgentSpec, ConversationLog
from collect.agents.debug_tools import DebugCallsTogether, StartSession, debug_tools
from collect.agents.file_tools import Bash, EditFile, EditGate, Grep, ListFiles, ReadFile
from collect.agents.prompts import WORDINGS, prompt, wording
from collect.agents.rollout_context import RolloutContext
from collect.agents.subagent_task import (
    DebugSubagentArguments,
    caller_sees,
    parse_answer,
    start_places,
    subagent_task,
)
from collect.agents.system import System
from collect.agents.tools import Arguments, Tool, Toolbox, ToolReply
from collect.benchmarks.base import Benchmark
from collect.comparison import false_claims
from collect.errors import ModelFailure
from collect.question_records import RootCauseAsk
from collect.store.messages import ToolCall, ToolSchema
from collect.store.records import (
    SESSION_START,
    TASK_MESSAGE,
    EventRow,
    Role,
    StopReason,
    ToolOutcome,
)
from sandbox import Sandbox
from sandbox.debugger import Debugger
from sandbox.debugger.session import LAUNCH_ERRORS, NOT_SET

WORK = {Bash.name, EditFile.name, StartSession.name, "debug_subagent"}
"""Tools without which a main agent can't have done its work."""


class SessionNotStarted(Exception):
    """No debug session can be started on the test of a question: nobody was asked."""


@dataclass(frozen=True, kw_only=True)
class Debug2Fix(System):
    """A main agent with a shell, which has the debug tools, or a subagent that has them, or neither
    of them."""

    prompts: tuple[str, ...] = ("main",)
    """The parts of its main agent's system prompt (figure 4)."""

    def run(self, context: RolloutContext, benchmark: Benchmark) -> StopReason:
        return run_main_agent(self, context, EditGate(is_open=not self.asks_first))


def run_main_agent(
    system: Debug2Fix, context: RolloutContext, gate: EditGate, more_tools: Sequence[Tool] = ()
) -> StopReason:
    """Let the main agent work on the instance in its sandbox.

    Raises RolloutError, RolloutStopped, SandboxError.
    """
    has_subagent = system.subagent is not None
    with context.debugger() as debugger:
        tools: list[Tool] = [
            Bash(context.sandbox, context.config.bash_timeout, gate),
            ReadFile(context.sandbox),
            Grep(context.sandbox),
            EditFile(context.sandbox, gate),
        ]
        if system.main_debugs or (has_subagent and context.config.main_debug_tools):
            tools += debug_tools(debugger, context.config.debug_run_code)
        if has_subagent:
            tools.append(DebugSubagent(context, gate))
        tools += more_tools

        def remind(answer: str) -> str | None:
            return None if agent.log.actions.keys() & WORK else prompt("main_reminder")

        spec = AgentSpec(
            main_prompt(system, context.wording),
            Toolbox(tools, context.wording, together=DebugCallsTogether()),
            context.config.main_max_steps,
            follow_up=remind,
            max_follow_ups=context.config.main_max_reminders,
        )
        agent = context.agent(spec, Role.MAIN)
        return agent.run(prompt("main_task", problem_statement=context.instance.problem_statement))


def main_prompt(system: Debug2Fix, words: Mapping[str, str]) -> str:
    """The main agent's system prompt."""
    values = {**words, "debugging": prompt("debugging")}
    return "\n\n".join(prompt(part, **values) for part in system.prompts)


def subagent_prompt(words: Mapping[str, str], config: AgentsConfig) -> str:
    """The Debug Subagent's system prompt."""
    compact, files = config.subagent_form == "compact", config.sub_file_tools
    return prompt(
        "subagent_compact" if compact else "subagent",
        **words,
        debugging=prompt("debugging"),
        start=prompt(f"subagent_start_{config.start_session}"),
        max_steps=str(config.sub_max_steps),
        debug_run_code=prompt("debug_run_code") + "\n" if config.debug_run_code else "",
        file_tools=prompt("subagent_file_tools") + "\n" if files else "",
        find_test=", or find it with grep" if files else "",
    )


def answer_prompt(name: Literal["forced_answer", "reminder"], config: AgentsConfig) -> str:
    """What a Debug Subagent is told that must answer, or whose answer has no valid block."""
    fields = "the four lines **Question**, **Answer**, **Evidence** and **Location**"
    if config.subagent_form == "compact":
        fields = "the three lines **Answer**, **Evidence** and **Location**"
    return prompt(f"subagent_{name}", fields=fields)


def subagent_toolbox(
    debugger: Debugger,
    sandbox: Sandbox,
    config: AgentsConfig,
    words: Mapping[str, str],
    test: str = "",
) -> Toolbox:
    """The Debug Subagent's tools: debugging, by default of `test`, and reading files."""
    tools = debug_tools(debugger, config.debug_run_code, test)
    if config.sub_file_tools:
        tools += [ListFiles(sandbox), Grep(sandbox), ReadFile(sandbox)]
    compact = config.subagent_form == "compact"
    return Toolbox(tools, words, compact, together=DebugCallsTogether())


def subagent_schemas(language: str, config: AgentsConfig) -> list[ToolSchema]:
    """The schemas of the Debug Subagent's tools, from their classes alone."""
    debugger, sandbox = cast(Debugger, None), cast(Sandbox, None)
    return subagent_toolbox(debugger, sandbox, config, wording(language)).schemas()


def instructions_hash(system: str, tools: Sequence[ToolSchema]) -> str:
    """Of a Debug Subagent's system prompt and tools: equal for all its conversations with the same
    settings, in one language."""
    return hashlib.sha256(json.dumps([system, tools], sort_keys=True).encode()).hexdigest()[:16]


def instructions_of(config: AgentsConfig) -> dict[str, str]:
    """The hash that these settings give, by language."""
    return {
        each: instructions_hash(subagent_prompt(words, config), subagent_schemas(each, config))
        for each, words in WORDINGS.items()
    }


@dataclass(frozen=True)
class DebugSubagent:
    """Ask the Debug Subagent (section 4.1). Calling it opens the edit gate."""

    context: RolloutContext
    gate: EditGate
    name: str = "debug_subagent"
    description: str = (
        "Ask a debugging assistant about the program's runtime behaviour. It runs the test under "
        "a debugger and answers with evidence: observed values, stack frames, source locations."
    )
    arguments: type[Arguments] = DebugSubagentArguments

    def call(self, arguments: DebugSubagentArguments, call_id: str) -> ToolReply:
        self.gate.is_open = True
        try:
            answer = run_subagent(self.context, arguments, call_id).final_answer
        except ModelFailure as failure:
            return ToolReply(f"Error: the debug subagent failed: {failure}", ToolOutcome.ERROR)
        if not answer.strip():
            return ToolReply("Error: the debug subagent gave no answer.", ToolOutcome.ERROR)
        return ToolReply(caller_sees(answer))


def run_subagent(
    context: RolloutContext,
    arguments: DebugSubagentArguments,
    call_id: str | None = None,
    must_start: bool = False,
) -> ConversationLog:
    """Let the Debug Subagent investigate one question and return its conversation.

    `call_id` is the main agent's call; None if there is no main agent. `must_start`: if the session
    that it is given does not start, it is not asked. Raises SessionNotStarted then, RolloutError,
    RolloutStopped, SandboxError.
    """
    config, words = context.config, context.wording
    with context.debugger() as debugger:
        toolbox = subagent_toolbox(debugger, context.sandbox, config, words, arguments.test)
        is_given = config.start_session == "auto"
        start = start_session(toolbox, arguments) if is_given else None
        event = None if start is None else start.event
        if must_start and event is not None and event.error_kind in LAUNCH_ERRORS:
            raise SessionNotStarted(event.error)
        reminder = answer_prompt("reminder", config)
        spec = AgentSpec(
            subagent_prompt(words, config),
            toolbox,
            config.sub_max_steps,
            forced_answer=answer_prompt("forced_answer", config),
            follow_up=lambda said: None if parse_answer(said) else reminder,
            max_follow_ups=config.sub_max_reminders,
            max_repeats=config.sub_max_repeats,
        )
        agent = context.agent(spec, Role.DEBUG_SUBAGENT, call_id)
        if event is not None:
            agent.log.add_event(EventRow(TASK_MESSAGE, SESSION_START, event))
        agent.run(subagent_task(arguments, None if start is None else start.text))
    role_model, last = context.role_models[Role.DEBUG_SUBAGENT], agent.log.rows[-1]
    if role_model.must_be_true and (last.player is None or last.player != role_model.student):
        _confirm(context, agent.log, arguments.test)
    return agent.log


def _confirm(context: RolloutContext, log: ConversationLog, test: str) -> None:
    """Let the conversation fail if the runs refute what the oracle says about the fault.

    Raises ModelFailure, SandboxError.
    """
    answer = parse_answer(log.final_answer)
    about_fault = context.ask is None or isinstance(context.ask, RootCauseAsk)
    if answer is None or not about_fault or context.compare is None:
        return
    comparison = context.compare(test)
    false = false_claims(answer, comparison) if comparison is not None else []
    if false:
        log.finish(StopReason.FAILURE)
        context.log.note("refuted_answer", claims="; ".join(false))
        # The caller must not learn the truth from the refusal.
        raise ModelFailure("the runs without and with the fix refute the answer")


def start_session(toolbox: Toolbox, arguments: DebugSubagentArguments) -> ToolReply:
    """Start a Debug Subagent's session from its caller's arguments: at the places that it names, or
    else where the test begins; with its variables watched.
    """

    def start(points: Sequence[str]) -> ToolReply:
        watch = arguments.variables or ()
        given = {"breakpoints": points, "watch": watch, "stop_at_test": not points}
        return toolbox.call(ToolCall(SESSION_START, StartSession.name, json.dumps(given)))

    points = start_places(arguments)
    reply = start(points)
    event = reply.event
    if not points or event is None or event.breakpoints or event.stop_reason is None:
        return reply
    # None of them is a place of this code: the program has run past what was asked about.
    begun = start(())
    if not arguments.lines:
        return begun  # a question can name what is no place
    told = dict.fromkeys(f"Note: {note}" for note in event.notes if note.startswith(NOT_SET))
    return replace(begun, text="\n".join([begun.text, *told]))


BASELINE = Debug2Fix(name="baseline", title="Baseline")
DEBUG_TOOLS_ONLY = Debug2Fix(
    name="debug_tools_only",
    title="Debug Tools Only",
    prompts=("main", "main_debug_tools"),
    main_debugs=True,
)
DEBUG2FIX = Debug2Fix(
    name="debug2fix",
    title="Debug2Fix",
    roles=(Role.MAIN, Role.DEBUG_SUBAGENT),
    prompts=("main", "main_debug_subagent"),
    without_subagent=BASELINE.name,
)
TOOL_LIMIT = Debug2Fix(
    name="debug2fix_tool_limit",
    title="Debug2Fix (w/ Tool Limit)",
    roles=(Role.MAIN, Role.DEBUG_SUBAGENT),
    prompts=("main", "main_debug_subagent", "main_tool_limit"),
    asks_first=True,
    without_subagent=BASELINE.name,
)
SYSTEMS = (BASELINE, DEBUG_TOOLS_ONLY, DEBUG2FIX, TOOL_LIMIT)
"""In the order of the paper's tables."""
