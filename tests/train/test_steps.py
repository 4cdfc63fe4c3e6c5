"""TRL takes the rows of single steps as they are."""

from __future__ import annotations

from pathlib import Path

from datasets import load_dataset

from format.config import FormatConfig
from format.stage import run_format
from tests.format.conversations import make_rollouts, write_run


def test_the_loss_is_on_the_step_alone(tmp_path: Path, tiny_folder: Path) -> None:
    from transformers import AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    run = write_run(tmp_path / "run", make_rollouts(1))
    run_format(FormatConfig(test_fraction=0, steps=True), run)
    folder, cache = str(run / "sft"), str(tmp_path / "cache")
    steps = load_dataset(folder, "steps", split="train", cache_dir=cache)
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    options = SFTConfig(str(tmp_path / "out"), max_length=None, report_to=[], use_cpu=True)
    trainer = SFTTrainer(
        model=str(tiny_folder), args=options, train_dataset=steps, processing_class=tokenizer
    )
    for step, encoded in zip(steps, trainer.train_dataset, strict=True):
        targets = [i for i, label in enumerate(encoded["labels"]) if label != -100]
        said = tokenizer.decode([encoded["input_ids"][i] for i in targets])
        before = tokenizer.decode(encoded["input_ids"][: targets[0]])
        rendering = {"tools": step["tools"], "tokenize": False}
        prompt = tokenizer.apply_chat_template(
            step["prompt"], add_generation_prompt=True, **rendering
        )
        whole = tokenizer.apply_chat_template(step["prompt"] + step["completion"], **rendering)
        assert (before, before + said) == (prompt, whole)
