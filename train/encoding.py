"""Rows as token ids, and which of them are trained.

Ids and mask come out of one rendering of the training template, so they can't disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

IGNORED = -100
"""The label of a token without loss."""


@dataclass(frozen=True)
class Encoded:
    """One row for a given tokenizer and template."""

    input_ids: list[int]
    mask: list[int]
    """1 where the token is the assistant's, and so trained."""

    @property
    def trained(self) -> int:
        """Number of trained tokens."""
        return sum(self.mask)

    def cut(self, length: int) -> Encoded:
        """The first `length` tokens."""
        return Encoded(self.input_ids[:length], self.mask[:length])

    @property
    def labels(self) -> list[int]:
        """The ids, without those that are not trained."""
        pairs = zip(self.input_ids, self.mask, strict=True)
        return [token if kept else IGNORED for token, kept in pairs]


def encode_row(row: dict[str, Any], tokenizer: Any, template: str) -> Encoded:
    """Render and tokenise one row with a template that has generation markers."""
    rendered = tokenizer.apply_chat_template(
        row["messages"],
        tools=row["tools"] or None,
        chat_template=template,
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    return Encoded(list(rendered["input_ids"]), list(rendered["assistant_masks"]))


def render_row(row: dict[str, Any], tokenizer: Any, template: str) -> str:
    """The row's text under a template."""
    text = tokenizer.apply_chat_template(
        row["messages"], tools=row["tools"] or None, chat_template=template, tokenize=False
    )
    return str(text)


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
