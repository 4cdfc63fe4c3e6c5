"""A dataset goes to a hub, here one on this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from collect.errors import ConfigError
from format.config import FormatConfig, PushConfig
from format.push import check_push, push
from format.stage import run_format
from stepinto import main
from tests.format.conversations import make_rollouts, write_run
from tests.format.hub import TOKEN, Hub, running_hub

TARGET = PushConfig(repository="me/sessions", private=True)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with running_hub() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield running


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", make_rollouts(3))


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_dataset_is_uploaded_and_replaced(hub: Hub, run: Path) -> None:
    for config in (FormatConfig(atif=True), FormatConfig(test_fraction=0)):
        run_format(config, run)
        url = push(run / "sft", TARGET)
        held = hub.repositories["me/sessions"]
        assert url == f"{hub.url}/datasets/me/sessions"
        assert hub.private == {"me/sessions": True}
        held.setdefault("LICENSE", b"of its owner")
        assert held == files_of(run / "sft") | {"LICENSE": b"of its owner"}


@pytest.mark.slow
def test_the_records_behind_the_rows_are_uploaded(
    hub: Hub, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = run / "config.yaml"
    config.write_text(f"run: run\nruns_folder: {run.parent}\n")
    command = ["format", str(config), "--push", "me/sessions", "format.test_fraction=0"]
    assert main(command) == 0, capsys.readouterr()
    held = hub.repositories["me/sessions"]
    records = {
        f"records/run/{table}/{path.name}": path.read_bytes()
        for table in ("rollouts", "conversations")
        for path in (run / table).glob("*.parquet")
    }
    assert records
    assert held == files_of(run / "sft") | records
    card = held["README.md"].decode()
    facts = yaml.safe_load(card.split("---")[1])
    assert {each["config_name"] for each in facts["configs"]} >= {"rollouts", "conversations"}
    alone = ["format", str(config), "format.push={repository: me/sessions, records: false}"]
    assert main([*alone, "format.test_fraction=0"]) == 0
    assert hub.repositories["me/sessions"] == files_of(run / "sft")


def test_records_of_held_out_bugs_stay_here(hub: Hub, run: Path) -> None:
    config = run / "config.yaml"
    config.write_text(f"run: run\nruns_folder: {run.parent}\n")
    (run / "rollouts" / ".tmp-data-9.parquet").write_bytes(b"unfinished")
    command = ["format", str(config), "--push", "me/sessions", "format.test_fraction=0"]
    assert main([*command, "held_out.repositories=[textflow]"]) == 0
    assert hub.repositories["me/sessions"] == files_of(run / "sft")
    assert main([*command, "held_out.repositories=[]"]) == 0
    names = hub.repositories["me/sessions"]
    assert any(name.startswith("records/run/rollouts/") for name in names)
    assert not any(".tmp-" in name for name in names)


def test_the_command_checks_the_target_first(
    hub: Hub, run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = run / "config.yaml"
    config.write_text(f"run: run\nruns_folder: {run.parent}\n")
    assert main(["format", str(config), "--private"]) == 2
    assert main(["format", str(config), "--push", "no name"]) == 2
    assert main(["format", str(config), "format.push={repository: nobody}"]) == 2
    assert not (run / "sft").exists()
    told = capsys.readouterr().err
    assert "--private is for --push" in told
    assert "'nobody' must be OWNER/NAME" in told
    assert main(["format", str(config), "--push", "me/sessions"]) == 0
    assert hub.private == {"me/sessions": False}
    assert f"{hub.url}/datasets/me/sessions" in capsys.readouterr().out


def test_without_a_token_or_with_a_wrong_one(
    hub: Hub, run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run_format(FormatConfig(), run)
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(ConfigError, match=r"refused to take me/sessions.*HF_TOKEN"):
        push(run / "sft", TARGET)
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="no token to push me/sessions"):
        check_push(TARGET)


def test_without_a_network(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{unused.getsockname()[1]}")
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        run_format(FormatConfig(), run)
        with pytest.raises(ConfigError, match=r"can't be reached.*the same command pushes it"):
            push(run / "sft", TARGET)
