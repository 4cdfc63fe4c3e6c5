"""Run the host's expressions and code in the program, and interrupt them if they take too long."""

from __future__ import annotations

import ast
import builtins
import io
import sys
import threading
import types
from contextlib import suppress
from typing import Any, Callable

from .breakpoints import Breakpoint
from .expressions import (
    CLASS,
    NO_VALUE_HERE,
    OPTIMIZED,
    RAISED,
    PrivateNames,
    WithReceiver,
    class_of_method,
    compiled,
    is_async,
    own_names,
    private_class,
    value_in,
    without_value,
)
from .interpreter import (
    assign_locals,
    frame_locals,
    import_standard,
    qualified_name,
    traceback_frames,
)
from .memory import SPARE
from .own import get_ident, monotonic
from .values import Bounds, Field, exception_text, type_name
from .wire import TICK, Interrupted, Json
from .workspace import Workspace

MACHINERY = frozenset(
    (
        "__enter__", "__exit__", "ended", "on_interrupt", "interrupt", "interrupt_conditions",
        "_interrupt_elsewhere", "reached", "_send",
    )
)  # fmt: skip
"""The debugger's functions around an evaluation and its interrupt, which must run to their end."""


def interruptible(frame: types.FrameType | None) -> bool:
    """Whether `Interrupted` may be raised in a frame: in the program's code below an evaluation, or
    where a value is rendered, but not in the debugger's code around those."""
    top = frame
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith("<stepinto "):
            rendering = code.co_filename == "<stepinto values>"
            return rendering or (frame is not top and code.co_name not in MACHINERY)
        frame = frame.f_back
    return False


def raise_in(thread: int, kind: type | None) -> None:
    """Raise an exception in another thread, at its next instruction; None cancels it."""
    ctypes = import_standard("ctypes")
    # Not the attribute, which `arrivals` replaces.
    ctypes.pythonapi["PyThreadState_SetAsyncExc"](
        ctypes.c_ulong(thread), ctypes.py_object(kind) if kind is not None else None
    )


MANY_CONDITIONS = 1000
"""Most code objects that a breakpoint's condition is kept for."""
MESSAGE = Bounds(chars=200, depth=1, items=1, lines=3)


RUNNING_CONDITIONS: dict[int, tuple[types.FrameType, float]] = {}
"""By thread: the program's frame at the breakpoint of a condition, and when it began."""


def condition_holds(
    point: Breakpoint,
    frame: types.FrameType,
    workspace: Workspace,
    raised: BaseException | None = None,
) -> tuple[bool, str | None]:
    """Whether to stop, and a note. A condition that fails or runs too long stops too.

    The condition of an exception breakpoint sees the exception as `__exception__`.
    """
    if point.condition is None:
        return True, None
    thread = get_ident()
    RUNNING_CONDITIONS[thread] = frame, monotonic()
    try:
        variables = frame_locals(frame)
        if raised is not None:
            variables[RAISED] = raised
        known = point.codes.get(id(frame.f_code))
        if known is None:
            code = compiled(point.condition, frame, variables, workspace)
            if len(point.codes) >= MANY_CONDITIONS:
                point.codes.clear()
            known = point.codes[id(frame.f_code)] = frame.f_code, code
        return bool(value_in(known[1], frame, variables)), None
    except Interrupted:
        message = "the condition of breakpoint {} did not end and was interrupted"
        return True, message.format(point.number)
    except BaseException as error:
        message = "the condition of breakpoint {} raised {}: {}"
        if raised is not None and isinstance(error, NameError):
            message += "; the exception is __exception__"
        text = exception_text(error, MESSAGE)
        return True, message.format(point.number, type_name(type(error)), text)
    finally:
        del RUNNING_CONDITIONS[thread]


def interrupt_conditions(frame: types.FrameType | None) -> types.FrameType | None:
    """End conditions that run too long; called in the main thread's handler, at `frame`.

    Returns the program's frame to show for the main thread.
    """
    now, own = monotonic(), get_ident()
    for thread, (_, started) in list(RUNNING_CONDITIONS.items()):
        if now - started > TICK / 4 and thread != own:
            raise_in(thread, Interrupted)
    if own not in RUNNING_CONDITIONS:
        return frame
    shown, started = RUNNING_CONDITIONS[own]
    if now - started > TICK / 4 and interruptible(frame):
        raise Interrupted
    return shown


IDLE, RUNNING, EVALUATING = "idle", "running", "evaluating"

ORIGIN_FRAMES = 3
MAIN_THREAD = get_ident()


class Evaluator:
    """Tracks what the debuggee is doing, which determines the effect of an interrupt."""

    def __init__(self, bounds: Bounds, workspace: Workspace) -> None:
        self.bounds = bounds
        self.workspace = workspace
        self.phase = IDLE
        self.raised: BaseException | None = None
        """What expressions see as `__exception__`."""
        self.thread = 0
        """The thread that serves requests; 0 while the program runs."""
        self.deadline = 0.0
        self.value_started = 0.0
        self.sent = False
        """Whether an `Interrupted` is pending in the serving thread."""
        self.handover = threading.Lock()
        """Held by the serving thread while it ends an evaluation, and by the main one while it
        interrupts it: a late `Interrupted` would end the program's thread."""

    def pause(self, raised: BaseException | None) -> None:
        """The program has stopped in this thread, perhaps as an exception was raised."""
        self.raised = raised
        SPARE.release()
        self.phase = IDLE
        self.thread = get_ident()
        self.deadline = 0.0
        if self.thread != MAIN_THREAD:
            import_standard("ctypes")  # slow while an endless evaluation competes with it

    def resume(self) -> None:
        """The program goes on."""
        self.raised = None
        SPARE.take()
        self.thread = 0
        self.phase = RUNNING

    def serving_here(self) -> bool:
        return self.thread == get_ident()

    def evaluating(self) -> Evaluating:
        return Evaluating(self)

    def interrupt(self, frame: types.FrameType | None) -> None:
        """Interrupt what takes too long: a value, or the whole request. Called by the main thread's
        handler, which runs between two instructions of `frame`."""
        now = monotonic()
        slow_value = self.value_started and now - self.value_started > TICK / 2
        if not slow_value and now < self.deadline:
            return
        if not self.serving_here():
            self._interrupt_elsewhere()
        elif interruptible(frame):
            raise Interrupted

    def _interrupt_elsewhere(self) -> None:
        with self.handover:
            frame = sys._current_frames().get(self.thread)
            if self.phase == EVALUATING and interruptible(frame):
                self.sent = True
                raise_in(self.thread, Interrupted)

    def ended(self, phase: str) -> None:
        """An evaluation has ended; from now on nothing interrupts it."""
        if get_ident() == MAIN_THREAD:
            self.phase = phase
            return
        with self.handover:
            self.phase = phase
            if self.sent:
                raise_in(get_ident(), None)
                self.sent = False

    def guarded(self, work: Callable[[], Any]) -> tuple[Any, Json]:
        """Run the host's code; its exceptions become an answer instead of ending the session."""
        value, failed, raised_at = None, None, ""
        with self.evaluating() as evaluation:
            try:
                value = work()
            except Interrupted:
                raise
            except BaseException as error:
                failed = type_name(type(error)), exception_text(error, self.bounds)
                raised_at = self.origin(error)
        if evaluation.interrupted:
            raise Interrupted
        if failed is None:
            return value, {}
        message = "{}: {}".format(*failed) if failed[1] else failed[0]
        return None, {"error": {"kind": "evaluation", "message": message + raised_at}}

    def origin(self, error: BaseException) -> str:
        """Where in the program an expression's exception was raised; empty if in itself."""
        places = [
            "{}:{} in {}".format(
                self.workspace.relative(at.frame.f_code.co_filename),
                at.line,
                qualified_name(at.frame),
            )
            for at in traceback_frames(error)
            if self.workspace.mine(at.frame.f_code.co_filename)
        ]
        return f", raised at {', called from '.join(places[:ORIGIN_FRAMES])}" if places else ""

    def evaluate(self, expression: str, frame: types.FrameType) -> tuple[object, Json]:
        """The value of an expression in a frame, or the error that it raised."""
        variables = frame_locals(frame)
        if self.raised is not None and RAISED in expression and RAISED not in frame.f_globals:
            variables.setdefault(RAISED, self.raised)

        def work() -> Any:
            code = compiled(expression, frame, variables, self.workspace)
            value = value_in(code, frame, variables)
            return awaited(value) if is_async(code) else value

        return self.guarded(work)

    def flush(self, streams: list[Any]) -> None:
        """Flush the program's streams, whatever the program made of them."""
        for stream in streams:
            if type(stream) is io.TextIOWrapper:
                with suppress(Exception):
                    stream.flush()
                continue
            self.value_started = monotonic()
            with self.evaluating():
                try:
                    stream.flush()
                except Interrupted:
                    raise
                except BaseException:
                    continue  # the program closed or replaced it
            self.value_started = 0.0


HAS_TO_WAIT = (
    "this has to wait for something else in the program, which stands still while it is paused: "
    "it was cancelled"
)


def awaited(coroutine: Any) -> object:
    """What a coroutine gives that need not wait, as for a task that is done."""
    try:
        future = coroutine.send(None)
    except StopIteration as end:
        return end.value
    if getattr(future, "_asyncio_future_blocking", False):
        future._asyncio_future_blocking = False  # else the program could not await it any more
    coroutine.close()
    raise RuntimeError(HAS_TO_WAIT)


class Evaluating:
    """A block in which `Interrupted` may be raised, and which catches it."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.interrupted = False
        self.outer = IDLE

    def __enter__(self) -> Evaluating:
        self.outer, self.evaluator.phase = self.evaluator.phase, EVALUATING
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        self.evaluator.ended(self.outer)
        self.interrupted = kind is Interrupted
        return self.interrupted


WRAPPER = """\
def variables({known}):
    if False:
        {names} = None
    def _stepinto_code():
        {statement}
    return _stepinto_code
"""
NO_VARIABLE = "_stepinto_none"
NOT_SHOWN = "a value is shown only for an expression that is the last statement: print the others"
LOOKUPS = ("get", "pop")
"""Methods that are called for their value, even if it is None."""
NO_VALUE = ("exec", "setattr", "delattr")
"""Functions that are called for what they do: they return None."""


def run_code(
    code: str, frame: types.FrameType, workspace: Workspace
) -> tuple[Field | None, list[str]]:
    """Run statements in a frame. Returns the last one and its value if it is an expression, and
    notes about them.

    The code becomes an inner function of one that has the frame's variables, so all that it defines
    (functions, lambdas, comprehensions, classes) sees them, and its globals are the program's own.
    Afterwards its changes are copied to the frame, even if it raises.
    """
    tree: Any = ast.parse(code, "<code>", "exec")
    is_value = bool(tree.body) and isinstance(tree.body[-1], ast.Expr)
    text = ast.get_source_segment(code, tree.body[-1].value) if is_value else None
    silent = is_value and acts(tree.body[-1].value)
    notes = [NOT_SHOWN] if any(map(asks_for_value, tree.body[:-1])) else []
    PrivateNames(private_class(frame, workspace)).visit(tree)
    if frame.f_locals is frame.f_globals:
        end = tree.body.pop() if text is not None else None
        exec(compile(tree, "<code>", "exec"), frame.f_globals)
        if end is None or text is None:
            return None, notes
        expression = compile(ast.Expression(end.value), "<code>", "eval")
        value = eval(expression, frame.f_globals)
        return None if value is None and silent else (text, value), notes
    tree = Fitted().visit(tree)
    if text is not None:
        tree.body[-1] = ast.copy_location(ast.Return(tree.body[-1].value), tree.body[-1])
    declared = {
        name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names
    }
    before = {
        name: value
        for name, value in frame_locals(frame).items()
        if name.isidentifier() and name not in declared
    }
    kind = class_of_method(frame, before) if "super" in code else None
    if kind is not None:
        before.setdefault(CLASS, kind)
        tree = WithReceiver(frame.f_code.co_varnames[0]).visit(tree)
    variables = own_names(frame.f_code) - declared
    inner = inner_function(tree, before, variables, frame.f_globals)
    try:
        value = inner()
    except NameError as error:
        name = without_value(error, "<code>")
        if name is None:
            raise
        raise UnboundLocalError(NO_VALUE_HERE.format(name)) from None
    finally:
        notes += take_back(frame, before, inner)
    if text is None or (value is None and silent):
        return None, notes
    return (text, value), notes


def asks_for_value(node: ast.stmt) -> bool:
    """Whether it seems to be there for its value: no assignment, `print`, `exec` or method call."""
    if not isinstance(node, ast.Expr) or isinstance(node.value, (ast.Await, ast.Constant)):
        return False
    called = node.value.func if isinstance(node.value, ast.Call) else None
    return not acts(node.value) and not isinstance(called, ast.Attribute)


def acts(expression: ast.expr) -> bool:
    """Whether it is a call that seems to be there for what it does: its None tells nothing."""
    called = expression.func if isinstance(expression, ast.Call) else None
    if isinstance(called, ast.Attribute):
        return called.attr not in LOOKUPS
    return isinstance(called, ast.Name) and ("print" in called.id or called.id in NO_VALUE)


class Fitted(ast.NodeTransformer):
    """Rewrites statements for the inner function, where the frame's variables are nonlocal."""

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
    tree: ast.Module, known: dict[str, Any], variables: frozenset[str], namespace: dict[str, Any]
) -> Callable[[], object]:
    """The code as a function with the frame's variables, of which some are known, and those that it
    binds, as free variables."""
    code = wrapped(tree, [*known], [*known], "pass")
    for name in ("variables", "_stepinto_code"):
        inner_codes = [item for item in code.co_consts if isinstance(item, types.CodeType)]
        code = next(item for item in inner_codes if item.co_name == name)
    # What the code assigns, imports, defines or deletes, according to the compiler.
    bound = {*code.co_varnames, *code.co_cellvars, *variables}
    names = [*known, *sorted(filter(str.isidentifier, bound.difference(known)))]
    found: dict[str, Any] = {}
    exec(wrapped(tree, [*known], names, "nonlocal {names}"), namespace, found)
    inner: Callable[[], object] = found["variables"](**known)
    return inner


def wrapped(tree: ast.Module, known: list[str], names: list[str], statement: str) -> types.CodeType:
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


def take_back(frame: types.FrameType, before: dict[str, Any], inner: Any) -> list[str]:
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
    notes = []
    outer = {**vars(builtins), **frame.f_globals}
    own = own_names(frame.f_code).union(before)
    optimized = frame.f_code.co_flags & OPTIMIZED
    for name in (set(changed) & set(outer)).difference(own) if optimized else ():
        if changed[name] is not outer[name]:
            notes.append(f"the program's own {name} is global and unchanged: use `global {name}`")
    if not optimized:
        for name in deleted:
            del frame.f_locals[name]
    elif deleted:
        listed = ", ".join(deleted)
        notes.append(f"variables of a running function can't be deleted: {listed} stay")
    return notes
