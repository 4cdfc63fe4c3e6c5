"""The rows in each chat template that TRL ships and that has tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trl
from jinja2 import TemplateError
from transformers import AutoTokenizer
from trl.chat_template_utils import supports_tool_calling

from configs.loading import load_config
from format.config import CallsPerMessage, FormatConfig, Reasoning
from format.dataset import read_rows, split_file
from format.stage import run_format
from tests.format.conversations import write_run
from tests.format.several_calls import rollouts_with_several_calls

REPOSITORY = Path(__file__).parents[2]
TEMPLATES = sorted((Path(trl.__file__).parent / "chat_templates").glob("*.jinja"))
REFUSE = {"llama3_1.jinja", "llama3_2.jinja"}
"""They refuse several calls in a message."""
ONE_CALL = REFUSE | {"gptoss.jinja", "gptoss_training.jinja"}
"""They render only the first one, or refuse them."""
TEXTS = {"deepseekv3.jinja"}
"""They take arguments as texts only."""
# gpt-oss renders reasoning or a text before calls, not both.
CONFIG = FormatConfig(test_fraction=0, max_invalid_tool_calls=1, reasoning=Reasoning.DROP)


def templates(tiny_folder: Path) -> Iterator[tuple[str, Any]]:
    """The names of the templates with tools, and a tokenizer with each."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    tokenizer.bos_token = "<|endoftext|>"
    for path in TEMPLATES:
        tokenizer.chat_template = path.read_text()
        if supports_tool_calling(tokenizer):
            yield path.name, tokenizer


def rendered(name: str, tokenizer: Any, row: dict[str, Any]) -> str:
    messages = row["messages"]
    if name in TEXTS:
        messages = json.loads(json.dumps(messages))
        for function in functions(messages):
            function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
    return str(tokenizer.apply_chat_template(messages, tools=row["tools"], tokenize=False))


def functions(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [call["function"] for each in messages for call in each.get("tool_calls", ())]


def check(name: str, tokenizer: Any, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        text = rendered(name, tokenizer, row)
        seen = letters(text)
        for function in functions(row["messages"]):
            assert function["name"] in text, name
            assert all(key in text for key in function["arguments"]), name
        for message in row["messages"]:
            if message["role"] == "tool":
                assert letters(message["content"])[:30] in seen, name


def letters(text: str) -> str:
    """The text without white space and what JSON escapes."""
    return re.sub(r"\\+[nrt]|\W", "", text)


def rows_of(run: Path, calls: CallsPerMessage) -> list[dict[str, Any]]:
    run_format(CONFIG.model_copy(update={"calls_per_message": calls}), run)
    return list(read_rows(split_file(run / "sft", "train")))


def test_every_template_renders_rows_with_one_call_a_message(
    tmp_path: Path, tiny_folder: Path
) -> None:
    run = write_run(tmp_path / "run", rollouts_with_several_calls())
    several, one = rows_of(run, CallsPerMessage.ALL), rows_of(run, CallsPerMessage.ONE)
    known = set()
    for name, tokenizer in templates(tiny_folder):
        known.add(name)
        check(name, tokenizer, one)
        if name not in ONE_CALL:
            check(name, tokenizer, several)
        if name in REFUSE:
            with pytest.raises(TemplateError, match="single tool-call"):
                rendered(name, tokenizer, several[0])
    assert {"qwen2_5.jinja", "qwen3.jinja", "glm4moe.jinja"} | ONE_CALL | TEXTS < known


@pytest.mark.slow
def test_every_template_renders_the_played_sessions(tmp_path: Path, tiny_folder: Path) -> None:
    overrides = [f"runs_folder={tmp_path}", "format.calls_per_message=one"]
    config = load_config(REPOSITORY / "configs" / "played.yaml", overrides)
    run_format(config.format, config.folder, config.held_out)
    splits = [split_file(config.folder / "sft", split) for split in ("train", "test")]
    rows = [row for split in splits for row in read_rows(split)]
    assert any(len(functions(row["messages"])) > 3 for row in rows)
    for name, tokenizer in templates(tiny_folder):
        check(name, tokenizer, rows)
