"""Model families: their templates as TRL has them, and what a reply is in each.

A family's special tokens are added to the test's tokenizer, as its own would have them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from train.base_model import load_template
from train.encoding import RenderedRow, Templates

MARKER = re.compile(r"<\|?[A-Za-z_]+\|?>")
NO_TOKENS = {"<tool_call>", "<arg_key>", "<arg_value>", "<think>", "<tools>", "<tool_response>"}


def tool_row(**columns: Any) -> dict[str, Any]:
    """A conversation of three replies, two of which call a tool."""
    messages = [
        {"role": "system", "content": "You answer questions with a debugger."},
        {"role": "user", "content": "What is in self.order? é"},
        called("debug_inspect", {"what": "locals"}),
        told("self.order = ['a']"),
        called("debug_inspect", {"what": "evaluate", "expression": 'len("\\n<é>")', "depth": 1}),
        told("4"),
        {"role": "assistant", "content": "It holds 'a'."},
    ]
    return {"conversation_id": "tools", "messages": messages, "tools": [tool()]} | columns


def text_row(**columns: Any) -> dict[str, Any]:
    """A conversation of three replies, for templates without tools and systems."""
    messages = [
        {"role": "user", "content": "Find the bug."},
        {"role": "assistant", "content": "ACTION: step into put"},
        {"role": "user", "content": "Stopped at line 12."},
        {"role": "assistant", "content": "ACTION: show self.order"},
        {"role": "user", "content": "['a', 'a']"},
        {"role": "assistant", "content": "The key stands twice.\n\nRemove it."},
    ]
    return {"conversation_id": "text", "messages": messages, "tools": []} | columns


def called(name: str, arguments: dict[str, Any], content: str = "") -> dict[str, Any]:
    """An assistant message with one call."""
    function = {"name": name, "arguments": arguments}
    call = {"type": "function", "id": "call_0", "function": function}
    return {"role": "assistant", "content": content, "tool_calls": [call]}


def told(content: str) -> dict[str, Any]:
    """What a tool answered."""
    return {"role": "tool", "content": content, "name": "debug_inspect", "tool_call_id": "call_0"}


def tool() -> dict[str, Any]:
    """The schema of the one tool."""
    parameters = {"type": "object", "properties": {"what": {"type": "string"}}}
    function = {"name": "debug_inspect", "description": "Look.", "parameters": parameters}
    return {"type": "function", "function": function}


@dataclass(frozen=True)
class Family:
    """A pair of TRL's templates."""

    name: str
    row: Callable[..., dict[str, Any]]
    turn: Callable[[dict[str, Any], bool], str]
    """The trained text of an assistant message, and whether it is the conversation's last."""

    @property
    def templates(self) -> Templates:
        """TRL's training variant, and the family's own."""
        training = load_template(f"trl:{self.name}_training.jinja")
        return Templates(training, load_template(f"trl:{self.name}.jinja"))

    def tokenizer(self, folder: Path) -> Any:
        """The folder's tokenizer with the family's special tokens."""
        tokenizer = AutoTokenizer.from_pretrained(folder)
        markers = set(MARKER.findall(self.templates.training)) - NO_TOKENS
        tokenizer.add_tokens(sorted(markers), special_tokens=True)
        tokenizer.bos_token = "<|endoftext|>"
        return tokenizer

    def rendered(self, folder: Path, **columns: Any) -> RenderedRow:
        """The family's row."""
        return RenderedRow(self.row(**columns), self.tokenizer(folder), self.templates)

    def turns(self) -> list[str]:
        """What is to be trained of the family's row."""
        messages = self.row()["messages"]
        return [
            self.turn(message, message is messages[-1])
            for message in messages
            if message["role"] == "assistant"
        ]


def _json_call(message: dict[str, Any]) -> str:
    """The Hermes form."""
    function = message["tool_calls"][0]["function"]
    arguments = json.dumps(function["arguments"], ensure_ascii=False)
    body = f'{{"name": "{function["name"]}", "arguments": {arguments}}}'
    return f"<tool_call>\n{body}\n</tool_call>"


def _qwen(message: dict[str, Any], last: bool) -> str:
    said = _json_call(message) if "tool_calls" in message else message["content"]
    return f"\n{said}<|im_end|>\n"


def _qwen3(message: dict[str, Any], last: bool) -> str:
    said = _json_call(message) if "tool_calls" in message else message["content"]
    return f"{said}<|im_end|>\n"


def _glm(message: dict[str, Any], last: bool) -> str:
    if "tool_calls" not in message:
        return f"\n<think></think>\n{message['content']}<|user|>"
    function = message["tool_calls"][0]["function"]
    values = (
        f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n"
        for key, value in function["arguments"].items()
    )
    call = f"<tool_call>{function['name']}\n{''.join(values)}</tool_call>"
    return f"\n<think></think>\n{call}<|observation|>"


def _gpt_oss(message: dict[str, Any], last: bool) -> str:
    if "tool_calls" not in message:
        return f"<|start|>assistant<|channel|>final<|message|>{message['content']}<|return|>"
    function = message["tool_calls"][0]["function"]
    arguments = json.dumps(function["arguments"], ensure_ascii=False)
    to = f"<|start|>assistant to=functions.{function['name']}"
    return f"{to}<|channel|>commentary json<|message|>{arguments}<|call|>"


def _ended(ending: str, last_ending: str | None = None) -> Callable[[dict[str, Any], bool], str]:
    def turn(message: dict[str, Any], last: bool) -> str:
        return str(message["content"]) + ((last and last_ending) or ending)

    return turn


FAMILIES = (
    Family("qwen2_5", tool_row, _qwen),
    Family("qwen3_instruct_2507", tool_row, _qwen3),
    Family("glm4moe", tool_row, _glm),
    Family("gptoss", tool_row, _gpt_oss),
    Family("llama3", text_row, _ended("<|eot_id|>")),
    Family("phi3", text_row, _ended("<|end|>\n", "<|end|>\n<|im_end|>")),
    Family("gemma", text_row, _ended("<end_of_turn>\n")),
    Family("cohere", text_row, _ended("<|END_OF_TURN_TOKEN|>")),
)
QWEN, GLM, GPT_OSS, LLAMA = FAMILIES[0], FAMILIES[2], FAMILIES[3], FAMILIES[4]
