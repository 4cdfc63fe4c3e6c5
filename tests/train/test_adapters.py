"""Names of modules for adapters that the base model does not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from collect.errors import ConfigError
from format.config import FormatConfig
from format.stage import run_format
from stepinto import main
from tests.format.conversations import make_rollouts, write_run
from train.adapters import look_at_adapters
from train.config import LoraSettings, TrainConfig
from train.stage import run_train


def config(base: Path, **lora: Any) -> TrainConfig:
    settings = LoraSettings(r=2, **lora)
    return TrainConfig(base_model=str(base), lora=settings, max_length=4096, device="cpu")


@pytest.mark.parametrize(
    ("lora", "told"),
    [
        (
            {"target_modules": ("q_porj",)},
            "no module 'q_porj'; did you mean 'q_proj'. It has down_",
        ),
        ({"target_modules": ("q_proj", "v_prj")}, "no module 'v_prj'; did you mean 'v_proj'?"),
        ({"target_modules": ("c_attn",)}, "down_proj, embed_tokens, gate_proj, k_proj, lm_head"),
        ({"target_modules": "q_proj"}, r"so write \[q_proj\]"),
        ({"target_modules": r".*\.atn\..*"}, "can't be trained; it has .* peft says"),
        ({"target_modules": "(q_proj"}, "'.q_proj' is no regular expression"),
        ({"target_modules": ("self_attn",)}, "can't be trained.* is not supported"),
        (
            {"target_modules": ("q_proj", "mlp")},
            "it has down_proj, embed_tokens, gate_proj, k_proj",
        ),
        ({"target_modules": ()}, "can't be trained"),
        (
            {"target_modules": ("q_proj", "embed_tokens"), "top_layers": 1},
            "'embed_tokens' is in none",
        ),
    ],
)
def test_it_names_the_module_and_those_that_there_are(
    lora: dict[str, Any], told: str, tiny_folder: Path
) -> None:
    with pytest.raises(ConfigError, match=rf"train\.lora\.target_modules: .*{told}"):
        look_at_adapters(config(tiny_folder, **lora))


@pytest.mark.parametrize(
    "lora",
    [
        {"target_modules": ("q_proj", "embed_tokens")},
        {"target_modules": ("layers.0.self_attn.q_proj",)},
        {"target_modules": r".*\.(q|v)_proj"},
        {"target_modules": ("q_proj",), "top_layers": 1},
        {"top_layers": 1},
    ],
)
def test_modules_that_there_are_pass(lora: dict[str, Any], tiny_folder: Path) -> None:
    look_at_adapters(config(tiny_folder, **lora))


def test_a_model_that_is_not_there_yet_is_looked_at_later(tmp_path: Path) -> None:
    look_at_adapters(config(tmp_path / "later", target_modules=("q_proj",)))


def test_a_training_ends_before_its_rows_are_encoded(tiny_folder: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", make_rollouts(1))
    run_format(FormatConfig(test_fraction=0), run)
    with pytest.raises(ConfigError, match="no module 'q_porj'"):
        run_train(config(tiny_folder, target_modules=("q_proj", "q_porj")), run)
    assert not list(run.rglob("*.arrow"))
    assert not (run / "model").exists()


def test_a_run_ends_before_its_first_stage(
    tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "own.yaml"
    train = {"base_model": str(tiny_folder), "lora": {"target_modules": ["q_porj"]}}
    own = {"run": "own", "runs_folder": str(tmp_path), "train": train}
    models = {"oracle": {"backend": "oracle"}}
    collect = {"benchmark": {"name": "bundled", "limit": 1}, "main": "oracle", "sub": "oracle"}
    stages = ["collect", "format", "train"]
    path.write_text(yaml.safe_dump(own | {"models": models, "collect": collect, "stages": stages}))
    assert main(["run", str(path)]) == 2
    assert "did you mean 'q_proj'?" in capsys.readouterr().err
    assert not (tmp_path / "own").exists()
