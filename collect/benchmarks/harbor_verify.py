"""Judges a workspace inside a Harbor task's container: puts the tests back, runs them, and writes
1 or 0 to `reward.txt`. It is copied into tasks, and needs only Python and pytest."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


class Outcomes:
    """A pytest plugin that collects which tests have passed; an expected failure has."""

    def __init__(self) -> None:
        self.ended: set[str] = set()
        self.failed: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        skipped = report.skipped and not hasattr(report, "wasxfail")
        (self.failed if report.failed or skipped else self.ended).add(report.nodeid)


def run_tests(output: str) -> None:
    """Run the bug's tests in the current folder, in this process."""
    import pytest

    bug, outcomes = json.loads((HERE / "bug.json").read_text(encoding="utf-8")), Outcomes()
    pytest.main(["-p", "no:cacheprovider", *bug["tests"]], plugins=[outcomes])
    Path(output).write_text(json.dumps(sorted(outcomes.ended - outcomes.failed)), encoding="utf-8")


def put_back(workspace: Path, bug: dict[str, Any]) -> None:
    """Undo what the agent did to tests, and to files that steer pytest."""
    steering = [path for name in bug["runner_names"] for path in workspace.rglob(name)]
    kept = {workspace / path for path in bug["may_change"]}
    for path in [*(workspace / each for each in bug["test_paths"]), *{*steering} - kept]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    shutil.copytree(HERE / "files", workspace, dirs_exist_ok=True)


def main(workspace: Path, logs: Path) -> None:
    bug = json.loads((HERE / "bug.json").read_text(encoding="utf-8"))
    put_back(workspace, bug)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "passed.json")
        # As `python -m pytest` would, Python imports from the workspace.
        paths = filter(None, [str(workspace), os.environ.get("PYTHONPATH")])
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        command = [sys.executable, str(HERE / "verify.py"), "--run", str(output)]
        subprocess.run(command, cwd=workspace, env=environment, check=False)
        passed = json.loads(output.read_text(encoding="utf-8")) if output.is_file() else []
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "reward.txt").write_text(f"{int(set(bug['tests']) <= set(passed))}\n")


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        run_tests(sys.argv[2])
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
