"""The rows as other trainers read them, by functions that follow these trainers' own.

LLaMA-Factory 0.9.5: `SharegptDatasetConverter` in `data/converter.py`, `FunctionFormatter` in
`data/formatter.py`, `QwenToolUtils` in `data/tool_utils.py`. Axolotl 0.18: `ChatTemplateStrategy`
in `prompt_strategies/chat_template.py`. prime-rl 0.8: `SFTDataset` in `trainer/sft/data.py` and
`utils/chat_template.py`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset
from transformers import AutoTokenizer

from format.config import Arguments, CallsPerMessage, FormatConfig
from format.dataset import read_rows, split_file
from format.stage import run_format
from format.turn_quality import TurnQuality
from tests.format.conversations import nasty_arguments, with_inspection, write_run
from tests.format.several_calls import rollouts_with_several_calls
from train.base_model import load_template

Row = dict[str, Any]
CONFIG = FormatConfig(
    test_fraction=0, max_invalid_tool_calls=1, masked_turns=(TurnQuality.INVALID,)
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with several calls in a message, odd arguments, reasoning and an invalid call."""
    nasty = nasty_arguments()
    rollouts = rollouts_with_several_calls(3)
    return write_run(
        tmp_path / "run",
        [(rollout, (main, with_inspection(sub, nasty))) for rollout, (main, sub) in rollouts],
    )


def rows_of(run: Path, **changes: Any) -> list[Row]:
    run_format(CONFIG.model_copy(update=changes), run)
    return list(read_rows(split_file(run / "sft", "train")))


# LLaMA-Factory


ODD, EVEN = ("human", "observation"), ("gpt", "function_call")


def converted(example: Row) -> tuple[str, list[Row]]:
    """`SharegptDatasetConverter.__call__`: the system prompt and the messages, none if it skips the
    example."""
    system, *messages = example["conversations"]
    assert system["from"] == "system"
    for index, message in enumerate(messages):
        if message["from"] not in (ODD, EVEN)[index % 2]:
            return system["value"], []
    return system["value"], messages if len(messages) % 2 == 0 else []


def function_text(content: str) -> str:
    """`FunctionFormatter.apply` with `QwenToolUtils.function_formatter`."""
    match = re.search(r"<tool_call>(.*?)</tool_call>", content, re.DOTALL)
    thought, calls = "", content
    if match is not None:
        thought, calls = content.replace(match.group(0), ""), match.group(1)
    texts = [
        json.dumps({"name": call["name"], "arguments": call["arguments"]}, ensure_ascii=False)
        for call in json.loads(calls)
    ]
    return thought + "\n".join(f"<tool_call>\n{text}\n</tool_call>" for text in texts)


@pytest.mark.parametrize("calls", list(CallsPerMessage))
def test_llama_factory_trains_the_text_before_calls_and_each_call(
    run: Path, tmp_path: Path, tiny_folder: Path, calls: CallsPerMessage
) -> None:
    """What it trains on is what TRL's template for Qwen2.5 renders of the row."""
    rows = {
        row["conversation_id"]: row
        for row in rows_of(run, calls_per_message=calls, llama_factory=True)
    }
    folder = run / "sft" / "llama-factory"
    (info,) = json.loads((folder / "dataset_info.json").read_text()).values()
    assert info["formatting"] == "sharegpt"
    path = str(folder / info["file_name"])
    cache = str(tmp_path / "cache")
    examples = load_dataset("json", data_files=path, split="train", cache_dir=cache)
    fully_trained = {name for name, row in rows.items() if all(row["trained_turns"])}
    assert {example["conversation_id"] for example in examples} == fully_trained
    assert len(fully_trained) == len(rows) - 1
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    template = load_template("trl:qwen2_5.jinja")
    for example in examples:
        row = rows[example["conversation_id"]]
        system, messages = converted(example)
        assert system == row["messages"][0]["content"]
        assert json.loads(example["tools"]) == row["tools"]
        # Qwen2.5's template does not know reasoning.
        inline = [with_reasoning_inside(message) for message in row["messages"]]
        rendered = tokenizer.apply_chat_template(
            inline, tools=row["tools"], chat_template=template, tokenize=False
        )
        replies = [each["value"] for each in messages if each["from"] == "gpt"]
        replies += [function_text(each["value"]) for each in messages if each["from"] in EVEN[1:]]
        assert len(replies) == len(row["trained_turns"])
        for reply in replies:
            said = reply.replace("<\u200btool_call>", "<tool_call>")
            assert f"<|im_start|>assistant\n{said}<|im_end|>" in rendered
        for result in (each["value"] for each in messages if each["from"] == "observation"):
            assert f"<tool_response>\n{result}\n</tool_response>" in rendered


def with_reasoning_inside(message: Row) -> Row:
    if "reasoning_content" not in message:
        return message
    text = f"<think>\n{message['reasoning_content']}\n</think>\n\n{message['content']}"
    return message | {"content": text}


# Axolotl


def without_nulls(value: Any) -> Any:
    """`remove_none_values`."""
    if hasattr(value, "items"):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def axolotl_trained(row: Row, tokenizer: Any) -> list[str]:
    """`_tokenize_single_prompt` with `message_field_training: train` and `roles_to_train: []`: the
    text of each turn that is trained on."""
    turns, tools = without_nulls(row["messages"]), row["tools"]
    tools = json.loads(tools) if isinstance(tools, str) else tools
    for call in (call for turn in turns for call in turn.get("tool_calls", ())):
        function = call["function"]
        if isinstance(function["arguments"], str):
            function["arguments"] = json.loads(function["arguments"])
    found = []
    for index, turn in enumerate(turns):
        if not turn.get("train"):
            continue
        dummy = {"role": turn["role"], "content": "[[dummy_message]]"}
        texts = [
            tokenizer.apply_chat_template([*turns[:index], last], tools=tools, return_dict=False)
            for last in (dummy, turn)
        ]
        found.append(tokenizer.decode(_difference(*texts)))
    return found


def _difference(dummy: list[int], full: list[int]) -> list[int]:
    """The span that `find_turn` finds."""
    shortest = min(len(dummy), len(full))
    start = next(i for i in range(shortest) if dummy[i] != full[i])
    end = next(i for i in range(shortest) if dummy[-1 - i] != full[-1 - i])
    return full[start : len(full) - end]


def test_axolotl_trains_on_the_turns_that_the_row_says(
    run: Path, tmp_path: Path, tiny_folder: Path
) -> None:
    """Of arguments as objects it would drop those that are null."""
    one = {"calls_per_message": CallsPerMessage.ONE}
    known = rows_of(run, **one)
    rows_of(run, arguments=Arguments.STRING, **one)
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    for row, before in zip(as_datasets_reads(run, tmp_path), known, strict=True):
        replies = [each for each in before["messages"] if each["role"] == "assistant"]
        wanted = [each for each, kept in zip(replies, before["trained_turns"], strict=True) if kept]
        trained = axolotl_trained(row, tokenizer)
        assert len(trained) == len(wanted)
        for text, reply in zip(trained, wanted, strict=True):
            assert reply["content"].strip()[:200] in text
            for call in reply.get("tool_calls", ()):
                assert json.dumps(call["function"]["arguments"], ensure_ascii=False) in text


def as_datasets_reads(run: Path, tmp_path: Path) -> list[Row]:
    path = str(split_file(run / "sft", "train"))
    cache = str(tmp_path / "cache")
    return list(load_dataset("parquet", data_files=path, split="train", cache_dir=cache))


# prime-rl


def without_null_fields(value: Any, path: tuple[str, ...] = ()) -> Any:
    """`_drop_null_fields`."""
    if path[-3:] == ("tool_calls", "function", "arguments"):
        return value
    if isinstance(value, dict):
        return {
            key: without_null_fields(each, (*path, key))
            for key, each in value.items()
            if each is not None
        }
    return [without_null_fields(each, path) for each in value] if isinstance(value, list) else value


def deserialized(message: Row) -> Row:
    """`deserialize_tool_calls`."""
    if "tool_calls" not in message:
        return message
    calls = []
    for call in message["tool_calls"]:
        arguments = call["function"]["arguments"]
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
        calls.append({**call, "function": {**call["function"], "arguments": arguments}})
    return {**message, "tool_calls": calls}


@pytest.mark.parametrize("arguments", list(Arguments))
def test_prime_rl_reads_the_messages_exactly(
    run: Path, tmp_path: Path, arguments: Arguments
) -> None:
    """It trains on every reply, so each row's are all to be trained on."""
    known = rows_of(run, only_fully_trained=True)
    rows_of(run, only_fully_trained=True, arguments=arguments)
    rows = as_datasets_reads(run, tmp_path)
    assert len(rows) == 2
    for row, before in zip(rows, known, strict=True):
        messages = [deserialized(without_null_fields(each)) for each in row["messages"]]
        tools = row["tools"]
        assert json.dumps(messages) == json.dumps(before["messages"])
        assert (json.loads(tools) if isinstance(tools, str) else tools) == before["tools"]
        assert all(each["train"] for each in messages if each["role"] == "assistant")


def test_no_message_has_a_key_with_null(run: Path, tmp_path: Path) -> None:
    rows_of(run)
    messages = [each for row in as_datasets_reads(run, tmp_path) for each in row["messages"]]
    assert not any(value is None for message in messages for value in message.values())
