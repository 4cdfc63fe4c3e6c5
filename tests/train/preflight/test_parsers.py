"""How tool calls are read out of replies, by vLLM where it is installed and without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from collect.errors import ConfigError
from tests.train.families import tool
from train.preflight.parsers import HermesParser, VllmParser, call_parser

REPLIES: list[tuple[str, list[Any]]] = [
    ("no call", []),
    ('I look.\n<tool_call>\n{"name": "f", "arguments": {"a": "é", "b": [1.0, null]}}\n</tool_call>',
     [("f", {"a": "é", "b": [1.0, None]})]),
    ('<tool_call>{"name": "f", "arguments": {"a": 1}}', [("f", {"a": 1})]),
    ('<tool_call>\n{"arguments": "x", "name": "f"}\n</tool_call>.', [("f", "x")]),
    ('<tool_call>{"name": "f", "arguments": {}}</tool_call><tool_call>x</tool_call>', []),
    ('<tool_call>{"name": "f", "arguments": {"a": "</tool_call>"}}</tool_call>', []),
    ('<tool_call>{"name": "f"}</tool_call>', []),
    ("<tool_call></tool_call>", []),
    ('<tool_call>{"name": 1, "arguments": {}}</tool_call>', []),
]  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer(tiny_folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(tiny_folder)


def ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


@pytest.mark.parametrize(("text", "calls"), REPLIES)
def test_calls_are_read_as_vllm_reads_them(tokenizer: Any, text: str, calls: list[Any]) -> None:
    assert HermesParser(tokenizer).parse(ids(tokenizer, text), [tool()]) == calls


def test_vllms_own_parser_reads_the_same(tokenizer: Any) -> None:
    pytest.importorskip("vllm", reason="vllm is not installed")
    parser = call_parser("hermes", tokenizer)
    assert isinstance(parser, VllmParser)
    for text, calls in REPLIES:
        assert parser.parse(ids(tokenizer, text), [tool()]) == calls
    with pytest.raises(ConfigError, match="no parser 'hermes9'"):
        call_parser("hermes9", tokenizer)
    llama = call_parser("llama3_json", tokenizer)
    assert llama is not None
    with pytest.raises(ConfigError, match="does not take this model's tokenizer"):
        llama.parse([], [tool()])
