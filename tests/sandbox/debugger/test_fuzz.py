"""A fuzzer: random actions against hostile programs never wedge, lie or leave anything behind.

`pytest tests/sandbox/debugger/test_fuzz.py --fuzz-actions 10000` is the long run; without the
option each language gets a short one, the same every time.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sandbox.debugger import Action, BreakpointRequest, DebugEvent
from sandbox.debugger.records import CONTROL_ACTIONS
from tests.interpreters import VERSIONS, find_interpreter
from tests.sandbox.debugger.fuzzing import Fuzzed, Language, load_programs

STEPS = 40
"""Actions of one session at most."""
PYTHON = Language(
    "python",
    ".py",
    load_programs("python", ".py"),
    expressions=(
        "1 + 1",
        "self",
        "locals()",
        "[x for x in range(10**9)]",
        "(lambda: (yield))",
        "while",
        "__import__('os')._exit(9)",
        "__import__('time').sleep(9)",
        "raising[0]",
        "endless",
        "huge",
        "deep",
        "exec('while 1: pass')",
        "main",
        "strange",
        "open('/dev/full', 'w').write('x')",
        "print('(Pdb) ')",
        "undefined_name",
    ),
    snippets=(
        "x = 1",
        "total = 10\nn = 3\ncount = -1",
        "for i in range(3):\n    print(i)",
        "raise KeyboardInterrupt",
        "while True:\n    try:\n        while True: pass\n    except: pass",
        "def f():\n    return [n for n in range(3)]\nf()",
        "import sys; sys.exit(3)",
        "del total",
        "import threading; threading.Thread(target=print, args=('hi',)).start()",
        "global lies\nlies = None",
        "import sys; sys.settrace(None)",
        "x = = 1",
    ),
    functions=("main", "deep", "lies", "worker", "squares", "caught", "no_such", "Strange.x"),
    exceptions=("ValueError", "KeyError", "Problem", "BaseException", "NoSuchError", "OSError"),
)
JAVA = Language(
    "java",
    ".java",
    load_programs("java", ".java"),
    expressions=(
        "1 + 1",
        "this",
        "arguments",
        "total / 0",
        "list",
        "map",
        "prompt",
        "raising",
        "endless",
        "huge",
        "deep",
        "new int[1000000000]",
        "(",
        "undefinedName",
        "shapes.items[0].length() + side",
        "Thread.currentThread().getName()",
        "System.getProperty(null)",
        "Runtime.getRuntime().availableProcessors()",
        "((Object) 1).toString() + 'c'",
        "(String) (Object) 1",
    ),
    snippets=(
        "total = 10;",
        "int x = 1; x += 2; System.out.println(x);",
        'for (int i = 0; i < 3; i++) { System.out.println("> main[1] " + i); }',
        "while (true) { }",
        "throw new RuntimeException();",
        "int x = ;",
        "count = 99;",
        "System.exit(3);",
    ),
    functions=("main", "deep", "lies", "work", "Shapes.add", "add(int, int)", "noSuch", "next"),
    exceptions=(
        "java.lang.RuntimeException",
        "ArrayIndexOutOfBoundsException",
        "Problem",
        "java.lang.Throwable",
        "NoSuchException",
    ),
)


class Machine(RuleBasedStateMachine):
    """Random actions against one random program."""

    language: Language

    def __init__(self) -> None:
        super().__init__()
        self.fuzzed: Fuzzed | None = None
        self.token = 1_000_000

    @property
    def session(self) -> Fuzzed:
        assert self.fuzzed is not None
        return self.fuzzed

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        program = data.draw(st.sampled_from(sorted(self.language.programs)))
        self.fuzzed = Fuzzed(self.language, program)
        self._start(data)

    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        if not self.session.paused or data.draw(st.integers(0, 9)) == 0:
            self._start(data)

    @rule(data=st.data())
    def whatever_the_state(self, data: st.DataObject) -> None:
        debugger, action = self.session.debugger, data.draw(st.sampled_from(list(Action)))
        plain: dict[Action, Callable[[], DebugEvent]] = {
            Action.LOCALS: debugger.locals,
            Action.STACK: debugger.stack,
            Action.THREADS: debugger.threads,
            Action.EVALUATE: lambda: debugger.evaluate("1"),
            Action.FIELDS: lambda: debugger.fields("1"),
            Action.RUN_CODE: lambda: debugger.run_code("1"),
            Action.LIST_BREAKPOINTS: debugger.list_breakpoints,
            Action.REMOVE_BREAKPOINT: lambda: debugger.remove_breakpoint(77),
            **{each: partial(debugger.control, each) for each in CONTROL_ACTIONS},
        }
        if action in plain:
            self.session.checked(action, plain[action])

    def _start(self, data: st.DataObject) -> None:
        points = data.draw(st.lists(self._requests(), max_size=3))
        self.session.start(tuple(points), data.draw(st.booleans()))

    def _requests(self) -> st.SearchStrategy[BreakpointRequest]:
        session, language = self.session, self.language
        lines = st.integers(-1, len(session.text.splitlines()) + 2)
        conditions = st.sampled_from([None, None, None, *language.expressions])
        files = st.sampled_from([session.program, session.program, "other" + language.suffix])
        options: dict[str, Any] = {"condition": conditions, "temporary": st.booleans()}
        return st.one_of(
            st.builds(BreakpointRequest, file=files, line=lines, **options),
            st.builds(BreakpointRequest, function=st.sampled_from(language.functions), **options),
            st.builds(
                BreakpointRequest,
                exception=st.sampled_from(language.exceptions),
                uncaught=st.booleans(),
                **options,
            ),
        )

    @precondition(lambda self: self.session.paused)
    @rule(action=st.sampled_from(CONTROL_ACTIONS))
    def control(self, action: Action) -> None:
        self.session.checked(action, lambda: self.session.debugger.control(action))

    @precondition(lambda self: self.session.paused)
    @rule(action=st.sampled_from(CONTROL_ACTIONS), times=st.integers(2, 6))
    def control_often(self, action: Action, times: int) -> None:
        for _ in range(times):
            self.control(action)

    @precondition(lambda self: self.session.frames)
    @rule(frame=st.integers(-1, 3), start=st.sampled_from([0, 0, 1, 50, -1]))
    def locals(self, frame: int, start: int) -> None:
        debugger = self.session.debugger
        self.session.checked(Action.LOCALS, lambda: debugger.locals(frame, start), frame=frame)

    @precondition(lambda self: self.session.frames)
    @rule(start=st.sampled_from([0, 0, 3, 1000]))
    def stack(self, start: int) -> None:
        self.session.checked(Action.STACK, lambda: self.session.debugger.stack(start))

    @precondition(lambda self: self.session.frames)
    @rule()
    def threads(self) -> None:
        self.session.checked(Action.THREADS, self.session.debugger.threads)

    @precondition(lambda self: self.session.frames)
    @rule(data=st.data(), frame=st.integers(0, 2), start=st.sampled_from([0, 0, 100]))
    def evaluate(self, data: st.DataObject, frame: int, start: int) -> None:
        expression = data.draw(st.sampled_from(self.language.expressions))
        debugger, asked = self.session.debugger, {"expression": expression, "frame": frame}
        if data.draw(st.booleans()):
            act = lambda: debugger.evaluate(expression, frame, start)  # noqa: E731
            self.session.checked(Action.EVALUATE, act, **asked)
        else:
            act = lambda: debugger.fields(expression, frame, start)  # noqa: E731
            self.session.checked(Action.FIELDS, act, **asked)

    @precondition(lambda self: self.session.frames)
    @rule(data=st.data(), frame=st.integers(0, 1))
    def run_code(self, data: st.DataObject, frame: int) -> None:
        code = data.draw(st.sampled_from(self.language.snippets))
        debugger = self.session.debugger
        self.session.checked(Action.RUN_CODE, lambda: debugger.run_code(code, frame), code=code)

    @precondition(lambda self: self.session.frames)
    @rule(data=st.data())
    def set_breakpoint(self, data: st.DataObject) -> None:
        request = data.draw(self._requests())
        debugger = self.session.debugger
        self.session.checked(Action.SET_BREAKPOINT, lambda: debugger.set_breakpoint(request))

    @precondition(lambda self: self.session.frames)
    @rule(data=st.data(), hits=st.integers(1, 4))
    def collect(self, data: st.DataObject, hits: int) -> None:
        watch = tuple(data.draw(st.lists(st.sampled_from(self.language.expressions), max_size=2)))
        request = replace(data.draw(self._requests()), watch=watch)
        debugger = self.session.debugger
        self.session.checked(Action.COLLECT, lambda: debugger.collect(request, hits), hits=hits)

    @precondition(lambda self: self.session.frames)
    @rule(number=st.integers(0, 5))
    def remove_breakpoint(self, number: int) -> None:
        debugger = self.session.debugger
        self.session.checked(Action.REMOVE_BREAKPOINT, lambda: debugger.remove_breakpoint(number))

    @precondition(lambda self: self.session.frames)
    @rule()
    def list_breakpoints(self) -> None:
        self.session.checked(Action.LIST_BREAKPOINTS, self.session.debugger.list_breakpoints)

    @rule()
    def restart(self) -> None:
        self.session.checked(Action.RESTART, self.session.debugger.restart)

    @precondition(lambda self: self.session.frames)
    @rule()
    def stay_in_step(self) -> None:
        self.token += 1
        self.session.synchronised(self.token)

    def teardown(self) -> None:
        if self.fuzzed is not None:
            self.stay_in_step()
            self.fuzzed.close()
            COUNTS[self.language.name] = COUNTS.get(self.language.name, 0) + self.fuzzed.actions


COUNTS: dict[str, int] = {}
"""Actions carried out so far, by language."""


@pytest.mark.timeout(7200)
def test_python_sessions_survive_random_actions(request: pytest.FixtureRequest) -> None:
    found = [find_interpreter(version) for version in VERSIONS]
    fuzz(request, [replace(PYTHON, interpreter=each) for each in found if each], 10)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_java_sessions_survive_random_actions(request: pytest.FixtureRequest) -> None:
    if shutil.which("javac") is None:
        pytest.skip("needs a JDK")
    fuzz(request, [JAVA], 50)


def fuzz(request: pytest.FixtureRequest, languages: list[Language], short: int) -> None:
    """Run sessions until enough actions were done, the interpreters in turn."""
    asked = request.config.getoption("--fuzz-actions")
    wanted = int(asked) if asked else short
    chosen = SETTINGS if asked else settings(SETTINGS, max_examples=1, stateful_step_count=20)
    name = languages[0].name
    began = COUNTS.get(name, 0)
    turn = 0
    while (done := COUNTS.get(name, 0) - began) < wanted:
        machine = type("Machine", (Machine,), {"language": languages[turn % len(languages)]})
        number = request.config.getoption("--fuzz-seed") + turn
        run_state_machine_as_test(seed(number)(machine), settings=chosen)
        turn += 1
        print(f"{COUNTS.get(name, 0) - began} actions", flush=True)
    print(f"{done} actions in {turn} rounds on {name}")


SETTINGS = settings(
    max_examples=4,
    stateful_step_count=STEPS,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
