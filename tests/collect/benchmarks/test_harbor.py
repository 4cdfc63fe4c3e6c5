"""Bugs as Harbor's task folders: what is in them, and that they decide as StepInto does."""

from __future__ import annotations

import json
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from venv import EnvBuilder

import pytest

from collect.benchmarks import harbor
from collect.benchmarks.base import Environment, Instance
from collect.benchmarks.bundled import BundledBenchmark
from collect.benchmarks.harbor import export
from collect.errors import ConfigError
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from tests.shop_bug import write_shop


@pytest.fixture
def benchmark(tmp_path: Path) -> BundledBenchmark:
    return BundledBenchmark(write_shop(tmp_path / "shop"))


def exported(benchmark: BundledBenchmark, bug: Instance, folder: Path) -> Path:
    (task,) = export(benchmark, [bug], SandboxConfig(), "3.12", folder)
    return task


def reward(sandbox: Sandbox) -> str:
    result = sandbox.run(Command(["sh", "/tmp/task/tests/test.sh", "/tmp/logs"]))
    return sandbox.run(Command(["cat", "/tmp/logs/reward.txt"])).output.strip() or result.output


def test_a_task_is_solved_by_its_solution_alone(
    benchmark: BundledBenchmark, tmp_path: Path
) -> None:
    (bug,) = benchmark.instances()
    task = exported(benchmark, bug, tmp_path / "tasks")
    assert tomllib.loads((task / "task.toml").read_text())["task"]["name"] == "bundled/shop__rate"
    assert "The total is too low." in (task / "instruction.md").read_text()
    # A sandbox in place of the container: the workspace as the Dockerfile makes it.
    with open_sandbox(SandboxConfig()) as sandbox:
        sandbox.write_files(bug.files)
        parts = {
            f"carried/{path.relative_to(task)}": path.read_bytes()
            for name in ("tests", "solution")
            for path in (task / name).rglob("*")
            if path.is_file()
        }
        sandbox.write_files(parts)
        sandbox.run(Command(["mv", "carried", "/tmp/task"]))
        assert reward(sandbox) == "0"
        cheat = "echo 'def test_total(): pass\ndef test_pick(): pass\ndef test_empty(): pass'"
        sandbox.run(Command(["sh", "-c", f"{cheat} >tests/test_shop.py"]))
        skip = "def pytest_runtest_setup(item): item.obj = print"
        sandbox.run(Command(["sh", "-c", f"echo '{skip}' >conftest.py"]))
        assert reward(sandbox) == "0"
        assert sandbox.run(Command(["sh", "/tmp/task/solution/solve.sh"])).exit_code == 0
        assert reward(sandbox) == "1"


HOSTILE = 'x"; RUN touch /bad; $(touch /bad) `touch /bad` \\'


def test_texts_of_a_bug_add_no_command(benchmark: BundledBenchmark, tmp_path: Path) -> None:
    (bug,) = benchmark.instances()
    odd = "docs/a b';touch bad;'.txt"
    patch = f"--- a/{odd}\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    environment = Environment(("numpy>=2; python_version > '3'",), ("src",), {"NAME": HOSTILE})
    bug = replace(
        bug,
        id="../../up $(x)",
        gold_patch=patch,
        files={**bug.files, odd: b"x\n"},
        environment=environment,
    )
    task = exported(benchmark, bug, tmp_path / "tasks")
    assert task.parent == tmp_path / "tasks"
    lines = (task / "environment/Dockerfile").read_text().splitlines()
    words = ("FROM ", "RUN [", "RUN [", "ENV ", "ENV ", "ENV ", "WORKDIR ", "COPY ")
    assert [line.startswith(word) for line, word in zip(lines, words, strict=True)] == [True] * 8
    assert json.loads(lines[1].removeprefix("RUN "))[-1] == "numpy>=2; python_version > '3'"
    escaped = r'''"x\"; RUN touch /bad; \$(touch /bad) `touch /bad` \\"'''
    assert f"ENV NAME={escaped}" in lines
    removal = (task / "solution/solve.sh").read_text().splitlines()[-1]
    assert removal == """rm -f '/workspace/docs/a b'"'"';touch bad;'"'"'.txt'"""


def test_an_image_keeps_no_copy_of_the_code_under_test(tmp_path: Path) -> None:
    EnvBuilder(symlinks=True).create(tmp_path)
    (installed,) = tmp_path.glob("lib/python3*/site-packages")
    for path in ("shop/cart.py", "team/pay/x.py", "team/log/x.py", "lib/__init__.py", "lib/x.py"):
        (installed / path).parent.mkdir(parents=True, exist_ok=True)
        (installed / path).touch()
    command = [str(tmp_path / "bin/python"), "-c", harbor.LEAVE_OUT, "shop", "team/pay", "lib/x"]
    subprocess.run(command, check=True)
    left = [str(path.relative_to(installed)) for path in installed.rglob("*.py")]
    assert sorted(left) == ["lib/__init__.py", "lib/x.py", "team/log/x.py"]


def test_nor_its_byte_code_hashes_and_pips_copy(tmp_path: Path) -> None:
    EnvBuilder(symlinks=True).create(tmp_path)
    (installed,) = tmp_path.glob("lib/python3*/site-packages")
    listed = "one.py,sha256=x,7\r\ntwo.py,sha256=y,7\r\n"
    texts = {
        "one.py": "x = 1\n",
        "__pycache__/one.cpython-312.pyc": "",
        "__pycache__/two.cpython-312.pyc": "",
        "two.py": "y = 1\n",
        "f9__mypyc.cpython-312.so": "",
        "one-1.dist-info/RECORD": f"{listed}f9__mypyc.cpython-312.so,sha256=z,1\r\n",
        "pip/_vendor/one/__init__.py": "x = 1\n",
        "pip/_vendor/other.py": "",
    }
    for path, text in texts.items():
        (installed / path).parent.mkdir(parents=True, exist_ok=True)
        (installed / path).write_text(text)
    # Where the standard library is, no test may remove a file.
    stdlib = tmp_path / "stdlib"
    (stdlib / "ensurepip/_bundled").mkdir(parents=True)
    (stdlib / "ensurepip/_bundled/pip-25-py3-none-any.whl").touch()
    elsewhere = "import sysconfig; real = sysconfig.get_path; sysconfig.get_path = lambda name: "
    elsewhere += f"{str(stdlib)!r} if name == 'stdlib' else real(name)\n"
    script = elsewhere + harbor.LEAVE_OUT
    subprocess.run([str(tmp_path / "bin/python"), "-c", script, "one"], check=True)
    left = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    assert left == {"__pycache__/two.cpython-312.pyc", "two.py", "one-1.dist-info/RECORD"}
    assert (installed / "one-1.dist-info/RECORD").read_text() == "two.py,sha256=y,7\n"
    assert not list(stdlib.rglob("*.whl"))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"environment": Environment(variables={"A": "x\nRUN touch /bad"})}, "control character"),
        ({"environment": Environment(variables={"A=1 B": "x"})}, "no name of a variable"),
        ({"environment": Environment(packages=("numpy\n>=2",))}, "control character"),
        ({"environment": Environment(import_paths=("src\rRUN x",))}, "control character"),
        ({"files": {"a\nb": b""}, "gold_patch": ""}, "control character"),
        ({"files": {"../up": b""}, "gold_patch": ""}, "leads out"),
        ({"test_paths": ("/etc",)}, "leads out"),
        ({"category": 'x"\n[verifier]'}, "control character"),
        ({"image": "ubuntu"}, "can't be exported"),
        ({"language": "java"}, "can't be exported"),
    ],
)
def test_what_is_refused(
    benchmark: BundledBenchmark, tmp_path: Path, changes: dict[str, object], told: str
) -> None:
    (bug,) = benchmark.instances()
    with pytest.raises(ConfigError, match=told):
        exported(benchmark, replace(bug, **changes), tmp_path / "tasks")  # type: ignore[arg-type]
    assert not (tmp_path / "tasks").exists()


def test_an_existing_task_is_kept(benchmark: BundledBenchmark, tmp_path: Path) -> None:
    (bug,) = benchmark.instances()
    exported(benchmark, bug, tmp_path / "tasks")
    with pytest.raises(ConfigError, match="exists; remove it"):
        exported(benchmark, bug, tmp_path / "tasks")


def test_a_file_is_no_place_for_tasks(benchmark: BundledBenchmark, tmp_path: Path) -> None:
    (bug,) = benchmark.instances()
    (tmp_path / "tasks").write_text("mine")
    with pytest.raises(ConfigError, match="tasks: this is a file; name a folder"):
        exported(benchmark, bug, tmp_path / "tasks")
