"""One debug session inside the debuggee: stop the program, and meanwhile serve the host's requests
to inspect or change it."""

from __future__ import annotations

import ast
import os
import signal
import sys
import threading
import types
from collections import deque
from itertools import islice
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .breakpoints import Breakpoint, BreakpointTable
from .describing import Describer
from .evaluation import EVALUATING, IDLE, RUNNING, Evaluator, interrupt_conditions
from .frames import (
    FrameAt,
    assign_locals,
    delete_locals,
    frame_locals,
    keep_cells,
    live_frames,
    traceback_frames,
)
from .guards import set_handler
from .interpreter import MoreStack, import_standard
from .link import Link
from .memory import SPARE, widen_tracebacks
from .own import monotonic
from .tracer import INTO, OUT, OVER, Tracer
from .values import Bounds, Field, instance_attributes, properties_of, render, size_of
from .wire import INTERRUPT, RUN_ACTIONS, Interrupted, Json, Refusal
from .workspace import Workspace

KEY = Bounds(chars=80, depth=3, items=20, lines=1)
"""For a key that serves as an item's name."""


def fields_of(value: Any, start: int, count: int) -> Tuple[List[Field], int]:
    """`count` items by key or index, otherwise attributes, from the `start`-th on; and their total
    number. Properties are named, not run.

    Uses `type(value)`, since `isinstance` would run a `__class__` of the program's.
    """
    size = size_of(value)
    if size is None:
        own = [item for item in instance_attributes(value) if not item[0].startswith("__")]
        own += properties_of(type(value))
        return own[start : start + count], len(own)
    found = items_of(value, start, start + count)
    more = properties_of(type(value))
    last = max(start - size, 0)
    return (found + more[last:])[:count], size + len(more)


def items_of(value: Any, start: int, end: int) -> List[Field]:
    """Some items of a built-in container, without running a subclass's methods."""
    kind = type(value)
    if issubclass(kind, dict):
        chosen = islice(dict.items(value), start, end)
        return [(f"[{render(key, KEY)[0]}]", item) for key, item in chosen]
    for base in (list, tuple, deque):
        if issubclass(kind, base):
            names = getattr(kind, "_fields", None)
            chosen = islice(base.__iter__(value), start, end)
            return [
                (names[index] if type(names) is tuple else f"[{index}]", item)
                for index, item in enumerate(chosen, start)
            ]
    base_set = set if issubclass(kind, set) else frozenset
    chosen = islice(base_set.__iter__(value), start, end)
    return [(f"{{{index}}}", item) for index, item in enumerate(chosen, start)]


WRAPPER = """\
def variables({known}):
    if False:
        {names} = None
    def _stepinto_code():
        {statement}
    return _stepinto_code
"""
NO_VARIABLE = "_stepinto_none"


def run_code(code: str, frame: types.FrameType) -> List[str]:
    """Run statements in a frame; returns notes about them.

    The code becomes an inner function of one that has the frame's variables, so all that it defines
    (functions, lambdas, comprehensions, classes) sees them, and its globals are the program's own.
    Afterwards its changes are copied to the frame, even if it raises.
    """
    tree = ast.parse(code, "<code>", "exec")
    if frame.f_locals is frame.f_globals:
        exec(compile(tree, "<code>", "exec"), frame.f_globals)
        return []
    tree = Fitted().visit(tree)
    declared = {
        name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names
    }
    before = {
        name: value
        for name, value in frame_locals(frame).items()
        if name.isidentifier() and name not in declared
    }
    inner = inner_function(tree, before, frame.f_globals)
    try:
        inner()
    finally:
        notes = take_back(frame, before, inner)
    return notes


class Fitted(ast.NodeTransformer):
    """Rewrites statements to fit into the inner function, where the frame's variables are
    nonlocal."""

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            return node
        if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)):
            raise SyntaxError(f"'{type(node).__name__.lower()[:6]}' outside function")
        if isinstance(node, ast.Nonlocal):
            return ast.copy_location(ast.Pass(), node)
        if isinstance(node, ast.AnnAssign):  # a nonlocal variable can't be annotated
            bare: Any = ast.Pass()
            if node.value is not None:
                bare = ast.Assign(targets=[node.target], value=node.value)
            return ast.copy_location(bare, node)
        return self.generic_visit(node)


def inner_function(
    tree: ast.Module, known: Dict[str, Any], namespace: Dict[str, Any]
) -> Callable[[], object]:
    """The code as a function whose free variables are the known ones, and the names that it
    binds."""
    code = wrapped(tree, [*known], [*known], "pass")
    for name in ("variables", "_stepinto_code"):
        inner_codes = [item for item in code.co_consts if isinstance(item, types.CodeType)]
        code = next(item for item in inner_codes if item.co_name == name)
    # What the code assigns, imports, defines or deletes, according to the compiler.
    bound = {name for name in (*code.co_varnames, *code.co_cellvars) if name.isidentifier()}
    names = [*known, *sorted(bound - set(known))]
    found: Dict[str, Any] = {}
    exec(wrapped(tree, [*known], names, "nonlocal {names}"), namespace, found)
    inner: Callable[[], object] = found["variables"](**known)
    return inner


def wrapped(tree: ast.Module, known: List[str], names: List[str], statement: str) -> types.CodeType:
    """The code as an inner function, after one statement."""
    listed = ", ".join(names) or NO_VARIABLE
    text = WRAPPER.format(
        known=", ".join(known), names=listed, statement=statement.format(names=listed)
    )
    module = ast.parse(text)
    outer: Any = module.body[0]
    function = next(node for node in outer.body if isinstance(node, ast.FunctionDef))
    function.body += tree.body
    return compile(module, "<code>", "exec")


def take_back(frame: types.FrameType, before: Dict[str, Any], inner: Any) -> List[str]:
    """Copy the code's changes of variables to the frame."""
    missing = object()
    changed, deleted = {}, []
    for name, cell in zip(  # noqa: B905  # 3.8 has no strict
        inner.__code__.co_freevars, inner.__closure__ or ()
    ):
        try:
            value = cell.cell_contents
        except ValueError:  # deleted, or never assigned
            value = missing
        if value is missing and name in before:
            deleted.append(name)
        elif value is not before.get(name, missing):
            changed[name] = value
    assign_locals(frame, changed)
    if not deleted or delete_locals(frame, deleted):
        return []
    version = "{}.{}".format(*sys.version_info)
    listed = ", ".join(deleted)
    return [f"CPython {version} can't delete variables of a running frame: {listed} stay"]


class Actions:
    """Carries out one request at a time, on the frames of one stop."""

    def __init__(
        self,
        link: Link,
        table: BreakpointTable,
        tracer: Tracer,
        evaluator: Evaluator,
        describer: Describer,
    ) -> None:
        self.link = link
        self.table = table
        self.tracer = tracer
        self.evaluator = evaluator
        self.describer = describer
        self.frames: List[FrameAt] = []
        self.handlers: Dict[str, Callable[[Json], Json]] = {
            "locals": self._locals,
            "stack": lambda given: describer.stack(self.frames, given.get("start", 0)),
            "threads": lambda given: describer.threads(self.frames),
            "evaluate": self._evaluate,
            "fields": self._fields,
            "run_code": self._run_code,
            "set_breakpoint": self._set_breakpoint,
            "remove_breakpoint": self._remove_breakpoint,
            "list_breakpoints": lambda given: {},  # every answer includes the changed ones
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
        if not self.frames:
            raise Refusal("the program has no frame to look at here")
        if not 0 <= index < len(self.frames):
            message = "there is no frame {}; the stack has frames 0 to {}"
            raise Refusal(message.format(index, len(self.frames) - 1))
        return self.frames[index].frame

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
        return {"values": [shown], **({} if next_start is None else {"next_start": next_start})}

    def _fields(self, arguments: Json) -> Json:
        expression = arguments["expression"].strip()
        value, error = self.evaluator.evaluate(expression, self._frame(arguments))
        if error:
            return error
        start, count = arguments.get("start", 0), self.describer.limits["max_values"]
        found, error = self.evaluator.guarded(lambda: fields_of(value, start, count))
        return error or self.describer.page(found[0], start, found[1])

    def _run_code(self, arguments: Json) -> Json:
        frame, stdout = self._frame(arguments), self.link.stdout
        # The code's output belongs to the answer, even if the program captures its own output.
        printed, sys.stdout = sys.stdout, stdout
        try:
            notes, error = self.evaluator.guarded(lambda: run_code(arguments["code"], frame))
            return error or {"notes": notes}
        finally:
            if sys.stdout is stdout:
                sys.stdout = printed

    def _set_breakpoint(self, arguments: Json) -> Json:
        point, notes = self.table.add(arguments)
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
        while True:
            request = self.link.next_request()
            action = str(request["action"])
            if action in RUN_ACTIONS:
                if self.state != "post_mortem":
                    self.actions.frames = []
                    self.evaluator.resume()
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
