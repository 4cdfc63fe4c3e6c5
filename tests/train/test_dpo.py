"""Training on pairs of attempts, on a tiny random model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from collect.errors import ConfigError
from format.config import FormatConfig, PreferencesConfig, Why
from format.stage import run_format
from tests.format.attempts import attempt
from tests.format.conversations import write_run
from train.base_model import load_tokenization
from train.config import DpoSettings, TrainConfig
from train.methods.dpo import encode_pairs
from train.preflight import load_rows
from train.stage import run_train
from train.trl_trainers import MaskedPairs


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made = [attempt(0), attempt(1, resolved=False), attempt(2, looks=4)]
    folder = write_run(tmp_path / "run", made)
    run_format(FormatConfig(test_fraction=0, preferences=PreferencesConfig()), folder)
    return folder


def config(tiny: Path, **changes: Any) -> TrainConfig:
    fields: dict[str, Any] = {
        "method": "dpo",
        "base_model": str(tiny),
        "max_steps": 2,
        "gradient_accumulation": 1,
        "max_length": 4096,
        "learning_rate": 1e-2,
        "device": "cpu",
    }
    return TrainConfig(**fields | changes)


def test_only_the_assistants_words_count(run: Path, tiny_folder: Path, tmp_path: Path) -> None:
    settings = config(tiny_folder)
    (data,) = (run / "sft" / "preferences" / "data").glob("train-*")
    target = tmp_path / "pairs.arrow"
    report = encode_pairs(data, target, settings, load_tokenization(settings))
    assert report.rows == 6
    pairs = load_rows(target)
    assert len(pairs) == 3
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    batch = MaskedPairs(tokenizer.pad_token_id)(list(pairs))
    for ids, mask in zip(batch["input_ids"], batch["completion_mask"], strict=True):
        said = tokenizer.decode(ids[mask.bool()])
        rest = tokenizer.decode(ids[~mask.bool()])
        assert "debug_answer" in said
        assert "debug_start_session" in said
        assert "Stopped at ledger" in rest
        assert "Stopped at ledger" not in said
        assert "tool_response" not in said
        assert said.rstrip().endswith("<|im_end|>")


def test_pairs_need_no_repository(run: Path, tiny_folder: Path, tmp_path: Path) -> None:
    (data,) = (run / "sft" / "preferences" / "data").glob("train-*")
    given, settings = tmp_path / "given.parquet", config(tiny_folder)
    pq.write_table(pq.read_table(data).drop_columns(["repository"]), given)
    report = encode_pairs(given, tmp_path / "pairs.arrow", settings, load_tokenization(settings))
    assert (report.pairs, report.repositories) == (3, [])


def test_what_is_counted_is_what_is_trained(run: Path, tiny_folder: Path, tmp_path: Path) -> None:
    (data,) = (run / "sft" / "preferences" / "data").glob("train-*")
    target = tmp_path / "pairs.arrow"
    allowed = config(tiny_folder, max_truncated_share=1.0)
    encode_pairs(data, target, allowed, load_tokenization(allowed))
    lengths = [len(pair["prompt_ids"]) + len(pair["rejected_ids"]) for pair in load_rows(target)]
    short = allowed.model_copy(update={"max_length": max(lengths) - 1})
    report = encode_pairs(data, target, short, load_tokenization(short))
    pairs = list(load_rows(target))
    assert (report.pairs, report.pairs_left_out) == (len(pairs), 3 - len(pairs))
    assert 0 < report.pairs < 3
    sides = [pair[f"{side}_mask"] for pair in pairs for side in ("chosen", "rejected")]
    prompts = sum(2 * len(pair["prompt_ids"]) for pair in pairs)
    assert report.tokens == prompts + sum(map(len, sides))
    assert report.trained_tokens == sum(map(sum, sides))


@pytest.mark.slow
def test_the_better_one_becomes_likelier(run: Path, tiny_folder: Path) -> None:
    options = {"precompute_ref_log_probs": True}
    shorter = PreferencesConfig(why=(Why.SHORTER,))
    run_format(FormatConfig(test_fraction=0, preferences=shorter), run)
    settings = config(tiny_folder, learning_rate=1e-3, trainer_arguments=options)
    report = run_train(settings, run)
    assert report.steps == 2
    first, last = report.loss_curve
    assert last.loss < first.loss
    assert last.metrics["rewards/margins"] > first.metrics["rewards/margins"]
    assert report.preflight.pairs == 1
    card = (run / "model" / "README.md").read_text()
    assert f"1 pair (0 more were left out), {report.preflight.tokens:,} tokens" in card
    before = AutoModelForCausalLM.from_pretrained(tiny_folder).state_dict()
    after = AutoModelForCausalLM.from_pretrained(run / "model").state_dict()
    assert any(not before[name].equal(after[name]) for name in before)
    assert run_train(settings, run) == report


def test_what_can_not_be_trained_on_is_refused(run: Path, tiny_folder: Path) -> None:
    with pytest.raises(ConfigError, match="TRL's DPOConfig has no option 'betta'"):
        run_train(config(tiny_folder, trainer_arguments={"betta": 1}), run)
    with pytest.raises(ValueError, match="eval_every is for method: sft"):
        config(tiny_folder, eval_every=1)
    with pytest.raises(ConfigError, match=r"is set by train\.dpo\.beta"):
        run_train(config(tiny_folder, trainer_arguments={"beta": 1}), run)
    short = config(tiny_folder, max_length=400, max_truncated_share=1.0)
    with pytest.raises(ConfigError, match="none of the 3 pairs"):
        run_train(short, run)
    run_format(FormatConfig(test_fraction=0), run)
    with pytest.raises(ConfigError, match=r"with format\.preferences"):
        run_train(config(tiny_folder, dpo=DpoSettings(beta=0.2)), run)
