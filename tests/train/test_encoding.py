"""Token ids and masks, tested against the chat templates by decoding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from collect.errors import ConfigError
from tests.format.conversations import make_rollouts, nasty_arguments
from tests.tiny_model import build_tiny_model
from tests.train.encoded import trained_spans, training_row
from train.base_model import load_template, training_template
from train.encoding import IGNORED, encode_row, render

TRAINING = load_template("trl:qwen2_5_training.jinja")
SERVING = load_template("trl:qwen2_5.jinja")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return AutoTokenizer.from_pretrained(build_tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture
def row() -> dict[str, Any]:
    _, (_, sub) = make_rollouts(1, nasty_arguments())[0]
    return training_row(sub)


def turn_text(message: dict[str, Any]) -> str:
    """An assistant turn as Qwen2.5's template writes it, after the role."""
    calls = [call["function"] for call in message.get("tool_calls", ())]
    text = f"\n{message['content']}" if message["content"] else ""
    for call in calls:
        arguments = json.dumps(call["arguments"], ensure_ascii=False)
        body = f'{{"name": "{call["name"]}", "arguments": {arguments}}}'
        text += f"\n<tool_call>\n{body}\n</tool_call>"
    return text + "<|im_end|>\n"


def test_exactly_the_assistant_turns_are_trained(row: dict[str, Any], tokenizer: Any) -> None:
    encoded = encode_row(row, tokenizer, TRAINING)
    turns = [turn_text(each) for each in row["messages"] if each["role"] == "assistant"]
    assert trained_spans(encoded, tokenizer) == turns
    assert len(encoded.mask) == len(encoded.input_ids)
    trained = [label for label in encoded.labels if label != IGNORED]
    assert len(trained) == encoded.trained


def test_training_and_serving_templates_agree(row: dict[str, Any], tokenizer: Any) -> None:
    encoded = encode_row(row, tokenizer, TRAINING)
    served = tokenizer.apply_chat_template(
        row["messages"], tools=row["tools"], chat_template=SERVING, return_dict=True
    )
    assert encoded.input_ids == list(served["input_ids"])
    texts = [render(row, tokenizer, each, prompt=False) for each in (TRAINING, SERVING)]
    assert texts[0] == texts[1]


def test_a_cut_row_keeps_its_beginning(row: dict[str, Any], tokenizer: Any) -> None:
    encoded = encode_row(row, tokenizer, TRAINING)
    cut = encoded.cut(10)
    assert cut.input_ids == encoded.input_ids[:10]
    assert cut.labels == encoded.labels[:10]


def test_the_tokenizers_own_template_is_exchanged_for_its_training_variant(tokenizer: Any) -> None:
    assert training_template(tokenizer, None) == TRAINING


def test_templates_without_markers_or_files_are_refused(tokenizer: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="generation"):
        training_template(tokenizer, "trl:qwen2_5.jinja")
    with pytest.raises(ConfigError, match=r"qwen2_5_training\.jinja"):
        load_template("trl:qwen9.jinja")
    with pytest.raises(ConfigError, match="no chat template"):
        load_template(str(tmp_path / "none.jinja"))
