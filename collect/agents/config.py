"""The agents' limits. The defaults are Debug2Fix's where its paper gives them."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from sandbox.debugger import DebugLimits
from sandbox.debugger.opening import DebuggerBackend


class Variant(StrEnum):
    """The four configurations of Debug2Fix, section 5.5."""

    BASELINE = "baseline"
    DEBUG_TOOLS_ONLY = "debug_tools_only"
    DEBUG2FIX = "debug2fix"
    DEBUG2FIX_TOOL_LIMIT = "debug2fix_tool_limit"

    @property
    def has_subagent(self) -> bool:
        """Whether the main agent can call the Debug Subagent."""
        return self in (Variant.DEBUG2FIX, Variant.DEBUG2FIX_TOOL_LIMIT)


class AgentsConfig(BaseModel):
    """Limits of the main agent and the Debug Subagent."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    main_max_steps: int = Field(default=100, ge=1)
    """Completions of the main agent; the paper states none."""
    sub_max_steps: int = Field(default=25, ge=1)
    """Completions of one subagent call, then it is made to answer (section 5.5)."""
    sub_max_reminders: int = Field(default=1, ge=0)
    """How often a subagent that ends without a well-formed answer block is reminded of it."""
    bash_timeout: float = Field(default=120.0, gt=0)
    """Longest a bash command of the main agent may take, seconds."""
    debugger: DebugLimits = DebugLimits()
    debugger_backend: DebuggerBackend = "probe"
    """`terminal`: drive the raw pdb and jdb terminals instead (InspectCoder's ablation "without
    InspectWare"); the rows' `system` then ends in `+terminal`."""
