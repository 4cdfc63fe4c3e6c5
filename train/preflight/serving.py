"""Whether the two templates render the same text."""

from __future__ import annotations

import re

from train.preflight.check import Finding, Verdict, excerpt
from train.preflight.rendered import RenderedRow, shared_length

STOP = re.compile(r"(<[^<>\s]{1,40}>)?\s*")


class TemplatesAgree:
    """Whole conversations are the same text under the training and the serving template."""

    name = "templates_agree"
    every_row = True

    def __init__(self) -> None:
        self.rows = 0
        self.different = 0
        self.first_different = ""

    def add(self, row: RenderedRow) -> None:
        """See `Check`."""
        self.rows += 1
        if not _same(row):
            self.different += 1
            self.first_different = self.first_different or _difference(row)

    def finding(self) -> Finding:
        """See `Check`."""
        first = f"; the first: {self.first_different}" if self.different else ""
        return Finding(
            check=self.name,
            verdict=Verdict.FAILED if self.different else Verdict.PASSED,
            number=f"{self.different} of {self.rows} rows are another text when served{first}",
            meaning="The serving template must render what the training template does.",
            advice="Set train.training_template to the serving template with {% generation %} "
            "markers, or serve with the training template.",
        )


def _same(row: RenderedRow) -> bool:
    """Whether the texts are equal, but for a stop token that training alone has at the end."""
    if not row.text.startswith(row.served):
        return False
    return STOP.fullmatch(row.text.removeprefix(row.served)) is not None


def _difference(row: RenderedRow) -> str:
    place = shared_length(row.text, row.served)
    return (
        f"conversation {row.conversation_id}, at character {place}: "
        f"served {excerpt(row.served[place:])}, trained {excerpt(row.text[place:])}"
    )
