"""Rows as the chat templates render them, as token ids, and which of these are trained.

Ids and mask come from one rendering of the training template, so they can't disagree.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from collect.errors import ConfigError

Span = tuple[int, int]
"""From the first character to the one after the last."""
IGNORED = -100


@dataclass(frozen=True)
class Templates:
    training: str
    """With generation markers."""
    serving: str


def assistant_indices(row: dict[str, Any]) -> list[int]:
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
    options = {"add_generation_prompt": prompt, "tokenize": False}
    return str(_apply(template, row, messages, tokenizer, **options))


def _apply(
    template: str, row: dict[str, Any], messages: Any, tokenizer: Any, **options: Any
) -> Any:
    """Raises ConfigError if the template can't render these messages of the row, for example if
    roles don't alternate."""
    from jinja2 import TemplateError

    tools = row["tools"] or None
    try:
        return tokenizer.apply_chat_template(
            messages, tools=tools, chat_template=template, **options
        )
    except (TemplateError, TypeError) as error:
        raise ConfigError(
            f"the chat template can't render conversation {row.get('conversation_id')}: {error}; "
            "take one for tools and several turns"
        ) from error


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
    rendered = _apply(
        template,
        row,
        row["messages"],
        tokenizer,
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
        tokenizer_kwargs={"return_offsets_mapping": True},
    )
    mask = list(rendered["assistant_masks"])
    offsets = [(start, end) for start, end in rendered["offset_mapping"]]
    trained = trained_turns(row)
    if any(mask) and not all(trained):
        turns = zip(_turn_spans(row, tokenizer, template), trained, strict=True)
        # The spans are in order, as the tokens are.
        remaining = iter([span for spans, kept in turns if not kept for span in spans])
        span = next(remaining, None)
        for place, (start, end) in enumerate(offsets):
            while span is not None and span[1] <= start:
                span = next(remaining, None)
            if span is not None and end > span[0]:
                mask[place] = 0
    return Encoded(list(rendered["input_ids"]), mask, offsets)


def _turn_spans(row: dict[str, Any], tokenizer: Any, template: str) -> list[list[Span]]:
    """The generation blocks of each assistant message, in order.

    A template's generation blocks mark assistant text, but not which message it belongs to: a
    message may have several blocks (such as separate reasoning) or none. So a block belongs to the
    reply that it ends in; a reply begins where the prompt ends that a server would have received.

    Raises ConfigError if a message has no block of its own.
    """
    from transformers.utils.chat_template_utils import render_jinja_template

    (text,), (blocks,) = render_jinja_template(
        conversations=[row["messages"]],
        tools=row["tools"] or None,
        chat_template=template,
        return_assistant_tokens_mask=True,
        add_generation_prompt=False,
        **tokenizer.special_tokens_map,
    )
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
    turns: list[list[Span]] = [[] for _ in starts]
    joined = []
    for start, end in blocks:
        owner = bisect_left(starts, end) - 1
        if start == end or owner < 0:
            continue
        if owner and start <= starts[owner - 1]:
            joined.append(owner)
        turns[owner].append((start, end))
    joined += [number for number, spans in enumerate(turns) if not spans]
    if joined:
        raise ConfigError(
            f"conversation {row.get('conversation_id')}: the training template has no generation "
            f"block of its own for assistant message {joined[0]} (from 0), as where it joins "
            "neighbouring ones, so that one can't be masked alone; set train.training_template to "
            "one that keeps them apart"
        )
    return turns


@dataclass(frozen=True)
class Reply:
    """One assistant message, with its prompt and text as served."""

    number: int
    """Index among the assistant messages."""
    message: dict[str, Any]
    trained: bool
    prompt: str
    """The server's rendering of the messages before it, with the generation prompt."""
    text: str | None
    """What the model must generate, with the end of its turn; None if the server's rendering of the
    conversation with the reply does not begin with the prompt."""

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The functions that it calls: name and arguments."""
        return [call["function"] for call in self.message.get("tool_calls") or ()]


@dataclass(frozen=True)
class RenderedRow:
    """A row of the training data for one tokenizer and pair of templates; each text is rendered on
    first use."""

    row: dict[str, Any]
    tokenizer: Any
    templates: Templates
    has_marks: bool = False
    """Whether control tokens in its messages are marked."""

    @property
    def conversation_id(self) -> str:
        return str(self.row.get("conversation_id"))

    @cached_property
    def encoded(self) -> Encoded:
        """Ids and mask. Raises ConfigError if a turn can't be masked."""
        return encode_row(self.row, self.tokenizer, self.templates.training)

    @cached_property
    def text(self) -> str:
        return render(self.row, self.tokenizer, self.templates.training, prompt=False)

    @cached_property
    def replies(self) -> list[Reply]:
        found = []
        places = zip(assistant_indices(self.row), trained_turns(self.row), strict=True)
        for number, (index, trained) in enumerate(places):
            prompt = self._served(index, prompt=True)
            answered = self._served(index + 1, prompt=False)
            text = answered[len(prompt) :] if answered.startswith(prompt) else None
            found.append(Reply(number, self.row["messages"][index], trained, prompt, text))
        return found

    @cached_property
    def generation_prompt(self) -> str:
        """The text that the serving template adds to ask for a reply."""
        before = self._served(assistant_indices(self.row)[0], prompt=False)
        prompt = self.replies[0].prompt
        return prompt[shared_length(before, prompt) :]

    def _served(self, end: int, *, prompt: bool) -> str:
        return render(self.row, self.tokenizer, self.templates.serving, end, prompt=prompt)


def shared_length(one: str, other: str) -> int:
    """Length of the common prefix of two texts."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
