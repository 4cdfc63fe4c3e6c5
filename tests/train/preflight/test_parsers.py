"""How tool calls are read out of replies, by vLLM, in its own environment, and without it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from tests.train.families import tool
from tests.vllm_environment import PYTHON, REASON, has_vllm
from train.checks import HermesParser

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


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(not has_vllm(), reason=REASON)
def test_vllms_own_parser_reads_the_same(tiny_folder: Path) -> None:
    asked = {"model": str(tiny_folder), "texts": [text for text, _ in REPLIES], "tool": tool()}
    read = subprocess.run(
        [str(PYTHON), "-m", "tests.train.preflight.read_by_vllm"],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert read.returncode == 0, read.stderr
    found = json.loads(read.stdout.splitlines()[-1])
    assert found["source"].startswith("vLLM ")
    for (text, calls), vllms in zip(REPLIES, found["calls"], strict=True):
        assert [tuple(call) for call in vllms] == calls, text
    assert "no parser 'hermes9'" in found["unknown"]
    assert "does not take this model's tokenizer" in found["unfit"]
