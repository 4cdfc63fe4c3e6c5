"""Java workspaces for the tests, in local sandboxes on this machine's JDK and build tools."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.debugger.java_session import RUNNER_CLASS, deliver_probe
from sandbox.java.build import built_test, java_command
from sandbox.java.jdk import find_jdk

Lay = Callable[..., Sandbox]


def require_program(name: str) -> None:
    """Skip where a program is not on this machine."""
    if shutil.which(name) is None:
        pytest.skip(f"needs {name} on this machine")


def write(sandbox: Sandbox, files: Mapping[str, str]) -> None:
    """Lay out files, set in as they are in the test."""
    sandbox.write_files({name: textwrap.dedent(text).encode() for name, text in files.items()})


def run_tests(sandbox: Sandbox, test: str, *more: str) -> tuple[int, list[dict[str, str]], str]:
    """Build and run tests as scoring does: the exit code, the report's lines and the output."""
    found, project = built_test(sandbox, test)
    jdk = find_jdk(sandbox)
    jar = deliver_probe(sandbox, jdk)
    report = f"{sandbox.workspace}/report.jsonl"
    argv = java_command(
        sandbox, jdk, project, jar, [RUNNER_CLASS, "--report", found.selector, *more]
    )
    stdin = f"{report}\n00\n{'letters' * 40}\n".encode()
    command = Command(argv, cwd=project.folder, env=project.environment, stdin=stdin, timeout=60)
    result = sandbox.run(command)
    lines = sandbox.read_file(report).decode("ascii").splitlines()
    sandbox.run(Command(["rm", report]))
    told = [json.loads(line.partition(" ")[2]) for line in lines]
    return result.exit_code, [line for line in told if "test" in line], result.output


def statuses(lines: list[dict[str, str]]) -> dict[str, str]:
    """Each test with an invocation of its own, and how it ended."""
    ended = [line for line in lines if line["status"] != "finished"]
    return {line["test"] + line.get("invocation", ""): line["status"] for line in ended}


@pytest.fixture
def lay_out() -> Iterator[Lay]:
    """Open sandboxes with files in them that end with the test."""
    with ExitStack() as opened:

        def lay(files: Mapping[str, str], **settings: Any) -> Sandbox:
            sandbox = opened.enter_context(open_sandbox(SandboxConfig.model_validate(settings)))
            write(sandbox, files)
            return sandbox

        yield lay
