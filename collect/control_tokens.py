"""Control tokens in the texts of messages, written so that no tokenizer reads them as such.

A chat template renders a conversation as one text, and a tokenizer then reads `<|im_start|>` as the
begin of a message wherever it is: also in what a program printed or a model wrote. So each control
token in a message gets `MARK`, a zero-width space, after its first character. Rows of training data
and prompts are written alike, so a trained model sees at work what it has seen in training; in its
replies the marks are removed again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from collect.errors import ConfigError

MARK = "\u200b"
INNER = r"[^<>|\uff1c\uff1e\uff5c\s\u200b]{1,64}"
OF_FAMILIES = (
    rf"[<\uff1c][|\uff5c]{INNER}[|\uff5c]?(?:[>\uff1e]|\Z)|[<\uff1c]{INNER}[|\uff5c](?:[>\uff1e]|\Z)|"
    r"<(?:/?s|bos|eos|sop|pad|unk|mask|sep|cls|(?:BOS|EOS|PAD|UNK)_TOKEN|"
    r"(?:start|end)_of_(?:turn|utterance)|(?:start|end)_function_\w{1,16}|/?role|_(?:user|bot|system)|"
    r"seed:\w{1,16}|extra_id_\d{1,4}|SPECIAL_\d{1,4}|reserved_\d{1,4})(?:>|\Z)|"
    r"\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|ARGS|CALL_ID|"
    r"THINK|gMASK|BOS|EOS|UNUSED_TOKEN_\d{1,4})(?:\]|\Z)|"
    r"\[\|\w{1,32}\|(?:\]|\Z)|\]~!?b[\][]|\[e~\[|<</?SYS>(?:>|\Z)"
)
"""The control tokens of known model families, by which a message begins or ends. The full-width
characters are those that some tokenizers read as ASCII. At the end of a text the last character may
be missing: templates write one after names, as in `<function=NAME>`."""
MARKUP = r"</?(?:think|tool_call|tool_response)>"
"""What templates write around parts of a message. A model writes it itself, so it stays in the
assistant's messages."""
LONGEST = 128
"""Characters of the longest control token."""
ELEMENT = re.compile(r"</?\w+>")


class ControlTokens:
    """The control tokens of known families, and of one tokenizer with its chat template."""

    def __init__(self, tokenizer: Any = None, template: str = "") -> None:
        own = _tokens_of(tokenizer, template) if tokenizer is not None else {}
        by_model = [OF_FAMILIES, *(_pattern(each) for each, ends in own.items() if ends)]
        by_others = [MARKUP, OF_FAMILIES, *map(_pattern, own)]
        self._token = re.compile("|".join(by_others))
        # A token is looked for at each place, since the end of one can be the begin of the next.
        self._begins = {
            True: re.compile(f"(?={'|'.join(by_model)}).", re.DOTALL),
            False: re.compile(f"(?={'|'.join(by_others)}).", re.DOTALL),
        }
        if own:
            self._refuse_without_effect(tokenizer, own)

    def marked(self, message: dict[str, Any]) -> dict[str, Any]:
        """A copy of a message, or of a tool's schema, with marks in all of its texts."""
        begins = self._begins[message.get("role") == "assistant"]
        copied: dict[str, Any] = _with_texts(message, lambda text: begins.sub(_with_mark, text))
        return copied

    def _refuse_without_effect(self, tokenizer: Any, own: Iterable[str]) -> None:
        """Raise ConfigError if the tokenizer drops marks before it looks for control tokens."""
        told = self._begins[False].sub(_with_mark, " ".join(own))
        read = set(tokenizer(told, add_special_tokens=False)["input_ids"])
        for token in own:
            if tokenizer.convert_tokens_to_ids(token) in read:
                raise ConfigError(
                    f"the tokenizer drops zero-width spaces before it looks for {token!r}, so a "
                    "text of a program can't be kept from beginning a message: take another model"
                )

    def unmarked(self, text: str) -> str:
        """The text without marks."""
        if MARK not in text:
            return text
        # From the end, since one token can be inside of another.
        pieces = text.split(MARK)
        unmarked = [pieces.pop()]
        following = unmarked[0][:LONGEST]
        while pieces:
            piece = pieces.pop()
            last = piece[-1:] or MARK
            if not self._token.match(last + following):
                unmarked.append(MARK)
                following = MARK + following
            unmarked.append(piece)
            following = (piece + following)[:LONGEST]
        return "".join(reversed(unmarked))

    def marks(self, value: Any) -> bool:
        """Whether a text in a message or a list of them has marks."""
        found = []

        def look(text: str) -> str:
            found.append(self.unmarked(text) != text)
            return text

        _with_texts(value, look)
        return any(found)


def _tokens_of(tokenizer: Any, template: str) -> dict[str, bool]:
    """A tokenizer's control tokens: the special ones, and those that the template writes. Whether
    each begins or ends a message, rather than a part of one."""
    found = {}
    for token in tokenizer.added_tokens_decoder.values():
        text = str(token.content)
        special = bool(token.special)
        is_word = len(text) < 2 or text.isalnum() or text.isspace()
        if (special or text in template) and not is_word:
            found[text] = special or ELEMENT.fullmatch(text) is None
    return found


def _pattern(token: str) -> str:
    return f"{re.escape(token[:-1])}(?:{re.escape(token[-1])}|\\Z)"


def _with_mark(found: re.Match[str]) -> str:
    return found[0] + MARK


def _with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """A copy with other texts. No recursion, since a model's arguments may be nested deeply."""
    whole = [value]
    unread: list[Any] = [whole]
    while unread:
        container = unread.pop()
        for place in range(len(container)) if isinstance(container, list) else tuple(container):
            part = container[place]
            if isinstance(part, str):
                container[place] = change(part)
            elif isinstance(part, list):
                container[place] = list(part)
                unread.append(container[place])
            elif isinstance(part, dict):
                container[place] = {change(key): each for key, each in part.items()}
                unread.append(container[place])
    return whole[0]


OF_KNOWN_FAMILIES = ControlTokens()
