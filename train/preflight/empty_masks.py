"""Whether every row has something to train on."""

from __future__ import annotations

from train.preflight.check import Finding, Verdict
from train.preflight.rendered import RenderedRow


class MasksNotEmpty:
    """Every row has something to train on."""

    name = "masks_not_empty"
    every_row = True

    def __init__(self) -> None:
        self.rows = 0
        self.empty = 0
        self.first_empty: str | None = None

    def add(self, row: RenderedRow) -> None:
        """See `Check`. A row all of whose turns are left out on purpose is not meant."""
        self.rows += 1
        turns = row.row.get("trained_turns")
        if row.encoded.trained or (turns and not any(turns)):
            return
        self.empty += 1
        self.first_empty = self.first_empty or row.conversation_id

    def finding(self) -> Finding:
        """See `Check`."""
        if not self.rows:
            number, verdict = "there is no row", Verdict.FAILED
        else:
            number = f"{self.empty} of {self.rows} rows have no token to train on"
            verdict = Verdict.FAILED if self.empty else Verdict.PASSED
        return Finding(
            check=self.name,
            verdict=verdict,
            number=number + (f", the first of conversation {self.first_empty}" * bool(self.empty)),
            meaning="A row without trained tokens teaches nothing.",
            advice="The training template marks none of their assistant turns: set "
            "train.training_template to one that has {% generation %} around them, or drop these "
            "conversations in `format`.",
        )
