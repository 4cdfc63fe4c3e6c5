"""Two processes that train one model, on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from transformers import AutoModelForCausalLM

from collect.errors import ConfigError
from format.config import FormatConfig
from format.dataset import split_file
from format.stage import run_format
from tests.format.conversations import write_run
from tests.train.encoded import measured
from train.base_model import load_tokenization
from train.config import TrainConfig
from train.job import Processes, joined
from train.preflight import encode_split, load_rows
from train.report import TrainReport
from train.stage import PROCESSES, newest_checkpoint

ROOT = Path(__file__).parents[2]
# Standalone: at a free port.
TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc_per_node", "2")
LAUNCH = (sys.executable, "-m", *TORCHRUN, "-m", "stepinto")


@pytest.mark.slow
def test_two_processes_train_one_model_and_the_first_one_saves_it(
    tmp_path: Path, tiny_folder: Path
) -> None:
    run = write_run(tmp_path / "run")
    run_format(FormatConfig(test_fraction=0.6), run)
    train = {
        "base_model": str(tiny_folder),
        "max_steps": 1,
        "gradient_accumulation": 1,
        "max_length": 4096,
        "device": "cpu",
        "eval_every": 1,
        "checkpoints_at": [2],
        "trainer_arguments": {"bf16": False},
    }
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"run": "run", "runs_folder": str(tmp_path), "train": train}))
    done = subprocess.run(
        [*LAUNCH, "train", str(config)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("step 1/1") == 1
    report = TrainReport.model_validate_json((run / "model" / "training.json").read_text())
    # Two rows, of which each process takes one in a step.
    assert report.loss_curve[0].epoch == 1
    (point,) = report.eval_curve
    settings, target = TrainConfig.model_validate(train), tmp_path / "test.arrow"
    encode_split(split_file(run / "sft", "test"), target, settings, load_tokenization(settings))
    test_rows = load_rows(target)
    assert len(test_rows) == 3
    model = AutoModelForCausalLM.from_pretrained(run / "model")
    losses = [measured(model, [row])[0] for row in test_rows]
    assert point.loss == pytest.approx(sum(losses) / 3, rel=1e-4)
    for folder in (run / "model", run / "model-at" / "2"):
        AutoModelForCausalLM.from_pretrained(folder)


def test_checkpoints_of_another_training_or_number_of_processes_are_refused(tmp_path: Path) -> None:
    assert newest_checkpoint(tmp_path, "training", 2) is None
    assert newest_checkpoint(tmp_path, "training", 1) is None
    checkpoint = tmp_path / "checkpoint-3"
    checkpoint.mkdir()
    (checkpoint / "trainer_state.json").write_text('{"global_step": 3}')
    assert newest_checkpoint(tmp_path, "training", 1) == checkpoint
    with pytest.raises(ConfigError, match="in 1 processes, and this start has 2") as refused:
        newest_checkpoint(tmp_path, "training", 2)
    assert f"remove {tmp_path}" in str(refused.value)
    assert newest_checkpoint(tmp_path, "training", 1) == checkpoint
    (tmp_path / PROCESSES).unlink()
    assert newest_checkpoint(tmp_path, "training", 2) == checkpoint
    with pytest.raises(ConfigError, match="with other settings or data"):
        newest_checkpoint(tmp_path, "another training", 2)
    (checkpoint / "trainer_state.json").unlink()
    assert newest_checkpoint(tmp_path, "another training", 1) is None


def test_one_process_works_by_itself() -> None:
    with joined(cpu=True) as processes:
        assert processes.on_main(lambda: 7) == 7

    def fail() -> None:
        raise ConfigError("wrong")

    with pytest.raises(ConfigError, match="wrong"):
        Processes().on_main(fail)
