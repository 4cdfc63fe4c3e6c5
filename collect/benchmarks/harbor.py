"""Bugs as task folders of Harbor (https://harborframework.com), which builds a container from each,
lets an agent work in it, and runs the tests.

Names, paths, packages and variables are of whoever wrote a bug's record: they stand in commands
only as JSON or quoted for the shell, and a control character in one is refused.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.bundled import BundledBenchmark
from collect.benchmarks.humanevalfix import HumanEvalFixBenchmark
from collect.benchmarks.local import LocalBenchmark
from collect.benchmarks.projects.project import is_below
from collect.benchmarks.pytest_run import RUNNER_FILES, steers_tests
from collect.benchmarks.workspace import with_environment, write_folder
from collect.code.patches import apply_patch
from collect.console import HIDDEN
from collect.errors import ConfigError
from sandbox import SandboxConfig
from sandbox.environment import WORKSPACE
from sandbox.languages.python.pytest_options import read_project_options, with_project_options

SCHEMA_VERSION = "1.4"
PLAIN = (BundledBenchmark, LocalBenchmark, HumanEvalFixBenchmark)
"""The benchmarks whose Python bugs need nothing but pytest and their packages."""
SECONDS_BESIDES = 60
"""Of a verifier's time, besides the tests' own limit."""
INSTRUCTION = """\
{problem}

The code is in `{workspace}`. Change it so that the problem is solved. Don't change its tests: they
are put back before they decide.
"""
TEST = f"""\
#!/bin/sh
exec python3 "$(dirname "$0")/verify.py" {WORKSPACE} "${{1:-/logs/verifier}}"
"""


def export(
    benchmark: Benchmark,
    instances: Sequence[Instance],
    config: SandboxConfig,
    python: str,
    folder: Path,
) -> list[Path]:
    """Write a task folder for each bug below `folder`, and return them. Their containers have this
    version of Python, such as `3.12`.

    Raises ConfigError, before anything is written, for a bug that a Dockerfile can't describe, or
    if `folder` is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--to {folder}: this is a file; name a folder")
    tasks: dict[Path, dict[str, bytes]] = {}
    for bug in instances:
        is_plain = bug.language == "python" and bug.image is None
        if not is_plain or not isinstance(benchmark, PLAIN):
            raise ConfigError(
                f"{bug.benchmark} {bug.id} can't be exported: only Python bugs that come as files "
                "can, since others need a build tool, an image or a runner of their own. Choose "
                "others with collect.benchmark"
            )
        path = folder / _name(bug.id, bug.hash)
        if path.exists():
            raise ConfigError(f"{path} exists; remove it, or name another folder with --to")
        tasks[path] = _task(bug, config, python, benchmark.test_timeout)
    for path, files in tasks.items():
        write_folder(path, files)
        shutil.copy(Path(__file__).with_name("harbor_verify.py"), path / "tests" / "verify.py")
    return list(tasks)


def _name(text: str, digest: str) -> str:
    """A name that Harbor takes; different bugs have different ones."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_")
    return name if name == text else f"{name[:80] or 'bug'}-{digest[:8]}".lstrip("-")


def _task(bug: Instance, sandbox: SandboxConfig, python: str, timeout: float) -> dict[str, bytes]:
    """The files of a task, by path."""
    local = sandbox.model_copy(update={"backend": "local"})
    config = with_environment(local, bug.environment, bug.files)
    options = read_project_options(bug.files, bug.public_tests)
    variables = with_project_options(config.environment, options)
    config = config.model_copy(update={"environment": variables})
    fixed = apply_patch(bug.files, bug.gold_patch)
    named = (*bug.test_paths, *config.import_paths)
    for path in (*bug.files, *fixed, *bug.hidden_files, *named):
        _refuse_control(bug, path)
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise ConfigError(f"{bug.benchmark} {bug.id}: {path!a} leads out of the workspace")
    changed = {p for p in {**bug.files, **fixed} if bug.files.get(p) != fixed.get(p)}
    kept = {
        path: data
        for path, data in bug.files.items()
        if is_below(path, bug.test_paths)
        or (path not in changed and steers_tests(path, config.import_paths))
    }
    tests = [*bug.fail_to_pass, *bug.pass_to_pass]
    judged = {
        "tests": tests,
        "test_paths": [*bug.test_paths, *bug.hidden_files],
        "runner_names": sorted(RUNNER_FILES),
        "may_change": sorted(changed),
    }
    python = config.python_version or python
    packages = list(dict.fromkeys(["pytest", *config.packages]))
    texts = {
        "task.toml": _task_toml(bug, timeout),
        "instruction.md": INSTRUCTION.format(
            problem=bug.problem_statement.strip(), workspace=WORKSPACE
        ),
        "environment/Dockerfile": _dockerfile(bug, python, packages, config),
        "tests/test.sh": TEST,
        "tests/bug.json": json.dumps(judged, indent=1) + "\n",
    }
    files = {path: text.encode() for path, text in texts.items()}
    files |= _placed("environment/workspace", bug.files)
    files |= _placed("tests/files", kept | dict(bug.hidden_files))
    return files | (_solution(bug, fixed) if bug.gold_patch else {})


def _task_toml(bug: Instance, timeout: float) -> str:
    origin = {
        "benchmark": bug.benchmark,
        "instance_id": bug.id,
        "instance_hash": bug.hash,
        "repository": bug.repository,
        "category": bug.category or "",
    }
    for value in origin.values():
        _refuse_control(bug, value)
    name = f"{_name(bug.benchmark, bug.hash)}/{_name(bug.id, bug.hash)}"
    # Without control characters, a JSON string is one of TOML.
    quoted = {key: json.dumps(value, ensure_ascii=False) for key, value in origin.items()}
    return "\n".join(
        [
            f'schema_version = "{SCHEMA_VERSION}"',
            "\n[task]",
            f'name = "{name}"',
            "\n[metadata]",
            *(f"{key} = {value}" for key, value in quoted.items()),
            "\n[verifier]",
            f"timeout_sec = {timeout + SECONDS_BESIDES}\n",
        ]
    )


LEAVE_OUT = """
import csv, glob, os, shutil, sys, sysconfig

def copies(folder, module):
    *parents, name = module.split("/")
    for depth in range(1, len(parents) + 1):
        if os.path.exists(os.path.join(folder, *parents[:depth], "__init__.py")):
            return []
    inside = os.path.join(folder, *parents)
    found = [os.path.join(inside, name), *glob.glob(f"{inside}/{name}.*")]
    return [*filter(os.path.exists, found), *glob.glob(f"{inside}/__pycache__/{name}.*.pyc")]

def remove(path):
    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)

def is_there(row):
    return os.path.exists(os.path.join(folder, row[0]))

def forget(record):
    with open(record, encoding="utf-8", newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    if all(map(is_there, rows)):
        return
    for path in glob.glob(f"{folder}/*__mypyc.*"):
        if os.path.basename(path) in [row[0] for row in rows]:
            os.remove(path)
    with open(record, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\\n").writerows(filter(is_there, rows))

folder = sysconfig.get_path("purelib")
for module in sys.argv[1:]:
    for path in copies(folder, module):
        remove(path)
    if glob.glob(f"{folder}/*/_vendor/{module}") or glob.glob(f"{folder}/*/_vendor/{module}.py"):
        bundled = os.path.join(sysconfig.get_path("stdlib"), "ensurepip", "_bundled")
        for path in [*glob.glob(f"{folder}/*/_vendor"), *glob.glob(f"{bundled}/*.whl")]:
            remove(path)
for record in glob.glob(f"{folder}/*.dist-info/RECORD"):
    forget(record)
"""
"""Removes the modules of the code under test from the image's packages, as the local sandbox does
(`sandbox.packages`): a release would show the fix. So would the copies that pip brings along, which
then no longer runs."""


def _dockerfile(bug: Instance, python: str, packages: Sequence[str], config: SandboxConfig) -> str:
    # As in StepInto's sandboxes.
    variables = {"PYTHONHASHSEED": "0", **config.environment}
    if config.import_paths:
        variables["PYTHONPATH"] = ":".join(f"{WORKSPACE}/{path}" for path in config.import_paths)
    for text in (*packages, *variables, *variables.values()):
        _refuse_control(bug, text)
    for name in variables:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ConfigError(f"{bug.benchmark} {bug.id}: {name!a} is no name of a variable")
    # The exec form, so that no shell reads it. All words of a requirement are one argument.
    install = ["python3", "-m", "pip", "install", "--no-cache-dir", "--", *packages]
    own_modules = [name.replace(".", "/") for name in config.own_modules]
    return "\n".join(
        [
            f"FROM python:{python}-slim",
            f"RUN {json.dumps(install)}",
            f"RUN {json.dumps(['python3', '-c', LEAVE_OUT, *own_modules])}",
            *(f"ENV {name}={_docker_quoted(value)}" for name, value in variables.items()),
            f"WORKDIR {WORKSPACE}",
            f"COPY workspace/ {WORKSPACE}/\n",
        ]
    )


def _docker_quoted(text: str) -> str:
    """As a value of ENV, in which no variable is replaced."""
    return '"' + re.sub(r'(["\\$])', r"\\\1", text) + '"'


def _solution(bug: Instance, fixed: Mapping[str, bytes]) -> dict[str, bytes]:
    """The gold patch as files, since a slim image has neither git nor patch."""
    changed = {path: data for path, data in fixed.items() if bug.files.get(path) != data}
    removed = [shlex.quote(f"{WORKSPACE}/{path}") for path in bug.files if path not in fixed]
    copy = f'cp -R "$(dirname "$0")/files/." {WORKSPACE}/'
    script = "\n".join(["#!/bin/sh", "set -e", copy, *(f"rm -f {path}" for path in removed)])
    return {"solution/solve.sh": f"{script}\n".encode(), **_placed("solution/files", changed)}


def _placed(folder: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{path}": data for path, data in files.items()}


def _refuse_control(bug: Instance, text: str) -> None:
    if HIDDEN.search(text) or "\n" in text or "\t" in text:
        raise ConfigError(
            f"{bug.benchmark} {bug.id}: {text[:80]!a} has a control character, and stands in "
            "what is written to a task: take it out"
        )
