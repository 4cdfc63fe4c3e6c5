"""Check that what is served at each step is what was trained."""

from __future__ import annotations

import re

from train.preflight.rendered import RenderedRow, Reply, shared_length
from train.preflight.report import Finding, Verdict, excerpt

MERGED_SHARE = 0.01
"""Share of the replies that may begin inside a token. A prompt alone ends at a token's end, so
there the served model gets other tokens than it was trained on."""


class PrefixesPreserved:
    """Checks that the trained text begins with the served prompt of each reply."""

    name = "prefixes_preserved"
    every_row = False

    def __init__(self) -> None:
        self.replies = 0
        self.changed = 0
        self.merged = 0
        self.first_changed = ""

    def add(self, row: RenderedRow) -> None:
        token_starts = {start for start, _ in row.encoded.offsets}
        for reply in row.replies:
            self.replies += 1
            if not row.text.startswith(reply.prompt):
                self.changed += 1
                self.first_changed = self.first_changed or _difference(row, reply)
            elif len(reply.prompt) not in token_starts:
                self.merged += 1

    def finding(self) -> Finding:
        first = f"; the first: {self.first_changed}" if self.changed else ""
        failed = self.changed or self.merged > MERGED_SHARE * self.replies
        return Finding(
            check=self.name,
            verdict=Verdict.FAILED if failed else Verdict.PASSED,
            number=f"{self.changed} of {self.replies} replies are asked for with another text than "
            f"the trained one, and {self.merged} begin inside of a token{first}",
            meaning="A served conversation is rendered anew at each step; what the model reads "
            "then must be what it was trained on.",
            advice=self._advice(),
        )

    def _advice(self) -> str:
        if not self.changed:
            return (
                "Strip the white space that these replies begin with: the tokenizer joins it to "
                "the prompt's, which ends in a token of its own when served."
            )
        return (
            "Serve with a template that renders earlier messages the same whatever follows "
            "(TRL's `*_training.jinja` do): set train.serving_template to the training template."
        )


def _difference(row: RenderedRow, reply: Reply) -> str:
    place = shared_length(row.text, reply.prompt)
    return (
        f"conversation {row.conversation_id}, assistant message {reply.number}, at character "
        f"{place}: served {excerpt(reply.prompt[place:])}, trained {excerpt(row.text[place:])}"
    )


# Compares the texts of the two templates.


STOP = re.compile(r"(<[^<>\s]{1,40}>)?\s*")


class TemplatesAgree:
    """Checks that whole conversations are the same text under the training and the serving
    template."""

    name = "templates_agree"
    every_row = True

    def __init__(self) -> None:
        self.rows = 0
        self.different = 0
        self.first_different = ""

    def add(self, row: RenderedRow) -> None:
        self.rows += 1
        if not _same(row):
            self.different += 1
            self.first_different = self.first_different or _template_difference(row)

    def finding(self) -> Finding:
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
    """Whether the texts are equal, except for a final stop token in the training text."""
    if not row.text.startswith(row.served):
        return False
    return STOP.fullmatch(row.text.removeprefix(row.served)) is not None


def _template_difference(row: RenderedRow) -> str:
    place = shared_length(row.text, row.served)
    return (
        f"conversation {row.conversation_id}, at character {place}: "
        f"served {excerpt(row.served[place:])}, trained {excerpt(row.text[place:])}"
    )
