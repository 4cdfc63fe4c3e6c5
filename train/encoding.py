"""Rows as token ids, and which of them are trained.

Ids and mask come out of one rendering of the training template, so they can't disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from train.turns import Span, rendering, trained_turns, turn_spans

IGNORED = -100
"""The label of a token without loss."""


@dataclass(frozen=True)
class Encoded:
    """One row for a given tokenizer and template."""

    input_ids: list[int]
    mask: list[int]
    """1 where the token is the assistant's, and of a turn to train on."""
    offsets: list[Span]
    """The characters of the rendered text that each token stands for."""

    @property
    def trained(self) -> int:
        """Number of trained tokens."""
        return sum(self.mask)

    def cut(self, length: int | None) -> Encoded:
        """The first `length` tokens; all for None."""
        return Encoded(self.input_ids[:length], self.mask[:length], self.offsets[:length])

    @property
    def labels(self) -> list[int]:
        """The ids, without those that are not trained."""
        pairs = zip(self.input_ids, self.mask, strict=True)
        return [token if kept else IGNORED for token, kept in pairs]


def encode_row(row: dict[str, Any], tokenizer: Any, template: str) -> Encoded:
    """Render and tokenise one row with a template that has generation markers.

    Turns that the row's `trained_turns` leaves out are context. Raises ConfigError where they can't
    be told from the others.
    """
    with rendering(row):
        rendered = tokenizer.apply_chat_template(
            row["messages"],
            tools=row["tools"] or None,
            chat_template=template,
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=True,
            tokenizer_kwargs={"return_offsets_mapping": True},
        )
    encoded = Encoded(
        list(rendered["input_ids"]),
        list(rendered["assistant_masks"]),
        [(start, end) for start, end in rendered["offset_mapping"]],
    )
    trained = trained_turns(row)
    if all(trained) or not encoded.trained:
        return encoded
    turns = turn_spans(row, tokenizer, template)
    untrained = [spans for spans, kept in zip(turns, trained, strict=True) if not kept]
    return _without(encoded, [span for spans in untrained for span in spans])


def _without(encoded: Encoded, spans: list[Span]) -> Encoded:
    """The row with the tokens of some text masked. The spans are in order and apart."""
    mask = list(encoded.mask)
    remaining = iter(spans)
    span = next(remaining, None)
    for place, (start, end) in enumerate(encoded.offsets):
        while span is not None and span[1] <= start:
            span = next(remaining, None)
        if span is not None and end > span[0]:
            mask[place] = 0
    return Encoded(encoded.input_ids, mask, encoded.offsets)
