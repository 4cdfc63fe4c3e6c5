"""The agents' limits. Defaults are from Debug2Fix's paper if it states them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from collect.store.files import StrictRecord
from sandbox.debugger import DebugLimits


class RepairConfig(StrictRecord):
    """Limits of InspectCoder and its baselines; defaults from its section 3.5."""

    max_patch_attempts: int = Field(default=5, ge=1)
    """Maximum patches tried on the public tests; then the last one counts. The oracle as Patch
    Coder tries one: with several it would find the right one of its candidates without any help.
    """
    max_reminders: int = Field(default=1, ge=0)
    """How often the Patch Coder is reminded if its reply has no usable program; the paper states no
    number."""
    max_reasoning_steps: int = Field(default=20, ge=1)
    """Completions of the Inspector or of AutoSD per bug, over all patch attempts."""
    max_shell_steps: int = Field(default=30, ge=1)
    """Completions of SWE-Agent per patch; the paper states no number."""
    max_experiment_hits: int = Field(default=30, ge=1)
    """Executions of a line at which one AutoSD experiment prints; its paper sets no limit."""
    inspector_form: Literal["react", "tools"] = "react"
    """How the Program Inspector acts: by calls in a text block, as in the paper (`react`), or by
    tool calls (`tools`). The rows' `system` then ends in `+tools`.
    """
    observation_lines: int = Field(default=60, ge=4)
    """Maximum lines of an action's observation; the middle of a longer one is left out."""
    observation_chars: int = Field(default=4_000, ge=200)
    """Maximum characters of an action's observation."""
    ldb_trace_timeout: float = Field(default=30.0, gt=0)
    """Seconds for LDB's traced run of the failing test; after that there is no trace. Tracing makes
    a loop about a hundred times slower, or more if its variables are long lists.
    """


class AgentsConfig(StrictRecord):
    """Limits of the agents."""

    main_max_steps: int = Field(default=100, ge=1)
    """Completions of the main agent; the paper states no number."""
    sub_max_steps: int = Field(default=25, ge=1)
    """Completions per subagent call; then it must answer (section 5.5)."""
    main_max_reminders: int = Field(default=1, ge=0)
    """How often a main agent is reminded that it answers without having changed or asked anything,
    or run a command.
    """
    subagent_form: Literal["full", "compact"] = "full"
    """The Debug Subagent's instructions. `compact`, for small models: a system prompt and tools of
    less than half the tokens, without the tools' descriptions, and answers that don't repeat the
    question. A model is trained, served and evaluated in one form.
    """
    sub_file_tools: bool = True
    """Give the Debug Subagent `list_files`, `grep` and `read_file`. Without them the oracle's
    searches for root causes have gaps: it goes to functions whose names it has not been shown.
    """
    start_session: Literal["auto", "model"] = "auto"
    """Who starts a Debug Subagent's session. `auto`: it is started with the caller's test and
    lines, or else with the places that the question names, and its first stop is part of the task
    (section 4.1). `model`: the subagent itself, with `debug_start_session`.
    """
    sub_max_reminders: int = Field(default=1, ge=0)
    """How often a subagent is reminded if its answer has no valid block."""
    sub_max_repeats: int | None = Field(default=None, ge=2)
    """After so many replies in a row with equal calls and results, or with invalid calls alone, a
    Debug Subagent must answer, as if its steps were used up: small models can go on so to the end.
    null: no limit.
    """
    main_context_tokens: int | None = Field(default=None, ge=1000)
    """Maximum tokens of the main agent's requests, estimated by the last reply's usage. The oldest
    tool results are left out of longer ones, with a mark in their place. null: they are left out
    once the server says that a request is too long.
    """
    sub_context_tokens: int | None = Field(default=None, ge=1000)
    """The same for the Debug Subagent."""
    debug_run_code: bool = False
    """Give debugging agents in Debug2Fix a fifth tool, which runs code in the paused program. The
    paper has four.
    """
    main_debug_tools: bool = False
    """Give Debug2Fix's main agent the debug tools besides the subagent, as `stepinto mcp` gives
    them to its clients.
    """
    bash_timeout: float = Field(default=120.0, gt=0)
    """Seconds for a bash command of the main agent."""
    debugger: DebugLimits = DebugLimits()
    repair: RepairConfig = RepairConfig()
