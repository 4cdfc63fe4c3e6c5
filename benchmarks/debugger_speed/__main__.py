"""`python -m benchmarks.debugger_speed [SECTION ...]`: measure, and print one table."""

from __future__ import annotations

import argparse
import functools
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from benchmarks.debugger_speed import actions, javas, pythons
from benchmarks.debugger_speed.measuring import Row, print_table, stopped_at
from sandbox import Sandbox, SandboxConfig, open_sandbox
from sandbox.debugger import BreakpointRequest, DebugEvent, Debugger, DebugLimits, Launch
from sandbox.debugger.opening import open_debugger
from sandbox.errors import DebuggerError
from tests.interpreters import VERSIONS, Interpreter, find_interpreter

Opened = tuple[Sandbox, Debugger]


def capacity_rows(
    section: str,
    count: int,
    open_sandbox_with_program: Callable[[], Sandbox],
    start: Callable[[Sandbox], tuple[Debugger, DebugEvent]],
) -> Iterator[Row]:
    """Start `count` sessions, each in a sandbox of its own, as many at once as there are cores."""
    with ExitStack() as stack:
        workers = stack.enter_context(ThreadPoolExecutor(os.cpu_count() or 1))
        sandboxes = [stack.enter_context(open_sandbox_with_program()) for _ in range(count)]
        before = memory_mb()
        began = time.perf_counter()
        started = list(workers.map(start, sandboxes))
        taken = time.perf_counter() - began
        for debugger, _ in started:
            stack.callback(debugger.close)
        for _, event in started:
            if event.error_kind is not None or event.stop_reason is None:
                raise DebuggerError(f"a session did not start: {event.error}")
        memory = (memory_mb() - before) / count
        what = f"{count} open"
        yield Row(section, f"{what}, started a minute", 60 * count / taken, "")
        yield Row(section, f"{what}, memory of each (PSS)", memory, "MB")


def memory_mb() -> float:
    """Proportional set size of all the processes below this one, its own left out."""
    return sum(_pss_kb(process) for process in _below(os.getpid())) / 1024


def _below(root: int) -> list[str]:
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        children.setdefault(int(fields[1]), []).append(int(folder.name))
    found: list[str] = []
    left = [root]
    while left:
        below = children.get(left.pop(), [])
        found += map(str, below)
        left += below
    return found


def _pss_kb(process: str) -> int:
    try:
        lines = Path("/proc", process, "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # it has ended meanwhile
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


SECTIONS = ("launch", "actions", "slow-down", "capacity")
LOCAL_TARGET, DOCKER_TARGET, JAVA_TARGET = 1.0, 3.0, 3.0
"""Milliseconds of one action."""
COUNTS = (1, 4, 16, 64)
LIMITS = DebugLimits(start_timeout=300)


def main() -> int:
    options = _options()
    print(f"{platform.platform()}, {len(options.interpreters)} CPythons", file=sys.stderr)
    rows = []
    for row in measure(options):
        print(f"{row.section}: {row.what}: {row.measured:.2f} {row.unit}", file=sys.stderr)
        rows.append(row)
    print_table(rows)
    return 0 if all(row.met is not False for row in rows) else 1


def measure(options: argparse.Namespace) -> Iterator[Row]:
    quick: bool = options.quick
    if "launch" in options.sections:
        yield from _launches(options, quick)
    if "actions" in options.sections:
        yield from _actions(options)
    if "slow-down" in options.sections:
        for interpreter in options.interpreters:
            yield from pythons.slow_downs(interpreter, quick)
    if "capacity" in options.sections:
        yield from _capacity(options)


def _launches(options: argparse.Namespace, quick: bool) -> Iterator[Row]:
    for interpreter in options.interpreters:
        if interpreter.has_pytest:
            yield from pythons.launches(interpreter, quick)
    if options.java:
        with _with_files(SandboxConfig(), javas.PLAIN_PROJECT) as sandbox:
            yield javas.program_launches(sandbox, quick)
        with _with_files(SandboxConfig(), javas.MAVEN_PROJECT) as sandbox:
            yield javas.test_launches(sandbox, quick)


def _actions(options: argparse.Namespace) -> Iterator[Row]:
    docker = SandboxConfig(backend="docker", image=options.docker)
    python, java = ("python", actions.SCRIPT), ("java", actions.MAIN_CLASS)
    places = [("actions, local", SandboxConfig(), *python, LOCAL_TARGET)]
    if options.docker:
        places.append(("actions, Docker", docker, *python, DOCKER_TARGET))
    if options.java:
        places.append(("actions, Java", SandboxConfig(), *java, JAVA_TARGET))
    if options.java and options.docker:
        places.append(("actions, Java, Docker", docker, *java, JAVA_TARGET))
    for section, config, language, program, target in places:
        with _with_files(config, {program.file: program.source}) as sandbox:
            debugger, _ = _start(language, program, sandbox)
            rounds = 30 if options.quick else 200
            yield from actions.action_rows(debugger, program, section, target, rounds)
            debugger.close()


def _capacity(options: argparse.Namespace) -> Iterator[Row]:
    programs = {"python": actions.SCRIPT, **({"java": actions.MAIN_CLASS} if options.java else {})}
    for language, program in programs.items():
        for count in COUNTS[:2] if options.quick else COUNTS:
            yield from capacity_rows(
                f"capacity, {language}",
                count,
                functools.partial(_with_files, SandboxConfig(), {program.file: program.source}),
                functools.partial(_start, language, program),
            )


def _with_files(config: SandboxConfig, files: Mapping[str, bytes]) -> Sandbox:
    sandbox = open_sandbox(config)
    sandbox.write_files(files)
    return sandbox


def _start(
    language: str, program: actions.Program, sandbox: Sandbox
) -> tuple[Debugger, DebugEvent]:
    """A session paused inside the program's loop."""
    debugger = open_debugger(language, sandbox, LIMITS)
    point = BreakpointRequest(file=program.file, line=program.loop_line)
    event = debugger.start(Launch(program.test, (point,), stop_at_entry=False))
    return debugger, stopped_at(event, program.file, program.loop_line)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.debugger_speed", description=__doc__
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument(
        "--python", action="append", metavar="PATH", help="an interpreter; default: all found"
    )
    parser.add_argument("--java", action="store_true", help="Java too")
    parser.add_argument("--docker", metavar="IMAGE", help="actions in a container of this image")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no large capacity")
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(unknown)}; there are: {', '.join(SECTIONS)}")
    options.sections = options.sections or SECTIONS
    if options.python:
        options.interpreters = [_interpreter(path) for path in options.python]
    else:
        found = [find_interpreter(version) for version in VERSIONS]
        options.interpreters = [interpreter for interpreter in found if interpreter]
    return options


def _interpreter(path: str) -> Interpreter:
    """An interpreter given by its path."""
    code = "import sys, importlib.util as u; print('%d.%d' % sys.version_info[:2], "
    code += "u.find_spec('pytest') is not None)"
    answer = subprocess.run([path, "-c", code], capture_output=True, text=True, check=True)
    version, has_pytest = answer.stdout.split()
    return Interpreter(version, path, has_pytest == "True")


if __name__ == "__main__":
    sys.exit(main())
