"""Java programs that do their worst to whoever evaluates in them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sandbox.debugger import Action, BreakpointRequest, ErrorKind, KillReason, State, StopReason
from tests.sandbox.debugger.java_bench import LIMITS, JavaBench, java_benches

PROGRAM = """
    import java.util.*;

    public class Program {
        static final Object LOCK = new Object();

        static int spin() {
            int turns = 0;
            while (true) {
                turns++;
            }
        }

        static int stubborn() {
            while (true) {
                try {
                    while (true) {
                        Thread.yield();
                    }
                } catch (Throwable refused) {
                }
            }
        }

        static int nap() throws Exception {
            Thread.sleep(100000);
            return 1;
        }

        static int locked() {
            synchronized (LOCK) {
                return 5;
            }
        }

        static int exit() {
            System.exit(3);
            return 1;
        }

        static int watched() {
            int number = 3;
            return number; // @watched
        }

        static int drain(int[] left) {
            while (left[0] > 0) {
                left[0]--;
            }
            return left[0];
        }

        public static void main(String[] args) throws Exception {
            Thread holder = new Thread(() -> {
                synchronized (LOCK) {
                    synchronized (args) {
                        args.notify();
                    }
                    try {
                        Thread.sleep(1000000);
                    } catch (InterruptedException ended) {
                    }
                }
            }, "holder");
            holder.setDaemon(true);
            synchronized (args) {
                holder.start();
                args.wait();
            }
            int here = 1; // @start
            System.out.println(here); // @ready
            drain(new int[] {3});
            drain(new int[] {0});
            watched();
            Thread.sleep(1);
            System.out.println("slept");
        }
    }
"""


@pytest.fixture(scope="module")
def program() -> Iterator[JavaBench]:
    with java_benches() as open_one:
        bench = open_one(replace(LIMITS, action_timeout=2.5, interrupt_grace=2.5))
        bench.write({"Program.java": PROGRAM})
        yield bench


@pytest.fixture
def ready(program: JavaBench) -> JavaBench:
    assert program.start(program.at("ready")).stop_reason is StopReason.BREAKPOINT
    return program


@pytest.mark.parametrize(
    "call", ["stubborn()", *(pytest.param(c, marks=pytest.mark.slow) for c in ("spin()", "nap()"))]
)
def test_an_evaluation_without_end_is_interrupted(ready: JavaBench, call: str) -> None:
    event = ready.debugger.evaluate(call)
    assert (event.state, event.error_kind) == (State.RUNTIME, ErrorKind.TIMEOUT)
    assert ready.text_of("here + 1") == "2"
    assert ready.text_of("watched()") == "3"
    event = ready.debugger.control(Action.CONTINUE)
    assert (event.state, event.output) == (State.DONE, "1\nslept\n"), event


@pytest.mark.slow
def test_code_without_end_is_interrupted(ready: JavaBench) -> None:
    event = ready.debugger.run_code("while (true) { here++; }")
    assert event.error_kind is ErrorKind.TIMEOUT
    assert ready.text_of("here >= 1 && watched() == 3") == "true"


def test_a_condition_without_end_stops_and_says_so(program: JavaBench) -> None:
    program.start(program.at("start"))
    program.debugger.set_breakpoint(program.at("ready", condition="spin() > 0"))
    event = program.debugger.control(Action.CONTINUE)
    assert event.stop_reason is StopReason.BREAKPOINT
    assert any(note.startswith("the condition of breakpoint 2 failed") for note in event.notes)
    assert program.text_of("here") == "1"


@pytest.mark.slow
def test_what_can_not_be_ended_ends_the_program(ready: JavaBench) -> None:
    event = ready.debugger.evaluate("locked()")
    assert (event.state, event.stop_reason) == (State.DONE, StopReason.KILLED)
    assert (event.error_kind, event.kill_reason) == (ErrorKind.UNRESPONSIVE, KillReason.DEADLOCK)
    assert "waits for a lock that a paused thread holds" in (event.error or "")
    assert ready.debugger.restart().stop_reason is StopReason.BREAKPOINT


def test_an_evaluation_that_exits(ready: JavaBench) -> None:
    event = ready.debugger.evaluate("exit()")
    assert (event.state, event.stop_reason, event.exit_code) == (State.DONE, StopReason.EXITED, 3)


def test_an_evaluation_stops_at_no_breakpoint(ready: JavaBench) -> None:
    ready.debugger.set_breakpoint(ready.at("watched"))
    assert ready.text_of("watched()") == "3"
    event = ready.debugger.control(Action.CONTINUE)
    assert (event.line, event.breakpoints[0].hits) == (ready.line("watched"), 1)


def test_a_loop_back_to_the_first_line_is_no_call(ready: JavaBench) -> None:
    ready.debugger.set_breakpoint(BreakpointRequest(function="drain"))
    event = ready.debugger.control(Action.CONTINUE)
    assert ready.text_of("left[0]") == "3"
    event = ready.debugger.control(Action.CONTINUE)
    assert ready.text_of("left[0]") == "0"
    assert event.breakpoints[0].hits == 2
    assert ready.debugger.control(Action.CONTINUE).state is State.DONE


AGENT = """
    import java.io.*;
    import java.lang.reflect.*;
    import java.nio.file.*;

    public class Program {
        static String attached = "no probe";

        public static void main(String[] args) throws Exception {
            for (File process : new File("/proc").listFiles()) {
                Path line = process.toPath().resolve("cmdline");
                if (!process.getName().matches("[0-9]+") || !Files.isReadable(line)) {
                    continue;
                }
                String command = new String(Files.readAllBytes(line)).replace('\\0', ' ');
                if (command.contains("java ") && command.contains("stepinto.probe.Main")) {
                    attached = attach(process.getName());
                }
            }
            System.out.println(attached); // @here
        }

        static String attach(String pid) throws Exception {
            try {
                com.sun.tools.attach.VirtualMachine.attach(pid);
                return "attached";
            } catch (Exception refused) {
                return "refused: " + refused.getMessage();
            }
        }
    }
    """


def test_no_agent_is_loaded_into_the_debugger(java_bench: JavaBench) -> None:
    java_bench.write({"Program.java": AGENT})
    java_bench.start(java_bench.at("here"))
    assert java_bench.text_of("attached").startswith('"refused')


PIPES = """
    public class Program {
        public static void main(String[] args) throws Exception {
            String[] pipes = {"sh", "-c", "rm *.java && mkfifo Program.java Other.java"};
            new ProcessBuilder(pipes).start().waitFor();
            Other.go(); // @here
        }
    }
    """
OTHER = """
    public class Other {
        static void go() {
            System.out.println("gone");
        }
    }
    """


def test_a_pipe_in_the_place_of_a_source_is_not_read(java_bench: JavaBench) -> None:
    java_bench.write({"Program.java": PIPES, "Other.java": OTHER})
    java_bench.start(java_bench.at("here"))
    began = time.monotonic()
    debugger = java_bench.debugger
    assert debugger.control(Action.STEP_INTO).stop_reason is StopReason.STEP
    assert debugger.set_breakpoint(java_bench.at("here")).error_kind is not ErrorKind.UNRESPONSIVE
    assert debugger.restart().error_kind is ErrorKind.NO_SUCH_TEST
    assert time.monotonic() - began < 15
