"""Numbers of a real run in wandb, and a wandb that does not work."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from collect.config import WandbSettings
from collect.errors import ConfigError
from collect.rollouts.tracking import public, refuse_settings_of_others, wandb_run
from collect.store.run_store import RunStore
from stepinto import main
from tests.collect.models.chat_server import ChatServer, collect_from, error, reply
from tests.wandb_file import offline_runs

ROOT = Path(__file__).resolve().parents[3]
CONFIG = ROOT / "configs" / "debug2fix.yaml"


def command(server: ChatServer, folder: Path, *overrides: str) -> list[str]:
    return collect_from(server, folder, "collect.benchmark.limit=2", *overrides)


def test_a_start_is_a_run_of_wandb(server: ChatServer, tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed")
    tracked = ("runner.wandb={}", "sandbox.environment={WORD: geheim}")
    assert main(command(server, tmp_path, *tracked, "collect.benchmark.limit=1")) == 0
    (run,) = offline_runs(tmp_path / "test")
    end = run.numbers[-1]
    assert (end["rollouts/done"], end["rollouts/total"], end["tokens"]) == (1, 1, 120)
    files = (tmp_path / "test" / "wandb").rglob("*")
    assert not [path for path in files if path.is_file() and b"geheim" in path.read_bytes()]


@pytest.mark.slow
def test_two_starts_are_one_run_of_wandb(server: ChatServer, tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed")
    tracked = ("runner.wandb={}", "runner.track_every=0.5", "sandbox.environment={WORD: geheim}")
    down = error(500, "down")
    server.will_answer(down, down, reply())
    slow = "models.frontier.retries={max_retries: 1, backoff_base: 16}"
    assert main(command(server, tmp_path, *tracked, slow, "runner.again=0")) == 0
    assert main(command(server, tmp_path, *tracked)) == 0
    first, second = offline_runs(tmp_path / "test")
    assert first.id == second.id
    last, end = first.numbers[-1], second.numbers[-1]
    assert (last["rollouts/done"], last["rollouts/total"], last["failed/EndpointDown"]) == (2, 2, 1)
    assert (end["rollouts/done"], end["rollouts/running"], end["tokens"]) == (2, 0, 240)
    assert end["dollars"] == pytest.approx(2 * (100 * 1.25e-6 + 20 * 10e-6))
    assert (end["rollouts/resolved"], end["rollouts/resolved_share"]) == (0, 0)
    assert end["failed/EndpointDown"] == 0
    assert len(first.numbers) > 1, "it is told of while it runs"
    steps = [each["_step"] for each in (*first.numbers, *second.numbers)]
    assert steps == sorted(steps)
    assert second.config["collect"]["benchmark"]["limit"] == 2
    files = (tmp_path / "test" / "wandb").rglob("*")
    assert not [path for path in files if path.is_file() and b"geheim" in path.read_bytes()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "key",
    [
        pytest.param(None, id="no-key"),
        pytest.param("a" * 40, id="no-network"),
    ],
)
def test_a_server_that_can_t_be_reached_hurts_nothing(
    server: ChatServer, tmp_path: Path, key: str | None
) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed")
    known = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    environment = {**known, "HOME": str(tmp_path), "WANDB_BASE_URL": "http://127.0.0.1:9"}
    if key is not None:
        environment["WANDB_API_KEY"] = key
    arguments = command(server, tmp_path, "runner.wandb={mode: online}")
    done = subprocess.run(
        [sys.executable, "-m", "stepinto", *arguments],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("stepinto: wandb gets no more numbers of this run") == 1
    rows = list(RunStore(tmp_path / "test").read_rollouts())
    assert [row.failure_kind for row in rows] == [None, None]


def test_a_tracker_that_is_not_installed_is_told_before_work_starts(
    server: ChatServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert main(command(server, tmp_path, "runner.wandb={}")) == 2
    assert "run `pip install wandb`" in capsys.readouterr().err
    assert not server.requests


@pytest.mark.slow
def test_a_broken_note_of_the_run_hurts_nothing(
    server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed")
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "tracking.json").write_text("{")
    assert main(command(server, tmp_path, "runner.wandb={}")) == 0
    assert capsys.readouterr().err.count("wandb gets no more numbers of this run") == 1
    assert len(list(RunStore(tmp_path / "test").read_rollouts())) == 2


def test_what_can_hold_a_key_is_not_shown() -> None:
    settings = {
        "models": {"a": {"base_url": "https://me:secret@host/v1", "extra_body": {"key": "secret"}}},
        "sandbox": {"environment": {"TOKEN": "secret"}, "packages": ["a@b"]},
    }
    shown = public(settings)
    assert "secret" not in str(shown)
    assert shown["models"]["a"]["base_url"] == "https://host/v1"
    assert shown["sandbox"]["packages"] == ["a@b"]


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("[default]\nbase_url = http://127.0.0.1:9\n", True),
        ("[x]\nhttps_proxy = http://127.0.0.1:9\n", True),
        ("x", True),
        ("[default]\nentity = me\nproject = mine\n", False),
    ],
)
def test_the_current_folder_does_not_say_who_gets_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, refused: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    refuse_settings_of_others()
    for name in ("wandb", ".wandb"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "settings").write_text(text)
        told = pytest.raises(ConfigError, match="can send your key elsewhere")
        with told if refused else nullcontext():
            refuse_settings_of_others()
        if refused:
            with told, wandb_run(WandbSettings(), tmp_path, {}):
                pass
        (tmp_path / name / "settings").unlink()
