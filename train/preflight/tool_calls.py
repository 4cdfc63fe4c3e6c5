"""Whether the calls of the rows are still calls once a served model has written them."""

from __future__ import annotations

import json
from typing import Any

from sandbox.extras import install_command
from train.preflight.check import Finding, Verdict, excerpt
from train.preflight.parsers import Call, CallParser, call_parser
from train.preflight.rendered import RenderedRow, Reply


class ToolCallsSurvive:
    """Rendered, tokenised, decoded and parsed, each call is the same name and arguments."""

    name = "tool_calls_survive"
    every_row = False

    def __init__(self, parser_name: str | None, tokenizer: Any) -> None:
        """`parser_name` is vLLM's; None where the served model is not to call tools."""
        self._parser_name = parser_name
        self._parser = call_parser(parser_name, tokenizer) if parser_name else None
        self.calls = 0
        self.replies = 0
        self.changed = 0
        self.unreadable = 0
        self.first_changed = ""

    def add(self, row: RenderedRow) -> None:
        """See `Check`."""
        for reply in row.replies:
            self.replies += 1
            self.calls += len(reply.calls)
            if self._parser is None:
                continue
            if reply.text is None:
                self.unreadable += 1
                continue
            expected = [(call["name"], call["arguments"]) for call in reply.calls]
            parsed = _parsed(self._parser, row, reply)
            if _exact(parsed) != _exact(expected):
                self.changed += 1
                self.first_changed = self.first_changed or (
                    f"conversation {row.conversation_id}, assistant message {reply.number}: "
                    f"{excerpt(reply.text)} is read as {excerpt(_exact(parsed))}"
                )

    def finding(self) -> Finding:
        """See `Check`."""
        verdict = Verdict.FAILED if self.changed else Verdict.PASSED
        if self.calls and (self._parser is None or self.unreadable == self.replies):
            verdict = Verdict.NOT_CHECKED
        return Finding(
            check=self.name,
            verdict=verdict,
            number=self._number(),
            meaning="A served model's calls are read out of its text, and must be those that the "
            "row has.",
            advice=self._advice(verdict),
        )

    def _number(self) -> str:
        if self._parser is None:
            return f"{self.calls} calls in {self.replies} replies, none of them parsed"
        number = (
            f"{self.changed} of {self.replies} replies, with {self.calls} calls, are read "
            f"otherwise by {self._parser.source}"
        )
        if self.unreadable:
            number += f"; {self.unreadable} replies could not be cut out of what is served"
        return number + (f"; the first: {self.first_changed}" if self.changed else "")

    def _advice(self, verdict: Verdict) -> str:
        if self._parser_name is None:
            return "Set train.tool_call_parser to the parser of the model's family."
        if verdict is Verdict.NOT_CHECKED and self._parser is None:
            return (
                f"vLLM is not installed, and only `hermes` has a stand-in, not "
                f"{self._parser_name!r}: {install_command('serve')}, or set "
                "train.tool_call_parser."
            )
        return (
            "Take the serving template and train.tool_call_parser that belong together, and drop "
            "conversations whose arguments hold the parser's own tags."
        )


def _parsed(parser: CallParser, row: RenderedRow, reply: Reply) -> list[Call]:
    text = (reply.text or "").rstrip()
    # The server leaves the token out at which it stops.
    text = text.removesuffix(row.tokenizer.eos_token or "")
    ids = row.tokenizer(text, add_special_tokens=False)["input_ids"]
    return parser.parse(list(ids), row.row["tools"])


def _exact(calls: list[Call]) -> str:
    """Calls as text that tells 1 from 1.0 and from true; the order of keys is of no matter."""
    return json.dumps(calls, sort_keys=True, ensure_ascii=False)
