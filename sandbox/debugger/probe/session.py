"""One debug session in the debuggee: stop the program, describe it, serve the host's requests."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import types
from typing import Any, Callable, Sequence

from .arrivals import ARRIVALS
from .breakpoints import Breakpoint, BreakpointTable, parsed
from .causes import Raised, leaves
from .clocks import CLOCKS
from .describing import Describer
from .evaluation import EVALUATING, IDLE, RUNNING, Evaluator, interrupt_conditions, run_code
from .expressions import assigned_in
from .interpreter import (
    FrameAt,
    MoreStack,
    frame_locals,
    import_standard,
    keep_cells,
    live_frames,
)
from .libraries import shown_fields
from .memory import SPARE, widen_tracebacks
from .outcomes import Outcomes
from .own import INTERRUPT, get_ident, monotonic, set_handler
from .tracer import INTO, OUT, OVER, Hits, Tracer
from .unhandled import Unhandled, thread_name
from .values import Bounds
from .wire import RUN_ACTIONS, Interrupted, Json, Link, Refusal
from .workspace import Workspace, find_file


class Actions:
    """Carries out one request at a time, on the frames of one stop."""

    def __init__(self, session: Session) -> None:
        self.link, self.table, self.tracer = session.link, session.table, session.tracer
        self.evaluator, self.workspace = session.evaluator, session.workspace
        self.describer = describer = session.describer
        self.watch_unhandled = session.watch_unhandled
        self.frames: list[FrameAt] = []
        self.others: list[list[FrameAt]] = []
        """Those of the exception's causes and members, whose indices come after."""
        self.raised_in: str | None = None
        """The thread whose frames these are, if an exception has left them."""
        self.handlers: dict[str, Callable[[Json], Json]] = {
            "locals": self._locals,
            "stack": self._stack,
            "threads": lambda given: describer.threads(self.frames, self.raised_in),
            "evaluate": self._evaluate,
            "fields": self._fields,
            "run_code": self._run_code,
            "set_breakpoint": self._set_breakpoint,
            "remove_breakpoint": self._remove_breakpoint,
            "list_breakpoints": lambda given: {},  # every answer includes the changed ones
            "find_file": lambda given: {"path": find_file(session.workspace, given["file"])},
        }

    def handle(self, action: str, arguments: Json) -> Json:
        """The fields of the answer, even if the request fails."""
        try:
            return self.handlers[action](arguments)
        except Refusal as refusal:
            return {"error": {"kind": "bad_request", "message": str(refusal)}}
        except Interrupted:
            self.evaluator.phase = IDLE
            message = "it did not end within {:g} s and was interrupted".format(
                self.link.request["timeout"]
            )
            return {"error": {"kind": "timeout", "message": message}}
        except BaseException:
            self.evaluator.phase = IDLE
            message = import_standard("traceback").format_exc()
            return {"error": {"kind": "internal", "message": message}}

    def _frame(self, arguments: Json) -> types.FrameType:
        index = arguments.get("frame", 0)
        every = [at for frames in (self.frames, *self.others) for at in frames]
        if not every:
            raise Refusal("the program has no frame to look at here")
        if not 0 <= index < len(every):
            message = "there is no frame {}; the stack has frames 0 to {}"
            raise Refusal(message.format(index, len(every) - 1))
        frame = every[index].frame
        self.describer.read.add(id(frame))
        return frame

    def _stack(self, arguments: Json) -> Json:
        """The stack; from a frame of a cause on, those of that."""
        start, before = arguments.get("start", 0), 0
        for frames in (self.frames, *self.others):
            if before <= start < before + len(frames):
                answer = self.describer.stack(frames, start - before, before)
                own = self.describer.awaited() if frames is self.frames else []
                return {**answer, "notes": [*answer.get("notes", ()), *own]}
            before += len(frames)
        return self.describer.stack(self.frames, start)

    def _locals(self, arguments: Json) -> Json:
        frame = self._frame(arguments)
        items = [
            (name, value)
            for name, value in frame_locals(frame).items()
            if name.isidentifier() and not (name.startswith("__") and name.endswith("__"))
        ]
        if frame.f_locals is frame.f_globals:
            # By `type`, since `isinstance` would run a `__class__` of the program's.
            items = [item for item in items if not issubclass(type(item[1]), types.ModuleType)]
        start = arguments.get("start", 0)
        return self.describer.page(items[start:], start, len(items))

    def _evaluate(self, arguments: Json) -> Json:
        expression = arguments["expression"].strip()
        value, error = self.evaluator.evaluate(expression, self._frame(arguments))
        if error:
            return error
        shown, next_start = self.describer.value(expression, value, arguments.get("start", 0))
        answer: Json = {"values": [shown]}
        if next_start is not None:
            answer["next_start"] = next_start
        assigned = assigned_in(expression)
        if assigned:
            listed = ", ".join(assigned)
            answer["notes"] = [f"set in this expression alone, not in the program: {listed}"]
        return answer

    def _fields(self, arguments: Json) -> Json:
        expression = arguments["expression"].strip()
        value, error = self.evaluator.evaluate(expression, self._frame(arguments))
        if error:
            return error
        start, count = arguments.get("start", 0), self.describer.limits["max_values"]
        found, error = self.evaluator.guarded(lambda: shown_fields(value, start, count))
        return error or self.describer.page(found[0], start, found[1])

    def _run_code(self, arguments: Json) -> Json:
        frame, stdout = self._frame(arguments), self.link.stdout
        # The code's output belongs to the answer, even if the program captures its own output.
        printed, sys.stdout = sys.stdout, stdout
        try:
            found, error = self.evaluator.guarded(
                lambda: run_code(arguments["code"], frame, self.workspace)
            )
            if error:
                return error
            last, notes = found
            values = [] if last is None else [self.describer.value(*last)[0]]
            return {"values": values, "notes": notes}
        finally:
            if sys.stdout is stdout:
                sys.stdout = printed

    def _set_breakpoint(self, arguments: Json) -> Json:
        point, notes = self.table.add(arguments)
        self.watch_unhandled()
        self.tracer.refresh()
        return {"breakpoints": [self.table.describe(point)], "notes": notes}

    def _remove_breakpoint(self, arguments: Json) -> Json:
        self.table.remove(arguments["number"])
        self.tracer.refresh()
        return {}


SHOWN_FRAMES = 10
"""Frames shown with the stop of an interrupted program."""
PLAIN_TYPES = (type(None), bool, int, float, str, bytes)
"""Types shown without running the program's code."""
PLACE_LOST = "Python had no memory left to note where this was raised"
SUBTEST_FAILED = (
    "this ended the subtest {} and not the whole test: its frames can still be looked at, and "
    "continue goes on after it"
)
UNHANDLED = (
    "nothing in the program handles this: {}; the program goes on, and these frames can still be "
    "looked at"
)
TOLD_LATE = (
    "; unittest tells of it now that the test has come to its end, so the test's own variables "
    "have the values that they had there"
)
STEPS = {"step_over": OVER, "step_into": INTO, "step_out": OUT}


class Session:
    """Serves the host's requests while the program is stopped.

    Only the stopped thread stands still; see `threads` for the others.
    """

    def __init__(self, link: Link, limits: Json) -> None:
        self.link = link
        self.workspace = Workspace(os.getcwd())
        self.table = BreakpointTable(self.workspace)
        self.tracer = Tracer(self.workspace, self.table, self)
        self.evaluator = Evaluator(Bounds.of(limits), self.workspace)
        self.describer = Describer(self, limits)
        self.actions = Actions(self)
        self.lock = threading.RLock()
        self.notes: list[str] = []
        self.outcomes = Outcomes()
        self.unhandled = Unhandled(self.at_unhandled)
        self.not_watched: list[str] = []
        """What the launch asks to watch that is no expression."""
        self.state = "runtime"
        self.started = False
        self.entered = False
        """Whether a stop has shown where the test begins."""

    def prepare(self, breakpoints: list[Json], watch: list[str]) -> None:
        """Set the launch's breakpoints, and get ready for the program to run."""
        for wanted in breakpoints:
            try:
                self.notes += self.table.add(wanted)[1]
            except Refusal as refusal:
                self.notes.append(f"breakpoint not set: {refusal}")
        for expression in watch:
            try:
                parsed("watch", expression)
            except Refusal as refusal:
                self.not_watched.append(expression)
                self.notes.append(f"not watched: {refusal}")
        set_handler(INTERRUPT, self.on_interrupt)
        os.register_at_fork(after_in_child=self.detach)
        self.tracer.keep_trace_function()
        self.unhandled.watch_threads()
        self.watch_unhandled()
        self.tracer.refresh()
        widen_tracebacks()
        ARRIVALS.install_delivery()
        self.link.tell_breakpoints([*map(self.table.describe, self.table.breakpoints.values())])
        self.workspace.texts.clear()  # to look again if the program has written a file it shows
        SPARE.make_room()
        gc.freeze()  # so that the program's `gc` lists neither the link nor its key
        self.evaluator.resume()
        self.tracer.run_freely(None)

    def place(self, wanted: Json) -> None:
        """Say where a breakpoint would be, without a program."""
        self.answer(state="done", **self.actions.handle("set_breakpoint", wanted))

    def serving_here(self) -> bool:
        return self.evaluator.serving_here()

    def on_interrupt(self, number: int, frame: types.FrameType | None) -> None:
        """Runs in the main thread, between any two instructions."""
        if self.evaluator.phase == RUNNING:
            if not self.tracer.off:
                self.stop(interrupt_conditions(frame), "interrupted")
            return
        self.link.reached()
        if self.evaluator.phase == EVALUATING:
            self.evaluator.interrupt(frame)

    def stop(
        self,
        frame: types.FrameType | None,
        reason: str,
        *,
        hit: Sequence[Breakpoint] = (),
        notes: Sequence[str] = (),
        exception: BaseException | None = None,
        returned: tuple[str, object] | None = None,
    ) -> None:
        """Report where the program is, and serve requests until one lets it go on."""
        if self.serving_here() or self.tracer.off:
            return
        if reason == "entry" or (frame is not None and frame.f_code is self.table.entry_code):
            self.entered = True
            self.table.arm_entry(None)
        with ARRIVALS, self.lock, MoreStack():
            counted = self.table.hit(hit)
            if hit and not counted:
                return  # removed while this thread waited for its turn
            self.evaluator.pause(exception)
            self.notes += self.tracer.others.notice()
            shown = returned is not None and type(returned[1]) not in PLAIN_TYPES
            if exception is not None or shown or not self.link.plain_streams():
                self.link.paused()
            frames = self.describer.visible(live_frames(frame))
            self.state = "runtime_error" if exception is not None else "runtime"
            raised = None if exception is None else Raised(exception, self.describer)
            stop = self.describer.stop(frames, reason, raised, returned)
            described = [self.table.describe(point) for point in counted]
            # Dropped at once, so that the debugger does not keep the program's objects alive.
            del exception, returned
            answer = {"stop": stop, "breakpoints": described, "notes": list(notes)}
            if reason == "interrupted":
                answer["native_threads"] = self.describer.native_threads()
                answer["frames"] = self.describer.stack(frames[:SHOWN_FRAMES])["frames"]
            action = self._serve_stop(frames, answer, raised)
            keep_cells(frame)
            self.describer.forget(frames, frame)
            if action == "continue" or not frames:
                SPARE.make_room()
                self.tracer.run_freely(frame)
            else:
                self.tracer.step(STEPS[action], frames[0].frame)

    def post_mortem(self, error: BaseException, counted: bool = False) -> None:
        """An exception ended the test: serve requests on its frames until the session ends.
        `counted`: it was told as unhandled before."""
        self._after_end(error, "post_mortem", [], Hits([], []) if counted else None)

    def subtest_failed(self, error: BaseException, subtest: str) -> None:
        """An exception ended a subtest: serve requests until the test is to go on."""
        # Before CPython 3.11 unittest reports exceptions of subtests only at the end of their test.
        note = SUBTEST_FAILED.format(subtest) + ("" if self._running_frames() else TOLD_LATE)
        self._after_loss(error, note)

    def watch_unhandled(self) -> None:
        """Have all unhandled exceptions told, if a breakpoint is for one."""
        if self.table.uncaught.points:
            self.unhandled.watch_all()

    def at_unhandled(self, error: BaseException, why: str, thread: str | None = None) -> None:
        """Nothing handles an exception, and the program goes on: stop if a breakpoint is for it.
        `thread`: the name of the one that raised it, if that is not this one."""
        if self.serving_here() or self.tracer.off or not self.table.uncaught.points:
            return
        with self.lock:  # so that one thread is counted and served after the other
            hits = self._hits_at_end(error)
            if hits.points:
                self._after_loss(error, UNHANDLED.format(why), hits, thread)

    def _hits_at_end(self, error: BaseException) -> Hits:
        """The breakpoints hit by an exception that nothing handles, or by a member of its group."""
        hits = Hits([], [])
        for each in (error, *leaves(error)):
            points = [p for p in self.table.uncaught.matching(type(each)) if p not in hits.points]
            frames = self.describer.passed(each) if points else []
            if frames:
                more = self.tracer.count(points, frames[0].frame, each)
                hits.points.extend(self.table.hit(more.points))
                hits.notes.extend(more.notes)
        return hits

    def _running_frames(self) -> list[types.FrameType]:
        """The program's own frames in this thread, innermost first."""
        # Without the frame of this method, which would be part of a circle through the list.
        every = [at.frame for at in live_frames(sys._getframe(1))]
        return [frame for frame in every if self.workspace.mine(frame.f_code.co_filename)]

    def _after_loss(
        self,
        error: BaseException,
        note: str,
        hits: Hits | None = None,
        thread: str | None = None,
    ) -> None:
        """An exception has ended a part of the program: serve requests until the rest goes on."""
        with ARRIVALS:
            self.actions.raised_in = thread or thread_name()
            action = self._after_end(error, "runtime_error", [note], hits)
            self.actions.raised_in = None
            frames = self._running_frames()
            if action == "continue" or not frames:
                SPARE.make_room()
                self.tracer.run_freely(frames[0] if frames else None)
            else:
                self.tracer.step(STEPS[action], frames[0])

    def _after_end(
        self, error: BaseException, state: str, notes: list[str], hits: Hits | None = None
    ) -> str:
        """Serve requests on an exception's frames; returns the action that lets the program on."""
        with ARRIVALS, self.lock, MoreStack():
            self.evaluator.pause(error)
            self.link.paused()
            self.notes += self.tracer.others.notice()
            self.tracer.run_freely(None)
            self.tracer.others.set_trace(None)
            if hits is None:
                hits = self._hits_at_end(error)
            raised = Raised(error, self.describer)
            frames = raised.frames
            self.state = state
            stop = self.describer.stop(frames, "exception", raised, None)
            if self.actions.raised_in is not None:
                stop["thread"] = self.describer.named(self.actions.raised_in)
            described = [self.table.describe(point) for point in hits.points]
            answer = {"stop": stop, "breakpoints": described, **self.describer.stack(frames)}
            notes += self.table.never_held() if state == "post_mortem" else []
            notes += self.tracer.others.reasons()
            answer["notes"] = [*notes, *hits.notes, *answer.get("notes", [])]
            if isinstance(error, MemoryError) and not frames:
                answer["notes"].append(PLACE_LOST)
            return self._serve_stop(frames, answer, raised)

    def _serve_stop(self, frames: list[FrameAt], fields: Json, raised: Raised | None) -> str:
        """Answer with the stop, then serve; returns the action that lets the program go on."""
        self.started = True
        self.actions.frames = frames
        if raised is not None:
            self.actions.others = [each.frames for each in raised.tree]
            fields["notes"] += raised.notes()
        self.answer(state=self.state, **fields)
        while True:
            request = self._next_request()
            action = str(request["action"])
            if action in RUN_ACTIONS:
                if self.state != "post_mortem":
                    self.actions.frames, self.actions.others = [], []
                    self.evaluator.resume()
                    return action
                ended = {"kind": "not_allowed", "message": "the test has ended"}
                self.answer(state=self.state, error=ended)
                continue
            self.evaluator.deadline = monotonic() + request["timeout"]
            fields = self.actions.handle(action, request["arguments"])
            if self.state == "post_mortem" and action == "set_breakpoint" and "error" not in fields:
                fields["notes"].append("the test has ended: it takes effect after a restart")
            self.answer(state=self.state, **fields)

    def _next_request(self) -> Json:
        while True:
            try:
                with CLOCKS:
                    return self.link.next_request()
            except BaseException as error:  # from outside, past what `arrivals` keeps
                ARRIVALS.raised[get_ident()] = type(error)

    def answer(self, **fields: Any) -> None:
        self.evaluator.flush(self.link.streams())
        fields["breakpoint_news"] = self.table.news()
        fields["not_watched"] = self.not_watched
        fields["hidden"] = self.tracer.others.hidden
        own = [*self.notes, *ARRIVALS.take(), *self.outcomes.take()]
        notes = [*own, *fields.get("notes", ()), *self.workspace.news]
        if notes:
            fields["notes"] = list(dict.fromkeys(notes))
        self.notes, self.workspace.news = [], []
        self.link.answer(fields)

    def say_notes(self) -> None:
        """Send the remaining notes when the program has come to its end."""
        lost = self.tracer.others.notice()
        notes = [*self.notes, *lost, *self.outcomes.take(), *self.table.never_held()]
        self.link.say(notes, self.tracer.others.hidden)

    def fail_launch(self, message: str, kind: str = "launch_failed") -> None:
        """Report that the program could not be started, then end."""
        if self.started:
            return
        self.started = True
        self.evaluator.phase = IDLE
        self.answer(state="start", error={"kind": kind, "message": message})

    def detach(self) -> None:
        """Detach from a process that the program forked, and from its own forks."""
        if self.link.closed:
            return
        self.tracer.stop_tracing()
        ARRIVALS.forget()
        set_handler(INTERRUPT, int(signal.SIG_IGN))
        self.link.close()
