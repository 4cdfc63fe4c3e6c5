"""Reads replies with vLLM's own parser, in an environment that has vLLM and not StepInto's needs.

Standard input is JSON: the folder of a model's tokenizer, texts, and a tool. The last line of the
output is JSON: each text's calls, and how unknown and unfit parsers are refused.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from collect.errors import ConfigError
from train.checks import VllmParser, call_parser


def main() -> None:
    from transformers import AutoTokenizer

    asked = json.load(sys.stdin)
    tokenizer = AutoTokenizer.from_pretrained(asked["model"])
    tools = [asked["tool"]]
    parser = call_parser("hermes", tokenizer)
    assert isinstance(parser, VllmParser), parser
    calls = [parser.parse(_ids(tokenizer, text), tools) for text in asked["texts"]]
    llama = call_parser("llama3_json", tokenizer)
    assert llama is not None
    found = {
        "source": parser.source,
        "calls": calls,
        "unknown": _refusal(lambda: call_parser("hermes9", tokenizer)),
        "unfit": _refusal(lambda: llama.parse([], tools)),
    }
    print(json.dumps(found))


def _ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def _refusal(call: Any) -> str:
    try:
        call()
    except ConfigError as error:
        return str(error)
    return "it was not refused"


if __name__ == "__main__":
    main()
