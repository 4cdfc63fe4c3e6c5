"""The rows as the tokens that were sampled, with the tiny model's tokenizer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset
from transformers import AutoTokenizer

from collect.store.messages import ReplyTokens
from collect.store.records import Conversation
from format.config import CallsPerMessage, FormatConfig, Reasoning
from format.dataset import message_object
from format.stage import run_format
from format.token_ids import one_sequence
from tests.format.conversations import make_rollouts, write_run

ON = FormatConfig(test_fraction=0, token_ids=True)


@pytest.fixture(scope="module")
def tokenizer(tiny_folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(tiny_folder)


def with_tokens(conversation: Conversation, tokenizer: Any) -> Conversation:
    """The conversation as a server samples it that renders each prompt anew."""
    messages = [message_object(row.message, Reasoning.KEEP) for row in conversation.messages]
    rows, seen = list(conversation.messages), tuple[int, ...]()
    for place, row in enumerate(rows):
        if row.message.role != "assistant":
            continue
        options: dict[str, Any] = {"tokenize": False}
        prompt = tokenizer.apply_chat_template(
            messages[:place], add_generation_prompt=True, **options
        )
        whole = tokenizer.apply_chat_template(messages[: place + 1], **options)
        reply = whole.removeprefix(prompt).rstrip("\n")
        ids = [tokenizer(text, add_special_tokens=False).input_ids for text in (prompt, reply)]
        prompt_ids, reply_ids = map(tuple, ids)
        logprobs = tuple(-0.25 for _ in reply_ids)
        tokens = ReplyTokens(prompt_ids, reply_ids, logprobs)
        rows[place] = replace(row, tokens=tokens.after(seen))
        seen = prompt_ids + reply_ids
    return replace(conversation, messages=tuple(rows))


def write_sampled(run: Path, tokenizer: Any, count: int = 2) -> Path:
    rollouts = [
        (rollout, (main, with_tokens(sub, tokenizer)))
        for rollout, (main, sub) in make_rollouts(count)
    ]
    return write_run(run, rollouts)


def load(run: Path, tmp_path: Path) -> list[dict[str, Any]]:
    """As a user's `datasets` reads them."""
    files = {"train": str(run / "sft" / "token-ids" / "data" / "train-*.parquet")}
    loaded = load_dataset("parquet", data_files=files, cache_dir=str(tmp_path / "cache"))
    return list(loaded["train"])


def test_a_row_is_one_sequence_with_the_models_own_tokens_marked(
    tmp_path: Path, tokenizer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run = write_sampled(tmp_path / "run", tokenizer)
    report = run_format(ON.model_copy(update={"masked_turns": ()}), run)
    assert report.outputs == {"token-ids": {"train": 2}}
    assert "token_ids" not in caplog.text
    sub = make_rollouts(1)[0][1][1]
    row = load(run, tmp_path)[0]
    assert row["conversation_id"] == sub.conversation_id
    messages = [message_object(each.message, Reasoning.KEEP) for each in sub.messages]
    text = tokenizer.apply_chat_template(messages, tokenize=False).rstrip("\n")
    assert tokenizer.decode(row["prompt_ids"] + row["completion_ids"]) == text
    first = tokenizer.apply_chat_template(messages[:2], tokenize=False, add_generation_prompt=True)
    assert tokenizer.decode(row["prompt_ids"]) == first

    own = zip(row["completion_ids"], row["completion_mask"], row["logprobs"], strict=True)
    assert all((logprob == -0.25) == (mask == 1) for _, mask, logprob in own)
    said = tokenizer.decode(
        [i for i, mask in zip(row["completion_ids"], row["completion_mask"], strict=True) if mask]
    )
    assert said.count("<|im_end|>") == 4
    assert "debug_inspect" in said
    assert "<tool_response>" not in said


def test_turns_that_are_not_trained_are_masked_but_keep_their_logprobs(tokenizer: Any) -> None:
    sub = with_tokens(make_rollouts(1)[0][1][1], tokenizer)
    tokens = one_sequence(sub, (False, True, True, True))
    assert isinstance(tokens, dict)
    assert len({len(tokens[name]) for name in tokens if name != "prompt_ids"}) == 1
    replies = [row.tokens for row in sub.messages if row.tokens is not None]
    first = len(replies[0].token_ids)
    assert tokens["completion_mask"][:first] == [0] * first
    assert tokens["logprobs"][:first] == [-0.25] * first
    assert sum(tokens["completion_mask"]) == sum(len(each.token_ids) for each in replies[1:])


def test_the_form_of_the_rows_changes_nothing(tmp_path: Path, tokenizer: Any) -> None:
    run = write_sampled(tmp_path / "run", tokenizer, 1)
    run_format(ON, run)
    before = load(run, tmp_path)
    other = {"calls_per_message": CallsPerMessage.ONE, "reasoning": Reasoning.INLINE}
    run_format(ON.model_copy(update=other), run)
    assert load(run, tmp_path) == before


def test_rows_that_are_no_sampled_sequence_have_nulls_and_are_counted(
    tmp_path: Path, tokenizer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    (one, (_, whole)), (two, (_, lacking)), (three, (_, changed)) = make_rollouts(3)
    lacking = with_tokens(lacking, tokenizer)
    rows = list(lacking.messages)
    rows[-1] = replace(rows[-1], tokens=None)
    lacking = replace(lacking, messages=tuple(rows))
    changed = with_tokens(changed, tokenizer)
    rows = list(changed.messages)
    tokens = rows[-1].tokens
    assert tokens is not None
    # The server tokenized an earlier reply in another way.
    rows[-1] = replace(rows[-1], tokens=replace(tokens, kept=tokens.kept - 1))
    changed = replace(changed, messages=tuple(rows))
    kept = with_tokens(whole, tokenizer)
    run = write_run(tmp_path / "run", [(one, (kept,)), (two, (lacking,)), (three, (changed,))])
    run_format(ON, run)
    found = {row["conversation_id"]: row for row in load(run, tmp_path)}
    columns = ("prompt_ids", "completion_ids", "completion_mask", "logprobs")
    for conversation in (lacking, changed):
        row = found[conversation.conversation_id]
        assert [row[name] for name in columns] == [None] * 4
    assert found[whole.conversation_id]["prompt_ids"]
    assert "format.token_ids: of 3 rows 2 have nulls" in caplog.text
    assert "1 lack the tokens of a reply" in caplog.text
    assert "1 have a prompt that does not begin with the tokens before it" in caplog.text


def test_without_the_setting_there_are_none(tmp_path: Path, tokenizer: Any) -> None:
    run = write_sampled(tmp_path / "run", tokenizer, 1)
    run_format(FormatConfig(test_fraction=0), run)
    assert not (run / "sft" / "token-ids").exists()
