"""The Program Inspector's actions in the words of Debug2Fix's debug tools.

`MAPPING` is the table. A `print(x)` becomes no `debug_inspect`: that shows `repr(x)` and its type,
which a print does not tell. `debug_run_code` is the fifth debug tool (`agents.debug_run_code`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from collect.agents.repair.actions import ActionCall
from sandbox.debugger import Action, DebugEvent

MAPPING = """\
| InspectCoder's Program Inspector | Debug2Fix's Debug Subagent |
| --- | --- |
| the session that is open beforehand | `debug_start_session{test, stop_at_test: true}` |
| `set_breakpoint(line)` | `debug_breakpoint{action: set, location: FILE:LINE, temporary: true}` |
| `control_execution("continue")` | `debug_control{action: continue}` |
| `control_execution("restart")` | `debug_control{action: restart}` |
| a test that has ended is begun again | `debug_control{action: restart}`, before the next call |
| `interact_code(code)` | `debug_run_code{code}` |
| `propose_repair(plan)` | the final `<debug_answer>`, its answer the plan |"""

START_SESSION = "debug_start_session"
PROPOSE = "propose_repair"


class Vocabulary(StrEnum):
    """In whose words the rows of Program Inspectors are."""

    NATIVE = "native"
    """As the conversation was held: actions in the text, or the four actions as tools."""
    DEBUG2FIX = "debug2fix"
    """As Debug2Fix's Debug Subagent would have held it, so that one model learns from both."""


class Untranslatable(Exception):
    """A conversation that the other vocabulary has no words for; the message says why."""


def debug_call(action: ActionCall, file: str) -> tuple[str, dict[str, Any]]:
    """The debug tool and the arguments that do what an action did in the program `file`.

    Raises Untranslatable.
    """
    match action:
        case ActionCall("set_breakpoint", {"line": int(line)}):
            place = f"{file}:{line}"
            return "debug_breakpoint", {"action": "set", "location": place, "temporary": True}
        case ActionCall("control_execution", {"cmd": "continue" | "restart" as command}):
            return "debug_control", {"action": command}
        case ActionCall("interact_code", {"code": str(code)}):
            return "debug_run_code", {"code": code}
    raise Untranslatable(f"no debug tool does what {action.name} with {action.json} does")


def recorded_call(event: DebugEvent, arguments: Mapping[str, Any]) -> ActionCall:
    """The action that caused an event; `arguments` are the event's. Raises Untranslatable."""
    match event.action, arguments:
        case Action.SET_BREAKPOINT, {"file": str(), "line": int(line), "temporary": True}:
            if len(arguments) == 3:
                return ActionCall("set_breakpoint", {"line": line})
        case ((Action.CONTINUE | Action.RESTART), _):
            return ActionCall("control_execution", {"cmd": str(event.action)})
        case Action.RUN_CODE, {"code": str(code), "frame": 0}:
            return ActionCall("interact_code", {"code": code})
    raise Untranslatable(f"no action of the Program Inspector causes {event.action}")
