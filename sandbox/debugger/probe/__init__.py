"""The Python probe: the debugger that runs inside the sandbox, beside the program under test.

Standard library only, CPython 3.8 to 3.14. The host sends the sources of these modules over the
pseudo-terminal (see `sandbox.debugger.delivery`), so nothing of them lies in the workspace;
there they are loaded in the order of `MODULES`, and `entry.main` is called.

It is two processes: the *supervisor*, which collects the program's output, keeps the deadlines,
interrupts, and in the end kills; and the *debuggee*, which is forked from it. See `entry`.

Stops come from `sys.monitoring` where there is one (3.12 on) and otherwise from `sys.settrace`,
with a filter by code object: only functions that hold a breakpoint pay for line events. Steps
always use `sys.settrace`. (`bdb` traces every line of every file that holds a breakpoint, and
its hooks differ between the versions supported here.)

Requests are `{"id", "action", "arguments", "timeout", "grace"}`, and each has one answer with
the same id: `{"id", "state", "stop", "values", "frames", "threads", "next_start", "breakpoints",
"notes", "error", "kill_reason", "diagnosis", "child_processes", "output",
"output_truncated"}`, where only what applies is present.

Past its time-out a request is interrupted, by a signal; past its grace the program is killed.
Either way the answer says what the program was at (`diagnosis`). On their way through the two
processes requests and answers carry a token, which what the program writes into the debugger's
descriptors lacks.
"""

MODULES = (
    "own",
    "wire",
    "hook",
    "interpreter",
    "source",
    "workspace",
    "lookup",
    "exceptions",
    "following",
    "points",
    "breakpoints",
    "frames",
    "threads",
    "window",
    "contents",
    "values",
    "fields",
    "code_running",
    "interruption",
    "memory",
    "evaluation",
    "conditions",
    "hits",
    "monitor",
    "filters",
    "tracer",
    "guards",
    "link",
    "describing",
    "actions",
    "session",
    "targets",
    "unittest_target",
    "pytest_target",
    "output",
    "processes",
    "diagnosis",
    "ending",
    "pending",
    "supervisor",
    "entry",
)
"""Each after those that it imports."""
