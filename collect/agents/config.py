"""The agents' limits. The defaults are Debug2Fix's where its paper gives them."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sandbox.debugger import DebugLimits


class Variant(StrEnum):
    """What is rolled out: Debug2Fix's four configurations (its section 5.5), InspectCoder, the
    baselines that it is compared with (its section 3.4) and its ablations (4.3)."""

    BASELINE = "baseline"
    DEBUG_TOOLS_ONLY = "debug_tools_only"
    DEBUG2FIX = "debug2fix"
    DEBUG2FIX_TOOL_LIMIT = "debug2fix_tool_limit"

    SIMPLE_DEBUGGING = "simple_debugging"
    RUBBER_DUCKING = "rubber_ducking"
    TRACE_REASONING = "trace_reasoning"
    SWE_AGENT = "swe_agent"
    AUTOSD = "autosd"
    LDB_LINE = "ldb_line"
    LDB_BLOCK = "ldb_block"
    LDB_FUNCTION = "ldb_function"
    INSPECTCODER = "inspectcoder"
    INSPECTCODER_NO_INSPECTION = "inspectcoder_no_inspection"
    INSPECTCODER_NO_MODIFICATION = "inspectcoder_no_modification"
    INSPECTCODER_NO_DEBUGGER = "inspectcoder_no_debugger"
    INSPECTCODER_NO_INSPECTWARE = "inspectcoder_no_inspectware"

    @property
    def repairs_one_file(self) -> bool:
        """Whether it is one of InspectCoder's paper: a program of one file, patched in rounds."""
        return self not in DEBUG2FIX_VARIANTS

    @property
    def has_subagent(self) -> bool:
        """Whether a second agent, with a model of its own, debugs for the one that edits: the
        Debug Subagent, or the Program Inspector."""
        inspects = self.value.startswith(Variant.INSPECTCODER.value)
        return inspects or self in (Variant.DEBUG2FIX, Variant.DEBUG2FIX_TOOL_LIMIT)


DEBUG2FIX_VARIANTS = (
    Variant.BASELINE,
    Variant.DEBUG_TOOLS_ONLY,
    Variant.DEBUG2FIX,
    Variant.DEBUG2FIX_TOOL_LIMIT,
)


class RepairConfig(BaseModel):
    """Limits of InspectCoder and of what it is compared with; defaults of its section 3.5."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_patch_attempts: int = Field(default=5, ge=1)
    """Patches tried on the public tests, then the last one stands."""
    max_reasoning_steps: int = Field(default=20, ge=1)
    """Completions of the Inspector, or of AutoSD, in one bug: all its patch attempts together."""
    max_shell_steps: int = Field(default=30, ge=1)
    """Completions of SWE-Agent for one patch; the paper states none."""
    max_experiment_hits: int = Field(default=30, ge=1)
    """At how many executions of its line one experiment of AutoSD prints; its paper sets no
    bound."""
    inspector_form: Literal["react", "tools"] = "react"
    """How the Program Inspector acts: by calls in a block of its text, as the paper has it, or by
    tool calls. The rows' `system` then ends in `+tools`."""
    observation_lines: int = Field(default=60, ge=4)
    """Longest observation of one action; the middle of a longer one is left out."""
    observation_chars: int = Field(default=4_000, ge=200)
    """Characters of the same."""
    ldb_trace_timeout: float = Field(default=30.0, gt=0)
    """Longest that LDB's traced run of the failing test may take, seconds; then there is no trace.
    Tracing makes a loop some hundred times as slow, or more where its variables are long lists."""
    ldb_lines: int = Field(default=30, ge=1)
    """Most blocks of a trace that LDB tells at line level, half of them its first and half its
    last. This and the next four are of LDB's published code."""
    ldb_blocks: int = Field(default=10, ge=1)
    """The same at block level."""
    ldb_functions: int = Field(default=1, ge=1)
    """The same at function level; a single one is the last."""
    ldb_block_lines: int = Field(default=30, ge=2)
    """Most lines of a block, its first and its last."""
    ldb_value_chars: int = Field(default=100, ge=20)
    """Longest comment with the values of all variables; the middle of a longer one is left out."""


class AgentsConfig(BaseModel):
    """Limits of the agents."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    main_max_steps: int = Field(default=100, ge=1)
    """Completions of the main agent; the paper states none."""
    sub_max_steps: int = Field(default=25, ge=1)
    """Completions of one subagent call, then it is made to answer (section 5.5)."""
    sub_max_reminders: int = Field(default=1, ge=0)
    """How often a subagent that ends without a well-formed answer block is reminded of it."""
    debug_run_code: bool = False
    """Give those who debug in Debug2Fix a fifth tool, which runs code in the paused program. Its
    paper has four."""
    bash_timeout: float = Field(default=120.0, gt=0)
    """Longest a bash command of the main agent may take, seconds."""
    debugger: DebugLimits = DebugLimits()
    repair: RepairConfig = RepairConfig()

    def main_has_tools(self, variant: Variant) -> bool:
        """Whether the agent that edits is sent tools; those of InspectCoder's paper act in text."""
        return not variant.repairs_one_file

    def sub_has_tools(self, variant: Variant) -> bool:
        """Whether the subagent is sent tools."""
        by_tools = not variant.repairs_one_file or self.repair.inspector_form == "tools"
        return variant.has_subagent and by_tools
