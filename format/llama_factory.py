"""The rows as LLaMA-Factory reads them, with its description of them: `sft/llama-factory/`.

They are in its ShareGPT form, where each message is one text. Of messages in OpenAI's form it drops
the text before calls, and it needs versions of `datasets` that can't read arguments as objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from collect.control_tokens import MARK
from format.dataset import TRAIN, encode, read_rows, split_file

FOLDER = "llama-factory"
READ = ("messages", "tools", "trained_turns", "conversation_id")
CALL, CALL_END = "<tool_call>", "</tool_call>"
"""What LLaMA-Factory looks for around calls that follow a text."""
BETWEEN_RESULTS = "\n</tool_response>\n<tool_response>\n"
"""How LLaMA-Factory joins the results of several calls, after Qwen's form."""
Message = Mapping[str, Any]
"""One of a row's."""


def write_llama_factory(sft: Path, splits: Mapping[str, object]) -> dict[str, int]:
    """Write the rows of some splits; returns their number by split.

    Leaves out rows with a turn that is not trained on, since LLaMA-Factory trains on every turn.
    """
    folder = sft / FOLDER
    folder.mkdir()
    counts: dict[str, int] = {}
    described = {}
    for split in splits:
        path = folder / f"{split}-00000.jsonl"
        counts[split] = 0
        with path.open("w", encoding="utf-8") as file:
            for row in read_rows(split_file(sft, split), READ):
                if all(row["trained_turns"]):
                    file.write(f"{encode(sharegpt(row))}\n")
                    counts[split] += 1
        described["stepinto" if split == TRAIN else f"stepinto_{split}"] = {
            "file_name": path.name,
            "formatting": "sharegpt",
            "columns": {"messages": "conversations", "tools": "tools"},
        }
    (folder / "dataset_info.json").write_text(json.dumps(described, indent=2) + "\n")
    return counts


def sharegpt(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row in ShareGPT's form."""
    texts = [{"from": sender, "value": text} for sender, text in _texts(row["messages"])]
    return {
        "conversations": texts,
        "tools": encode(row["tools"]) if row["tools"] else "",
        "conversation_id": row["conversation_id"],
    }


def _texts(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """The senders and texts. The agent and the others must take turns, so what the others say in a
    row is one text."""
    for message in messages:
        if message["role"] == "system":
            yield "system", message["content"]
    others = (message for message in messages if message["role"] != "system")
    for by_agent, group in groupby(others, lambda message: message["role"] == "assistant"):
        if by_agent:
            yield from map(_reply, group)
        else:
            yield _between_replies(list(group))


def _between_replies(messages: Sequence[Message]) -> tuple[str, str]:
    """The results of a reply's calls, and what the user says after them."""
    results = [message["content"] for message in messages if message["role"] == "tool"]
    texts = [message["content"] for message in messages if message["role"] != "tool"]
    if not results:
        return "human", "\n\n".join(texts)
    return "observation", "\n\n".join([BETWEEN_RESULTS.join(results), *texts])


def _reply(message: Message) -> tuple[str, str]:
    text = message["content"]
    if message.get("reasoning_content"):
        text = f"<think>\n{message['reasoning_content']}\n</think>\n\n{text}"
    functions = [call["function"] for call in message.get("tool_calls", ())]
    if not functions:
        return "gpt", text
    # LLaMA-Factory takes the first tag that it finds for the begin of the calls.
    calls = encode(functions).replace("<", "\\u003c")
    marked = text.replace(CALL, f"<{MARK}{CALL[1:]}")
    return "function_call", f"{marked}\n{CALL}{calls}{CALL_END}" if text else calls
