"""One debug session inside the debuggee: stop the program, and serve the host meanwhile."""

from __future__ import annotations

import os
import signal
import sys
import threading
import types
from typing import Any, List, Optional, Sequence, Tuple

from .actions import Actions
from .breakpoints import BreakpointTable
from .conditions import interrupt_conditions
from .describing import Describer
from .evaluation import EVALUATING, IDLE, RUNNING, Evaluator
from .frames import FrameAt, keep_cells, live_frames, traceback_frames
from .guards import set_handler
from .interpreter import MoreStack
from .link import Link
from .memory import SPARE, widen_tracebacks
from .own import monotonic
from .points import Breakpoint
from .tracer import INTO, OUT, OVER, Tracer
from .window import Bounds
from .wire import INTERRUPT, RUN_ACTIONS, Json, Refusal
from .workspace import Workspace

SHOWN_FRAMES = 10
"""Frames shown with the stop of an interrupted program."""
PLAIN_TYPES = (type(None), bool, int, float, str, bytes)
"""Types shown without running the program's code."""
PLACE_LOST = "Python had no memory left to note where this was raised"
SUBTEST_FAILED = (
    "this ended the subtest {} and not the whole test: its frames can still be looked at, and "
    "continue goes on after it"
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
        self.evaluator = Evaluator(Bounds.of(limits))
        self.describer = Describer(self.workspace, self.table, self.evaluator, limits)
        self.actions = Actions(link, self.table, self.tracer, self.evaluator, self.describer)
        self.lock = threading.RLock()
        self.notes: List[str] = []
        self.state = "runtime"
        self.started = False

    def prepare(self, breakpoints: List[Json]) -> None:
        """Set the launch's breakpoints, and get ready for the program to run."""
        for wanted in breakpoints:
            try:
                self.notes += self.table.add(wanted)[1]
            except Refusal as refusal:
                self.notes.append(f"breakpoint not set: {refusal}")
        set_handler(INTERRUPT, self.on_interrupt)
        os.register_at_fork(after_in_child=self.detach)
        self.tracer.share_trace_function()
        self.tracer.refresh()
        widen_tracebacks()
        SPARE.make_room()
        self.evaluator.resume()
        self.tracer.run_freely(None)

    def serving_here(self) -> bool:
        return self.evaluator.serving_here()

    def on_interrupt(self, number: int, frame: Optional[types.FrameType]) -> None:
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
        frame: Optional[types.FrameType],
        reason: str,
        *,
        hit: Sequence[Breakpoint] = (),
        notes: Sequence[str] = (),
        exception: Optional[BaseException] = None,
        returned: Optional[Tuple[str, object]] = None,
    ) -> None:
        """Report where the program is, and serve requests until one lets it go on."""
        if self.serving_here() or self.tracer.off:
            return
        with self.lock, MoreStack():
            if hit and not any(self.table.holds(point) for point in hit):
                return  # removed while this thread waited for its turn
            self.evaluator.pause()
            shown = returned is not None and type(returned[1]) not in PLAIN_TYPES
            if exception is not None or shown or not self.link.plain_streams():
                self.link.paused()
            frames = self.describer.visible(live_frames(frame))
            self.state = "runtime_error" if exception is not None else "runtime"
            stop = self.describer.stop(frames, reason, exception, returned)
            described = [self.table.describe(point) for point in hit]
            # Dropped at once, so that the debugger does not keep the program's objects alive.
            del exception, returned
            answer = {"stop": stop, "breakpoints": described, "notes": list(notes)}
            if reason == "interrupted":
                answer["native_threads"] = self.describer.native_threads()
                answer["frames"] = self.describer.stack(frames[:SHOWN_FRAMES])["frames"]
            action = self._serve_stop(frames, answer)
            keep_cells(frame)
            if action == "continue" or not frames:
                SPARE.make_room()
                self.tracer.run_freely(frame)
            else:
                self.tracer.step(STEPS[action], frames[0].frame)

    def post_mortem(self, error: BaseException) -> None:
        """An exception ended the test: serve requests on its frames until the session ends."""
        self._after_end(error, "post_mortem", [])

    def subtest_failed(self, error: BaseException, subtest: str) -> None:
        """An exception ended a subtest: serve requests until the test is to go on."""
        frames = [at.frame for at in live_frames(sys._getframe())]
        mine = [frame for frame in frames if self.workspace.mine(frame.f_code.co_filename)]
        # Before CPython 3.11 unittest reports exceptions of subtests only at the end of their test.
        note = SUBTEST_FAILED.format(subtest) + ("" if mine else TOLD_LATE)
        action = self._after_end(error, "runtime_error", [note])
        if action == "continue" or not mine:
            SPARE.make_room()
            self.tracer.run_freely(mine[0] if mine else None)
        else:
            self.tracer.step(STEPS[action], mine[0])

    def _after_end(self, error: BaseException, state: str, notes: List[str]) -> str:
        """Serve requests on the frames of an exception that ended something; returns the action
        that lets the program go on."""
        with self.lock, MoreStack():
            self.evaluator.pause()
            self.link.paused()
            self.tracer.run_freely(None)
            self.tracer.hook.install(None)
            frames = self.describer.visible(traceback_frames(error))
            hits = self.tracer.hits.at_end(frames[0].frame if frames else None, error)
            self.state = state
            stop = self.describer.stop(frames, "exception", error, None)
            described = [self.table.describe(point) for point in hits.points]
            answer = {"stop": stop, "breakpoints": described, **self.describer.stack(frames)}
            answer["notes"] = [*notes, *hits.notes, *answer.get("notes", [])]
            if isinstance(error, MemoryError) and not frames:
                answer["notes"].append(PLACE_LOST)
            return self._serve_stop(frames, answer)

    def _serve_stop(self, frames: List[FrameAt], fields: Json) -> str:
        """Answer with the stop, then serve; returns the action that lets the program go on."""
        self.started = True
        self.actions.frames = frames
        self.answer(state=self.state, **fields)
        action = self._serve()
        self.actions.frames = []
        self.evaluator.resume()
        return action

    def _serve(self) -> str:
        while True:
            request = self.link.next_request()
            action = str(request["action"])
            if action in RUN_ACTIONS:
                if self.state != "post_mortem":
                    return action
                self.answer(error={"kind": "not_allowed", "message": "the test has ended"})
                continue
            self.evaluator.deadline = monotonic() + request["timeout"]
            fields = self.actions.handle(action, request["arguments"])
            if self.state == "post_mortem" and action == "set_breakpoint" and "error" not in fields:
                fields["notes"].append("the test has ended: it takes effect after a restart")
            self.answer(state=self.state, **fields)

    def answer(self, **fields: Any) -> None:
        self.evaluator.flush(self.link.streams())
        fields["breakpoint_news"] = self.table.news()
        notes = [*self.notes, *fields.get("notes", ()), *self.workspace.news]
        if notes:
            fields["notes"] = list(dict.fromkeys(notes))
        self.notes, self.workspace.news = [], []
        self.link.answer(fields)

    def say_notes(self) -> None:
        """Send the remaining notes when the program ends."""
        if self.notes:
            self.link.say(self.notes)

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
        set_handler(INTERRUPT, int(signal.SIG_IGN))
        self.link.close()
