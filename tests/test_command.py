"""What the command answers where it can't go on."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import stepinto
from collect.errors import ConfigError
from configs.command_line import stages
from configs.command_line.shared import STOPPED, heading
from configs.loading import load_config

STEPINTO = str(Path(sys.executable).with_name("stepinto"))
CONFIG = str(Path(__file__).resolve().parents[1] / "configs" / "quickstart.yaml")


def fail_with(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def test_a_full_disk_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise fail_with(errno.ENOSPC)

    monkeypatch.setattr(stages, "config_saved", full)
    assert stepinto.main(["collect", CONFIG]) == 2
    told = capsys.readouterr().err
    assert "No space left on device" in told
    assert "are kept" in told


def test_a_defect_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise fail_with(errno.EBADF)

    monkeypatch.setattr(stages, "config_saved", broken)
    with pytest.raises(OSError, match="Bad file descriptor"):
        stepinto.main(["collect", CONFIG])


def test_ctrl_c_outside_of_rollouts_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "config_saved", interrupted)
    assert stepinto.main(["collect", CONFIG]) == STOPPED


WAITING = """
import time, types, stepinto

def wait(_):
    print("on", flush=True)
    time.sleep(60)

stepinto.read_arguments = lambda _: types.SimpleNamespace(command=wait)
raise SystemExit(stepinto.main([]))
"""


def test_sigterm_outside_of_rollouts_is_like_ctrl_c() -> None:
    command = [sys.executable, "-c", WAITING]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "on\n"
        waiting.terminate()
        assert "stopped" in waiting.communicate()[1]
    assert waiting.returncode == STOPPED


def test_a_bug_is_shown_without_its_gold_patch_unless_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert stepinto.main(["bench", "show", CONFIG, "shopcart__negative-base"]) == 0
    shown = capsys.readouterr().out
    assert "Problem statement:" in shown
    assert "tests/test_prices.py  (tests)" in shown
    assert "Gold patch" not in shown
    assert stepinto.main(["bench", "show", "--gold", CONFIG, "shopcart__negative-base"]) == 0
    assert "    +++ b/shopcart/" in capsys.readouterr().out


def test_a_setting_is_no_id(capsys: pytest.CaptureFixture[str]) -> None:
    setting, bug = "collect.benchmark.language=python", "shopcart__negative-base"
    assert stepinto.main(["bench", "show", CONFIG, setting, bug]) == 0
    assert capsys.readouterr().out.startswith(bug)
    for words in ([setting], [bug, setting, bug]):
        assert stepinto.main(["bench", "show", CONFIG, *words]) == 2
        assert "bench show takes the id of one bug" in capsys.readouterr().err


def test_ids_stand_whole_in_lists_and_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "test_it.py").write_text("def test():\n    assert 0\n")
    name = "a[/b]:cat:" + "-long" * 20
    bug = {
        "id": name,
        "repository": "shop",
        "problem_statement": "It fails.",
        "fail_to_pass": ["test_it.py::test"],
        "test_paths": ["test_it.py"],
    }
    (tmp_path / "bugs.jsonl").write_text(json.dumps(bug))
    words = [CONFIG, f"collect.benchmark={{name: local, path: {tmp_path}}}"]
    assert stepinto.main(["bench", "list", *words]) == 0
    assert capsys.readouterr().out == f"{name}  -  1 failing, 0 passing  not verified\n"
    assert stepinto.main(["bench", "verify", *words, "--repeats", "1"]) == 0
    assert name in capsys.readouterr().out
    heading("collect")
    assert len(capsys.readouterr().out) == 81


def test_an_unknown_bug_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert stepinto.main(["bench", "show", CONFIG, "shopcart__negative-bas"]) == 2
    assert "shopcart__negative-base" in capsys.readouterr().err


def test_settings_stand_before_and_after_flags(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["run=x", "--preflight", "collect.atempts=4"]
    assert stepinto.main(["collect", CONFIG, *wrong]) == 2
    assert "atempts: there is no such key; did you mean 'attempts'?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        stepinto.main(["collect", CONFIG, "--preflight", "run=x", "--now", "word"])
    assert "unrecognized arguments: --now word" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        stepinto.main(["doctor", "run=x"])
    assert "unrecognized arguments: run=x" in capsys.readouterr().err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        stepinto.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"stepinto {version('stepinto')}\n"


def test_a_shipped_config_is_copied_once_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert stepinto.main(["init", "--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == sorted(path.stem for path in Path(CONFIG).parent.glob("*.yaml"))
    assert stepinto.main(["init", "quickstart"]) == 0
    assert load_config(Path("quickstart.yaml")) == load_config(Path("quickstart"))
    Path("quickstart.yaml").write_text("run: mine\n")
    assert stepinto.main(["init", "quickstart"]) == 2
    assert "quickstart.yaml exists" in capsys.readouterr().err
    assert Path("quickstart.yaml").read_text() == "run: mine\n"
    assert stepinto.main(["init", "quickstrat"]) == 2
    assert "did you mean 'quickstart'?" in capsys.readouterr().err


def test_a_file_of_a_shipped_config_s_name_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_config(Path("debug2fix")).run == "debug2fix"
    Path("debug2fix").write_text("run: mine\n")
    assert load_config(Path("debug2fix")).run == "mine"
    with pytest.raises(ConfigError, match=r"`stepinto init --list`\); did you mean 'factory'"):
        load_config(Path("elsewhere/factory.yaml"))


def test_the_quickstart_takes_settings_and_no_config(capsys: pytest.CaptureFixture[str]) -> None:
    assert stepinto.main(["quickstart", "collect.atempts=4"]) == 2
    told = capsys.readouterr().err
    assert "quickstart.yaml" in told
    assert "did you mean 'attempts'?" in told


@pytest.mark.parametrize("start", [["-m", "stepinto"], [STEPINTO]], ids=["module", "script"])
def test_a_project_may_have_packages_of_the_same_names(start: list[str], tmp_path: Path) -> None:
    for name in ("collect", "configs", "train"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the project's own')")
    for name in ("eval.py", "format.py", "sandbox.py"):
        (tmp_path / name).write_text("raise SystemExit('the project's own')")
    command = [sys.executable, *start, "bench", "list", "quickstart"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "shopcart__negative-base" in done.stdout


def test_help_loads_nothing_that_takes_time() -> None:
    script = "import sys, stepinto\ntry: stepinto.main(['--help'])\nfinally: print(*sys.modules)"
    told = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    assert "roll out the agents" in told
    loaded = set(told.splitlines()[-1].split())
    assert not loaded & {"collect", "configs", "sandbox", "pydantic", "rich", "pyarrow", "torch"}


@pytest.mark.parametrize("name", stepinto.COMMANDS)
def test_each_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        stepinto.main([name, "--help"])
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert stepinto.COMMANDS[name] in " ".join(told.split())
    assert f"examples:\n  stepinto {name}" in told
