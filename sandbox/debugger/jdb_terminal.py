"""jdb's own terminal as a debugger.

The JVM waits at its start for a jdb that attaches; both end with the terminal. Known weaknesses,
beside those that any terminal has (see `terminal_session`): jdb finds errors in deferred
breakpoints only once the class is loaded; a step into code without sources is led back out by
more steps, each a round trip; conditions are evaluated by `print` after each hit, in
jdb's own small language (no `&&`, no `instanceof`); types of locals are not shown; an exception's
message is not shown; a `toString()` that never returns blocks jdb itself, and the session is
killed; a test runner catches everything, so only a thrown AssertionError stops a failing test.
"""

from __future__ import annotations

from collections.abc import Sequence

from sandbox.base import Sandbox
from sandbox.debugger import jdb_parsing
from sandbox.debugger.channel import Json
from sandbox.debugger.java_session import launch_target
from sandbox.debugger.java_sources import JavaSources
from sandbox.debugger.jdb_breakpoints import JdbBreakpoints, Point
from sandbox.debugger.jdb_inspection import JdbInspector
from sandbox.debugger.jdb_launch import jdb_command
from sandbox.debugger.jdb_parsing import Event
from sandbox.debugger.limits import DebugLimits
from sandbox.debugger.prompts import End, PromptTerminal, Reply
from sandbox.debugger.records import ErrorKind, Launch, State
from sandbox.debugger.session import Launcher, LaunchRefused
from sandbox.debugger.sources import SourceLines
from sandbox.debugger.terminal_session import (
    Ended,
    Handler,
    Refused,
    TerminalConnection,
    TerminalDebugger,
)
from sandbox.java.build import built_test
from sandbox.java.errors import BuildFailed, JavaError, NoSuchTest
from sandbox.java.jdk import find_jdk

COMMANDS = {
    "continue": "cont",
    "step_over": "next",
    "step_into": "step",
    "step_out": "step up",
}
JDK = "java.*,javax.*,sun.*,com.sun.*,jdk.*"
"""What steps run through, as jdb has it of itself."""
RUNNERS = (
    "junit.*,org.junit.*,org.hamcrest.*,org.testng.*,"
    "org.apache.maven.surefire.*,org.gradle.*,worker.org.gradle.*"
)
LEFT = "the step left the program's own code: it was run on to where that goes on"


class JdbConnection(TerminalConnection):
    """One jdb, attached to one JVM, in one sandbox."""

    _inspector: JdbInspector
    _points: JdbBreakpoints

    def __init__(self, sandbox: Sandbox, limits: DebugLimits) -> None:
        super().__init__(sandbox, limits)
        self._lines = SourceLines(sandbox, limits.context_lines)
        self._use_sources(())
        self._entry: str | None = None

    def _use_sources(self, roots: Sequence[str]) -> None:
        self._sources = JavaSources(self.sandbox, self._lines, roots)
        self._points = JdbBreakpoints(self.inspect, self._sources)
        self._inspector = JdbInspector(self, self._sources, self._lines)

    def interrupt(self) -> Reply:
        """Suspend all threads and look at the program's; there is no Ctrl-C, which ends jdb."""
        reply = self.prompt.ask("suspend", self.grace)
        if reply.end is not End.PROMPT:
            return reply
        shown = self.prompt.ask("threads", self.grace)
        thread = jdb_parsing.program_thread(jdb_parsing.threads(shown.text))
        if shown.end is not End.PROMPT or thread is None:
            return reply + shown
        return reply + self.prompt.ask(f"thread {thread}", self.grace)

    def type_command(self, text: str) -> Json:
        reply = Reply("", False, End.PROMPT)
        for line in text.split("\n"):
            running = line.strip().partition(" ")[0] in jdb_parsing.RUN_COMMANDS
            reply += self.ask(line, running)
            if self.interrupted:
                break
        event = jdb_parsing.last_event(reply.text)
        if event is not None:
            self._follow(event)
        stop = {"stop": {"reason": "interrupted"}} if self.interrupted else {}
        return {**stop, **self.program_output(reply)}

    def _launch(self, arguments: Json) -> Json:
        target = arguments["target"]
        self._use_sources(target["source_roots"])
        banner = self._spawn(target, arguments["stdin"])
        self.state = State.RUNTIME
        if target["first_prompt"]:
            return self.program_output(banner)
        notes = self._points.restore(arguments["breakpoints"])
        if arguments["stop_at_entry"]:
            self._entry = "{class}.{method}".format(**target["entry"])
            if not target["entry"]["method"]:
                raise Refused(f"{target['entry']['class']} has no method to stop in")
            self.inspect(f"stop in {self._entry}")
        if target.get("test"):
            self.inspect("catch all java.lang.AssertionError")
        answer = self._stopped(self.ask("cont", running=True), "breakpoint")
        return {**answer, "notes": notes + answer.get("notes", [])}

    def _spawn(self, target: Json, stdin: str) -> Reply:
        terminal = self.sandbox.spawn(jdb_command(self.sandbox, target, stdin))
        self.prompt = PromptTerminal(terminal, jdb_parsing.recognise)
        try:
            return self.checked(self.prompt.wait(self.left, running=True))
        except Ended as ended:
            message = f"the program could not be started:\n{ended.reply.text.strip()[-2000:]}"
            raise Refused(message, ErrorKind.LAUNCH_FAILED) from None

    def _runner(self, action: str) -> Handler:
        reason = "breakpoint" if action == "continue" else "step"
        return lambda arguments: self._stopped(self.ask(COMMANDS[action], running=True), reason)

    def _stopped(self, reply: Reply, reason: str) -> Json:
        """The answer to an action that let the program run; conditions that don't hold, stops
        for a breakpoint that could not be set, and steps into other code let it run on."""
        text = jdb_parsing.without_prompt(reply.text)
        notes = self._points.follow(text)
        event = jdb_parsing.last_event(text)
        while not self.interrupted:
            due, problems = self._due(event)
            onward = self._onward(event, due)
            if onward is None:
                break
            if onward == "step" and LEFT not in notes:
                notes.append(LEFT)
            if event is None and not jdb_parsing.UNBOUND.search(text):
                raise Refused(text.strip() or "jdb says nothing")
            notes += problems
            reply = Reply(text, reply.truncated, reply.end) + self._run_on(onward)
            later = reply.text[len(text) :]
            text = jdb_parsing.without_prompt(reply.text)
            notes += self._points.follow(later)
            event = jdb_parsing.last_event(later)
        written = self.program_output(reply, jdb_parsing.program_text(text))
        if self.interrupted:
            return {**self._where(), **written, "notes": notes}
        assert event is not None
        return {**self._described(event, due or [], reason), **written, "notes": notes + problems}

    def _onward(self, event: Event | None, due: list[Point] | None) -> str | None:
        """The command that leads on from a stop that nobody asked for; None where one did."""
        if event is None or due == []:
            return "cont"
        if event.kind != "Step completed" or self._sources.file_of(event.function):
            return None
        return "step up" if self._program_place() else "step"

    def _run_on(self, command: str) -> Reply:
        if command != "step":
            return self.ask(command, running=True)
        # Not for `next`, which would pass over all that a runner has yet to call.
        self.inspect(f"exclude {JDK},{RUNNERS}")
        reply = self.ask(command, running=True)
        self.ask(f"exclude {JDK}")
        return reply

    def _due(self, event: Event | None) -> tuple[list[Point] | None, list[str]]:
        """The breakpoints that hold at a stop, and why a condition could not be told; None where
        the stop is no breakpoint's; neither where an exception is thrown on by a test runner."""
        if event is not None and event.exception is not None and not event.uncaught:
            return None if self._program_place() else [], []
        if event is None or event.kind != "Breakpoint hit":
            return None, []
        path = self._sources.file_of(event.function)
        hit = self._points.hit(event, self._sources.relative(path) if path else "")
        if not hit or event.function == self._entry:
            return None, []
        return self._points.holding(hit, self._inspector.evaluate)

    def _described(self, event: Event, due: list[Point], reason: str) -> Json:
        path = self._sources.file_of(event.function)
        file = self._sources.relative(path) if path else ""
        self._follow(event)
        exception: Json = {}
        if event.exception is not None:
            due = self._points.hit(event, file)
            exception = {"exception": {"type": event.exception, "message": ""}}
            reason = "exception"
        elif event.kind != "Breakpoint hit":
            reason = "step"
        elif due:
            reason = "breakpoint"
        elif event.function == self._entry:
            reason, self._entry = "entry", None
            self.inspect(f"clear {event.function}")
        at = self._place(path, event.line, event.function) if path else self._program_place()
        thread = None if event.thread == "main" else event.thread
        stop = {**at, "reason": reason, "thread": thread, **exception}
        return {"stop": stop, "breakpoints": self._points.count(due, event)}

    def _where(self) -> Json:
        """Where an interrupted program is."""
        self.state = State.RUNTIME
        return {"stop": {**self._program_place(), "reason": "interrupted"}}

    def _program_place(self) -> Json:
        """The innermost frame of the program, the libraries' left out."""
        frames = self._inspector.frames(jdb_parsing.stack(self.ask("where").text))
        if not frames:
            return {}
        frame, path = frames[0]
        return self._place(path, frame.line, frame.function)

    def _place(self, path: str, line: int, function: str) -> Json:
        file = self._sources.relative(path)
        source = self._lines.around(path, line, self._points.lines(file))
        return {"file": file, "line": line, "function": function, "source": source}

    def _follow(self, event: Event) -> None:
        self.state = State.RUNTIME
        if event.exception is not None:
            self.state = State.POST_MORTEM if event.uncaught else State.RUNTIME_ERROR


class JdbLauncher:
    """Builds and names what the Java probe would debug, and runs it in jdb."""

    def target(self, sandbox: Sandbox, launch: Launch, limits: DebugLimits) -> Json:
        try:
            found, project = built_test(sandbox, launch.test, limits.build_timeout)
            return launch_target(sandbox, find_jdk(sandbox), found, project)
        except BuildFailed as error:
            raise LaunchRefused(str(error), ErrorKind.BUILD_FAILED) from None
        except NoSuchTest as error:
            raise LaunchRefused(str(error), ErrorKind.NO_SUCH_TEST) from None
        except JavaError as error:
            raise LaunchRefused(str(error)) from None

    def connect(self, sandbox: Sandbox, limits: DebugLimits) -> JdbConnection:
        return JdbConnection(sandbox, limits)


class JdbTerminal(TerminalDebugger):
    """One session in jdb's own terminal, in a sandbox."""

    def __init__(
        self,
        sandbox: Sandbox,
        limits: DebugLimits | None = None,
        launcher: Launcher | None = None,
    ) -> None:
        super().__init__(sandbox, launcher or JdbLauncher(), limits)
