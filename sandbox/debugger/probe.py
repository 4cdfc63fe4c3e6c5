"""The Python probe: the debugger that runs inside the sandbox, beside the program under test.

One file, standard library only, CPython 3.8 to 3.14. The host sends its source over the
pseudo-terminal (see `sandbox.debugger.channel`), so nothing of it lies in the workspace.

It is two processes. The *supervisor* owns the pseudo-terminal and speaks with the host in JSON
lines, each prefixed with a nonce that the other process never learns. It collects the program's
output, keeps the deadlines, interrupts, and in the end kills. The *debuggee* is forked from it:
it runs the program under a tracer, and whenever the program stops it serves requests.

Stops come from `sys.monitoring` where there is one (3.12 on) and otherwise from `sys.settrace`,
with a filter by code object: only functions that hold a breakpoint pay for line events. Steps
always use `sys.settrace`. (`bdb` traces every line of every file that holds a breakpoint, and
its hooks differ between the versions supported here.)

Requests are `{"id", "action", "arguments", "timeout", "grace"}`, and each has one answer with
the same id: `{"id", "state", "stop", "values", "frames", "breakpoints", "notes", "error",
"output", "output_truncated"}`, where only what applies is present.
"""

from __future__ import annotations

import ast
import dis
import faulthandler
import fcntl
import json
import os
import re
import select
import signal
import sys
import threading
import time
import types
from collections import deque
from itertools import islice
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

Json = Dict[str, Any]

INTERRUPT = signal.SIGRTMAX - 1
"""Sent by the supervisor: stop where you are."""
DUMP = signal.SIGRTMAX - 2
"""Sent before a kill: write the Python stack, from C, to the dump pipe."""
HIGH_FD = 700
"""Descriptors of the debuggee start here, above what programs close in bulk."""
TICK = 1.0
"""Seconds that one value may take to render, before it is interrupted."""
STARTUP_PATH = list(sys.path)


def encode(message: Json) -> bytes:
    """One message as one ASCII line."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def write_all(fd: int, data: bytes) -> None:
    """Write every byte, however little the descriptor takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class LineReader:
    """Whole lines from a descriptor."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.buffer = b""

    def feed(self) -> List[bytes]:
        """Read once; the lines completed by it. Raises EOFError at the end."""
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # EIO: the other side of the pseudo-terminal is gone
            data = b""
        if not data:
            raise EOFError
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        return lines

    def wait(self) -> Iterator[bytes]:
        """Lines as they come, to the end."""
        while True:
            try:
                yield from self.feed()
            except EOFError:
                return


# --- supervisor ----------------------------------------------------------------------------------


class OutputRing:
    """The head and the tail of what the program wrote since the last answer."""

    def __init__(self, limit: int) -> None:
        self.half = max(limit // 2, 1)
        self.clear()

    def clear(self) -> None:
        self.head = b""
        self.tail: deque[bytes] = deque()
        self.tail_size = 0
        self.cut = 0

    def add(self, data: bytes) -> None:
        room = self.half - len(self.head)
        self.head += data[:room]
        rest = data[room:] if room < len(data) else b""
        if rest:
            self.tail.append(rest)
            self.tail_size += len(rest)
        while self.tail and self.tail_size - len(self.tail[0]) >= self.half:
            dropped = len(self.tail.popleft())
            self.tail_size -= dropped
            self.cut += dropped

    def take(self) -> Tuple[str, bool]:
        """The text, and whether its middle was cut; starts over."""
        tail = b"".join(self.tail)
        extra = max(len(tail) - self.half, 0)
        cut = self.cut + extra
        head = self.head.decode("utf-8", "replace")
        end = tail[extra:].decode("utf-8", "replace")
        self.clear()
        middle = f"\n... {cut} bytes cut ...\n" if cut else ""
        return head + middle + end, bool(cut)


class Pending:
    """The request that the debuggee has not answered yet."""

    def __init__(self, message: Json) -> None:
        self.id = message["id"]
        self.runs = message["action"] in RUN_ACTIONS
        self.deadline = time.monotonic() + message["timeout"]
        self.grace = message["grace"]
        self.next_signal = self.deadline
        if not self.runs:
            self.next_signal = min(self.deadline, time.monotonic() + TICK)

    def wake_at(self) -> float:
        return float(min(self.next_signal, self.deadline + self.grace))


RUN_ACTIONS = ("launch", "continue", "step_over", "step_into", "step_out")


class Supervisor:
    """Relays between the host and the debuggee, keeps the time, reports the end."""

    def __init__(self, child: int, requests: int, answers: int, output: int, dump: int) -> None:
        self.child = child
        self.requests = requests
        self.host = LineReader(0)
        self.answers = LineReader(answers)
        self.output = output
        self.dump = dump
        self.nonce = b""
        self.ring = OutputRing(4000)
        self.pending: Optional[Pending] = None
        self.status: Optional[int] = None
        self.killed: Optional[Json] = None
        self.cut_off = False
        """Whether the program closed the link, or replaced itself by another."""
        self.notes: List[str] = []
        self.wakeup, wakeup_write = os.pipe()
        for fd in (self.wakeup, wakeup_write, output, dump):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, lambda *_: self._end())
        signal.signal(signal.SIGTERM, lambda *_: self._end())

    def run(self) -> None:
        adopt_orphans()
        poller = select.poll()
        handlers: Dict[int, Callable[[], bool]] = {
            0: self._on_host,
            self.answers.fd: self._on_answer,
            self.output: self._on_output,
            self.wakeup: self._on_wakeup,
        }
        for fd in handlers:
            poller.register(fd, select.POLLIN)
        while True:
            for fd, _ in poller.poll(self._poll_ms()):
                if not handlers[fd]():
                    poller.unregister(fd)
            self._keep_time()

    def _poll_ms(self) -> Optional[float]:
        if self.pending is None or self.killed is not None:
            return None
        return max(self.pending.wake_at() - time.monotonic(), 0) * 1000 + 1

    def _on_host(self) -> bool:
        try:
            lines = self.host.feed()
        except EOFError:
            self._end()
            return False
        for line in lines:
            message = json.loads(line)
            if not self.nonce:
                self.nonce = message["nonce"].encode("ascii")
                self.ring = OutputRing(message["output_chars"])
                self._send({"id": message["id"], "version": sys.version.split()[0]})
            elif message["action"] == "interrupt":
                self._interrupt_now()
            else:
                self._forward(message, line)
        return True

    def _forward(self, message: Json, line: bytes) -> None:
        self.pending = Pending(message)
        if self.status is not None:
            self._report_end()
            return
        try:
            write_all(self.requests, line + b"\n")
        except OSError:
            self.pending.deadline = min(self.pending.deadline, time.monotonic() + 1)

    def _interrupt_now(self) -> None:
        if self.pending is not None:
            self.pending.deadline = self.pending.next_signal = time.monotonic()

    def _on_answer(self) -> bool:
        try:
            lines = self.answers.feed()
        except EOFError:
            self.cut_off = True
            return False
        for line in lines:
            self._relay(line)
        return True

    def _relay(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return  # written by the program into a descriptor that is not its own
        if "id" not in message:
            self.notes += message.get("notes", [])
        if self.pending is None or message.get("id") != self.pending.id:
            return
        self.pending = None
        self._send(message)

    def _send(self, message: Json) -> None:
        self._on_output()
        text, cut = self.ring.take()
        if text:
            message["output"] = text
        if cut:
            message["output_truncated"] = True
        if self.notes:
            message["notes"] = [*message.get("notes", []), *self.notes]
            self.notes = []
        write_all(1, self.nonce + b" " + encode(message))

    def _on_output(self) -> bool:
        # Bounded, so that a program that floods its output can't keep the host waiting.
        for _ in range(64):
            try:
                data = os.read(self.output, 65536)
            except BlockingIOError:
                return True
            if not data:
                return False
            self.ring.add(data)
        return True

    def _on_wakeup(self) -> bool:
        os.read(self.wakeup, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == self.child:
                self.status = status
        if self.status is not None and self.pending is not None:
            self._on_answers_left()
            if self.pending is not None:
                self._report_end()
        return True

    def _on_answers_left(self) -> None:
        """What the debuggee answered just before its end."""
        while select.select([self.answers.fd], [], [], 0)[0] and self._on_answer():
            continue

    def _keep_time(self) -> None:
        pending = self.pending
        if pending is None or self.status is not None or self.killed is not None:
            return
        now = time.monotonic()
        if now >= pending.deadline + pending.grace:
            self._kill_unresponsive()
        elif now >= pending.next_signal and self.cut_off:
            self.killed = {"cut_off": True}
            os.kill(self.child, signal.SIGKILL)
        elif now >= pending.next_signal:
            os.kill(self.child, INTERRUPT)
            pending.next_signal = now + TICK

    def _kill_unresponsive(self) -> None:
        """The interrupt went unanswered: note where the program is, from C, and end it."""
        state = process_state(self.child)
        os.kill(self.child, DUMP)
        text = self._dumped(0.3)
        self.killed = {"where": dumped_frames(text), "process_state": state}
        os.kill(self.child, signal.SIGKILL)

    def _dumped(self, timeout: float) -> str:
        """What `faulthandler` wrote: on request, or when the interpreter crashed."""
        if not select.select([self.dump], [], [], timeout)[0]:
            return ""
        time.sleep(0.02)  # it writes line by line
        return os.read(self.dump, 65536).decode("utf-8", "replace")

    def _report_end(self) -> None:
        assert self.status is not None
        assert self.pending is not None
        message: Json = {"id": self.pending.id, "state": "done"}
        self.pending = None
        if self.killed is not None:
            message["stop"] = {"reason": "killed", **next(iter(self.killed.get("where", [])), {})}
            message["killed"] = self.killed
        elif os.WIFSIGNALED(self.status):
            number = os.WTERMSIG(self.status)
            where = dumped_frames(self._dumped(0.0))
            place: Json = where[0] if where else {}
            message["stop"] = {"reason": "exited", "exit_code": 128 + number, **place}
            message["signal"] = signal_name(number)
        else:
            message["stop"] = {"reason": "exited", "exit_code": os.WEXITSTATUS(self.status)}
        self._send(message)

    def _end(self) -> None:
        """Leave no process behind."""
        for _ in range(100):
            left = descendants(os.getpid())
            if not left:
                break
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    continue
            except ChildProcessError:
                break
            time.sleep(0.005)
        os._exit(0)


def adopt_orphans() -> None:
    """Make processes that the program leaves behind children of this one, and hide its memory."""
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: the program can't read the nonce from /proc
    except (ImportError, OSError, AttributeError):
        return  # without ctypes both are lost, and the sandbox still ends what is left


def descendants(root: int) -> List[int]:
    """Every process below `root`, by /proc."""
    parents: Dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] != b"Z" or int(fields[1]) == root:
                parents[int(name)] = int(fields[1])
    found: List[int] = []
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        found.extend(frontier)
    return found


def process_state(pid: int) -> str:
    """The kernel's letter for what a process does: R runs, S sleeps, D waits for a device."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode("ascii")
    except OSError:
        return "?"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def dumped_frames(text: str) -> List[Json]:
    """The program's frames of the main thread in a `faulthandler` dump, innermost first.

    The dump has a block for each thread, the main one last.
    """
    workspace = Workspace(os.getcwd())
    frames: List[Json] = []
    for block in re.split(r"\n\s*\n", text):
        found = [
            {"file": workspace.relative(file), "line": int(line), "function": function}
            for file, line, function in re.findall(r'File "(.*)", line (\d+) in (.*)', block)
            if not workspace.internal(file) and not file.startswith("<")
        ]
        frames = found or frames
    return frames


# --- values --------------------------------------------------------------------------------------


class Interrupted(BaseException):
    """Raised by the interrupt inside an evaluation that ran too long."""


class Full(Exception):
    """The text has reached its limit."""


CONTROL = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), 127)}
OPENING: Dict[type, str] = {
    list: "[",
    tuple: "(",
    set: "{",
    frozenset: "frozenset({",
    deque: "deque([",
}
CLOSING: Dict[type, str] = {list: "]", tuple: ")", set: "}", frozenset: "})", deque: "])"}
MAX_DEPTH = 6
HUGE_BITS = 12000


class ValueText:
    """Renders one value like `repr`, but bounded: it stops as soon as the text is full."""

    def __init__(self, limit: int) -> None:
        self.left = limit
        self.parts: List[str] = []
        self.seen: List[int] = []

    def render(self, value: object) -> Tuple[str, bool]:
        """The text, and whether it was cut."""
        try:
            self._value(value, 0)
            truncated = False
        except Full:
            truncated = True
        text = "".join(self.parts).translate(CONTROL)
        return (text + "..." if truncated else text), truncated

    def _put(self, text: str) -> None:
        self.parts.append(text[: self.left])
        self.left -= len(text)
        if self.left < 0:
            raise Full

    def _value(self, value: Any, depth: int) -> None:
        kind = type(value)
        if kind is str or kind is bytes or kind is bytearray:
            self._text(value)
        elif kind is int and value.bit_length() > HUGE_BITS:
            self._put(f"<int of {value.bit_length()} bits>")
        elif kind is dict or kind in OPENING:
            self._container(value, kind, depth)
        elif getattr(kind, "__repr__", None) is object.__repr__:
            self._plain_object(value, kind, depth)
        else:
            self._put(repr(value))

    def _text(self, value: Any) -> None:
        if len(value) > self.left:
            self._put(repr(value[: self.left])[: self.left])
            raise Full
        self._put(repr(value))

    def _container(self, value: Any, kind: type, depth: int) -> None:
        if kind is not dict and not value and kind in (set, frozenset):
            return self._put(kind.__name__ + "()")
        if id(value) in self.seen or depth >= MAX_DEPTH:
            return self._put("{...}" if kind is dict else "[...]")
        self.seen.append(id(value))
        self._put(OPENING.get(kind, "{"))
        items = value.items() if kind is dict else value
        for index, item in enumerate(items):
            if index:
                self._put(", ")
            if kind is dict:
                self._value(item[0], depth + 1)
                self._put(": ")
            self._value(item[1] if kind is dict else item, depth + 1)
        self._put("," if kind is tuple and len(value) == 1 else "")
        self._put(CLOSING.get(kind, "}"))
        self.seen.pop()

    def _plain_object(self, value: object, kind: type, depth: int) -> None:
        """An object without a `__repr__` of its own: its attributes say more than its address."""
        self._put("<" + kind.__qualname__)
        attributes = instance_attributes(value)
        if id(value) in self.seen or depth >= MAX_DEPTH:
            self._put(" ..." if attributes else "")
        else:
            self.seen.append(id(value))
            for name, item in attributes:
                self._put(f" {name}=")
                self._value(item, depth + 1)
            self.seen.pop()
        self._put(">")


def instance_attributes(value: object) -> List[Tuple[str, object]]:
    """The attributes that an object itself holds: its `__dict__` and its slots."""
    found = {}
    try:
        found.update(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError):
        found.clear()  # a class with slots only
    for base in type(value).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for given in (slots,) if isinstance(slots, str) else tuple(slots):
            private = given.startswith("__") and not given.endswith("__")
            name = "_" + base.__name__.lstrip("_") + given if private else given
            slot = base.__dict__.get(name)
            if type(slot) is types.MemberDescriptorType:
                try:
                    found[name] = slot.__get__(value)
                except AttributeError:
                    continue
    return [(str(name), item) for name, item in found.items()]


def type_name(kind: type) -> str:
    """`Cart` or `builtins` names bare; the module only where the name alone says little."""
    return str(type.__getattribute__(kind, "__qualname__"))


def exception_text(error: BaseException, limit: int) -> str:
    """The message of an exception, whatever its `__str__` does."""
    try:
        text = str(error)
    except Exception as problem:
        text = f"<str raised {type(problem).__name__}>"
    text = text.translate(CONTROL)
    return text if len(text) <= limit else text[:limit] + "..."


# --- source files ---------------------------------------------------------------------------------


class Refusal(Exception):
    """A request that can't be carried out; it changed nothing."""


class Function(NamedTuple):
    """One function of a source file."""

    qualified: str
    first_line: int
    """The first decorator's line, as in `co_firstlineno`."""
    def_line: int
    body_line: int
    """The first statement after the docstring."""

    @property
    def name(self) -> str:
        return self.qualified.rpartition(".")[2]


class SourceFile:
    """The functions and the executable lines of one file, by this interpreter's compiler."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            data = file.read()
        self.lines = decode_source(data).splitlines()
        tree = ast.parse(data, path)
        self.functions: List[Function] = []
        self._collect(tree, "")
        self.owners: Dict[int, Set[Tuple[str, int]]] = {}
        self.entry_lines: Dict[Tuple[str, int], int] = {}
        code = compile(tree, path, "exec", dont_inherit=True)
        self._own(code, set(), self._headers())

    def _collect(self, node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                name = prefix + child.name
                first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                body = child.body[1:] if ast.get_docstring(child) is not None else child.body
                line = (body or child.body)[0].lineno
                self.functions.append(Function(name, first, child.lineno, line))
                name += "."
            elif isinstance(child, ast.ClassDef):
                name = prefix + child.name + "."
            self._collect(child, name)

    def _headers(self) -> Set[int]:
        return {
            line
            for function in self.functions
            for line in range(function.first_line, max(function.def_line + 1, function.body_line))
        }

    def _own(self, code: types.CodeType, taken: Set[int], headers: Set[int]) -> None:
        """Give each line to the outermost code object that runs it, function headers to none."""
        own = {line for line in body_lines(code) if line not in headers} - taken
        for line in own:
            self.owners.setdefault(line, set()).add((code.co_name, code.co_firstlineno))
        self.entry_lines[code.co_name, code.co_firstlineno] = line_at(code, entry_offset(code))
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._own(constant, taken | own, headers)

    def function_at(self, line: int) -> Optional[Function]:
        """The function in whose header (decorators, signature, docstring) a line lies."""
        for function in self.functions:
            if function.first_line <= line < max(function.def_line + 1, function.body_line):
                return function
        return None


def decode_source(data: bytes) -> str:
    """The text of a source file, by its coding cookie."""
    import io
    import tokenize

    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding, "replace")
    except (SyntaxError, LookupError):
        return data.decode("utf-8", "replace")


PROLOGUE = {
    "RESUME", "COPY_FREE_VARS", "MAKE_CELL", "RETURN_GENERATOR", "POP_TOP", "GEN_START", "NOP",
    "CACHE", "EXTENDED_ARG",
}  # fmt: skip


def first_offset(code: types.CodeType) -> int:
    """Where a function's own instructions begin, after what the compiler puts in front."""
    for instruction in dis.get_instructions(code):
        if instruction.opname not in PROLOGUE:
            return instruction.offset
    return 0


def entry_offset(code: types.CodeType) -> int:
    """The offset at which a function's first line event comes."""
    first = first_offset(code)
    starts = [offset for offset, line in dis.findlinestarts(code) if line]
    return max((offset for offset in starts if offset <= first), default=first)


def line_at(code: types.CodeType, offset: int) -> int:
    """The line of the instruction at an offset."""
    line = code.co_firstlineno
    for start, number in dis.findlinestarts(code):
        if start > offset:
            break
        line = number or line
    return line


def body_lines(code: types.CodeType) -> Set[int]:
    """The lines that a code object runs, without the one that only enters it."""
    first = entry_offset(code) if code.co_flags & 0x2 else 0
    return {line for offset, line in dis.findlinestarts(code) if line and offset >= first}


SKIPPED_FOLDERS = {"node_modules", "__pycache__", "site-packages", "venv"}


class Workspace:
    """The folder under test: which files are the program's own, and what they hold."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self.sources: Dict[str, SourceFile] = {}
        self.texts: Dict[str, List[str]] = {}
        self.paths: Dict[str, str] = {}
        self.mine_cache: Dict[str, bool] = {}
        self.internal_cache: Dict[str, bool] = {}
        library = os.path.dirname(os.__file__)
        self.internal_prefixes = tuple(
            os.path.join(library, name)
            for name in ("unittest/", "importlib/", "runpy.py", "threading.py")
        )

    def canonical(self, filename: str) -> str:
        path = self.paths.get(filename)
        if path is None:
            path = filename if filename.startswith("<") else os.path.realpath(filename)
            self.paths[filename] = path
        return path

    def relative(self, filename: str) -> str:
        path = self.canonical(filename)
        return path[len(self.root) + 1 :] if path.startswith(self.root + os.sep) else path

    def internal(self, filename: str) -> bool:
        """Whether a file belongs to the probe or to a test runner."""
        known = self.internal_cache.get(filename)
        if known is None:
            known = filename.startswith(("<stepinto", "<frozen", *self.internal_prefixes))
            known = known or bool(RUNNERS.search(filename))
            self.internal_cache[filename] = known
        return known

    def mine(self, filename: str) -> bool:
        """Whether a file is the program's own: below the workspace, and not installed there."""
        known = self.mine_cache.get(filename)
        if known is None:
            inside = self.canonical(filename).startswith(self.root + os.sep)
            known = inside and "-packages" + os.sep not in filename and not self.internal(filename)
            self.mine_cache[filename] = known
        return known

    def text(self, filename: str) -> List[str]:
        """The lines of a file as they were when first shown; empty where there is none."""
        path = self.canonical(filename)
        lines = self.texts.get(path)
        if lines is None:
            try:
                with open(path, "rb") as file:
                    lines = decode_source(file.read()).splitlines()
            except OSError:
                lines = []
            self.texts[path] = lines
        return lines

    def line(self, filename: str, number: int) -> str:
        lines = self.text(filename)
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def source(self, path: str) -> SourceFile:
        if path not in self.sources:
            try:
                self.sources[path] = SourceFile(path)
            except (SyntaxError, ValueError) as error:
                message = f"{self.relative(path)} does not compile: {error}"
                raise Refusal(message) from None
            except OSError as error:
                raise Refusal(f"{path} can't be read: {error}") from None
        return self.sources[path]

    def files(self) -> Iterator[str]:
        """Every Python file below the workspace."""
        for folder, names, files in os.walk(self.root):
            names[:] = sorted(
                name for name in names if name[0] != "." and name not in SKIPPED_FOLDERS
            )
            for name in sorted(files):
                if name.endswith(".py"):
                    yield os.path.join(folder, name)

    def find_file(self, name: str) -> str:
        """The one file that a name means. Raises Refusal with the nearest names."""
        direct = os.path.realpath(os.path.join(self.root, name))
        if os.path.isfile(direct):
            return direct
        known = list(self.files())
        ending = os.sep + name.lstrip("./")
        matches = [path for path in known if path.endswith(ending)]
        if len(matches) == 1:
            return matches[0]
        relative = [self.relative(path) for path in matches or known]
        if matches:
            raise Refusal("{} is ambiguous: {}".format(name, ", ".join(relative[:8])))
        raise Refusal(f"there is no file {name}{nearest(name, relative)}")

    def tests(self, files: Optional[List[str]] = None) -> List[str]:
        """The node ids of the test functions in some files, by default in all test files."""
        if files is None:
            pattern = re.compile(r"(?:^|[/\\])(?:test_[^/\\]*|[^/\\]*_test|tests)\.py$")
            files = [path for path in self.files() if pattern.search(path)]
        found = []
        for path in files[:500]:
            try:
                functions = self.source(path).functions
            except Refusal:
                continue  # a file that does not compile holds no test that could run
            for function in functions:
                if function.name.startswith("test"):
                    qualified = function.qualified.replace(".", "::")
                    found.append(f"{self.relative(path)}::{qualified}")
        return found

    def find_tests(self, name: str) -> List[str]:
        """The node ids of the test functions, or of the test classes, with a bare name."""
        tests = self.tests()
        functions = [test for test in tests if test.endswith("::" + name)]
        classes = [test.rpartition("::")[0] for test in tests if f"::{name}::" in test]
        return functions or list(dict.fromkeys(classes))

    def find_function(self, spec: str) -> Tuple[str, Function]:
        """The function that `name`, `Class.name`, `module.name` or `file.py:name` means."""
        file, _, name = spec.rpartition(":") if ".py:" in spec else ("", "", spec)
        parts = name.replace("::", ".").replace("()", "").strip().strip(".:").split(".")
        paths = [self.find_file(file.rstrip(":"))] if file else self._files_defining(parts[-1])
        exact: List[Tuple[str, Function]] = []
        loose: List[Tuple[str, Function]] = []
        for path in paths:
            for function in self.source(path).functions:
                match = self._match(path, function, parts)
                if match:
                    (exact if match == 2 else loose).append((path, function))
        found = exact or loose
        if len(found) == 1:
            return found[0]
        if found:
            names = [f"{self.relative(path)}:{f.qualified}" for path, f in found]
            raise Refusal("{} is ambiguous: {}".format(spec, ", ".join(names[:8])))
        raise Refusal(f"there is no function {spec}{self._near_function(parts, paths)}")

    def _match(self, path: str, function: Function, parts: List[str]) -> int:
        """2: the whole qualified name was given; 1: its last part; 0: another function."""
        module = self.relative(path)[:-3].replace(os.sep, ".")
        for size in range(len(parts), 0, -1):
            prefix = parts[:-size]
            if prefix and not ("." + module).endswith("." + ".".join(prefix)):
                continue
            suffix = ".".join(parts[-size:])
            if function.qualified == suffix:
                return 2
            if function.qualified.endswith("." + suffix):
                return 1
        return 0

    def _files_defining(self, name: str) -> List[str]:
        pattern = re.compile(rb"\bdef\s+" + re.escape(name.encode("utf-8")) + rb"\s*\(")
        found = []
        for path in self.files():
            with open(path, "rb") as file:
                if not pattern.search(file.read()):
                    continue
            try:
                self.source(path)
            except Refusal:
                continue  # a file that does not compile can't hold the function that runs
            found.append(path)
        return found

    def _near_function(self, parts: List[str], paths: List[str]) -> str:
        names: Dict[str, str] = {}
        for path in paths or self.files():
            with open(path, "rb") as file:
                for match in re.finditer(rb"^\s*(?:async\s+)?def\s+(\w+)", file.read(), re.M):
                    names.setdefault(match.group(1).decode("utf-8"), self.relative(path))
            if len(names) > 4000:
                break
        close = closest(parts[-1], list(names))
        listed = ", ".join(f"{names[name]}:{name}" for name in close)
        return "; nearest: " + listed if listed else ""


RUNNERS = re.compile(
    r"[/\\](?:site|dist)-packages[/\\](?:_pytest|pluggy|pytest|xdist|pytest_\w+|hypothesis)[/\\]"
)


def import_standard(name: str) -> Any:
    """Import a standard module late, whatever the workspace has of that name."""
    path, sys.path = sys.path, STARTUP_PATH
    try:
        return __import__(name)
    finally:
        sys.path = path


def closest(name: str, names: List[str]) -> List[str]:
    difflib = import_standard("difflib")
    found: List[str] = difflib.get_close_matches(name, names[:4000], 5, 0.5)
    return found


def nearest(name: str, names: List[str]) -> str:
    base = os.path.basename(name)
    close = closest(name, names)
    close += [path for path in names if os.path.basename(path) == base and path not in close]
    return "; nearest: " + ", ".join(close[:5]) if close else ""


# --- breakpoints ----------------------------------------------------------------------------------


class Breakpoint:
    """One breakpoint, bound to the code objects that it stops in."""

    def __init__(self, number: int, arguments: Json) -> None:
        self.number = number
        self.condition: Optional[str] = arguments.get("condition") or None
        self.temporary = bool(arguments.get("temporary"))
        self.function: Optional[str] = None
        self.path = ""
        self.line = 0
        self.owners: Set[Tuple[str, int]] = set()
        self.hits = 0
        self.last_frame: Optional[types.FrameType] = None
        self.code = self._compiled()

    def _compiled(self) -> Optional[types.CodeType]:
        if self.condition is None:
            return None
        try:
            return compile(self.condition.strip(), "<stepinto-condition>", "eval")
        except (SyntaxError, ValueError) as error:
            message = "the condition {!r} is not an expression: {}"
            raise Refusal(message.format(self.condition, error)) from None

    def on_line(self, path: str, line: int, source: SourceFile) -> List[str]:
        """Bind to a line, or to the next one that runs; gives a note where it was moved."""
        self.path = path
        function = source.function_at(line)
        if function is not None:
            self._bind(function, source)
        else:
            later = [number for number in source.owners if number >= line]
            if not later:
                last = max(source.owners, default=0)
                raise Refusal(f"line {line} holds no code; the last that does is {last}")
            self.line = min(later)
            follower = source.function_at(self.line)
            self.owners = source.owners[self.line]
            if follower is not None:
                self._bind(follower, source)
        if self.line == line:
            return []
        return [f"breakpoint {self.number} moved from line {line} to {self.line}"]

    def on_function(self, path: str, function: Function, source: SourceFile) -> None:
        self.path = path
        self.function = function.qualified
        self._bind(function, source)

    def _bind(self, function: Function, source: SourceFile) -> None:
        """Stop where the function is entered."""
        key = (function.name, function.first_line)
        self.owners = {key}
        self.at_entry = True
        self.line = source.entry_lines.get(key, function.body_line)

    at_entry = False
    """Only the first line of each call counts, also where a loop comes back to it."""


MANY_CODES = 200_000
"""So many code objects are remembered at most, for programs that compile without end."""


class BreakpointTable:
    """All breakpoints, and for each code object the lines to stop at."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.breakpoints: Dict[int, Breakpoint] = {}
        self.by_path: Dict[str, List[Breakpoint]] = {}
        self.entry_code: Optional[types.CodeType] = None
        self.plans: Dict[int, Plan] = {}
        self.quiet: Dict[int, types.CodeType] = {}
        """Code known to hold no stop. By id, for code objects hash by their content, slowly; the
        reference keeps an id from being used again."""
        self.next_number = 1

    def add(self, arguments: Json) -> Tuple[Breakpoint, List[str]]:
        """Set one. Raises Refusal where the file, line, function or condition is unknown."""
        number = arguments.get("number") or self.next_number
        point = Breakpoint(number, arguments)
        notes: List[str] = []
        if arguments.get("function"):
            path, function = self._function(arguments)
            point.on_function(path, function, self.workspace.source(path))
        elif arguments.get("file") and arguments.get("line"):
            path = self.workspace.find_file(arguments["file"])
            line, notes = self._line(path, arguments)
            notes += point.on_line(path, line, self.workspace.source(path))
        else:
            raise Refusal("a breakpoint needs a file and a line, or a function")
        for other in self.breakpoints.values():
            if (other.path, other.line, other.condition) == (path, point.line, point.condition):
                other.temporary = point.temporary
                return other, [f"breakpoint {other.number} is there already"]
        self.breakpoints[number] = point
        self.next_number = max(self.next_number, number + 1)
        self.changed()
        return point, notes

    def _function(self, arguments: Json) -> Tuple[str, Function]:
        name = arguments["function"]
        if arguments.get("file") and ".py:" not in name:
            name = "{}:{}".format(arguments["file"], name)
        return self.workspace.find_function(name)

    def _line(self, path: str, arguments: Json) -> Tuple[int, List[str]]:
        """The line now, where a restart gives the text that the line had when it was set."""
        line: int = arguments["line"]
        text = arguments.get("source")
        if not text or self.workspace.line(path, line) == text:
            return line, []
        lines = self.workspace.text(path)
        same = [n for n in range(1, len(lines) + 1) if lines[n - 1].strip() == text]
        if not same:
            return line, []
        moved = min(same, key=lambda number: abs(number - line))
        return moved, [f"breakpoint at line {line} followed its text to {moved}"]

    def remove(self, number: int) -> Breakpoint:
        if number not in self.breakpoints:
            known = ", ".join(str(known) for known in self.breakpoints) or "none"
            raise Refusal(f"there is no breakpoint {number}; set: {known}")
        point = self.breakpoints.pop(number)
        self.changed()
        return point

    def changed(self) -> None:
        self._forget_plans()
        self.by_path = {}
        for point in self.breakpoints.values():
            self.by_path.setdefault(point.path, []).append(point)

    def arm_entry(self, code: Optional[types.CodeType]) -> None:
        self.entry_code = code
        self._forget_plans()

    def _forget_plans(self) -> None:
        self.plans.clear()
        self.quiet.clear()

    def plan(self, code: types.CodeType) -> Optional[Plan]:
        """The stops of one code object; None where there are none."""
        if id(code) in self.quiet:
            return None
        known = self.plans.get(id(code))
        if known is not None:
            return known
        plan = self._make_plan(code)
        if plan is not None:
            self.plans[id(code)] = plan
        else:
            if len(self.quiet) > MANY_CODES:
                self.quiet.clear()
            self.quiet[id(code)] = code
        return plan

    def _make_plan(self, code: types.CodeType) -> Optional[Plan]:
        points = self.by_path.get(self.workspace.canonical(code.co_filename), [])
        key = (code.co_name, code.co_firstlineno)
        own = [point for point in points if key in point.owners]
        if not own and code is not self.entry_code:
            return None
        return Plan(code, own, code is self.entry_code)

    def lines(self, path: str) -> Set[int]:
        return {point.line for point in self.by_path.get(path, [])}

    def describe(self, point: Breakpoint) -> Json:
        return {
            "number": point.number,
            "file": self.workspace.relative(point.path),
            "line": point.line,
            "function": point.function,
            "condition": point.condition,
            "temporary": point.temporary,
            "hits": point.hits,
            "source": self.workspace.line(point.path, point.line),
        }


class Plan:
    """What to do at the lines of one code object."""

    def __init__(self, code: types.CodeType, points: List[Breakpoint], entry: bool) -> None:
        self.code = code
        self.offset = entry_offset(code)
        self.reentered = self.offset in dis.findlabels(code.co_code)  # type: ignore[arg-type]  # it takes bytes
        self.at_entry = [point for point in points if point.at_entry]
        self.by_line: Dict[int, List[Breakpoint]] = {}
        for point in points:
            if not point.at_entry:
                self.by_line.setdefault(point.line, []).append(point)
        self.lines = set(self.by_line)
        if self.at_entry or entry:
            self.lines.add(line_at(code, self.offset))

    def due(self, frame: types.FrameType, line: int) -> List[Breakpoint]:
        """The breakpoints of this line event, conditions aside."""
        due = list(self.by_line.get(line, ()))
        if self.at_entry and frame.f_lasti == self.offset:
            for point in self.at_entry:
                if self.reentered and point.last_frame is frame:
                    continue  # a loop came back to the first line: not another call
                point.last_frame = frame if self.reentered else None
                due.append(point)
        return due


# --- the debuggee: stops --------------------------------------------------------------------------

RUN, OVER, INTO, OUT = "run", "over", "into", "out"
SUSPENDS = {"YIELD_VALUE", "YIELD_FROM", "SEND", "RETURN_GENERATOR"}
RETURNS = {"RETURN_VALUE", "RETURN_CONST"}
COROUTINE = 0x80 | 0x200  # CO_COROUTINE, CO_ASYNC_GENERATOR
QUIET = (StopIteration, StopAsyncIteration, GeneratorExit)


def way_out(frame: types.FrameType) -> str:
    """How a frame is being left: `returns`, `suspends` (it may be resumed), or `raises`."""
    code, at = frame.f_code.co_code, frame.f_lasti
    name = dis.opname[code[at]]
    if name in SUSPENDS:
        return "suspends"
    # Before 3.11 an await is left at the instruction before it, and from 3.13 on a yield at the
    # one after it.
    if sys.version_info < (3, 11) and dis.opname[code[min(at + 2, len(code) - 2)]] == "YIELD_FROM":
        return "suspends"
    if name == "RESUME" and at >= 2 and dis.opname[code[at - 2]] == "YIELD_VALUE":
        return "suspends"
    return "returns" if name in RETURNS else "raises"


def frame_module(frame: types.FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


class Tracer:
    """Finds where to stop: at breakpoints while running freely, and at the end of a step."""

    def __init__(self, workspace: Workspace, table: BreakpointTable, session: Session) -> None:
        self.workspace = workspace
        self.table = table
        self.session = session
        self.mode = RUN
        self.step_frame: Optional[types.FrameType] = None
        self.step_thread = 0
        self.raising: Optional[types.FrameType] = None
        self.entry_module: Optional[str] = None
        """Where the entry is looked for by steps: only in the module of this name."""
        self.stopped_at: Optional[Tuple[types.FrameType, int]] = None
        """Where a step has stopped already, and the monitor's event for that line is to come."""
        self.monitor = Monitor.available(self)
        self.local = self._on_event
        self.filter = self._make_filter()
        self.off = False

    # Modes.

    def run_freely(self, frame: Optional[types.FrameType]) -> None:
        """Go on to the next breakpoint, at full speed where nothing is to be watched."""
        self.mode = RUN
        self.step_frame = self.raising = None
        while frame is not None:
            if self._is_local(frame.f_trace) and (self.monitor or not self._planned(frame)):
                frame.f_trace = None
            frame = frame.f_back
        needed = self.table.breakpoints or self.table.entry_code
        sys.settrace(self.filter if needed and not self.monitor else None)

    def _planned(self, frame: types.FrameType) -> bool:
        return self.table.plan(frame.f_code) is not None

    def _is_local(self, function: Any) -> bool:
        return getattr(function, "__self__", None) is self

    def step(self, mode: str, frame: Optional[types.FrameType]) -> None:
        """Run to the end of a step that began in `frame`; None: wherever the program comes."""
        self.mode = mode
        self.step_frame = frame
        self.step_thread = threading.get_ident()
        if frame is not None:
            frame.f_trace = self.local
        sys.settrace(self._on_call)

    def refresh(self) -> None:
        """Breakpoints changed: also frames that run already must see them."""
        if self.monitor:
            self.monitor.refresh()
            return
        for frame in list(sys._current_frames().values()):
            current: Optional[types.FrameType] = frame
            while current is not None:
                if self.table.plan(current.f_code) is not None:
                    current.f_trace = self.local
                current = current.f_back
        threading.settrace(self.filter)

    def stop_tracing(self) -> None:
        self.off = True
        sys.settrace(None)
        threading.settrace(None)
        if self.monitor:
            self.monitor.close()

    # Events of sys.settrace.

    def _make_filter(self) -> Any:
        """The trace function while running freely: as little as can be for each call."""
        quiet, on_call = self.table.quiet, self._on_call

        def trace_call(frame: types.FrameType, event: str, arg: Any) -> Any:
            if id(frame.f_code) in quiet:
                return None
            return on_call(frame, event, arg)

        return trace_call

    def _on_call(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        if self.off:
            return None
        if self.mode is not RUN:
            if frame is self.step_frame:
                return self.local
            if self.mode is INTO and self._enterable(frame):
                return self.local
        if not self.monitor and self.table.plan(frame.f_code) is not None:
            return self.local
        return None

    def _enterable(self, frame: types.FrameType) -> bool:
        if threading.get_ident() != self.step_thread:
            return False
        if self.step_frame is None and self.entry_module not in (None, frame_module(frame)):
            return False
        return self._steppable(frame)

    def _steppable(self, frame: types.FrameType) -> bool:
        """The program's own code; and library code once a step is in it already."""
        name = frame.f_code.co_filename
        if self.workspace.mine(name):
            return True
        if self.step_frame is None or self.workspace.internal(name) or name.startswith("<"):
            return False
        return not self.workspace.mine(self.step_frame.f_code.co_filename)

    def _on_event(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            plan = None if self.monitor else self.table.plan(frame.f_code)
            if self.mode is not RUN or (plan is not None and frame.f_lineno in plan.lines):
                self._on_line(frame)
        elif self.mode is not RUN and not self.off:
            if event == "return":
                self._on_return(frame, arg)
            elif event == "exception":
                self._on_exception(frame, arg)
        return None

    def _on_line(self, frame: types.FrameType) -> None:
        # An empty module is entered at line 0.
        if self.off or not frame.f_lineno or self.session.serving_here():
            return
        self.raising = None
        stepped = frame is self.step_frame and self.mode in (OVER, INTO)
        if stepped or (self.mode is INTO and self._enterable(frame)):
            plan = self.table.plan(frame.f_code)
            watched = plan is not None and frame.f_lineno in plan.lines
            self.stopped_at = (frame, frame.f_lasti) if self.monitor and watched else None
            hit, notes = self._hits(frame)
            reason = "breakpoint" if hit else self._step_reason()
            self.session.stop(frame, reason, hit=hit, notes=notes)
        elif not self.monitor:
            self.at_breakpoint(frame)

    def _step_reason(self) -> str:
        return "step" if self.step_frame is not None else "entry"

    def at_breakpoint(self, frame: types.FrameType) -> None:
        """A line that a breakpoint watches: stop if its condition holds."""
        if self.off or self.session.serving_here():
            return
        entry = self._entered(frame)
        hit, notes = self._hits(frame)
        if hit or entry:
            self.session.stop(frame, "entry" if entry else "breakpoint", hit=hit, notes=notes)

    def _entered(self, frame: types.FrameType) -> bool:
        if self.table.entry_code is not frame.f_code:
            return False
        plan = self.table.plan(frame.f_code)
        if plan is None or frame.f_lasti != plan.offset:
            return False
        self.table.arm_entry(None)
        return True

    def _hits(self, frame: types.FrameType) -> Tuple[List[Breakpoint], List[str]]:
        plan = self.table.plan(frame.f_code)
        hit: List[Breakpoint] = []
        notes: List[str] = []
        for point in plan.due(frame, frame.f_lineno) if plan else ():
            holds, note = self.session.condition_holds(point, frame)
            notes += [note] if note else []
            if holds:
                point.hits += 1
                hit.append(point)
                if point.temporary:
                    self.table.remove(point.number)
        return hit, notes

    # The ends of steps.

    def _on_return(self, frame: types.FrameType, value: Any) -> None:
        if frame is not self.step_frame:
            return
        way = "raises" if frame is self.raising else way_out(frame)
        if frame.f_code.co_flags & COROUTINE and way == "suspends":
            return  # it will be resumed, and the step goes on there
        caller = frame.f_back
        if way == "raises" or caller is None or not self._steppable(caller):
            self._leave(frame)
        else:
            self.session.stop(caller, "step", returned=(frame.f_code.co_name, value))

    def _leave(self, frame: types.FrameType) -> None:
        """The step's frame is gone: go on to the nearest caller that is the program's own."""
        caller = frame.f_back
        while caller is not None and not self._steppable(caller):
            caller = caller.f_back
        if caller is None:
            note = "{} ended and has no caller in the program, so the program ran on"
            self.session.notes.append(note.format(frame.f_code.co_name))
            self.run_freely(frame)
        else:
            self.step(OVER, caller)

    def _on_exception(self, frame: types.FrameType, info: Any) -> None:
        kind, error, _ = info
        if self.mode is OUT or self.step_frame is None or issubclass(kind, QUIET):
            return
        if frame is self.step_frame or (self.mode is INTO and self._enterable(frame)):
            self.raising = frame
            self.session.stop(frame, "exception", exception=error)


class Monitor:
    """Breakpoints through `sys.monitoring`: code without one runs at its native speed."""

    def __init__(self, tracer: Tracer, monitoring: Any, tool: int) -> None:
        self.tracer = tracer
        self.monitoring = monitoring
        self.tool = tool
        self.watched: List[types.CodeType] = []
        events = monitoring.events
        monitoring.use_tool_id(tool, "stepinto")
        monitoring.register_callback(tool, events.PY_START, self._on_start)
        monitoring.register_callback(tool, events.PY_RESUME, self._on_start)
        monitoring.register_callback(tool, events.LINE, self._on_line)
        monitoring.set_events(tool, events.PY_START | events.PY_RESUME)

    @staticmethod
    def available(tracer: Tracer) -> Optional[Monitor]:
        monitoring = getattr(sys, "monitoring", None)
        if monitoring is None:
            return None
        for tool in (monitoring.DEBUGGER_ID, 4, 3):
            if monitoring.get_tool(tool) is None:
                return Monitor(tracer, monitoring, tool)
        return None

    def _on_start(self, code: types.CodeType, offset: int) -> Any:
        if self.tracer.table.plan(code) is not None:
            self._watch(code)
        return self.monitoring.DISABLE

    def _watch(self, code: types.CodeType) -> None:
        self.monitoring.set_local_events(self.tool, code, self.monitoring.events.LINE)
        self.watched.append(code)

    def _on_line(self, code: types.CodeType, line: int) -> Any:
        stopped, self.tracer.stopped_at = self.tracer.stopped_at, None
        plan = self.tracer.table.plan(code)
        if plan is None or line not in plan.lines:
            return self.monitoring.DISABLE
        frame = sys._getframe(1)
        if stopped is None or stopped[0] is not frame or stopped[1] != frame.f_lasti:
            self.tracer.at_breakpoint(frame)
        return None

    def refresh(self) -> None:
        for code in self.watched:
            self.monitoring.set_local_events(self.tool, code, 0)
        self.watched = []
        seen: Dict[int, types.CodeType] = {}
        for frame in list(sys._current_frames().values()):
            current: Optional[types.FrameType] = frame
            while current is not None:
                seen[id(current.f_code)] = current.f_code
                current = current.f_back
        for code in seen.values():
            if self.tracer.table.plan(code) is not None:
                self._watch(code)
        self.monitoring.restart_events()

    def close(self) -> None:
        self.monitoring.set_events(self.tool, 0)
        for code in self.watched:
            self.monitoring.set_local_events(self.tool, code, 0)
        self.monitoring.free_tool_id(self.tool)


# --- the debuggee: requests -----------------------------------------------------------------------

IDLE, RUNNING, EVALUATING = "idle", "running", "evaluating"


class FrameAt(NamedTuple):
    """A frame and the line it is at, which for a traceback is not `f_lineno`."""

    frame: types.FrameType
    line: int


class Session:
    """Serves the host's requests while the program is stopped."""

    def __init__(self, requests: int, answers: int) -> None:
        self.reader = LineReader(requests)
        self.lines = self.reader.wait()
        self.answers = answers
        self.stdout = sys.stdout
        self.workspace = Workspace(os.getcwd())
        self.table = BreakpointTable(self.workspace)
        self.tracer = Tracer(self.workspace, self.table, self)
        self.lock = threading.RLock()
        self.limits: Json = {}
        self.request: Json = {}
        self.phase = IDLE
        self.serving_thread = 0
        self.deadline = 0.0
        self.value_started = 0.0
        self.frames: List[FrameAt] = []
        self.hidden = 0
        self.notes: List[str] = []
        self.state = "runtime"
        self.started = False
        self.launch_problems: List[str] = []

    # The link.

    def next_request(self) -> Json:
        for line in self.lines:
            request: Json = json.loads(line)
            self.request = request
            return request
        os._exit(1)  # the supervisor is gone, and with it the session

    def answer(self, **fields: Any) -> None:
        if self.notes:
            fields["notes"] = self.notes + fields.get("notes", [])
            self.notes = []
        fields["id"] = self.request["id"]
        fields["all_breakpoints"] = [
            self.table.describe(point) for point in self.table.breakpoints.values()
        ]
        self.flush()
        try:
            write_all(self.answers, encode(fields))
        except OSError:
            os._exit(1)  # the program closed the link: there is nobody to debug it for

    def say_notes(self) -> None:
        """What is left to say when the program ends, for the supervisor's last answer."""
        if self.notes:
            write_all(self.answers, encode({"notes": self.notes}))

    def flush(self) -> None:
        for stream in {id(s): s for s in (sys.stdout, sys.stderr, self.stdout)}.values():
            try:
                stream.flush()
            except Exception:
                continue  # the program closed or replaced it

    def serving_here(self) -> bool:
        return self.serving_thread == threading.get_ident()

    # The interrupt.

    def on_interrupt(self, number: int, frame: Optional[types.FrameType]) -> None:
        """Runs in the main thread, between two instructions of whatever it does."""
        if self.phase == RUNNING:
            if not self.tracer.off:
                self.stop(frame, "interrupted")
        elif self.phase == EVALUATING:
            now = time.monotonic()
            slow_value = self.value_started and now - self.value_started > TICK / 2
            if slow_value or now >= self.deadline:
                self._interrupt_evaluation()

    def _interrupt_evaluation(self) -> None:
        if self.serving_here():
            raise Interrupted
        ctypes = import_standard("ctypes")
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(self.serving_thread), ctypes.py_object(Interrupted)
        )

    # Stops.

    def stop(
        self,
        frame: Optional[types.FrameType],
        reason: str,
        *,
        hit: Any = (),
        notes: Any = (),
        exception: Optional[BaseException] = None,
        returned: Optional[Tuple[str, object]] = None,
    ) -> None:
        """Report where the program is, and serve requests until it is told to go on."""
        if self.serving_here() or self.tracer.off:
            return
        with self.lock, MoreStack():
            self.phase = IDLE
            self.serving_thread = threading.get_ident()
            self.frames = self._visible(live_frames(frame))
            self.state = "runtime_error" if exception is not None else "runtime"
            stop = self._describe_stop(reason, exception, returned)
            described = [self.table.describe(point) for point in hit]
            # Dropped at once, so that nothing of the program outlives its own time.
            del exception, returned
            self._serve_stop(frame, stop=stop, breakpoints=described, notes=list(notes))

    def post_mortem(self, error: BaseException) -> None:
        """An exception ended the test: serve requests on its frames, for good."""
        with self.lock, MoreStack():
            self.phase = IDLE
            self.tracer.run_freely(None)
            sys.settrace(None)
            self.serving_thread = threading.get_ident()
            self.frames = self._visible(traceback_frames(error))
            self.state = "post_mortem"
            stop = self._describe_stop("exception", error, None)
            self._serve_stop(None, stop=stop, **self.do_stack({}))

    def _serve_stop(self, frame: Optional[types.FrameType], **fields: Any) -> None:
        self.started = True
        self.deadline = 0.0
        self.answer(state=self.state, **fields)
        action = self.serve()
        self.frames, first = [], self.frames[:1]
        self.serving_thread = 0
        self.phase = RUNNING
        if action == "continue" or not first:
            self.tracer.run_freely(frame)
        else:
            mode = {"step_over": OVER, "step_into": INTO, "step_out": OUT}[action]
            self.tracer.step(mode, first[0].frame)

    def _visible(self, frames: List[FrameAt]) -> List[FrameAt]:
        shown = [at for at in frames if not self.workspace.internal(at.frame.f_code.co_filename)]
        shown = shown or [at for at in frames if at.frame.f_code.co_filename[:9] != "<stepinto"]
        return shown

    def _describe_stop(
        self,
        reason: str,
        exception: Optional[BaseException],
        returned: Optional[Tuple[str, object]],
    ) -> Json:
        thread = threading.current_thread()
        stop: Json = {
            "reason": reason,
            "depth": len(self.frames),
            "thread": None if thread is threading.main_thread() else thread.name,
        }
        if self.frames:
            stop.update(self._place(self.frames[0]), source=self._context(self.frames[0]))
        if exception is not None:
            stop["exception"] = self._exception(exception)
        if returned is not None:
            stop["return_value"] = self._values([returned])[0]
        return stop

    def _exception(self, error: BaseException) -> Json:
        kind = type(error)
        builtin = kind.__module__ in ("builtins", "__main__")
        name = kind.__qualname__ if builtin else kind.__module__ + "." + kind.__qualname__
        with self.evaluating():
            return {"type": name, "message": exception_text(error, self.limits["value_chars"])}
        return {"type": name, "message": "<str did not end>"}

    def _place(self, at: FrameAt) -> Json:
        code = at.frame.f_code
        return {
            "file": self.workspace.relative(code.co_filename),
            "line": at.line,
            "function": qualified_name(at.frame),
        }

    def _context(self, at: FrameAt) -> List[str]:
        """Numbered lines around a stop: `->` marks the current one, `*` a breakpoint."""
        filename = at.frame.f_code.co_filename
        lines = self.workspace.text(filename)
        watched = self.table.lines(self.workspace.canonical(filename))
        around = self.limits["context_lines"]
        shown = range(max(at.line - around, 1), min(at.line + around, len(lines)) + 1)
        return [
            "{:2} {:1} {:5}  {}".format(
                "->" if number == at.line else "",
                "*" if number in watched else "",
                number,
                lines[number - 1][:200].translate(CONTROL),
            ).rstrip()
            for number in shown
        ]

    # Requests.

    def serve(self) -> str:
        """Answer requests until one lets the program run; gives that one's action."""
        while True:
            request = self.next_request()
            action = request["action"]
            if action in RUN_ACTIONS:
                if self.state != "post_mortem":
                    return str(action)
                self.answer(error={"kind": "not_allowed", "message": "the test has ended"})
                continue
            self.deadline = time.monotonic() + request["timeout"]
            fields = self._handle(action, request["arguments"])
            self.answer(state=self.state, **fields)

    def _handle(self, action: str, arguments: Json) -> Json:
        handler: Callable[[Json], Json] = getattr(self, "do_" + action)
        try:
            return handler(arguments)
        except Refusal as refusal:
            return {"error": {"kind": "bad_request", "message": str(refusal)}}
        except Interrupted:
            self.phase = IDLE
            message = "it did not end within {:g} s and was interrupted".format(
                self.request["timeout"]
            )
            return {"error": {"kind": "timeout", "message": message}}
        except BaseException as problem:
            import traceback

            self.phase = IDLE
            return {"error": {"kind": "internal", "message": traceback.format_exc() or problem}}

    def evaluating(self) -> Evaluating:
        return Evaluating(self)

    def _frame(self, arguments: Json) -> FrameAt:
        index = arguments.get("frame", 0)
        if not self.frames:
            raise Refusal("the program has no frame to look at here")
        if not 0 <= index < len(self.frames):
            message = "there is no frame {}; the stack has frames 0 to {}"
            raise Refusal(message.format(index, len(self.frames) - 1))
        return self.frames[index]

    def do_locals(self, arguments: Json) -> Json:
        frame = self._frame(arguments).frame
        items = [
            (name, value)
            for name, value in frame_locals(frame).items()
            if name.isidentifier() and not (name.startswith("__") and name.endswith("__"))
        ]
        if frame.f_locals is frame.f_globals:
            items = [item for item in items if not isinstance(item[1], types.ModuleType)]
        return self._bounded(items)

    def do_stack(self, arguments: Json) -> Json:
        limit = self.limits["max_frames"]
        frames = [
            dict(
                self._place(at),
                index=index,
                source=self.workspace.line(at.frame.f_code.co_filename, at.line),
            )
            for index, at in enumerate(self.frames[:limit])
        ]
        more = len(self.frames) - limit
        return {
            "frames": frames,
            "notes": [f"{more} outer frames are not shown"] if more > 0 else [],
        }

    def do_evaluate(self, arguments: Json) -> Json:
        expression = arguments["expression"].strip()
        value, error = self._evaluate(expression, arguments)
        return error or {"values": self._values([(expression, value)])}

    def do_fields(self, arguments: Json) -> Json:
        value, error = self._evaluate(arguments["expression"].strip(), arguments)
        if error:
            return error
        limit = self.limits["max_values"]
        found, error = self._guarded(lambda: fields_of(value, limit))
        return error or self._bounded(found, size_of(value))

    def do_run_code(self, arguments: Json) -> Json:
        frame = self._frame(arguments).frame
        # What the code prints is the answer's, also where the program captures its own output.
        printed, sys.stdout = sys.stdout, self.stdout
        try:
            return self._guarded(lambda: run_code(arguments["code"], frame))[1]
        finally:
            if sys.stdout is self.stdout:
                sys.stdout = printed

    def _evaluate(self, expression: str, arguments: Json) -> Tuple[object, Json]:
        frame = self._frame(arguments).frame
        namespace = {**frame.f_globals, **frame_locals(frame)}
        return self._guarded(lambda: eval(compile(expression, "<expression>", "eval"), namespace))

    def _guarded(self, work: Callable[[], Any]) -> Tuple[Any, Json]:
        """Run the host's code; what it raises is an answer, not the end of the session."""
        value, failed = None, None
        with self.evaluating() as evaluation:
            try:
                value = work()
            except Interrupted:
                raise
            except BaseException as error:
                kind = type(error).__qualname__
                failed = kind, exception_text(error, self.limits["value_chars"])
        if evaluation.interrupted:
            raise Interrupted
        if failed is None:
            return value, {}
        message = "{}: {}".format(*failed) if failed[1] else failed[0]
        return None, {"error": {"kind": "evaluation", "message": message}}

    def condition_holds(self, point: Breakpoint, frame: types.FrameType) -> Tuple[bool, str]:
        """Whether to stop. A condition that fails stops too, and says so."""
        if point.code is None:
            return True, ""
        try:
            return bool(eval(point.code, {**frame.f_globals, **frame_locals(frame)})), ""
        except Exception as error:
            message = "the condition of breakpoint {} raised {}: {}"
            return True, message.format(
                point.number, type(error).__name__, exception_text(error, 200)
            )

    # Values.

    def _bounded(self, items: List[Tuple[str, object]], total: Optional[int] = None) -> Json:
        limit = self.limits["max_values"]
        total = len(items) if total is None else total
        notes = []
        if total > min(limit, len(items)):
            notes.append(f"{min(limit, len(items))} of {total} shown")
        return {"values": self._values(items[:limit]), "notes": notes}

    def _values(self, items: Any) -> List[Json]:
        return [self._value(name, value) for name, value in items]

    def _value(self, name: str, value: object) -> Json:
        kind = type_name(type(value))
        if self.deadline and time.monotonic() > self.deadline:
            return {"name": name, "type": kind, "text": "<not shown: out of time>"}
        text, truncated = f"<repr did not end within {TICK:g} s>", False
        self.value_started = time.monotonic()
        with self.evaluating():
            try:
                text, truncated = ValueText(self.limits["value_chars"]).render(value)
            except Interrupted:
                raise
            except BaseException as error:
                text = f"<repr raised {type(error).__qualname__}>"
        self.value_started = 0.0
        return {"name": name, "type": kind, "text": text, "truncated": truncated}

    # Breakpoints.

    def do_set_breakpoint(self, arguments: Json) -> Json:
        point, notes = self.table.add(arguments)
        self.tracer.refresh()
        return {"breakpoints": [self.table.describe(point)], "notes": notes}

    def do_remove_breakpoint(self, arguments: Json) -> Json:
        self.table.remove(arguments["number"])
        self.tracer.refresh()
        return {}

    def do_list_breakpoints(self, arguments: Json) -> Json:
        return {}

    # Launch and end.

    def launch(self) -> Json:
        """Take the launch request: limits, standard input, breakpoints."""
        request = self.next_request()
        arguments: Json = request["arguments"]
        self.limits = arguments["limits"]
        feed_stdin(arguments["stdin"])
        for wanted in arguments["breakpoints"]:
            try:
                self.notes += self.table.add(wanted)[1]
            except Refusal as refusal:
                self.notes.append(f"breakpoint not set: {refusal}")
        signal.signal(INTERRUPT, self.on_interrupt)
        os.register_at_fork(after_in_child=self.detach)
        threading.settrace(None if self.tracer.monitor else self.tracer.filter)
        self.phase = RUNNING
        self.tracer.run_freely(None)
        return arguments

    def detach(self) -> None:
        """In a process that the program forked: leave it alone."""
        self.tracer.stop_tracing()
        signal.signal(INTERRUPT, signal.SIG_IGN)
        for fd in (self.reader.fd, self.answers):
            try:
                os.close(fd)
            except OSError:
                continue

    def fail_launch(self, message: str) -> None:
        """The program could not be started: say so, then end."""
        if self.started:
            return
        self.started = True
        self.phase = IDLE
        self.answer(state="start", error={"kind": "launch_failed", "message": message})


class Evaluating:
    """A stretch in which the interrupt may raise `Interrupted`; it ends there."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.interrupted = False
        self.outer = IDLE

    def __enter__(self) -> Evaluating:
        self.outer, self.session.phase = self.session.phase, EVALUATING
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        self.session.phase = self.outer
        self.interrupted = kind is Interrupted
        return self.interrupted


class MoreStack:
    """Room for the debugger itself where the program is deep in a recursion."""

    def __enter__(self) -> None:
        self.limit = sys.getrecursionlimit()
        sys.setrecursionlimit(self.limit + 300)

    def __exit__(self, *_: object) -> None:
        try:
            sys.setrecursionlimit(self.limit)
        except RecursionError:
            return  # it is still that deep; a little more room does no harm


def live_frames(frame: Optional[types.FrameType]) -> List[FrameAt]:
    """The frames that run, innermost first, down to the debuggee's own beginning."""
    found = []
    while frame is not None and frame.f_code is not debuggee.__code__:
        found.append(FrameAt(frame, frame.f_lineno))
        frame = frame.f_back
    return found


def traceback_frames(error: BaseException) -> List[FrameAt]:
    """The frames that an exception passed, innermost first."""
    found = []
    entry = error.__traceback__
    while entry is not None:
        found.append(FrameAt(entry.tb_frame, entry.tb_lineno))
        entry = entry.tb_next
    return found[::-1]


def qualified_name(frame: types.FrameType) -> str:
    """`Cart.total`, also before CPython 3.11 gave code objects that name."""
    code = frame.f_code
    name = getattr(code, "co_qualname", None)
    if name is not None:
        return str(name).replace("<locals>.", "")
    if code.co_argcount and code.co_varnames[0] in ("self", "cls"):
        owner = frame.f_locals.get(code.co_varnames[0])
        kind = owner if isinstance(owner, type) else type(owner)
        for base in kind.__mro__:
            if base is not object and code.co_name in base.__dict__:
                return "{}.{}".format(base.__qualname__.replace("<locals>.", ""), code.co_name)
    return code.co_name


def size_of(value: Any) -> Optional[int]:
    """How many items a built-in container holds."""
    kind = type(value)
    for base in (dict, list, tuple, set, frozenset, deque):
        if issubclass(kind, base):
            return int(base.__len__(value))
    return None


def fields_of(value: Any, limit: int) -> List[Tuple[str, object]]:
    """Items by key or index, else attributes; properties are named, not run.

    By `type(value)` throughout: `isinstance` would run a `__class__` of the program's.
    """
    kind = type(value)
    found: List[Tuple[str, object]] = []
    if issubclass(kind, dict):
        for key, item in islice(dict.items(value), limit):
            found.append((f"[{ValueText(80).render(key)[0]}]", item))
    elif issubclass(kind, (list, tuple, deque)):
        names = getattr(kind, "_fields", None)
        for index, item in enumerate(islice(value, limit)):
            found.append((names[index] if names else f"[{index}]", item))
    elif issubclass(kind, (set, frozenset)):
        found += [(f"{{{index}}}", item) for index, item in enumerate(islice(value, limit))]
    else:
        found += [item for item in instance_attributes(value) if not item[0].startswith("__")]
    return found + properties_of(kind)


class NotEvaluated:
    """Stands for a property, which a look must not run."""

    def __repr__(self) -> str:
        return "<property, not evaluated>"


def properties_of(kind: type) -> List[Tuple[str, object]]:
    names = []
    for base in kind.__mro__:
        names += [name for name, item in base.__dict__.items() if type(item) is property]
    return [(name, NotEvaluated()) for name in dict.fromkeys(names) if not name.startswith("__")]


def frame_locals(frame: types.FrameType) -> Json:
    """The variables of a frame, as a snapshot.

    CPython 3.13 crashes some lines after a read of a comprehension's variable that an inner
    function captures, where the comprehension was inlined: those are left out.
    """
    values, code = frame.f_locals, frame.f_code
    if sys.version_info[:2] != (3, 13) or not code.co_cellvars or values is frame.f_globals:
        return dict(values)
    cleared = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname == "LOAD_FAST_AND_CLEAR"
    }
    unsafe = cleared.intersection(code.co_cellvars)
    return {name: values[name] for name in values if name not in unsafe}


def run_code(code: str, frame: types.FrameType) -> None:
    """Run statements in a frame; what they assign takes effect in its variables.

    Locals and globals are one namespace for the code, so that comprehensions and lambdas see
    both; assignments go back afterwards, to the frame's variables or, where the code says
    `global`, to its module.
    """
    tree = ast.parse(code, "<code>", "exec")
    compiled = compile(tree, "<code>", "exec")
    if frame.f_locals is frame.f_globals:
        exec(compiled, frame.f_globals)
        return
    before = {**frame.f_globals, **frame_locals(frame)}
    after = dict(before)
    declared = {
        name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names
    }
    try:
        exec(compiled, after)
    finally:
        missing = object()
        changed = {
            name: value
            for name, value in after.items()
            if name != "__builtins__" and before.get(name, missing) is not value
        }
        frame.f_globals.update({n: v for n, v in changed.items() if n in declared})
        assign_locals(frame, {n: v for n, v in changed.items() if n not in declared})


def assign_locals(frame: types.FrameType, values: Json) -> None:
    """Set variables of a running frame. PEP 667 does it from 3.13 on, before that a C call."""
    if not values:
        return
    frame.f_locals.update(values)
    if sys.version_info < (3, 13):
        ctypes = import_standard("ctypes")
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def feed_stdin(text: str) -> None:
    """Make the text the program's standard input, as a file that ends."""
    create = getattr(os, "memfd_create", None)
    if create is not None:
        fd = create("stdin")
    else:  # interpreters built against an old C library
        path = f"/tmp/.stdin-{os.getpid()}"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(path)
    write_all(fd, text.encode("utf-8", "surrogateescape"))
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, 0)
    os.close(fd)


# --- the debuggee: targets ------------------------------------------------------------------------


class Target:
    """Runs what the launch names, and reports how it ends."""

    def __init__(self, session: Session, arguments: Json) -> None:
        self.session = session
        self.kind: str = arguments["target"]["kind"]
        self.names: List[str] = arguments["target"]["names"]
        self.stop_at_entry: bool = arguments["stop_at_entry"]

    def run(self) -> object:
        """The program's exit code, as `sys.exit` takes it."""
        runner: Callable[[], object] = getattr(self, "_run_" + self.kind)
        if self.kind != "script":
            sys.path.insert(0, self.session.workspace.root)
        try:
            code = runner()
        except Refusal as refusal:
            self.session.fail_launch(str(refusal))
            return 1
        self.session.say_notes()
        self.session.tracer.run_freely(None)
        return code

    def arm(self, function: Any) -> None:
        """Stop at the first line of a test function, or of what of the program it calls."""
        if not self.stop_at_entry or self.session.started:
            return
        code = function_code(function)
        tracer = self.session.tracer
        if code is not None and self.session.workspace.mine(code.co_filename):
            self.session.table.arm_entry(code)
            tracer.refresh()
            tracer.run_freely(None)
        else:
            tracer.step(INTO, None)

    def _run_name(self) -> object:
        """A bare name: the one test function or class that has it."""
        name = self.names[0]
        found = self.session.workspace.find_tests(name)
        if len(found) != 1:
            listed = ", ".join(found[:8])
            problem = f"there are several tests {name}: {listed}" if found else ""
            raise Refusal(problem or f"there is no test {name}" + self._near_tests())
        self.names = found
        return self._run_pytest()

    def _run_script(self) -> object:
        path = self.session.workspace.find_file(self.names[0])
        sys.argv = list(self.names)
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
        module = types.ModuleType("__main__")
        module.__dict__.update(__file__=path, __builtins__=__builtins__)
        sys.modules["__main__"] = module
        try:
            with open(path, "rb") as file:
                code = compile(file.read(), path, "exec", dont_inherit=True)
        except (OSError, SyntaxError, ValueError) as error:
            raise Refusal(f"{type(error).__name__}: {error}") from None
        if self.stop_at_entry:
            self.session.table.arm_entry(code)
            self.session.tracer.refresh()
            self.session.tracer.run_freely(None)
        return self._guard(lambda: exec(code, module.__dict__))

    def _run_module(self) -> object:
        import runpy

        sys.argv = list(self.names)
        if self.stop_at_entry:
            self.session.tracer.entry_module = "__main__"
            self.session.tracer.step(INTO, None)
        return self._guard(
            lambda: runpy.run_module(self.names[0], run_name="__main__", alter_sys=True)
        )

    def _guard(self, work: Callable[[], object]) -> object:
        """Run a program; an exception that would end it is looked at post mortem."""
        try:
            work()
        except SystemExit as leave:
            return leave.code
        except BaseException as error:
            if not self.session.started and not self._reached_program(error):
                raise Refusal(f"{type(error).__name__}: {error}") from None
            self.session.post_mortem(error)
        return 0

    def _reached_program(self, error: BaseException) -> bool:
        internal = self.session.workspace.internal
        return any(not internal(at.frame.f_code.co_filename) for at in traceback_frames(error))

    # unittest.

    def _run_unittest(self) -> object:
        import unittest

        sys.argv = ["python -m unittest", *self.names]
        loader = unittest.TestLoader()
        suite = loader.loadTestsFromNames(self.names)
        if loader.errors:
            raise Refusal(last_lines("\n".join(map(str, loader.errors))) + self._near_tests())
        if not suite.countTestCases():
            raise Refusal("there is no test in {}".format(" ".join(self.names)))
        result = self._unittest_result(unittest.TestResult)
        suite.run(result)
        return 0 if result.wasSuccessful() else 1

    def _unittest_result(self, base: type) -> Any:
        target = self

        class Result(base):  # type: ignore[misc]  # the class is only known at run time
            """Arms the entry before a test, and stops where one fails."""

            def startTest(self, test: Any) -> None:  # noqa: N802
                super().startTest(test)
                target.arm(getattr(test, getattr(test, "_testMethodName", ""), None))

            def addError(self, test: Any, err: Any) -> None:  # noqa: N802
                super().addError(test, err)
                target.session.post_mortem(err[1])

            def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
                super().addFailure(test, err)
                target.session.post_mortem(err[1])

            def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
                super().addSubTest(test, subtest, err)
                if err is not None:
                    target.session.post_mortem(err[1])

            def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
                super().addSkip(test, reason)
                target.session.notes.append(f"{test} was skipped: {reason}")

        return Result()

    # pytest.

    def _run_pytest(self) -> object:
        try:
            import pytest
        except ImportError:
            return self._run_without_pytest()
        os.environ.pop("PYTEST_ADDOPTS", None)
        sys.argv = ["pytest", *self.names]
        plugin = pytest_plugin(self, pytest)
        code = int(pytest.main([*pytest_options(), *self.names], plugins=[plugin]))
        if not self.session.started and (code in (2, 3, 4, 5) or plugin.problems):
            self._explain(code, plugin.problems)
        return code

    def _explain(self, code: int, problems: List[str]) -> None:
        """Why pytest ran no test."""
        if problems:
            message = last_lines("\n".join(problems))
        elif code in (4, 5):
            message = "pytest found no test {}".format(" ".join(self.names))
            message += self._near_tests()
        else:
            message = f"pytest ended with exit code {code} before the test"
        self.session.fail_launch(message)

    def _run_without_pytest(self) -> object:
        """Where there is no pytest, a node id may still be a unittest's."""
        path, _, name = self.names[0].partition("::")
        module = path[:-3].replace("/", ".") if path.endswith(".py") else path
        dotted = ".".join([module, *name.partition("[")[0].split("::")]).strip(".")
        import unittest

        if unittest.TestLoader().loadTestsFromName(dotted).countTestCases() == 0:
            raise Refusal(f"pytest is not installed for {sys.executable}, and no unittest")
        self.names = [dotted]
        return self._run_unittest()

    def _near_tests(self) -> str:
        """The tests whose names are nearest, in the file that was named or in all."""
        path, _, name = self.names[0].partition("::")
        workspace = self.session.workspace
        wanted = re.split(r"[.:]", name or path)[-1].partition("[")[0]
        try:
            files = [workspace.find_file(path)] if path.endswith(".py") else None
        except Refusal as refusal:
            return f"; {refusal}"
        tests = workspace.tests(files)
        names = {re.split("::", test)[-1]: test for test in reversed(tests)}
        close = [names[found] for found in closest(wanted, list(names))] or tests[:8]
        return "; nearest: " + ", ".join(close) if close else "; there are no tests here"


def last_lines(text: str, count: int = 25) -> str:
    return "\n".join(text.strip().splitlines()[-count:])


def function_code(function: Any) -> Optional[types.CodeType]:
    """The code object below decorators, bound methods, partials and hypothesis."""
    for _ in range(20):
        inner = getattr(getattr(function, "hypothesis", None), "inner_test", None)
        inner = inner or getattr(function, "__wrapped__", None)
        inner = inner or getattr(function, "__func__", None)
        if inner is None and not hasattr(function, "__code__"):
            inner = getattr(function, "func", None)
        if inner is None:
            break
        function = inner
    code = getattr(function, "__code__", None)
    return code if isinstance(code, types.CodeType) else None


def pytest_options() -> List[str]:
    """Options that keep a debugged run in one process, uncaptured, untimed."""
    from importlib.util import find_spec

    options = [
        "-s",
        "-o",
        "faulthandler_timeout=0",
        "--rootdir=.",
        "-o",
        "cache_dir=/tmp/pytest-cache",
    ]
    if find_spec("xdist"):
        options += ["-n", "0"]
    if find_spec("pytest_cov"):
        options += ["--no-cov"]
    return options


def pytest_plugin(target: Target, pytest: Any) -> Any:
    """The hooks that tell when a test begins and where one fails."""
    session = target.session

    class Plugin:
        """Hooks of one debugged run."""

        def __init__(self) -> None:
            self.problems: List[str] = []
            self.devnull = open(os.devnull, "w")  # noqa: SIM115  # for as long as pytest writes

        def pytest_configure(self, config: Any) -> None:
            """The runner's own report is not the program's output."""
            reporter = config.pluginmanager.getplugin("terminalreporter")
            writer = getattr(reporter, "_tw", None)
            if writer is not None:
                writer._file = self.devnull

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                self.problems.append(str(report.longrepr))

        def pytest_runtest_call(self, item: Any) -> None:
            target.arm(getattr(item, "obj", None))

        def pytest_exception_interact(self, node: Any, call: Any, report: Any) -> None:
            if getattr(report, "when", "collect") != "collect":
                session.post_mortem(call.excinfo.value)

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.skipped:
                session.notes.append(f"{report.nodeid} was skipped")

        def pytest_timeout_set_timer(self, item: Any, settings: Any) -> bool:
            """No time-out of pytest-timeout while somebody looks."""
            return True

    # Not decorators, for which a type checker would need pytest's own types.
    pytest.hookimpl(trylast=True)(Plugin.pytest_configure)
    pytest.hookimpl(tryfirst=True)(Plugin.pytest_collectreport)
    pytest.hookimpl(tryfirst=True)(Plugin.pytest_runtest_call)
    pytest.hookimpl(tryfirst=True)(Plugin.pytest_exception_interact)
    pytest.hookimpl(tryfirst=True, optionalhook=True)(Plugin.pytest_timeout_set_timer)
    return Plugin()


# --- beginning ------------------------------------------------------------------------------------


def move_high(fd: int) -> int:
    """The descriptor, moved out of the way of programs that close theirs."""
    high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH_FD)
    os.close(fd)
    return high


def debuggee(requests: int, answers: int, output: int, dump: int) -> object:
    """Become the program: its own session, its own streams, then the target."""
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    requests, answers, dump = move_high(requests), move_high(answers), move_high(dump)
    faulthandler.register(DUMP, file=dump, all_threads=True, chain=False)
    faulthandler.enable(file=dump, all_threads=False)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    session = Session(requests, answers)
    arguments = session.launch()
    return Target(session, arguments).run()


def main() -> None:
    """Fork the debuggee, and supervise it."""
    requests, requests_write = os.pipe()
    answers_read, answers = os.pipe()
    output_read, output = os.pipe()
    dump_read, dump = os.pipe()
    child = os.fork()
    if child == 0:
        for fd in (requests_write, answers_read, output_read, dump_read):
            os.close(fd)
        sys.exit(debuggee(requests, answers, output, dump))  # type: ignore[arg-type]
    for fd in (requests, answers, output, dump):
        os.close(fd)
    supervisor = Supervisor(child, requests_write, answers_read, output_read, dump_read)
    write_all(1, b"STEPINTO forked\n")
    supervisor.run()


main()
