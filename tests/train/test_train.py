"""The train stage on a tiny random model: real TRL steps on the CPU."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint
from transformers import AutoModelForCausalLM, AutoTokenizer

from collect.errors import ConfigError
from collect.store.records import digest
from format.config import FormatConfig
from format.dataset import split_file
from format.stage import run_format
from tests.format.conversations import write_run
from tests.tiny_model import build_tiny_model
from train.config import TrainConfig
from train.job import Job
from train.report import LossPoint
from train.stage import newest_checkpoint, newest_whole, run_train
from train.trainer import load_model

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def formatted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_run(tmp_path_factory.mktemp("formatted") / "run")
    run_format(FormatConfig(test_fraction=0), folder)
    return folder


@pytest.fixture
def run(formatted: Path, tmp_path: Path) -> Path:
    return shutil.copytree(formatted, tmp_path / "run")


def config(tiny: Path, **changes: Any) -> TrainConfig:
    """Three steps of one row each."""
    fields: dict[str, Any] = {
        "base_model": str(tiny),
        "max_steps": 3,
        "gradient_accumulation": 1,
        "max_length": 4096,
        "learning_rate": 1e-2,
        "device": "cpu",
    }
    return TrainConfig(**fields | changes)


def generated(folder: Path) -> str:
    """What the saved model says to one question."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is in self.order?"}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    ids = model.generate(**prompt, max_new_tokens=5, do_sample=False)
    return str(tokenizer.decode(ids[0][prompt["input_ids"].shape[1] :]))


def test_lora_trains_merges_and_the_model_generates(run: Path, tiny: Path) -> None:
    points: list[int] = []
    report = run_train(config(tiny), run, on_step=lambda point, total: points.append(point.step))
    model = run / "model"
    assert points == [1, 2, 3]
    assert report.steps == len(report.loss_curve) == 3
    assert report.loss_curve[-1].loss < report.loss_curve[0].loss
    assert report.preflight.rows == 5
    assert 0 < report.preflight.trained_tokens < report.preflight.tokens
    assert json.loads((model / "training.json").read_text())["fingerprint"] == report.fingerprint
    splits = json.loads((run / "sft" / "report.json").read_text())["splits"]
    assert report.repositories == sorted(splits["train"]["repositories"])
    assert not (model / "adapter_config.json").exists()
    template = (model / "chat_template.jinja").read_text()
    assert "generation %}" not in template
    assert template == AutoTokenizer.from_pretrained(tiny).chat_template
    assert isinstance(generated(model), str)
    before = AutoModelForCausalLM.from_pretrained(tiny).state_dict()
    after = AutoModelForCausalLM.from_pretrained(model).state_dict()
    changed = {name for name in before if not before[name].equal(after[name])}
    assert any("q_proj" in name for name in changed)
    assert not any("norm" in name or "embed" in name for name in changed)


def test_what_is_trained_is_told_and_how_far_within_a_step(
    run: Path, tiny: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "train")
    parts: list[tuple[float, int]] = []
    settings = config(tiny, max_steps=2, gradient_accumulation=2)
    run_train(settings, run, on_part=lambda done, steps: parts.append((done, steps)))
    assert parts == [(0, 2), (0.5, 2), (1, 2), (1.5, 2), (2, 2)]
    checking, *_, few, training = caplog.messages
    assert few == "an epoch of 5 rows is only 3 steps: collect more, or the model will learn little"
    assert checking == f"checking {split_file(run / 'sft', 'train')} and loading {tiny}"
    assert training == f"training {tiny} for 2 steps on 5 rows, on cpu"


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_attention_is_the_loaded_models(tiny: Path, attention: str) -> None:
    settings = config(tiny, attention=attention)
    assert load_model(settings, str(tiny)).config._attn_implementation == attention


def test_an_unusual_learning_rate_is_told_before_the_rows_are_read(
    run: Path, tiny: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConfigError, match="lengths"):
        run_train(config(tiny, learning_rate=0.5, max_length=100), run)
    assert "train.learning_rate = 0.5 is far from 0.0001 to 0.001" in caplog.text
    with pytest.raises(ConfigError, match="lengths"):
        run_train(config(tiny, learning_rate=None, max_length=100), run)
    assert caplog.text.count("is far from") == 1


def test_an_attention_that_is_not_there_is_refused_at_once(run: Path, tiny: Path) -> None:
    with pytest.raises(ConfigError, match=r"train\.attention: flash: .*not supported"):
        run_train(config(tiny, attention="flash"), run)
    assert not list(run.glob("train/*.arrow"))


@pytest.mark.slow
def test_a_finished_training_is_not_done_again(run: Path, tiny: Path) -> None:
    first = run_train(config(tiny, max_steps=1), run)
    written = (run / "model" / "training.json").stat().st_mtime_ns
    assert run_train(config(tiny, max_steps=1), run) == first
    assert (run / "model" / "training.json").stat().st_mtime_ns == written
    assert run_train(config(tiny, max_steps=2), run).steps == 2


def test_a_training_on_a_model_of_the_hub_is_told_by_its_config_and_data(tmp_path: Path) -> None:
    config = TrainConfig(base_model="owner/name")
    one = Job(config, tmp_path, tmp_path / "rows", "1")
    assert one.fingerprint == digest({"config": config.identity(), "data": "1"})
    assert one.fingerprint != Job(config, tmp_path, tmp_path / "rows", "2").fingerprint


@pytest.mark.parametrize("setting", ["training_template", "serving_template"])
def test_a_template_that_was_edited_is_another_training(tmp_path: Path, setting: str) -> None:
    template = tmp_path / "own.jinja"
    template.write_text("one")
    fields: dict[str, Any] = {"base_model": "owner/name", setting: str(template)}
    settings = TrainConfig(**fields)
    one = Job(settings, tmp_path, tmp_path / "rows", "1")
    assert one.fingerprint == Job(settings, tmp_path, tmp_path / "rows", "1").fingerprint
    template.write_text("another")
    assert one.fingerprint != Job(settings, tmp_path, tmp_path / "rows", "1").fingerprint


def test_the_templates_of_trl_make_no_other_training(tmp_path: Path) -> None:
    settings = TrainConfig()
    one = Job(settings, tmp_path, tmp_path / "rows", "1")
    assert one.fingerprint == digest({"config": settings.identity(), "data": "1"})


@pytest.mark.slow
def test_a_base_model_that_was_trained_again_is_another_training(
    run: Path, tiny: Path, tmp_path: Path
) -> None:
    base = shutil.copytree(tiny, tmp_path / "base")
    once = config(base, max_steps=1)
    first = run_train(once, run)
    assert run_train(once, run) == first
    (base / "training.json").write_text('{"fingerprint": "another"}')
    again = run_train(once, run)
    assert again.fingerprint != first.fingerprint


@pytest.mark.slow
def test_full_training_changes_every_weight(run: Path, tiny: Path) -> None:
    report = run_train(config(tiny, lora=None, max_steps=1, save_untuned=True), run)
    assert report.trained_parameters == report.parameters
    before = AutoModelForCausalLM.from_pretrained(tiny).state_dict()
    after = AutoModelForCausalLM.from_pretrained(run / "model").state_dict()
    assert all(not before[name].equal(after[name]) for name in before if "bias" not in name)
    untuned = AutoModelForCausalLM.from_pretrained(run / "untuned").state_dict()
    assert all(before[name].equal(untuned[name]) for name in before)
    served = (run / "model" / "chat_template.jinja").read_text()
    assert (run / "untuned" / "chat_template.jinja").read_text() == served


@pytest.mark.slow
def test_adapter_of_the_top_layer_alone_loads(run: Path, tiny: Path) -> None:
    run_train(config(tiny, merge=False, max_steps=1, lora={"r": 4, "top_layers": 1}), run)
    saved = json.loads((run / "model" / "adapter_config.json").read_text())
    assert saved["layers_to_transform"] == [1]
    assert saved["base_model_name_or_path"] == str(tiny)
    assert isinstance(generated(run / "model"), str)


def interrupted(settings: TrainConfig, run: Path) -> Path:
    """Interrupt a training at its second step; returns its newest whole checkpoint."""

    def interrupt(point: LossPoint, total: int) -> None:
        if point.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_train(settings, run, on_step=interrupt)
    newest = newest_whole(run / "train" / "checkpoints")
    assert newest is not None
    return newest


def test_an_interrupted_training_goes_on_from_its_newest_whole_checkpoint(
    run: Path, tiny: Path
) -> None:
    settings = config(tiny, max_steps=3, checkpoint_every=1)
    newest = interrupted(settings, run)
    folder = newest.parent
    step = int(newest.name.rpartition("-")[2])
    broken = folder / f"checkpoint-{step + 1}"
    broken.mkdir(exist_ok=True)
    (broken / "trainer_state.json").write_text('{"global_step":')

    report = run_train(settings, run)
    assert report.resumed_from_step == step >= 1
    assert [point.step for point in report.loss_curve] == [1, 2, 3]
    assert not folder.exists()


def test_a_training_that_could_not_save_its_model_repeats_no_step(
    run: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(tiny, max_steps=2, checkpoint_every=1)
    with monkeypatch.context() as patched:
        patched.setattr("train.stage._save", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run_train(settings, run)
    report = run_train(settings, run)
    assert (report.resumed_from_step, report.steps) == (2, 2)
    assert [point.step for point in report.loss_curve] == [1, 2]


class Calls:
    """A pickle that makes a file when it is read as any other."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        return Path.touch, (self.witness,)


@pytest.mark.parametrize("file", ["optimizer.pt", "scheduler.pt", "rng_state.pth"])
def test_a_checkpoint_from_elsewhere_calls_nothing(
    run: Path, tiny: Path, tmp_path: Path, file: str
) -> None:
    settings = config(tiny, max_steps=3, checkpoint_every=1)
    newest = interrupted(settings, run)
    assert (newest / file).is_file()
    witness = tmp_path / "called"
    (newest / file).write_bytes(pickle.dumps(Calls(witness)))
    (newest / "training_args.bin").write_bytes(pickle.dumps(Calls(witness)))
    with pytest.raises(ConfigError, match=r"damaged, or no training has written it"):
        run_train(settings, run)
    assert not witness.exists()
    assert newest.is_dir()


def test_the_table_of_a_sharded_checkpoint_calls_nothing(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 2)
    assert newest_checkpoint(tmp_path, "training", 1) is None
    checkpoint = tmp_path / "checkpoint-1"
    shards = checkpoint / "pytorch_model_fsdp_0"
    state = {"model": model.state_dict(), "optimizer": torch.optim.AdamW(model.parameters())}
    state["optimizer"] = state["optimizer"].state_dict()
    torch.distributed.checkpoint.save(state, checkpoint_id=shards, no_dist=True)
    (checkpoint / "trainer_state.json").write_text('{"global_step": 1}')
    assert newest_checkpoint(tmp_path, "training", 1) == checkpoint
    witness = tmp_path / "called"
    (shards / ".metadata").write_bytes(pickle.dumps(Calls(witness)))
    with pytest.raises(ConfigError, match=r"no training has written it"):
        newest_checkpoint(tmp_path, "training", 1)
    assert not witness.exists()


@pytest.mark.parametrize("weights", ["pytorch_model.bin", "adapter_model.bin"])
def test_a_model_from_elsewhere_calls_nothing(tiny: Path, tmp_path: Path, weights: str) -> None:
    folder = shutil.copytree(tiny, tmp_path / "model")
    (folder / "model.safetensors").unlink()
    witness = tmp_path / "called"
    (folder / weights).write_bytes(pickle.dumps(Calls(witness)))
    with pytest.raises((ConfigError, OSError)):
        load_model(config(tiny), str(folder))
    assert not witness.exists()


def test_code_beside_a_model_is_not_run_nor_asked_about(
    tiny: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder, witness = shutil.copytree(tiny, tmp_path / "model"), tmp_path / "called"
    described = json.loads((folder / "config.json").read_text())
    maps = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    described |= {"model_type": "own", "auto_map": maps, "trust_remote_code": True}
    (folder / "config.json").write_text(json.dumps(described))
    (folder / "own.py").write_text(f"open({str(witness)!r}, 'w')\n")
    with pytest.raises(ValueError, match="custom code"):
        load_model(config(tiny), str(folder))
    assert not witness.exists()
    assert "Do you wish" not in capfd.readouterr().out


INTERRUPTED = """
import os, signal, sys
from pathlib import Path
from train.config import TrainConfig
from train.stage import run_train

def die(point, total):
    if point.step == 3:
        os.kill(os.getpid(), signal.SIGKILL)

run_train(TrainConfig.model_validate_json(sys.argv[1]), Path(sys.argv[2]), on_step=die)
"""


@pytest.mark.slow
def test_a_killed_training_goes_on_from_its_newest_whole_checkpoint(run: Path, tiny: Path) -> None:
    settings = config(tiny, max_steps=4, checkpoint_every=1)
    killed = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, settings.model_dump_json(), str(run)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
        timeout=200,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    folder = run / "train" / "checkpoints"
    newest = newest_whole(folder)
    assert newest is not None
    step = int(newest.name.rpartition("-")[2])
    broken = folder / f"checkpoint-{step + 1}"
    broken.mkdir(exist_ok=True)
    (broken / "trainer_state.json").write_text('{"global_step":')

    report = run_train(settings, run)
    assert report.resumed_from_step == step >= 1
    assert [point.step for point in report.loss_curve] == [1, 2, 3, 4]
    assert not folder.exists()


@pytest.mark.slow
def test_checkpoints_of_another_config_are_kept(run: Path, tiny: Path) -> None:
    checkpoint = run / "train" / "checkpoints" / "checkpoint-2"
    checkpoint.mkdir(parents=True)
    (checkpoint / "trainer_state.json").write_text('{"global_step": 2}')
    (checkpoint.parent / "fingerprint").write_text("of another training")
    with pytest.raises(ConfigError, match=r"checkpoint-2 is of an unfinished .* remove .*begin"):
        run_train(config(tiny, max_steps=1), run)
    assert checkpoint.is_dir()


@pytest.mark.slow
def test_a_model_is_as_readable_as_its_report(run: Path, tiny: Path) -> None:
    run_train(config(tiny, max_steps=1), run)
    modes = {file.stat().st_mode for file in (run / "model").iterdir()}
    assert len(modes) == 1


@pytest.mark.slow
def test_wandb_logs_offline(run: Path, tiny: Path) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed")
    run_train(config(tiny, max_steps=1, wandb={}), run)
    assert list((run / "train" / "wandb").glob("offline-run-*/*.wandb"))


@pytest.mark.slow
def test_rows_that_would_be_cut_are_refused(run: Path, tiny: Path) -> None:
    with pytest.raises(ConfigError, match=r"5 of 5 rows are longer than train\.max_length = 400"):
        run_train(config(tiny, max_length=400), run)
    assert not (run / "model").exists()
    allowed = config(tiny, max_length=400, max_truncated_share=1.0, max_steps=1)
    assert run_train(allowed, run).preflight.cut == 5


def test_rows_longer_than_the_context_are_refused(run: Path, tmp_path: Path) -> None:
    base = build_tiny_model(tmp_path / "short")
    facts = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps(facts | {"max_position_embeddings": 256}))
    with pytest.raises(ConfigError, match="more than the base model's context of 256"):
        run_train(config(base), run)


def test_rows_without_trained_tokens_are_refused(run: Path, tiny: Path, tmp_path: Path) -> None:
    template = tmp_path / "unmarked.jinja"
    template.write_text(
        "{% for message in messages %}{{ message.content }}"
        "{% if message.role == 'nobody' %}{% generation %}{% endgeneration %}{% endif %}"
        "{% endfor %}"
    )
    with pytest.raises(ConfigError, match="prefixes_preserved: 20 of 20 replies"):
        run_train(config(tiny, training_template=str(template)), run)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"warmup_step": 1}, "did you mean 'warmup_steps"),
        ({"max_length": 7}, r"is set by train\.max_length"),
        ({"output_dir": "/"}, "can't be changed"),
        ({"truncation_mode": "keep_end"}, "can't be changed"),
        ({"model_init_kwargs": {"attn_implementation": "eager"}}, "would be ignored"),
    ],
)
def test_wrong_trainer_arguments_are_refused(
    run: Path, tiny: Path, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        run_train(config(tiny, trainer_arguments=arguments), run)


def test_training_needs_formatted_rows(tmp_path: Path, tiny: Path) -> None:
    with pytest.raises(ConfigError, match="stepinto format"):
        run_train(config(tiny), tmp_path)
