"""pdb's own terminal as a debugger.

pdb runs by its own `main`, but with its commands read from the terminal and not from the standard
input, which the program would share with it and swallow. Known weaknesses, beside those that any
terminal has (see `terminal_session`): pdb stops in the main thread only, has no exception
breakpoints, and shares its terminal with what the program forks; a sleeping or locked main thread
does not heed Ctrl-C and is killed; Ctrl-C during a step raises KeyboardInterrupt in the program;
unittest catches what its tests raise, so there is no post mortem of them; up to CPython 3.9 an
interrupted program is shown at the line where tracing was last on; up to 3.12 an assignment is
lost once another frame is looked at.
"""

from __future__ import annotations

from dataclasses import replace

from sandbox.base import Sandbox
from sandbox.debugger import pdb_parsing
from sandbox.debugger.channel import Json
from sandbox.debugger.limits import DebugLimits
from sandbox.debugger.pdb_breakpoints import PdbBreakpoints
from sandbox.debugger.pdb_inspection import PdbInspector
from sandbox.debugger.pdb_launch import entry_requests, pdb_command, resolved
from sandbox.debugger.pdb_parsing import Stop
from sandbox.debugger.pdb_places import look_up
from sandbox.debugger.prompts import End, PromptTerminal, Reply
from sandbox.debugger.python_session import PythonLauncher
from sandbox.debugger.records import ErrorKind, Launch, State
from sandbox.debugger.sources import SourceLines
from sandbox.debugger.terminal_session import (
    Ended,
    Handler,
    Refused,
    TerminalConnection,
    TerminalDebugger,
)

COMMANDS = {
    "continue": "continue",
    "step_over": "next",
    "step_into": "step",
}
SECOND_PROMPT = 0.05
"""Seconds in which a Ctrl-C that met a prompt brings another."""
NO_TEST_CODES = (2, 3, 4, 5)
"""Exit codes of pytest before or without a test."""


class PdbConnection(TerminalConnection):
    """One pdb in one sandbox."""

    _inspector: PdbInspector
    _points: PdbBreakpoints

    def __init__(self, sandbox: Sandbox, limits: DebugLimits) -> None:
        super().__init__(sandbox, limits)
        self._inspector = PdbInspector(self)
        self._points = PdbBreakpoints(self)
        self._sources = SourceLines(sandbox, limits.context_lines)
        self._entry: Json | None = None

    def interrupt(self) -> Reply:
        reply = self.prompt.press(b"\x03", self.grace)
        if reply.end is not End.PROMPT:
            return reply
        again = self.prompt.wait(SECOND_PROMPT)
        end = End.EXIT if again.end is End.EXIT else End.PROMPT
        return replace(reply + again, end=end)

    def type_command(self, text: str) -> Json:
        """Lines are typed one by one; a statement left open on 3.13 is closed by an empty one."""
        *before, last = text.split("\n")
        reply = Reply("", False, End.PROMPT)
        for line in [*before, last]:
            running = line.strip().partition(" ")[0] in pdb_parsing.RUN_COMMANDS
            reply += self.ask(line, running)
            if self.interrupted:
                break
        if before and pdb_parsing.CONTINUED.search(reply.text):
            reply += self.ask("")
        return {**self._followed(reply), **self.program_output(reply)}

    def _launch(self, arguments: Json) -> Json:
        target = arguments["target"]
        kept = arguments["breakpoints"]
        wanted = entry_requests(target)
        found = look_up(self.sandbox, [*kept, *wanted])
        places, entries = found[: len(kept)], found[len(kept) :]
        names = resolved(target, entries)
        banner = self._spawn(target["kind"], names, arguments["stdin"])
        if target["first_prompt"]:
            self.state = State.RUNTIME
            return self.program_output(banner)
        if pdb_parsing.POST_MORTEM.search(banner.text):
            raise self._failed(banner)
        notes = self._points.restore(kept, places)
        self._entry = entries[0] if entries and "path" in entries[0] else None
        reply = banner
        if not arguments["stop_at_entry"] or target["kind"] not in ("script", "module"):
            if arguments["stop_at_entry"] and self._entry:
                self._points.arm_entry(self._entry)
            reply = self.ask("continue", running=True)
        answer = self._stopped(reply, "entry" if reply is banner else "breakpoint")
        self._require_launched(target, reply, answer, entries)
        return {**answer, "notes": notes + answer.get("notes", [])}

    def _spawn(self, kind: str, names: list[str], stdin: str) -> Reply:
        terminal = self.sandbox.spawn(pdb_command(self.sandbox, kind, names, stdin))
        self.prompt = PromptTerminal(terminal, pdb_parsing.recognise)
        try:
            return self.checked(self.prompt.wait(self.left, running=True))
        except Ended as ended:
            raise self._failed(ended.reply) from None

    def _failed(self, reply: Reply) -> Refused:
        text = pdb_parsing.without_prompt(reply.text).strip()
        return Refused(
            f"the program could not be started:\n{text[-2000:]}", ErrorKind.LAUNCH_FAILED
        )

    def _require_launched(
        self, target: Json, reply: Reply, answer: Json, entries: list[Json]
    ) -> None:
        """Raises Refused where pytest could not collect the test, or ended without one."""
        stop = answer["stop"]
        if target["kind"] not in ("pytest", "name"):
            return
        if self.state is State.POST_MORTEM and not self._inspector.own_stop:
            raise self._failed(reply)
        if stop["reason"] == "exited" and stop["exit_code"] in NO_TEST_CODES:
            missing = stop["exit_code"] in (4, 5)
            kind = ErrorKind.NO_SUCH_TEST if missing else ErrorKind.LAUNCH_FAILED
            nearest = "".join(f"\n{entry['error']}" for entry in entries if "error" in entry)
            raise Refused(f"pytest ran no test:\n{answer['output'].strip()}{nearest}", kind)

    def _runner(self, action: str) -> Handler:
        return lambda arguments: self._run(action)

    def _run(self, action: str) -> Json:
        if action == "step_out":
            return self._step_out()
        reply = self.ask(COMMANDS[action], running=True)
        return self._stopped(reply, "breakpoint" if action == "continue" else "step")

    def _step_out(self) -> Json:
        """`return` stops where the function is about to return; one `next` more leaves it."""
        reply = self.ask("return", running=True)
        leaving = pdb_parsing.last_stop(reply.text)
        if leaving is None or leaving.returned is None or self.interrupted:
            return self._stopped(reply, "step")
        before = replace(reply, text=pdb_parsing.without_prompt(reply.text))
        answer = self._stopped(before + self.ask("next", running=True), "step")
        answer["stop"].setdefault("return_value", _returned(leaving))
        return answer

    def _stopped(self, reply: Reply, reason: str) -> Json:
        """The answer to an action that let the program run."""
        text = pdb_parsing.without_prompt(reply.text)
        self._inspector.moved(True)
        code = pdb_parsing.exit_code(text)
        if code is not None:
            self.close()
            self.state = State.DONE
            written = self.program_output(reply, pdb_parsing.program_text(text))
            return {"stop": {"reason": "exited", "exit_code": code}, **written}
        if pdb_parsing.COMPLAINT.search(reply.text):
            raise Refused(pdb_parsing.program_text(text).strip())
        stop = pdb_parsing.last_stop(text)
        if stop is None:
            text += pdb_parsing.without_prompt(self.inspect("where").text)
            stop = pdb_parsing.last_stop(text)
        written = self.program_output(reply, pdb_parsing.program_text(text))
        return {**self._described(text, stop, reason), **written}

    def _described(self, text: str, stop: Stop | None, reason: str) -> Json:
        if stop is None:
            return {"stop": {"reason": reason}}
        self._inspector.moved(self._inspector.mine(stop.file))
        hit = self._points.hit(stop, text)
        if self._entry and (self._entry["path"], self._entry["line"]) == (stop.file, stop.line):
            reason, self._entry = "entry", None
        if hit and reason != "entry":
            reason = "breakpoint"
        fields: Json = {"file": self._inspector.relative(stop.file), "line": stop.line}
        fields["function"] = stop.function
        fields["source"] = self._sources.around(stop.file, stop.line, self._points.lines(stop.file))
        if stop.returned is not None:
            fields["return_value"] = _returned(stop)
        exception = self._exception(text)
        if exception is not None:
            fields["exception"] = {"type": exception[0], "message": exception[1]}
            reason = "exception"
        fields["reason"] = "interrupted" if self.interrupted else reason
        return {"stop": fields, "breakpoints": hit}

    def _exception(self, text: str) -> tuple[str, str] | None:
        """The exception at which the program stopped; the state follows."""
        self.state = State.RUNTIME
        if pdb_parsing.POST_MORTEM.search(text):
            self.state = State.POST_MORTEM
            return pdb_parsing.post_mortem_exception(text) or ("", "")
        candidate = pdb_parsing.ERROR_LINE.match(pdb_parsing.line_before_stop(text))
        if candidate is None:
            return None
        raised = pdb_parsing.without_prompt(self.inspect("p __exception__[0].__name__").text)
        if raised.strip() != repr(candidate["type"].rpartition(".")[2]):
            return None
        self.state = State.RUNTIME_ERROR
        return candidate["type"], candidate["message"] or ""

    def _followed(self, reply: Reply) -> Json:
        """The state after a typed command, as far as the text tells it."""
        text = pdb_parsing.without_prompt(reply.text)
        stop = pdb_parsing.last_stop(text)
        code = pdb_parsing.exit_code(text)
        if pdb_parsing.POST_MORTEM.search(text):
            self.state = State.POST_MORTEM
        elif stop is not None or code is not None:
            self.state = State.RUNTIME
        if stop is not None:
            self._inspector.moved(self._inspector.mine(stop.file))
        if code is not None:
            return {"stop": {"reason": "exited", "exit_code": code}}
        return {"stop": {"reason": "interrupted"}} if self.interrupted else {}


class PdbLauncher:
    """Reads a launch as the probe's launcher does, and runs it in pdb."""

    def target(self, sandbox: Sandbox, launch: Launch, limits: DebugLimits) -> Json:
        return PythonLauncher().target(sandbox, launch, limits)

    def connect(self, sandbox: Sandbox, limits: DebugLimits) -> PdbConnection:
        return PdbConnection(sandbox, limits)


class PdbTerminal(TerminalDebugger):
    """One session in pdb's own terminal, in a sandbox."""

    def __init__(self, sandbox: Sandbox, limits: DebugLimits | None = None) -> None:
        super().__init__(sandbox, PdbLauncher(), limits)


def _returned(stop: Stop) -> Json:
    return {"name": stop.function, "type": "?", "text": stop.returned}
