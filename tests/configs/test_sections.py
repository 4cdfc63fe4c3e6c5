"""What `stepinto run` looks at before its first stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from collect.errors import ConfigError
from configs.command_line.stages import check_sections
from configs.loading import load_config
from stepinto import main

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
QUICKSTART = CONFIGS / "quickstart.yaml"


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_config_can_be_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the runs are there that it builds on."""
    config = load_config(path)
    monkeypatch.chdir(tmp_path)
    for run in config.format.runs:
        (run / "rollouts").mkdir(parents=True)
    check_sections(config)


@pytest.mark.parametrize(
    ("stages", "override", "told"),
    [
        ("make", "factory.projects=[]", "factory.projects is empty"),
        ("answer", "questions.answer_with=[source_reader, none]", "there is no model 'none'"),
        ("format, collect", "collect.sub=none", "there is no model 'none'"),
        ("format, collect", "collect.main=orcale", "oracle, small; did you mean 'oracle'?"),
        (
            "collect, train",
            "train.trainer_arguments={warmup_step: 3}",
            "did you mean 'warmup_steps",
        ),
        ("collect, eval", "eval.pairs=[]", "there is nothing to evaluate"),
        ("collect, eval", "eval.pairs=[{main: oracle, sub: none}]", "there is no model 'none'"),
        ("collect, eval", "eval.questions={models: [none]}", "there is no model 'none'"),
    ],
)
def test_a_section_that_a_later_stage_would_refuse(stages: str, override: str, told: str) -> None:
    config = load_config(QUICKSTART, [f"stages=[{stages}]", override])
    with pytest.raises(ConfigError, match=told):
        check_sections(config)


def test_only_the_sections_of_the_stages_count() -> None:
    check_sections(load_config(QUICKSTART, ["stages=[collect]", "eval.pairs=[]"]))


def test_a_refused_run_has_done_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(QUICKSTART), f"runs_folder={tmp_path}", "eval.pairs=[]"]) == 2
    assert "there is nothing to evaluate" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
