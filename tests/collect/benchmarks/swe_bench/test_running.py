"""A bug in an image, from its record to a resolved rollout."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collect.agents.config import AgentsConfig
from collect.agents.rollout_context import RoleModel
from collect.benchmarks.base import Instance, TestStatus
from collect.benchmarks.fix_copies import CopySearch, search_copies
from collect.benchmarks.marks import verify_instance
from collect.benchmarks.swe_bench.benchmark import SweBenchBenchmark
from collect.benchmarks.workspace import open_instance_sandbox
from collect.code.patches import diff_trees
from collect.models.base import Sampling
from collect.models.config import OracleConfig
from collect.oracle import OracleBackend
from collect.rollouts.rollout import RolloutSettings, RolloutSpec, run_rollout, score
from collect.store.records import ORACLE_TEACHER
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import SandboxUnavailable
from sandbox.shell import write_bytes
from tests.collect.benchmarks.swe_bench.rows import EMPTY, TEST_PATCH, TOTAL, first, live

pytestmark = pytest.mark.docker
DOCKER = SandboxConfig(backend="docker", memory_mb=512)
SCRIPT = f"""\
#!/bin/bash
set -uxo pipefail
git checkout @BASE tests/test_counter.py
rm -f tests/data/numbers.txt
git apply -v - <<'EOF_1'
{TEST_PATCH}
EOF_1
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests
: '>>>>> End Test Output'
git checkout @BASE tests/test_counter.py
"""
INSTALLED = "/tmp/site-packages/counter/other.py"
LARGEST = """\
def largest(numbers):
    best = numbers[0]
    for number in numbers:
        if number > best:
            best = number
    return best
"""
PARSER = """\
import re

print("noise")


def parser(log):
    words = {"PASSED": "pass", "FAILED": "fail"}
    return {name: words[word] for word, name in re.findall(r"^(PASSED|FAILED) (\\\\S+)", log, re.M)}
"""


def opened(tmp_path: Path, row: dict[str, Any], **settings: Any) -> SweBenchBenchmark:
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps(row))
    return SweBenchBenchmark(path, **settings)


@pytest.mark.parametrize("row", [first, pytest.param(live, marks=pytest.mark.slow)])
def test_a_record_verifies(
    tmp_path: Path, bug_image: tuple[str, str], row: Callable[..., dict[str, Any]]
) -> None:
    image, base = bug_image
    benchmark = opened(tmp_path, row(image=image, base_commit=base))
    [instance] = benchmark.instances()
    assert verify_instance(benchmark, instance, DOCKER).problems == ()


class Installed(SweBenchBenchmark):
    """A later release of the project is installed besides its repository."""

    def prepare(self, instance: Instance, sandbox: Sandbox) -> None:
        super().prepare(instance, sandbox)
        release = LARGEST.replace("number > best", "number >= best").encode()
        write_bytes(sandbox, INSTALLED, b"# A later release\n" + release)


def test_an_installed_copy_of_the_fix_is_found(tmp_path: Path, bug_image: tuple[str, str]) -> None:
    image, base = bug_image
    patch = diff_trees(
        {"counter/other.py": LARGEST.encode()},
        {"counter/other.py": LARGEST.replace("number > best", "number >= best").encode()},
    )
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps(first(image=image, base_commit=base, patch=patch)))
    innocent = SweBenchBenchmark(path)
    [instance] = innocent.instances()
    assert search_copies(innocent, instance, DOCKER) == CopySearch()
    found = search_copies(Installed(path), instance, DOCKER)
    assert found == CopySearch((("counter/other.py", INSTALLED),))


@pytest.mark.slow
def test_a_record_with_its_own_script(tmp_path: Path, bug_image: tuple[str, str]) -> None:
    image, base = bug_image
    row = first(image=image, base_commit=base, log_parser="parse_log_pytest")
    benchmark = opened(tmp_path, {**row, "eval_script": SCRIPT.replace("@BASE", base)})
    [instance] = benchmark.instances()
    assert score(benchmark, instance, instance.gold_patch, DOCKER).resolved
    # A test may end its own log with passes; its command's exit code is still another.
    forged = instance.gold_patch.replace(
        "+    return sum(numbers)", "+    import os; os.write(1, b'PASSED x\\n'); os._exit(3)"
    )
    verdict = score(benchmark, instance, forged, DOCKER)
    assert {test.after for test in verdict.tests} == {TestStatus.MISSING}


@pytest.mark.slow
def test_a_record_with_its_own_parser(tmp_path: Path, bug_image: tuple[str, str]) -> None:
    image, base = bug_image
    row = live(docker_image=image, base_commit=base, log_parser=PARSER.replace("\\\\", "\\"))
    commands = {
        "test_cmds": ["log=/tmp/log.txt", "python3 -m pytest -rA tests >$log 2>&1"],
        "print_cmds": ["cat $log"],
        "rebuild_cmds": ["echo rebuilt"],
    }
    benchmark = opened(tmp_path, {**row, **commands})
    [instance] = benchmark.instances()
    verdict = score(benchmark, instance, "", DOCKER)
    assert [(test.name, test.after) for test in verdict.tests] == [
        (TOTAL, TestStatus.FAILED),
        (EMPTY, TestStatus.PASSED),
    ]


def test_agents_see_neither_the_future_nor_the_tests_and_the_gate_holds(
    tmp_path: Path, bug_image: tuple[str, str]
) -> None:
    image, base = bug_image
    row = live(docker_image=image, base_commit=base)
    for shown in (False, True):
        benchmark = opened(tmp_path, row, show_tests=shown)
        [instance] = benchmark.instances()
        with open_instance_sandbox(DOCKER, instance) as sandbox:
            benchmark.prepare(instance, sandbox)
            script = "git log --all --format=%s; git tag; cat setup.txt tests/*.py"
            seen = sandbox.run(Command(["sh", "-c", script], read_only=True)).output
            assert sandbox.python == "/opt/miniconda3/envs/testbed/bin/python3"
            assert "future" not in seen
            assert "made by the setup" in seen
            assert ("test_total" in seen) is shown
            writing = Command(["sh", "-c", "echo >>counter/totals.py || echo >new"], read_only=True)
            assert sandbox.run(writing).exit_code != 0
            assert sandbox.run(Command(["sh", "-c", "id -u; echo >new"])).output == "0\n"
            assert sandbox.read_file("new") == b"\n"


@pytest.mark.slow
def test_the_oracle_resolves_it_in_its_debugger(tmp_path: Path, bug_image: tuple[str, str]) -> None:
    image, base = bug_image
    row = live(docker_image=image, base_commit=base)
    benchmark = opened(tmp_path, row, show_tests=True)
    [instance] = benchmark.instances()
    role_model = RoleModel(
        OracleBackend("o", OracleConfig(backend="oracle")), Sampling(), teacher=ORACLE_TEACHER
    )
    settings = RolloutSettings(
        benchmark, DOCKER, AgentsConfig(), {"o": role_model}, threading.Event()
    )
    spec = RolloutSpec(instance, "debug2fix_tool_limit", "o", "o", 0)
    trace = run_rollout(spec, settings)
    assert trace.failure is None
    assert trace.verdict.resolved
    assert [line for line in trace.patch.splitlines() if line[:1] in "+-"] == [
        "--- a/counter/totals.py",
        "+++ b/counter/totals.py",
        "-    return sum(numbers[:-1])",
        "+    return sum(numbers)",
    ]
    _main, sub = trace.logs
    assert any(row.event.file == "counter/totals.py" for row in sub.events)


def test_the_local_sandbox_is_refused(tmp_path: Path) -> None:
    [instance] = opened(tmp_path, live()).instances()
    with pytest.raises(SandboxUnavailable, match=r"sandbox\.backend=docker"):
        open_instance_sandbox(SandboxConfig(), instance)


def test_an_image_without_the_folder_is_named(tmp_path: Path, image: str) -> None:
    [instance] = opened(tmp_path, live()).instances()
    with pytest.raises(SandboxUnavailable, match="no folder /testbed"):
        open_sandbox(DOCKER, image, instance.image_workspace)
