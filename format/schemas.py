"""The tools of the agents whose conversations become rows, as they are sent to a model."""

from __future__ import annotations

import json
from functools import cache
from typing import cast

from collect.agents.debug2fix import subagent_tools
from collect.agents.tools import Toolbox
from collect.agents.wording import wording
from sandbox import Sandbox
from sandbox.debugger import Debugger

LANGUAGE = "python"
"""Of all programs that an Inspector has worked on."""

# A schema is read off the tool's class; what the tool would act on is never touched.
_NO_DEBUGGER = cast(Debugger, None)
_NO_SANDBOX = cast(Sandbox, None)


@cache
def subagent_schemas() -> str:
    """A Debug Subagent's tools, `debug_run_code` among them, as JSON."""
    tools = subagent_tools(_NO_DEBUGGER, _NO_SANDBOX, run_code=True)
    return json.dumps(Toolbox(tools, wording(LANGUAGE).values()).schemas())
