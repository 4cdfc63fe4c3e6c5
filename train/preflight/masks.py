"""Check that the mask covers the assistant's turns and nothing else, and that what is served at
each step is what was trained."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from train.encoding import Span
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


CLOSING = re.compile(r"(<[^<>\s]{1,40}>)?\s*")


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
    return CLOSING.fullmatch(row.text.removeprefix(row.served)) is not None


def _template_difference(row: RenderedRow) -> str:
    place = shared_length(row.text, row.served)
    return (
        f"conversation {row.conversation_id}, at character {place}: "
        f"served {excerpt(row.served[place:])}, trained {excerpt(row.text[place:])}"
    )


STOP = re.compile(r"\s*(<[^<>\s]{1,40}>)?\s*")
"""What may follow a reply in its mask: a stop token rendered with the next message, such as GLM's
`<|observation|>`."""
OTHER_STOP = re.compile(r"[<|\[\s]*([^<>\s]{1,40}>)?\s*")
"""What may follow if the reply's own stop token begins like the rendered one."""


class MasksAreTurns:
    """Checks that the trained tokens decode to what the assistant said, turn by turn."""

    name = "masks_are_turns"
    every_row = False

    def __init__(self) -> None:
        self.rows = 0
        self.turns = 0
        self.unplaced = 0
        self.wrong = 0
        self.first_wrong = ""

    def add(self, row: RenderedRow) -> None:
        self.rows += 1
        self.turns += len(row.replies)
        self.unplaced += regions(row).count(None)
        for fault in faults(row):
            self.wrong += 1
            self.first_wrong = self.first_wrong or f"conversation {row.conversation_id}, {fault}"

    def finding(self) -> Finding:
        verdict = Verdict.FAILED if self.wrong else Verdict.PASSED
        if self.turns and self.turns == self.unplaced:
            verdict = Verdict.NOT_CHECKED
        number = f"{self.wrong} wrong masks among {self.turns} turns of {self.rows} rows"
        if self.unplaced:
            number += f", of which {self.unplaced} are not in the text that is served"
        if self.wrong:
            number += f"; the first: {self.first_wrong}"
        return Finding(
            check=self.name,
            verdict=verdict,
            number=number,
            meaning="The trained tokens must decode to the assistant's turns: the text, the calls "
            "and the end of the turn, and nothing that others said.",
            advice="Move the {% generation %} markers of the training template around the whole "
            "reply, its stop token included, or take a template that renders tool calls.",
        )


def faults(row: RenderedRow) -> Iterator[str]:
    """Describe what is wrong with the row's mask, one text per turn.

    Replies that are rendered elsewhere when served are left to another check.
    """
    places = regions(row)
    if places and places[0] and _masked(row, (-1, places[0][0])):
        yield "before the first assistant message: text is trained there"
    for reply, region in zip(row.replies, places, strict=True):
        if reply.text is not None and region is not None:
            fault = _fault(row, reply, _masked(row, region))
            if fault is not None:
                yield f"assistant message {reply.number}: {fault}"


def regions(row: RenderedRow) -> list[Span | None]:
    """From each reply's generation prompt to the next one's; None if unknown."""
    begins: list[int | None] = []
    for reply in row.replies:
        place = len(reply.prompt) - len(row.generation_prompt)
        begins.append(place if row.text.startswith(reply.prompt) else None)
    ends = [*begins[1:], len(row.text)]
    pairs = zip(begins, ends, strict=True)
    return [None if a is None or b is None else (a, b) for a, b in pairs]


def _masked(row: RenderedRow, region: Span) -> list[int]:
    """The indices of the trained tokens that end inside a region of the text."""
    encoded = row.encoded
    return [
        place
        for place, (_, end) in enumerate(encoded.offsets)
        if encoded.mask[place] and region[0] < end <= region[1]
    ]


def _fault(row: RenderedRow, reply: Reply, masked: list[int]) -> str | None:
    if not reply.trained:
        return "it is trained, though `trained_turns` leaves it out" if masked else None
    if not masked:
        return "nothing of it is trained"
    inside = range(masked[0], masked[-1] + 1)
    left_out = [row.encoded.input_ids[i] for i in inside if not row.encoded.mask[i]]
    text = str(row.tokenizer.decode(left_out))
    if text.strip():
        # Reasoning and reply may be marked separately, with white space between them.
        return f"{excerpt(text)} in its middle is not trained"
    return _text_fault(row, reply, inside)


def _text_fault(row: RenderedRow, reply: Reply, places: range) -> str | None:
    decoded = str(row.tokenizer.decode(row.encoded.input_ids[places.start : places.stop]))
    start = len(reply.prompt)
    head = row.text[row.encoded.offsets[places.start][0] : start]
    if not row.generation_prompt.endswith(head):
        return f"{excerpt(head)} before it is trained"
    body = decoded.removeprefix(head).strip()
    said, ending = _expected(row, reply)
    if not body.startswith(said) or ending.fullmatch(body.removeprefix(said)) is None:
        same = shared_length(body, said)
        return (
            f"{excerpt(body[same:])} is trained, not {excerpt(said[same:])}, from its character "
            f"{same} on"
        )
    missing = next((text for text in said_texts(reply) if not _holds(body, text)), None)
    return None if missing is None else f"{excerpt(missing)} is not in what is rendered of it"


def _expected(row: RenderedRow, reply: Reply) -> tuple[str, re.Pattern[str]]:
    """The text of a reply that must be trained, and what may follow it."""
    start, expected = len(reply.prompt), reply.text or ""
    if row.text.startswith(expected, start):
        return expected.strip(), STOP
    # The last message of a conversation may end differently: `<|return|>`, not `<|end|>`.
    following = row.text[start : start + len(expected)]
    return expected[: shared_length(expected, following)].rstrip("<|[ \n").lstrip(), OTHER_STOP


def said_texts(reply: Reply) -> Iterator[str]:
    """The parts of a message that must be in its rendering: its text, and its calls' names and
    arguments."""
    yield reply.message.get("content") or ""
    for call in reply.calls:
        yield call["name"]
        yield from _leaves(call["arguments"])


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, str):
        yield value


def _holds(body: str, text: str) -> bool:
    """Whether a text is in the rendering, plain or as JSON, ignoring white space."""
    forms = (text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1])
    return any("".join(form.split()) in "".join(body.split()) for form in forms)


# Checks that every row has trained tokens.


class MasksNotEmpty:
    """Checks that every row has something to train on."""

    name = "masks_not_empty"
    every_row = True

    def __init__(self) -> None:
        self.rows = 0
        self.empty = 0
        self.first_empty: str | None = None

    def add(self, row: RenderedRow) -> None:
        """Skips rows all of whose turns are left out on purpose."""
        self.rows += 1
        turns = row.row.get("trained_turns")
        if row.encoded.trained or (turns and not any(turns)):
            return
        self.empty += 1
        self.first_empty = self.first_empty or row.conversation_id

    def finding(self) -> Finding:
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
