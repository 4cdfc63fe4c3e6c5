"""From a launch's text to the first stop of a Java program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from sandbox import Command, SandboxConfig, open_sandbox
from sandbox.base import JavaConfig
from sandbox.debugger import (
    Action,
    BreakpointRequest,
    DebugEvent,
    DebugLimits,
    ErrorKind,
    Launch,
    State,
    StopReason,
    java_session,
    open_debugger,
)
from sandbox.shell import FOLDER
from tests.sandbox.debugger.java_bench import JavaBench, main_program
from tests.sandbox.image import ensure_java_image
from tests.sandbox.java.conftest import require_program, write
from tests.sandbox.java.programs import CALC, GRADLE, MAIN, MAVEN, MODULES, TEST

IN_TOTAL = BreakpointRequest(function="Calc.total")
LIMITS = DebugLimits(start_timeout=120, interrupt_grace=4)

Open = Callable[..., JavaBench]


@pytest.fixture
def bench(open_java_bench: Open) -> JavaBench:
    return open_java_bench(LIMITS)


def start(bench: JavaBench, test: str, *points: BreakpointRequest) -> DebugEvent:
    return bench.debugger.start(Launch(test, points, stop_at_entry=not points))


@pytest.mark.slow
def test_maven_from_a_command_to_the_first_stop(bench: JavaBench) -> None:
    require_program("mvn")
    bench.write(MAVEN)
    event = start(bench, "mvn -q test -Dtest=CalcTest#testTotal", IN_TOTAL)
    assert (event.stop_reason, event.file) == (StopReason.BREAKPOINT, MAIN), event.error
    assert event.function == "Calc.total"
    assert bench.text_of("items") == "[1, 2, 3]"
    assert bench.text_of('System.getenv("ZONE") + System.getProperty("given")') == '"northby-line"'
    # At the test's first line; the other test of the class does not run.
    event = start(bench, f"{TEST}::testEmpty")
    assert (event.stop_reason, event.function) == (StopReason.ENTRY, "CalcTest.testEmpty")
    event = bench.debugger.restart()
    assert (event.stop_reason, event.function) == (StopReason.ENTRY, "CalcTest.testEmpty")
    # An edit is built in before the next start, and a mistake in it is told.
    write(bench.sandbox, {MAIN: CALC.replace("sum + 1", "sums")})
    event = bench.debugger.restart()
    assert (event.error_kind, event.state) == (ErrorKind.BUILD_FAILED, State.DONE)
    assert "src/main/java/demo/Calc.java:9: cannot find symbol" in str(event.error)
    assert "return sums;" in str(event.error)
    write(bench.sandbox, {MAIN: CALC.replace("sum + 1", "sum + 41")})
    assert bench.debugger.restart().stop_reason is StopReason.ENTRY
    event = start(bench, "CalcTest#testEmpty", IN_TOTAL)
    event = bench.debugger.control(Action.CONTINUE)
    assert event.exception is not None
    assert "expected:<1> but was:<41>" in event.exception.message


@pytest.mark.slow
def test_modules_and_nested_tests(bench: JavaBench) -> None:
    require_program("mvn")
    bench.write(MODULES)
    event = start(bench, "demo.CalcTest$Empty#testTotal", IN_TOTAL)
    assert (event.file, event.function) == (f"core/{MAIN}", "Calc.total"), event.error
    frames = bench.debugger.stack().frames
    assert [frame.function for frame in frames] == ["Calc.total", "CalcTest.Empty.testTotal"]


@pytest.mark.parametrize(
    ("test", "kind", "said"),
    [
        ("demo.CalcTest#testTotals", ErrorKind.NO_SUCH_TEST, "its nearest tests: testTotal, "),
        ("demo.CalkTest", ErrorKind.NO_SUCH_TEST, f"the nearest: {TEST}"),
        ("gradle test", ErrorKind.NO_SUCH_TEST, "--tests"),
        ("Calc 1", ErrorKind.NO_SUCH_TEST, "public static void main"),
    ],
)
def test_what_is_not_there_is_answered_at_once(
    bench: JavaBench, test: str, kind: ErrorKind, said: str
) -> None:
    bench.write(MAVEN)
    event = start(bench, test)
    assert (event.error_kind, event.state) == (kind, State.START)
    assert said in str(event.error)


@pytest.mark.slow
def test_programs_with_arguments_and_input(bench: JavaBench) -> None:
    body = "int c = System.in.read();\nSystem.out.println(args[1] + (char) c);  // @read"
    bench.write({"tools/Program.java": "package tools;\n" + main_program(body)})
    line = bench.line("read", "tools/Program.java")
    point = BreakpointRequest(file="Program.java", line=line)
    launch = Launch("tools.Program one 'two 2'", (point,), stop_at_entry=False, stdin="xyz")
    event = bench.debugger.start(launch)
    assert (event.stop_reason, event.file) == (StopReason.BREAKPOINT, "tools/Program.java")
    assert bench.text_of("args[1] + c") == '"two 2120"'
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.output.strip(), event.exit_code) == ("two 2x", 0)


def test_a_sandbox_that_the_program_has_made_unusable(bench: JavaBench) -> None:
    bench.write({"Program.java": main_program("")})
    spoil = f"rm -rf {FOLDER}; touch {FOLDER}"
    assert bench.sandbox.run(Command(["sh", "-c", spoil])).exit_code == 0
    event = start(bench, "Program")
    assert (event.error_kind, event.state) == (ErrorKind.LAUNCH_FAILED, State.START)
    assert FOLDER in str(event.error)
    bench.sandbox.run(Command(["rm", FOLDER]))
    assert start(bench, "Program").stop_reason is StopReason.ENTRY


def test_without_a_jdk() -> None:
    config = SandboxConfig(java=JavaConfig(java_home="/nowhere"))
    with open_sandbox(config) as box:
        write(box, {"Main.java": main_program("")})
        event = open_debugger("java", box, LIMITS).start(Launch("Main"))
    assert event.error_kind is ErrorKind.LAUNCH_FAILED
    assert "/nowhere" in str(event.error)
    assert "default-jdk-headless" in str(event.error)


FORKED = [
    pytest.param(MAVEN, MAIN, "mvn", id="maven"),
    pytest.param(GRADLE, f"core/{MAIN}", "gradle", id="gradle", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("files", "file", "tool"), FORKED)
def test_the_build_tools_own_fork_calls_back(
    bench: JavaBench,
    monkeypatch: pytest.MonkeyPatch,
    files: Mapping[str, str],
    file: str,
    tool: str,
) -> None:
    require_program(tool)
    monkeypatch.setattr(java_session, "needs_fork", lambda project, found: True)
    bench.write(files)
    event = start(bench, "demo.CalcTest#testTotal", IN_TOTAL)
    assert (event.stop_reason, event.file) == (StopReason.BREAKPOINT, file), event.error
    assert bench.text_of("items") == "[1, 2, 3]"
    assert bench.text_of('System.getenv("ZONE")') == '"north"'
    event = bench.debugger.control(Action.CONTINUE)
    assert event.exception is not None
    assert "expected:<6> but was:<7>" in event.exception.message


@pytest.fixture
def container_bench(image: str) -> Iterator[JavaBench]:
    require_program("javac")
    config = SandboxConfig(backend="docker", image=ensure_java_image())
    with open_sandbox(config) as box:
        bench = JavaBench(box, open_debugger("java", box, LIMITS))
        yield bench
        bench.debugger.close()


@pytest.mark.slow
@pytest.mark.docker
def test_in_a_container(container_bench: JavaBench) -> None:
    bench = container_bench
    bench.write({"src/demo/Calc.java": CALC, "test/demo/CalcTest.java": MAVEN[TEST]})
    event = start(bench, "CalcTest#testTotal", IN_TOTAL)
    assert (event.stop_reason, event.file) == (StopReason.BREAKPOINT, "src/demo/Calc.java")
    assert bench.text_of("items") == "[1, 2, 3]"
    # Within the second, and of the same size.
    bench.write({"src/demo/Calc.java": CALC.replace("sum + 1", "sum + 2")})
    start(bench, "CalcTest#testTotal", IN_TOTAL)
    event = bench.debugger.control(Action.CONTINUE)
    assert event.exception is not None
    assert "expected:<6> but was:<8>" in event.exception.message
    bench.write({"pom.xml": MAVEN["pom.xml"]})
    event = start(bench, "CalcTest#testTotal")
    assert event.error_kind is ErrorKind.LAUNCH_FAILED
    assert "the sandbox has no `mvn`" in str(event.error)
