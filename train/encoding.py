"""Encode rows as token ids, and mark which are trained.

Ids and mask come from one rendering of the training template, so they can't disagree.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from collect.errors import ConfigError

# Locates each assistant message in a rendered conversation.
#
# A template's generation blocks mark assistant text, but not which message it belongs to: a message
# may have several blocks (such as separate reasoning) or none. So a block belongs to the reply that
# it ends in; a reply begins where the prompt ends that a server would have received.


Span = tuple[int, int]
"""From the first character to the one after the last."""


def assistant_indices(row: dict[str, Any]) -> list[int]:
    """The indices of the assistant messages in the row."""
    return [i for i, message in enumerate(row["messages"]) if message["role"] == "assistant"]


def trained_turns(row: dict[str, Any]) -> list[bool]:
    """For each assistant message in order, whether it is trained; all if the row does not specify.

    Raises ConfigError if the row has flags for another number of messages.
    """
    count = len(assistant_indices(row))
    trained = row.get("trained_turns")
    if trained is None:
        return [True] * count
    if len(trained) != count:
        raise ConfigError(
            f"conversation {row.get('conversation_id')} has {count} assistant messages, but "
            f"{len(trained)} entries in `trained_turns`; run `stepinto format` again"
        )
    return [bool(each) for each in trained]


def render(
    row: dict[str, Any], tokenizer: Any, template: str, end: int | None = None, *, prompt: bool
) -> str:
    """The text of the first `end` messages, with the generation prompt if `prompt`."""
    messages = row["messages"][:end]
    if not messages:
        return ""
    with rendering(row):
        text = tokenizer.apply_chat_template(
            messages,
            tools=row["tools"] or None,
            chat_template=template,
            add_generation_prompt=prompt,
            tokenize=False,
        )
    return str(text)


@contextmanager
def rendering(row: dict[str, Any]) -> Iterator[None]:
    """Raise ConfigError if a template can't render the row, for example if roles don't
    alternate."""
    from jinja2 import TemplateError

    try:
        yield
    except (TemplateError, TypeError) as error:
        raise ConfigError(
            f"the chat template can't render conversation {row.get('conversation_id')}: {error}; "
            "take one for tools and several turns"
        ) from error


def reply_starts(row: dict[str, Any], tokenizer: Any, template: str, text: str) -> list[int]:
    """Where each reply begins in the row's text: the length of its prompt.

    Raises ConfigError if the text does not begin with a prompt.
    """
    starts = []
    for index in assistant_indices(row):
        prompt = render(row, tokenizer, template, index, prompt=True)
        if not text.startswith(prompt):
            raise ConfigError(
                f"conversation {row.get('conversation_id')}: the training template renders the "
                f"first {index} messages otherwise once more follow, so its turns can't be told "
                "apart; set train.training_template to one that keeps what it has rendered, or "
                "format the rows without masks of single turns"
            )
        starts.append(len(prompt))
    return starts


def turn_spans(row: dict[str, Any], tokenizer: Any, template: str) -> list[list[Span]]:
    """The generation blocks of each assistant message, in order.

    Raises ConfigError if a message has no block of its own.
    """
    text, blocks = _generation_blocks(row, tokenizer, template)
    starts = reply_starts(row, tokenizer, template, text)
    turns: list[list[Span]] = [[] for _ in starts]
    for start, end in blocks:
        owner = bisect_left(starts, end) - 1
        if start == end or owner < 0:
            continue
        if owner and start <= starts[owner - 1]:
            raise _joined(row, owner)
        turns[owner].append((start, end))
    for number, spans in enumerate(turns):
        if not spans:
            raise _joined(row, number)
    return turns


def _joined(row: dict[str, Any], number: int) -> ConfigError:
    return ConfigError(
        f"conversation {row.get('conversation_id')}: the training template has no generation block "
        f"of its own for assistant message {number} (from 0), as where it joins neighbouring ones, "
        "so that one can't be masked alone; set train.training_template to one that keeps them "
        "apart"
    )


def _generation_blocks(
    row: dict[str, Any], tokenizer: Any, template: str
) -> tuple[str, list[Span]]:
    """The row's text, and the spans inside `{% generation %}`."""
    from transformers.utils.chat_template_utils import render_jinja_template

    texts, blocks = render_jinja_template(
        conversations=[row["messages"]],
        tools=row["tools"] or None,
        chat_template=template,
        return_assistant_tokens_mask=True,
        add_generation_prompt=False,
        **tokenizer.special_tokens_map,
    )
    return texts[0], [(start, end) for start, end in blocks[0]]


IGNORED = -100
"""The label of a token without loss."""


@dataclass(frozen=True)
class Encoded:
    """One row, encoded for a given tokenizer and template."""

    input_ids: list[int]
    mask: list[int]
    """1 if the token belongs to an assistant turn that is trained."""
    offsets: list[Span]
    """The span of the rendered text that each token stands for."""

    @property
    def trained(self) -> int:
        """Number of trained tokens."""
        return sum(self.mask)

    def cut(self, length: int | None) -> Encoded:
        """The first `length` tokens; all for None."""
        return Encoded(self.input_ids[:length], self.mask[:length], self.offsets[:length])

    @property
    def labels(self) -> list[int]:
        """The ids, with IGNORED for untrained tokens."""
        pairs = zip(self.input_ids, self.mask, strict=True)
        return [token if kept else IGNORED for token, kept in pairs]


def encode_row(row: dict[str, Any], tokenizer: Any, template: str) -> Encoded:
    """Render and tokenise one row with a template that has generation markers.

    Turns that the row's `trained_turns` leaves out are context. Raises ConfigError if they can't be
    told from the others.
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
    """Mask the tokens of some spans, which are in order and don't overlap."""
    mask = list(encoded.mask)
    remaining = iter(spans)
    span = next(remaining, None)
    for place, (start, end) in enumerate(encoded.offsets):
        while span is not None and span[1] <= start:
            span = next(remaining, None)
        if span is not None and end > span[0]:
            mask[place] = 0
    return Encoded(encoded.input_ids, mask, encoded.offsets)
