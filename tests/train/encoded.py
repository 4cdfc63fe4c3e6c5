"""Rows of conversations, and what is trained of them, to look at."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from collect.store.records import Conversation
from format.dataset import message_object
from train.encoding import IGNORED, Encoded


def training_row(conversation: Conversation) -> dict[str, Any]:
    """What a training reads of a conversation's row."""
    messages = [message_object(row.message) for row in conversation.messages]
    return {"messages": messages, "tools": json.loads(conversation.tools)}


def measured(model: Any, rows: Iterable[dict[str, Any]]) -> tuple[float, float]:
    """Loss and accuracy over all trained tokens of encoded rows, read one by one."""
    import torch

    logits, targets = [], []
    with torch.no_grad():
        for row in rows:
            labels = torch.tensor(row["labels"][1:])
            said = model(torch.tensor([row["input_ids"]])).logits[0, :-1]
            logits.append(said[labels != IGNORED].float())
            targets.append(labels[labels != IGNORED])
    scores, wanted = torch.cat(logits), torch.cat(targets)
    loss = torch.nn.functional.cross_entropy(scores, wanted).item()
    return loss, (scores.argmax(-1) == wanted).float().mean().item()


def trained_spans(encoded: Encoded, tokenizer: Any) -> list[str]:
    """The text of each run of trained tokens, for looking at a mask."""
    spans: list[list[int]] = []
    previous = 0
    for token, kept in zip(encoded.input_ids, encoded.mask, strict=True):
        if kept and not previous:
            spans.append([])
        if kept:
            spans[-1].append(token)
        previous = kept
    return [str(tokenizer.decode(span)) for span in spans]
