"""The Python probe: the debugger that runs inside the sandbox, beside the program under test.

Standard library only, CPython 3.8 to 3.14. The host sends the sources of these modules over the
pseudo-terminal (see `sandbox.debugger.python_session`), so none of them are in the workspace. Each
process loads its own, in the order given here, then calls `main` of the last.

There are two processes. The *supervisor* owns the pseudo-terminal and talks to the host in JSON
lines, each prefixed with a nonce that the other process never learns; it collects the program's
output, keeps the deadlines, interrupts, and finally kills. Its interpreter is isolated: it runs no
code but its own. The *debuggee*, an interpreter that it starts as a user would, loads the probe
before the project's folders are on its path, then runs the program under a tracer, and serves
requests whenever the program stops.

Stops come from `sys.monitoring` if available (3.12 on) and otherwise from `sys.settrace`, with a
filter by code object: only functions that hold a breakpoint pay for line events. Steps always use
`sys.settrace`. (`bdb` traces every line of every file that holds a breakpoint, and its hooks differ
between the versions supported here.)

Requests are `{"id", "action", "arguments", "timeout", "grace"}`, and each has one answer with the
same id: `{"id", "state", "stop", "values", "frames", "threads", "next_start", "breakpoints",
"notes", "error", "kill_reason", "diagnosis", "child_processes", "hidden", "output",
"output_truncated"}`, with only the fields that apply.

After its time-out a request is interrupted by a signal; after its grace the program is killed.
Either way the answer says what the program was doing (`diagnosis`). Between the two processes
requests and answers are sealed with a key that came before the program: what it writes into the
debugger's descriptors is ignored, and a request that it reads from them it can't answer.
"""

SHARED = ("own", "wire", "interpreter", "statements", "sources", "workspace")
SUPERVISOR = (*SHARED, "diagnosis", "supervisor")
DEBUGGEE = (
    *(*SHARED, "functions", "exceptions", "breakpoints", "values", "fields", "libraries"),
    *("memory", "expressions", "evaluation", "arrivals", "awaiting", "causes", "clocks"),
    *("other_tracers", "monitor", "tracer", "outcomes", "unhandled", "describing", "session"),
    *("problems", "reports", "targets", "unittest_runs", "pytest_runs", "entry"),
)
"""Each module comes after those that it imports."""
