"""What the preflight found: the report, and the refusal to train."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict

from collect.errors import ConfigError
from train.preflight.check import Finding, Verdict


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
    untrained: int = 0
    """Rows all of whose turns are left out, which so are left out themselves."""
    looked_through: int = 0
    """Rows whose turns were each decoded and parsed; the rest was looked at as a whole."""
    pairs: int = 0
    """Where pairs are trained: so many are. Their two sides are rows, and the tokens are theirs."""
    pairs_left_out: int = 0
    """Pairs of which a side is too long, or has no token to train on."""
    findings: list[Finding] = []
    """One of each check."""

    @property
    def failures(self) -> list[Finding]:
        """What forbids training."""
        return [each for each in self.findings if each.verdict is Verdict.FAILED]

    def lines(self) -> Iterator[str]:
        """The report as text, a line for each check."""
        for each in self.findings:
            yield f"{each.verdict.upper():<11} {each.line}"

    def refuse_failures(self) -> None:
        """Raise ConfigError where training on these rows would teach nothing, or too little."""
        if self.failures:
            lines = "\n".join(f"  {each.line}" for each in self.failures)
            raise ConfigError(
                f"the training data fails {len(self.failures)} of {len(self.findings)} checks:\n"
                f"{lines}\nMend that, or name the checks in train.waived_checks to train "
                "nevertheless"
            )
