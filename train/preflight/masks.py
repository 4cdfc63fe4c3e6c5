"""Check that the mask covers the assistant's turns and nothing else, and that what is served at
each step is what was trained."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from train.encoding import RenderedRow, Reply, Span, shared_length
from train.preflight.report import Check, Finding, Verdict, excerpt

MERGED_SHARE = 0.01
"""Share of the replies that may begin inside a token. A prompt alone ends at a token's end, so
there the served model gets other tokens than it was trained on."""
CLOSING = re.compile(r"(<[^<>\s]{1,40}>)?\s*")
"""A final stop token, which the training template alone may write."""
STOP = re.compile(r"\s*(<[^<>\s]{1,40}>)?\s*")
"""What may follow a reply in its mask: a stop token rendered with the next message, such as GLM's
`<|observation|>`."""
OTHER_STOP = re.compile(r"[<|\[\s]*([^<>\s]{1,40}>)?\s*")
"""What may follow if the reply's own stop token begins like the rendered one."""


class PrefixesPreserved(Check):
    """Checks that the trained text begins with the served prompt of each reply."""

    name = "prefixes_preserved"
    meaning = (
        "A served conversation is rendered anew at each step; what the model reads then must be "
        "what it was trained on."
    )

    def __init__(self) -> None:
        super().__init__()
        self.replies = 0
        self.merged = 0

    def add(self, row: RenderedRow) -> None:
        token_starts = {start for start, _ in row.encoded.offsets}
        for reply in row.replies:
            self.replies += 1
            if not row.text.startswith(reply.prompt):
                difference = _difference(row.text, reply.prompt)
                where = f"conversation {row.conversation_id}, assistant message {reply.number}"
                self.note(f"{where}, {difference}")
            elif len(reply.prompt) not in token_starts:
                self.merged += 1

    def finding(self) -> Finding:
        number = (
            f"{self.faults} of {self.replies} replies are asked for with another text than "
            f"the trained one, and {self.merged} begin inside of a token"
        )
        if self.faults or self.merged <= MERGED_SHARE * self.replies:
            advice = (
                "Serve with a template that renders earlier messages the same whatever follows "
                "(TRL's `*_training.jinja` do): set train.serving_template to the training "
                "template."
            )
            return self.found(None, number, advice)
        advice = (
            "Strip the white space that these replies begin with: the tokenizer joins it to the "
            "prompt's, which ends in a token of its own when served."
        )
        return self.found(Verdict.FAILED, number, advice)


def _difference(trained: str, served: str) -> str:
    place = shared_length(trained, served)
    return (
        f"at character {place}: served {excerpt(served[place:])}, trained "
        f"{excerpt(trained[place:])}"
    )


class TemplatesAgree(Check):
    """Checks that whole conversations are the same text under the training and the serving
    template."""

    name = "templates_agree"
    meaning = "The serving template must render what the training template does."
    every_row = True

    def add(self, row: RenderedRow) -> None:
        self.rows += 1
        begins = row.text.startswith(row.served)
        if not begins or CLOSING.fullmatch(row.text.removeprefix(row.served)) is None:
            difference = _difference(row.text, row.served)
            self.note(f"conversation {row.conversation_id}, {difference}")

    def finding(self) -> Finding:
        return self.found(
            None,
            f"{self.faults} of {self.rows} rows are another text when served",
            "Set train.training_template to the serving template with {% generation %} markers, or "
            "serve with the training template.",
        )


class MasksNotEmpty(Check):
    """Checks that every row has something to train on."""

    name = "masks_not_empty"
    meaning = "A row without trained tokens teaches nothing."
    every_row = True

    def add(self, row: RenderedRow) -> None:
        """Skips rows all of whose turns are left out on purpose."""
        self.rows += 1
        turns = row.row.get("trained_turns")
        if not row.encoded.trained and (not turns or any(turns)):
            self.note(row.conversation_id)

    def finding(self) -> Finding:
        return self.found(
            None if self.rows else Verdict.FAILED,
            f"{self.faults} of {self.rows} rows have no token to train on"
            if self.rows
            else "there is no row",
            "The training template marks none of their assistant turns: set "
            "train.training_template to one that has {% generation %} around them, or drop these "
            "conversations in `format`.",
        )


class MasksAreTurns(Check):
    """Checks that the trained tokens decode to what the assistant said, turn by turn."""

    name = "masks_are_turns"
    meaning = (
        "The trained tokens must decode to the assistant's turns: the text, the calls and the end "
        "of the turn, and nothing that others said."
    )

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0
        self.unplaced = 0

    def add(self, row: RenderedRow) -> None:
        self.rows += 1
        self.turns += len(row.replies)
        self.unplaced += regions(row).count(None)
        for fault in faults(row):
            self.note(f"conversation {row.conversation_id}, {fault}")

    def finding(self) -> Finding:
        number = f"{self.faults} wrong masks among {self.turns} turns of {self.rows} rows"
        if self.unplaced:
            number += f", of which {self.unplaced} are not in the text that is served"
        return self.found(
            Verdict.NOT_CHECKED if self.turns and self.turns == self.unplaced else None,
            number,
            "Move the {% generation %} markers of the training template around the whole reply, "
            "its stop token included, or take a template that renders tool calls.",
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
            fault = _fault(row, reply, reply.text, _masked(row, region))
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


def _fault(row: RenderedRow, reply: Reply, expected: str, masked: list[int]) -> str | None:
    """What is wrong with the mask of a reply, whose text is `expected` and whose trained tokens are
    `masked`."""
    ids, mask, offsets = row.encoded.input_ids, row.encoded.mask, row.encoded.offsets
    if not reply.trained:
        return "it is trained, though `trained_turns` leaves it out" if masked else None
    if not masked:
        return "nothing of it is trained"
    inside = range(masked[0], masked[-1] + 1)
    left_out = str(row.tokenizer.decode([ids[i] for i in inside if not mask[i]]))
    if left_out.strip():
        # Reasoning and reply may be marked separately, with white space between them.
        return f"{excerpt(left_out)} in its middle is not trained"
    start = len(reply.prompt)
    head = row.text[offsets[inside.start][0] : start]
    if not row.generation_prompt.endswith(head):
        return f"{excerpt(head)} before it is trained"
    body = str(row.tokenizer.decode(ids[inside.start : inside.stop])).removeprefix(head).strip()
    if row.text.startswith(expected, start):
        said, ending = expected.strip(), STOP
    else:
        # The last message of a conversation may end differently: `<|return|>`, not `<|end|>`.
        same = shared_length(expected, row.text[start : start + len(expected)])
        said, ending = expected[:same].rstrip("<|[ \n").lstrip(), OTHER_STOP
    if not body.startswith(said) or ending.fullmatch(body.removeprefix(said)) is None:
        same = shared_length(body, said)
        return (
            f"{excerpt(body[same:])} is trained, not {excerpt(said[same:])}, from its character "
            f"{same} on"
        )
    texts = [reply.message.get("content") or ""]
    for call in reply.calls:
        texts += [call["name"], *_leaves(call["arguments"])]
    missing = next((text for text in texts if not _holds(body, text)), None)
    return None if missing is None else f"{excerpt(missing)} is not in what is rendered of it"


def _holds(body: str, text: str) -> bool:
    """Whether a text is in the rendering, plain or as JSON, ignoring white space."""
    forms = (text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1])
    return any("".join(form.split()) in "".join(body.split()) for form in forms)


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
