"""Check what this machine has for StepInto, and what each missing thing would enable."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from rich.table import Table
from rich.text import Text

from sandbox.base import Command, SandboxConfig
from sandbox.environment import install_command
from sandbox.errors import JavaUnavailable, SandboxError

PROGRAM_TIMEOUT = 60.0
"""Seconds for one program to print its version; Gradle starts a JVM first."""


@dataclass(frozen=True)
class Check:
    name: str
    found: bool
    detail: str
    """What was found, or how to install it."""
    enables: str
    """What it is needed for."""


class _Missing(Exception):
    """Something is missing; the message says how to get it."""


def check_machine() -> list[Check]:
    """Check for everything that StepInto can use. Never raises, and never shows a key's value."""
    # Debian's Gradle prints its Java first.
    gradle = partial(
        _first_line, ["gradle", "--version"], "apt-get install gradle", start="Gradle "
    )
    git = partial(_first_line, ["git", "--version"], "apt-get install git")
    gpu = partial(
        _first_line,
        ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"],
        "needs an NVIDIA GPU and its driver (nvidia-smi)",
    )
    looks: list[tuple[str, str, Callable[[], str]]] = [
        ("bubblewrap", "the local sandbox", _bubblewrap),
        ("Docker engine", "the docker sandbox, benchmarks with images", _docker),
        ("JDK", "debugging Java, and its bugs", _jdk),
        ("Maven", "Java bugs built by Maven", _maven),
        ("Gradle", "Java bugs built by Gradle", gradle),
        ("git", "the code's commit in every record", git),
        ("GPU", "training and serving larger models", gpu),
        ("torch", "in-process models and training", partial(_package, "torch", "train")),
        ("trl", "training", partial(_package, "trl", "train")),
        ("vllm", "models of backend vllm", _vllm),
    ]
    keys = {
        "OPENAI_API_KEY": "models of an OpenAI-compatible endpoint",
        "OPENAI_BASE_URL": "an endpoint other than OpenAI's",
        "WANDB_API_KEY": "training curves online at Weights & Biases",
        "HF_TOKEN": "gated or private models and data sets of the Hugging Face hub",
    }
    checks = []
    for name, enables, look in looks:
        try:
            checks.append(Check(name, True, look(), enables))
        except (_Missing, SandboxError) as error:
            checks.append(Check(name, False, str(error), enables))
    for name, enables in keys.items():
        known = bool(os.environ.get(name))
        checks.append(Check(name, known, "set" if known else f"export {name}=...", enables))
    return checks


def render(checks: list[Check]) -> Table:
    table = Table("", "what", "found, or how to get it", "for")
    for check in checks:
        mark = Text("yes", "green") if check.found else Text("no", "yellow")
        told = (Text(text, overflow="fold") for text in (check.detail, check.enables))
        table.add_row(mark, check.name, *told)
    return table


def _bubblewrap() -> str:
    from sandbox.local import LocalSandbox

    with LocalSandbox(SandboxConfig()) as box:
        result = box.run(Command(["true"], timeout=PROGRAM_TIMEOUT))
    if result.exit_code != 0:
        raise _Missing(f"a sandboxed `true` failed: {result.output.strip()}")
    return f"{_first_line(['bwrap', '--version'])}, and a sandbox runs"


def _docker() -> str:
    from sandbox.engine import connect, engine_errors

    with closing(connect()) as client, engine_errors():
        return f"version {client.version()['Version']}"


def _jdk() -> str:
    from sandbox.java.jdk import find_jdk
    from sandbox.local import LocalSandbox

    if shutil.which("javac") is None or shutil.which("java") is None:
        raise _Missing("needs both java and javac: apt-get install default-jdk-headless")
    if shutil.which("bwrap") is None:
        return _first_line(["javac", "-version"])
    with LocalSandbox(SandboxConfig()) as box:
        try:
            jdk = find_jdk(box)
        except JavaUnavailable as error:
            raise _Missing(f"the sandbox sees no JDK: {error}") from error
    return f"version {jdk.version} in {jdk.home}, seen from the sandbox"


def _maven() -> str:
    from sandbox.java.maven import maven_options
    from sandbox.local import LocalSandbox

    version = _first_line(["mvn", "--version"], "apt-get install maven")
    if shutil.which("bwrap") is None:
        return version
    with LocalSandbox(SandboxConfig()) as box:
        options = maven_options(box)
    if "-s" in options:
        return f"{version}; offline, with Debian's packages as its repository"
    return (
        f"{version}; the sandbox sees no repository: sandbox.java.repositories names where what a "
        "project needs is fetched from, which your own repositories get without a setting"
    )


def _package(name: str, extra: str) -> str:
    if importlib.util.find_spec(name) is None:
        raise _Missing(install_command(extra))
    return f"version {importlib.metadata.version(name)}"


def _vllm() -> str:
    """The version of vLLM in this environment, under any build's name, or of another's command."""
    if importlib.util.find_spec("vllm") is not None:
        names = importlib.metadata.packages_distributions().get("vllm", [])
        versions = [f"{name} {importlib.metadata.version(name)}" for name in dict.fromkeys(names)]
        return f"{', '.join(versions) or 'without metadata'}, in this environment"
    program = shutil.which("vllm")
    if program is not None:
        return f"{program}, of another environment"
    raise _Missing(
        f"{install_command('serve')}; or name another environment's in a model's server.command"
    )


def _first_line(argv: list[str], hint: str = "", start: str = "") -> str:
    """The first line of a program's output with a letter and this start. Raises _Missing with the
    hint if there is no such program, and on failure."""
    if shutil.which(argv[0]) is None:
        raise _Missing(hint)
    try:
        answer = subprocess.run(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=PROGRAM_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Missing(f"`{' '.join(argv)}` does not work: {error}") from error
    plain = re.sub(r"\x1b\[[0-9;]*m", "", answer.stdout)
    lines = [line.strip() for line in plain.splitlines() if any(map(str.isalpha, line))]
    lines = [line for line in lines if line.startswith(start)]
    if answer.returncode != 0 or not lines:
        raise _Missing(f"`{' '.join(argv)}` failed: {plain.strip()[:200]}")
    return lines[0]
