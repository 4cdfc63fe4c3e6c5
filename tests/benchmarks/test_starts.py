"""Each benchmark starts, with as little to measure as it takes."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import add_sections
from benchmarks.rollouts import collect

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LEAST = {
    "debugger_speed": ("actions", "--quick"),
    "grounding": ("demonstrations",),
    "mcp": ("--rounds", "0"),
    "oracle_claims": ("bundled", "--bugs", "1"),
    "projects": ("--list", "projects.yaml", "--folder", "."),
    "reading": (".", "--sample", "0"),
    "rollouts": ("parts",),
    "server_faults": ("--only", "two calls"),
    "truth": ("--version", "3.11", "--program", "loops"),
    "truth_java": (),
}
"""Arguments of each; paths are below the test's own folder, `demonstrations` the repository's."""


def test_none_is_left_out() -> None:
    modules = {path.stem for path in BENCHMARKS.glob("[!_]*.py")}
    packages = {path.parent.name for path in BENCHMARKS.glob("*/__main__.py")}
    assert modules | packages == LEAST.keys()


@pytest.mark.parametrize("name", LEAST)
def test_it_starts(name: str, tmp_path: Path) -> None:
    (tmp_path / "projects.yaml").write_text("[]")
    (tmp_path / "bugs.jsonl").touch()
    (tmp_path / "demonstrations").symlink_to(BENCHMARKS.parent / "demonstrations")
    command = [sys.executable, "-m", f"benchmarks.{name}", *LEAST[name]]
    result = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    # 1 of `debugger_speed` says that a target was missed, which a busy machine may.
    assert result.returncode == 0 or (name == "debugger_speed" and "| NO" in result.stdout), (
        result.stderr
    )


def test_no_section_means_all(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_sections(parser, ("launch", "actions"))
    assert parser.parse_args([]).sections == []
    assert parser.parse_args(["actions"]).sections == ["actions"]
    with pytest.raises(SystemExit):
        parser.parse_args(["loop"])
    assert "'loop' is none of: launch, actions" in capsys.readouterr().err


@pytest.mark.slow
def test_what_fails_takes_nothing_from_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    options = argparse.Namespace(rollouts=1, at_once=(1,))
    assert not collect({"none": ["runner.backend=none"], "local": []}, options)
    shown, failed = capsys.readouterr()
    rows = [line for line in shown.splitlines() if "1 at once" in line]
    assert ["failed" in row for row in rows] == [True, False]
    assert "runner.backend=none failed:" in failed
