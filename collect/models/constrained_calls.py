"""Replies of a model in this process whose tool calls can't be invalid, by llguidance.

A constrained reply is any text, and then any number of calls in the Hermes form: of tools that the
request offers, with arguments that their schemas allow. Before each token whatever would lead to
another reply is ruled out; among the rest the model chooses as ever.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from llguidance import LLMatcher
from llguidance.hf import from_tokenizer

from collect.errors import LocalModelFailed
from collect.models.tool_parsing import CLOSE, OPEN
from collect.store.messages import ToolSchema

SPACES = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""Arguments as chat templates write them, from which models learn."""


class ConstrainedCalls:
    """Begins the constraints of one model's replies. Thread-safe."""

    def __init__(self, tokenizer: Any, vocabulary: int, end_ids: Collection[int]) -> None:
        """`vocabulary` is the number of the model's scores, which can be more than its tokens."""
        self._tokens = from_tokenizer(tokenizer, n_vocab=vocabulary, eos_token=sorted(end_ids))
        # To llguidance a token such as `<think>` is not its text.
        self._named = {
            text: f"<[{number}]>"
            for text, number in tokenizer.get_added_vocab().items()
            if self._tokens.is_special_token(number)
        }
        unspoken = {OPEN, CLOSE, *tokenizer.all_special_tokens}
        self._words = [token for text, token in self._named.items() if text not in unspoken]
        self._begun: dict[str, LLMatcher] = {}

    def begin(self, tools: Sequence[ToolSchema]) -> LLMatcher:
        """The constraint of a reply that begins; without tools it has no call.

        Raises LocalModelFailed if a tool's schema can't be followed.
        """
        grammar = self._grammar([tool["function"] for tool in tools])
        if grammar not in self._begun:
            matcher = LLMatcher(self._tokens, LLMatcher.grammar_from_lark(grammar))
            if matcher.is_error():
                reason = matcher.get_error().partition("\n")[0]
                raise LocalModelFailed(
                    f"no call can be held to the tools' schemas: {reason}. "
                    "What to do: set constrain_calls: false"
                )
            self._begun[grammar] = matcher
        return self._begun[grammar].deep_copy()

    def _grammar(self, functions: Sequence[dict[str, Any]]) -> str:
        """The grammar of a reply, in llguidance's variant of Lark."""
        lines = [
            "start: text | to_call call (NEXT open call)*" if functions else "start: text",
            "text: words PLAIN?",
            # Never two PLAIN in a row: together they could be the tag.
            f"words: (PLAIN? ({' | '.join(self._words)}))*" if self._words else 'words: ""',
            rf"PLAIN: /(.|\n)+/ & ~/(.|\n)*{OPEN}(.|\n)*/",
        ]
        if functions:
            opening = self._token(OPEN)
            lines += [
                " | ".join(["to_call: words to_tag", *(f"text {each}" for each in opening)]),
                rf"to_tag[lazy]: /(.|\n)*{OPEN}/",
                " | ".join([f'open: "{OPEN}"', *opening]),
                " | ".join([f'close: "{CLOSE}"', *self._token(CLOSE)]),
                r'call: "\n{\"name\": " named "}\n" close',
                f"named: {' | '.join(f'call_{index}' for index in range(len(functions)))}",
                r'NEXT: "\n"',
            ]
        for index, function in enumerate(functions):
            schema = function.get("parameters", {"type": "object"}) | {"x-guidance": SPACES}
            name = json.dumps(json.dumps(function["name"]) + ', "arguments": ')
            lines.append(f"call_{index}: {name} %json {json.dumps(schema)}")
        return "\n".join(lines)

    def _token(self, tag: str) -> list[str]:
        """The tag as one token, if there is such a token."""
        return [self._named[tag]] if tag in self._named else []
