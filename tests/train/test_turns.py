"""Masks of whole rows and of single turns, by decoding them, for several model families."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from collect.errors import ConfigError
from tests.train.encoded import trained_spans
from tests.train.families import FAMILIES, QWEN, Family, called, text_row, tool_row
from train.base_model import load_template
from train.checks import faults, regions
from train.encoding import RenderedRow, Templates, encode_row

QWEN_TRAINING = QWEN.templates.training


@pytest.fixture(scope="module")
def tokenizer(tiny_folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(tiny_folder)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda each: each.name)
def test_exactly_the_assistant_turns_are_trained(family: Family, tiny_folder: Path) -> None:
    rendered = family.rendered(tiny_folder)
    assert trained_spans(rendered.encoded, rendered.tokenizer) == family.turns()
    assert None not in regions(rendered)
    assert list(faults(rendered)) == []


@pytest.mark.parametrize("family", FAMILIES, ids=lambda each: each.name)
def test_turns_are_trained_one_by_one(family: Family, tiny_folder: Path) -> None:
    turns = family.turns()
    for number, turn in enumerate(turns):
        alone = [i == number for i in range(len(turns))]
        rendered = family.rendered(tiny_folder, trained_turns=alone)
        assert trained_spans(rendered.encoded, rendered.tokenizer) == [turn]
        assert list(faults(rendered)) == []


@pytest.mark.parametrize("trained", [None, [True, True, True]])
def test_all_turns_are_trained_where_nothing_else_is_said(tokenizer: Any, trained: Any) -> None:
    said = encode_row(tool_row(trained_turns=trained), tokenizer, QWEN_TRAINING)
    assert said == encode_row(tool_row(), tokenizer, QWEN_TRAINING)


def test_no_turn_may_be_trained(tokenizer: Any) -> None:
    row = tool_row(trained_turns=[False, False, False])
    assert encode_row(row, tokenizer, QWEN_TRAINING).trained == 0


def test_neighbouring_assistant_messages_are_told_apart(tokenizer: Any) -> None:
    row = tool_row(trained_turns=[True, False, True, True])
    row["messages"].insert(2, called("debug_inspect", {"what": "stack"}, "First:"))
    spans = trained_spans(encode_row(row, tokenizer, QWEN_TRAINING), tokenizer)
    assert ["stack" in spans[0], "locals" in "".join(spans), len(spans)] == [True, False, 3]


def test_a_message_with_reasoning_marked_apart_is_one_turn(tokenizer: Any) -> None:
    template = (
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
        "{% if m.role == 'assistant' %}{% generation %}{{ 'I think.' }}{% endgeneration %}"
        "{{ '\n' }}{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}"
        "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    row = text_row(trained_turns=[False, True, False])
    spans = trained_spans(encode_row(row, tokenizer, template), tokenizer)
    assert spans == ["I think.", "ACTION: show self.order<|im_end|>"]
    rendered = RenderedRow(row, tokenizer, Templates(template, template))
    assert list(faults(rendered)) == []


def test_a_template_that_joins_messages_is_refused(tokenizer: Any) -> None:
    template = (
        "{{ 'Q: ' + messages[0].content + '\nA: ' }}{% generation %}"
        "{% for m in messages[1:] %}{{ m.content + '\n' }}{% endfor %}{% endgeneration %}"
    )
    replies = [{"role": "assistant", "content": text} for text in ("one", "two")]
    row = text_row(trained_turns=[True, False])
    row["messages"] = [row["messages"][0], *replies]
    with pytest.raises(ConfigError, match="no generation block of its own for assistant message"):
        encode_row(row, tokenizer, template)


def test_a_template_that_takes_back_what_it_rendered_is_refused(tokenizer: Any) -> None:
    template = "{{ messages|length }} messages\n" + QWEN_TRAINING
    with pytest.raises(ConfigError, match="otherwise once more follow"):
        encode_row(tool_row(trained_turns=[True, False, True]), tokenizer, template)


def test_marks_of_another_number_of_turns_are_refused(tokenizer: Any) -> None:
    with pytest.raises(ConfigError, match="has 3 assistant messages, but 2 entries"):
        encode_row(tool_row(trained_turns=[True, False]), tokenizer, QWEN_TRAINING)


def test_a_template_that_can_not_render_a_row_is_named(tokenizer: Any) -> None:
    with pytest.raises(ConfigError, match="can't render conversation tools: System role"):
        encode_row(tool_row(), tokenizer, load_template("trl:gemma_training.jinja"))
