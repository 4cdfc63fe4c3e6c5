"""Control tokens in messages, of known families and of a tokenizer."""

from __future__ import annotations

import importlib.util
import re
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.control_tokens import MARK, OF_KNOWN_FAMILIES, ControlTokens
from collect.errors import ConfigError

TOKENS = ("<|im_start|>", "<|turn>", "<turn|>", "<\uff5cUser\uff5c>", "</s>", "[INST]", "<bos>")
PIECES = st.sampled_from(
    [*TOKENS, "<tool_response>", "<", "<|", "|>", "[/", "im_end|>", "é ", "\n"]
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


def marked(text: str, role: str = "tool") -> str:
    return str(OF_KNOWN_FAMILIES.marked({"role": role, "content": text})["content"])


@given(TEXTS, st.sampled_from(["tool", "assistant", "user", "system"]))
def test_a_marked_text_holds_none_and_is_marked_once(text: str, role: str) -> None:
    told = marked(text, role)
    assert not any(token in told for token in TOKENS)
    assert ("<tool_response>" in told) <= (role == "assistant")
    assert told.replace(MARK, "") == text == OF_KNOWN_FAMILIES.unmarked(told)
    assert marked(told, role) == told


def test_other_text_stays_as_it_is() -> None:
    text = "if a < b | c > d: x[0] = '<b>bold</b>' + f'{a}\u200b' # <name> [1] <tools> a <- b"
    assert marked(text) == text == OF_KNOWN_FAMILIES.unmarked(text)


def test_every_text_of_a_message_is_marked() -> None:
    arguments = {"<s>": ["<|end|>", {"deep": "[INST]"}], "number": 1, "none": None}
    function = {"name": "<|im_end|>", "arguments": arguments}
    call = {"type": "function", "id": "<bos>", "function": function}
    message = {
        "role": "assistant",
        "content": "",
        "reasoning_content": "<|a|>",
        "tool_calls": [call],
    }
    told = OF_KNOWN_FAMILIES.marked(message)
    assert str(told).count(repr(MARK)[1:-1]) == 6
    assert OF_KNOWN_FAMILIES.marks([told])
    assert not OF_KNOWN_FAMILIES.marks([message])
    assert call["id"] == "<bos>"


def test_depth_does_not_matter() -> None:
    value: Any = "<s>"
    for _ in range(2 * sys.getrecursionlimit()):
        value = [value]
    told = OF_KNOWN_FAMILIES.marked({"arguments": value})["arguments"]
    while isinstance(told, list):
        (told,) = told
    assert told == f"<{MARK}s>"


def test_the_control_tokens_of_trls_templates_are_known() -> None:
    trl = importlib.util.find_spec("trl")
    if trl is None or trl.origin is None:
        pytest.skip("needs the extra train")
    templates = (Path(trl.origin).parent / "chat_templates").glob("*.jinja")
    found = {
        token
        for template in templates
        for token in re.findall(r"<[|\uff5c][^<>\s'\"{}]+>|<\w+\|>", template.read_text())
    }
    assert len(found) > 50
    assert [token for token in sorted(found) if MARK not in marked(token)] == []


@pytest.mark.parametrize("text", ["<|im_start|", "a<|im_end|", "<\uff5cUser\uff5c", "[INST", "</s"])
def test_no_template_completes_one(text: str) -> None:
    """`<function=NAME>` and `<parameter=KEY>` are what some write around a call."""
    call = {"function": {"name": text, "arguments": {text: text}}}
    told = OF_KNOWN_FAMILIES.marked({"role": "assistant", "content": text, "tool_calls": [call]})
    assert str(told).count(repr(MARK)[1:-1]) == 4
    assert marked(text).replace(MARK, "") == text == OF_KNOWN_FAMILIES.unmarked(marked(text))


@pytest.mark.parametrize(
    "text",
    [
        *("[|user|]", "<seed:bos>", "]~b]ai", "]~!b[", "[e~[", "[THINK]", "<BOS_TOKEN>", "<pad>"),
        *("\uff1c\uff5cim_start\uff5c\uff1e", "<|im_start\uff5c>", "<extra_id_1>", "<role>"),
    ],
)
def test_those_of_more_families(text: str) -> None:
    assert MARK in marked(text)


@pytest.mark.parametrize("drops", [False, True])
def test_a_tokenizer_that_drops_marks_is_refused(drops: bool) -> None:
    tokenizers, transformers = map(pytest.importorskip, ("tokenizers", "transformers"))
    characters = sorted(set(f"<|im_start>?{MARK}"))
    vocabulary = {character: at for at, character in enumerate(characters)}
    model = tokenizers.models.BPE(vocab=vocabulary, merges=[], unk_token="?")
    tokenizer = tokenizers.Tokenizer(model)
    if drops:
        tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(clean_text=True)
    start = tokenizers.AddedToken("<|im_start|>", special=True, normalized=True)
    tokenizer.add_special_tokens([start])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    refused = pytest.raises(ConfigError, match="drops zero-width spaces")
    with refused if drops else nullcontext():
        ControlTokens(fast, "<|im_start|>")
