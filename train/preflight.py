"""What is checked of the training rows before anything is trained."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from collect.errors import ConfigError
from train.config import TrainConfig
from train.encoding import Encoded


class Preflight(BaseModel):
    """Counts over all rows of the train split, for one tokenizer, template and length."""

    model_config = ConfigDict(extra="forbid")

    max_length: int
    rows: int = 0
    empty: int = 0
    """Rows without one trained token."""
    cut: int = 0
    """Rows longer than `max_length`, which lose their end."""
    lost: int = 0
    """Rows that lose all their trained tokens with it, and so are left out."""
    other_when_served: int = 0
    """Rows that the serving template renders differently."""
    tokens: int = 0
    """Of all rows as trained, after cutting."""
    trained_tokens: int = 0
    longest: int = 0
    """Tokens of the longest row before cutting."""
    first_empty: str | None = None
    """Conversation id."""

    def add(self, encoded: Encoded, conversation_id: str, same_when_served: bool) -> None:
        """Count one row."""
        kept = encoded.cut(self.max_length)
        self.rows += 1
        self.longest = max(self.longest, len(encoded.input_ids))
        self.tokens += len(kept.input_ids)
        self.trained_tokens += kept.trained
        self.other_when_served += not same_when_served
        if not encoded.trained:
            self.empty += 1
            self.first_empty = self.first_empty or conversation_id
        elif len(encoded.input_ids) > self.max_length:
            self.cut += 1
            self.lost += not kept.trained

    def check(self, config: TrainConfig, context: int | None) -> None:
        """Raise ConfigError where training on these rows would teach nothing, or too little.

        `context` is the longest input in tokens that the base model was made for, where known.
        """
        self._check_masks()
        self._check_lengths(config.max_truncated_share)
        if context is not None and min(self.longest, self.max_length) > context:
            raise ConfigError(
                f"the longest row has {self.longest} tokens, more than the base model's context of "
                f"{context}; set train.max_length = {context}, or lower format.max_characters"
            )

    def _check_masks(self) -> None:
        if self.empty:
            raise ConfigError(
                f"{self.empty} of {self.rows} rows have no token to train on, the first of "
                f"conversation {self.first_empty}: the training template marks none of their "
                "assistant turns. Set train.training_template to one that has {% generation %} "
                "around them, or drop these conversations in `format`"
            )

    def _check_lengths(self, max_truncated_share: float) -> None:
        if self.cut > max_truncated_share * self.rows:
            raise ConfigError(
                f"{self.cut} of {self.rows} rows are longer than train.max_length = "
                f"{self.max_length} tokens and would lose their end, more than "
                f"train.max_truncated_share = {max_truncated_share} allows. The longest has "
                f"{self.longest}: raise max_length to it, lower format.max_characters, or raise "
                "max_truncated_share"
            )
        if self.lost == self.rows:
            raise ConfigError(
                f"train.max_length = {self.max_length} cuts off all trained tokens of every row; "
                f"raise it, the longest row has {self.longest} tokens"
            )
