"""Each check of the preflight passes on sound rows, and catches a seeded fault."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from collect.errors import ConfigError
from tests.train.families import GLM, GPT_OSS, LLAMA, QWEN, called, text_row, tool_row
from train.base_model import load_template
from train.checks import Check, Finding, Verdict
from train.config import LoraSettings, TrainConfig
from train.encoding import RenderedRow, Templates
from train.preflight import PreflightRun

SOUND = QWEN.templates


def config(folder: Path, **changes: Any) -> TrainConfig:
    return TrainConfig(base_model=str(folder), max_length=4096, **changes)


def findings(
    folder: Path,
    templates: Templates = SOUND,
    row: dict[str, Any] | None = None,
    tokenizer: Any = None,
    **changes: Any,
) -> dict[str, Finding]:
    """What the checks find in one row, by their names."""
    tokenizer = tokenizer or AutoTokenizer.from_pretrained(folder)
    run = PreflightRun(config(folder, **changes), str(folder), tokenizer, 1)
    run.add(RenderedRow(row or tool_row(), tokenizer, templates))
    return {each.check: each for each in run.report().findings}


def failed(found: dict[str, Finding]) -> set[str]:
    return {name for name, each in found.items() if each.verdict is Verdict.FAILED}


def test_a_sound_row_passes_every_check(tiny_folder: Path) -> None:
    found = findings(tiny_folder)
    assert {each.verdict for each in found.values()} == {Verdict.PASSED}
    assert len(found) == 6
    assert "0 wrong masks among 3 turns of 1 rows" in found["masks_are_turns"].number
    assert "with 2 calls" in found["tool_calls_survive"].number


def test_an_empty_mask_is_caught(tiny_folder: Path) -> None:
    training = re.sub("{%- (end)?generation %}", "", SOUND.training)
    found = findings(tiny_folder, replace(SOUND, training=training))
    assert failed(found) == {"masks_are_turns", "lengths"}
    assert "3 wrong masks among 3 turns" in found["masks_are_turns"].number
    assert "nothing of it is trained" in found["masks_are_turns"].number


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param(
            "{{- '<|im_end|>\\n' }}\n        {%- endif %}\n        {%- endgeneration %}",
            "{%- endif %}{%- endgeneration %}"
            "{%- if message.tool_calls %}{{- '<|im_end|>\\n' }}{%- endif %}",
            "is trained, not",
            id="the end of the turn is not trained",
        ),
        pytest.param(
            "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}",
            "{%- generation %}{{- '<|im_start|>' + message.role + '\\n' + message.content + "
            "'<|im_end|>' + '\\n' }}{%- endgeneration %}",
            "before the first assistant message: text is trained",
            id="the question is trained",
        ),
        pytest.param(
            "{{- message.content }}\n        {{- '\\n</tool_response>' }}",
            "{%- generation %}{{- message.content }}{%- endgeneration %}"
            "{{- '\\n</tool_response>' }}",
            "in its middle is not trained",
            id="what a tool answered is trained",
        ),
    ],
)
def test_a_wrong_mask_is_caught(tiny_folder: Path, old: str, new: str, said: str) -> None:
    assert old in SOUND.training
    found = findings(tiny_folder, replace(SOUND, training=SOUND.training.replace(old, new)))
    assert "masks_are_turns" in failed(found)
    assert said in found["masks_are_turns"].number


def test_a_template_that_drops_calls_is_caught(tiny_folder: Path) -> None:
    old, new = "{%- for tool_call in message.tool_calls %}", "{%- for tool_call in [] %}"
    dropping = Templates(SOUND.training.replace(old, new), SOUND.serving.replace(old, new))
    row = tool_row()
    for message in row["messages"]:
        message["content"] = message["content"] or "I look."
    found = findings(tiny_folder, dropping, row)
    assert failed(found) == {"masks_are_turns", "tool_calls_survive"}
    assert "'debug_inspect' is not in what is rendered" in found["masks_are_turns"].number


def test_a_token_that_runs_into_a_turn_is_caught(tiny_folder: Path) -> None:
    """A tokenizer without the family's special tokens joins the end of one to the next."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    tokenizer.add_tokens(["><|start|>"])
    found = findings(tiny_folder, GPT_OSS.templates, text_row(), tokenizer)
    assert "before it is trained" in found["masks_are_turns"].number


def test_a_mask_that_breaks_the_rows_marks_is_caught(tiny_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    everything = RenderedRow(tool_row(), tokenizer, SOUND).encoded
    row = RenderedRow(tool_row(trained_turns=[True, False, True]), tokenizer, SOUND)
    row.__dict__["encoded"] = everything
    run = PreflightRun(config(tiny_folder), str(tiny_folder), tokenizer, 1)
    run.add(row)
    (finding,) = run.report().failures
    assert "assistant message 1: it is trained" in finding.number


def test_a_template_that_takes_back_what_it_rendered_is_caught(tiny_folder: Path) -> None:
    """Qwen3's own template drops the reasoning of all but the last turns."""
    row = tool_row()
    for message in row["messages"]:
        if message["role"] == "assistant":
            message["reasoning_content"] = "Look at the state first."
    row["messages"].append({"role": "user", "content": "Sure?"})
    row["messages"].append({"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."})
    training = load_template("trl:qwen3_training.jinja")
    found = findings(tiny_folder, Templates(training, load_template("trl:qwen3.jinja")), row)
    assert failed(found) == {"prefixes_preserved"}
    assert "1 of 4 replies" in found["prefixes_preserved"].number
    assert failed(findings(tiny_folder, Templates(training, training), row)) == set()


def test_reasoning_that_the_template_drops_is_told(tiny_folder: Path) -> None:
    """Qwen2.5's template does not render it, Qwen3's does."""
    row = tool_row(trained_turns=[True, False, True])
    for message in row["messages"]:
        if message["role"] == "assistant":
            message["reasoning_content"] = "Look at the\nstate first."
    found = findings(tiny_folder, row=row)
    told = found["reasoning_trained"]
    assert (told.verdict, failed(found)) == (Verdict.WARNING, set())
    assert "of 2 trained replies with reasoning 2 are rendered without" in told.number
    assert "assistant message 0: 'Look at the\\nstate first.'" in told.number
    assert "format.reasoning: inline" in told.line
    training = load_template("trl:qwen3_training.jinja")
    kept = findings(tiny_folder, Templates(training, training), row)["reasoning_trained"]
    assert (kept.verdict, kept.number[:26]) == (Verdict.PASSED, "of 2 trained replies with ")


def test_replies_that_begin_inside_of_a_token_are_caught(tiny_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    tokenizer.add_tokens(["\n\n"])
    row = tool_row()
    for message in row["messages"]:
        if message["role"] == "assistant":
            message["content"] = "\nI look."
    found = findings(tiny_folder, row=row, tokenizer=tokenizer)
    # The new token is none of the model's.
    assert failed(found) == {"prefixes_preserved", "special_tokens_trained"}
    assert "and 3 begin inside of a token" in found["prefixes_preserved"].number
    assert "Strip the white space" in found["prefixes_preserved"].line


def test_another_serving_template_is_caught(tiny_folder: Path) -> None:
    serving = SOUND.serving.replace("# Tools", "# Functions")
    found = findings(tiny_folder, replace(SOUND, serving=serving))["prefixes_preserved"]
    assert found.verdict is Verdict.FAILED
    assert "3 of 3 replies are asked for with another text" in found.number
    assert "served 'Functions" in found.number


def test_another_text_of_the_last_reply_is_caught(tiny_folder: Path) -> None:
    serving = SOUND.serving.replace('"arguments": ', '"parameters": ')
    row = tool_row(messages=tool_row()["messages"][:3])
    found = findings(tiny_folder, replace(SOUND, serving=serving), row)
    assert "masks_are_turns" in failed(found)
    assert found["prefixes_preserved"].verdict is Verdict.PASSED


def test_a_stop_token_that_training_alone_writes_is_no_other_text(tiny_folder: Path) -> None:
    found = findings(tiny_folder, GLM.templates, tokenizer=GLM.tokenizer(tiny_folder))
    assert found["prefixes_preserved"].verdict is Verdict.PASSED
    assert found["masks_are_turns"].verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("tool_call.arguments | tojson", "tool_call.arguments", id="no JSON"),
        pytest.param('"arguments": ', '"parameters": ', id="another key"),
        pytest.param("\\n</tool_call>", "\\n</tool>", id="another tag"),
    ],
)
def test_a_call_that_the_parser_loses_is_caught(tiny_folder: Path, old: str, new: str) -> None:
    broken = Templates(SOUND.training.replace(old, new), SOUND.serving.replace(old, new))
    assert broken.serving != SOUND.serving
    found = findings(tiny_folder, broken)
    assert "tool_calls_survive" in failed(found)


def test_a_call_that_holds_the_parsers_tag_is_caught(tiny_folder: Path) -> None:
    row = tool_row()
    row["messages"][2] = called("debug_inspect", {"what": "</tool_call>"})
    found = findings(tiny_folder, row=row)
    assert failed(found) == {"tool_calls_survive"}
    assert "1 of 3 replies" in found["tool_calls_survive"].number


def test_a_template_without_tools_is_caught(tiny_folder: Path) -> None:
    found = findings(tiny_folder, LLAMA.templates, tokenizer=LLAMA.tokenizer(tiny_folder))
    assert {"tool_calls_survive", "masks_are_turns"} <= failed(found)


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vllm is installed")
def test_other_parsers_are_not_checked_without_vllm(tiny_folder: Path) -> None:
    hermes = findings(tiny_folder)["tool_calls_survive"]
    assert "read otherwise by StepInto's reading of vLLM's `hermes`" in hermes.number
    found = findings(tiny_folder, tool_call_parser="glm45")["tool_calls_survive"]
    assert found.verdict is Verdict.NOT_CHECKED
    assert "2 calls in 3 replies, none of them parsed" in found.line
    assert "pip install -e '.[serve]'" in found.line


def test_lengths(tiny_folder: Path) -> None:
    found = findings(tiny_folder)["lengths"]
    assert "0 of 1 rows are longer than train.max_length = 4096 tokens" in found.number
    long = findings(tiny_folder, row=_long_row())["lengths"]
    assert long.verdict is Verdict.FAILED
    assert "raise it, the longest row has 4376 tokens" in long.line


def _long_row() -> dict[str, Any]:
    row = tool_row()
    row["messages"][1]["content"] = " ".join(["order"] * 2000)
    return row


@pytest.fixture(scope="module")
def with_tags(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Saves the model with `<tool_call>` tags as tokens of their own, and given rows for them."""

    def save(make: Any) -> Path:
        folder = tmp_path_factory.mktemp("tags")
        tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
        tokenizer.add_tokens(["<tool_call>", "</tool_call>"])
        model = AutoModelForCausalLM.from_pretrained(tiny_folder)
        make(model, len(tokenizer))
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
        return folder

    return save


def _resized(model: Any, size: int) -> None:
    """As transformers adds tokens: at the mean of the others."""
    model.resize_token_embeddings(size)


def _decayed(model: Any, size: int) -> None:
    model.resize_token_embeddings(size)
    with torch.no_grad():
        model.get_input_embeddings().weight[-2:] *= 1e-3


def _all_alike(model: Any, size: int) -> None:
    """One vector for all that was never trained, not a small one: as SmolLM2's."""
    model.resize_token_embeddings(size + 14)
    weight = model.get_input_embeddings().weight
    with torch.no_grad():
        weight[size - 2 :] = weight[:40].std(0) * 3


def _as_initialised(model: Any, size: int) -> None:
    """At random, smaller than what was trained, with rows that no token uses."""
    model.resize_token_embeddings(size + 14)
    weight = model.get_input_embeddings().weight
    torch.manual_seed(0)
    with torch.no_grad():
        weight[size - 2 :] = torch.randn_like(weight[size - 2 :]) * 0.1


def _trained(model: Any, size: int) -> None:
    """At random, like every other token, next to rows that no token uses."""
    _as_initialised(model, size)
    weight = model.get_input_embeddings().weight
    torch.manual_seed(1)
    with torch.no_grad():
        weight[size - 2 : size] = torch.randn_like(weight[size - 2 : size]) * 0.3


@pytest.mark.parametrize("make", [_resized, _decayed, _all_alike, _as_initialised])
def test_targets_with_untrained_embeddings_are_caught(make: Any, with_tags: Any) -> None:
    folder = with_tags(make)
    found = findings(folder)
    assert failed(found) == {"special_tokens_trained"}
    line = found["special_tokens_trained"].line
    assert "2 of 3 special tokens among the targets" in line
    assert "<tool_call> (2 times), </tool_call> (2 times)" in line
    assert failed(findings(folder, lora=None)) == set()
    taught = LoraSettings(target_modules=("q_proj", "embed_tokens"))
    assert failed(findings(folder, lora=taught)) == set()


def test_targets_with_trained_embeddings_pass(with_tags: Any) -> None:
    assert failed(findings(with_tags(_trained))) == set()


def test_embeddings_are_not_checked_without_weights(tiny_folder: Path, tmp_path: Path) -> None:
    AutoTokenizer.from_pretrained(tiny_folder).save_pretrained(tmp_path)
    found = findings(tmp_path)["special_tokens_trained"]
    assert found.verdict is Verdict.NOT_CHECKED
    assert "there are no weights" in found.number


def test_a_waived_check_does_not_forbid_training(tiny_folder: Path) -> None:
    serving = SOUND.serving.replace("# Tools", "# Functions")
    waived = ("prefixes_preserved",)
    found = findings(tiny_folder, replace(SOUND, serving=serving), waived_checks=waived)
    assert failed(found) == set()
    assert found["prefixes_preserved"].verdict is Verdict.WAIVED
    with pytest.raises(ConfigError, match="there is no check 'prefixes'"):
        findings(tiny_folder, waived_checks=("prefixes",))


def test_thorough_checks_see_evenly_spread_rows(tiny_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    run = PreflightRun(config(tiny_folder, preflight_rows=3), str(tiny_folder), tokenizer, 10)
    for _ in range(10):
        run.add(RenderedRow(tool_row(), tokenizer, SOUND))
    report = run.report()
    assert (report.rows, report.looked_through) == (10, 3)
    assert {each.check: each for each in report.findings}["masks_are_turns"].number.endswith(
        "9 turns of 3 rows"
    )


def test_checks_have_names_of_their_own(tiny_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    checks: tuple[Check, ...] = PreflightRun(
        config(tiny_folder), str(tiny_folder), tokenizer, 1
    ).checks
    assert len({check.name for check in checks}) == len(checks)
