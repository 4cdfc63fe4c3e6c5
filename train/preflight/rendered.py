"""One row as rendered by the templates; each text is rendered on first use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from train.encoding import Encoded, assistant_indices, encode_row, render, trained_turns


@dataclass(frozen=True)
class Templates:
    """The two chat templates of a training."""

    training: str
    """With generation markers."""
    serving: str


@dataclass(frozen=True)
class Reply:
    """One assistant message, with its prompt and text as served."""

    number: int
    """Index among the assistant messages."""
    index: int
    """Index among all messages."""
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
    """A row of the training data for one tokenizer and pair of templates."""

    row: dict[str, Any]
    tokenizer: Any
    templates: Templates

    @property
    def conversation_id(self) -> str:
        """The id of the conversation that the row comes from."""
        return str(self.row.get("conversation_id"))

    @cached_property
    def encoded(self) -> Encoded:
        """Ids and mask. Raises ConfigError if a turn can't be masked."""
        return encode_row(self.row, self.tokenizer, self.templates.training)

    @cached_property
    def text(self) -> str:
        """The training template's rendering."""
        return render(self.row, self.tokenizer, self.templates.training, prompt=False)

    @cached_property
    def served(self) -> str:
        """The serving template's rendering."""
        return render(self.row, self.tokenizer, self.templates.serving, prompt=False)

    @cached_property
    def replies(self) -> list[Reply]:
        """The assistant messages."""
        places = zip(assistant_indices(self.row), trained_turns(self.row), strict=True)
        return [self._reply(n, index, kept) for n, (index, kept) in enumerate(places)]

    def _reply(self, number: int, index: int, trained: bool) -> Reply:
        prompt = self._served(index, prompt=True)
        answered = self._served(index + 1, prompt=False)
        text = answered[len(prompt) :] if answered.startswith(prompt) else None
        return Reply(number, index, self.row["messages"][index], trained, prompt, text)

    @cached_property
    def generation_prompt(self) -> str:
        """The text that the serving template adds to ask for a reply."""
        first = self.replies[0]
        before = self._served(first.index, prompt=False)
        return first.prompt[shared_length(before, first.prompt) :]

    def _served(self, end: int, *, prompt: bool) -> str:
        return render(self.row, self.tokenizer, self.templates.serving, end, prompt=prompt)


def shared_length(one: str, other: str) -> int:
    """Length of the common prefix of two texts."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
