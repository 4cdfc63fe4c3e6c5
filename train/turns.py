"""Where each assistant message lies in a rendered conversation.

A template's generation blocks say which text is the assistant's, not of which message it is: one
message may have several blocks (its reasoning apart), or none. So a block is given to the reply
that it ends in; replies begin where the prompt ends that the server would have been given.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from collect.errors import ConfigError

Span = tuple[int, int]
"""From the first character to the one after the last."""


def assistant_indices(row: dict[str, Any]) -> list[int]:
    """The places of the assistant messages among the row's."""
    return [i for i, message in enumerate(row["messages"]) if message["role"] == "assistant"]


def trained_turns(row: dict[str, Any]) -> list[bool]:
    """For each assistant message in order, whether it is trained; all where the row doesn't say.

    Raises ConfigError where the row says it of another number of messages.
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
    """The text of the first `end` messages, with the generation prompt where asked for."""
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
    """Raise ConfigError where a template can't render the row, as where roles don't alternate."""
    from jinja2 import TemplateError

    try:
        yield
    except (TemplateError, TypeError) as error:
        raise ConfigError(
            f"the chat template can't render conversation {row.get('conversation_id')}: {error}; "
            "take one for tools and several turns"
        ) from error


def reply_starts(row: dict[str, Any], tokenizer: Any, template: str, text: str) -> list[int]:
    """Where each reply begins in the row's text: the length of the prompt that asks for it.

    Raises ConfigError where a prompt is not how the text begins.
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

    Raises ConfigError where the template leaves a message without a block of its own.
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
    """The row's text, and what is inside of `{% generation %}` in it."""
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
