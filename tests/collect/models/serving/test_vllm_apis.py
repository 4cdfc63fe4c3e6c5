"""A tiny model that thinks, behind each API that vLLM serves: a tool call, its answer, the end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from collect.models.base import Sampling
from collect.models.budget import Budget
from collect.models.config import ModelConfig, ServerConfig
from collect.models.endpoint import NAME, QUESTION, TOOL
from collect.models.serving.server import SERVED_NAME, VllmServer
from collect.rollouts.executor import open_model
from collect.store.messages import Message
from tests.collect.models.contexts import context
from tests.tiny_model import build_tiny_model, teach
from tests.vllm_environment import REASON, SERVER, has_vllm

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not has_vllm(), reason=REASON),
]
ARGUMENTS = {"expression": "total"}
CALL = f"<tool_call>\n{json.dumps({'name': NAME, 'arguments': ARGUMENTS})}\n</tool_call>"
THOUGHT, OBSERVED, ANSWER = "I look at total.", "7", "total is 7."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    from transformers import AutoTokenizer

    folder = build_tiny_model(tmp_path_factory.mktemp("model"), heads=2)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    called = {"type": "function", "function": {"name": NAME, "arguments": ARGUMENTS}}
    start = [{"role": "user", "content": QUESTION.content}]
    then = [
        {"role": "assistant", "content": "", "tool_calls": [called]},
        {"role": "tool", "content": OBSERVED},
    ]

    thinks = f"<think>\n{THOUGHT}\n</think>\n\n"
    replies = {}
    # The Responses API needs `strict`, and vLLM shows it to the model.
    for tool in (TOOL, {**TOOL, "function": {**TOOL["function"], "strict": False}}):
        for conversation, reply in ((start, CALL), (start + then, ANSWER)):
            prompt = tokenizer.apply_chat_template(
                conversation, tools=[tool], add_generation_prompt=True, tokenize=False
            )
            replies[prompt] = thinks + reply
    teach(folder, replies, steps=120)
    config = ServerConfig.model_validate(
        {
            "model": str(folder),
            "command": SERVER,
            "dtype": "float32",
            "max_context": 1024,
            "environment": {"VLLM_CPU_KVCACHE_SPACE": 1, "HF_HUB_OFFLINE": 1},
            "arguments": ["--enforce-eager", "--max-num-seqs", 4, "--reasoning-parser", "qwen3"],
        }
    )
    running = VllmServer(config, tmp_path_factory.mktemp("logs") / "server.log")
    running.start()
    yield running
    running.close()


@pytest.mark.parametrize("backend", ["openai", "anthropic", "responses"])
def test_a_conversation_with_reasoning_and_a_call(
    server: VllmServer, backend: str, tmp_path: Path
) -> None:
    url = server.url.removesuffix("/v1") if backend == "anthropic" else server.url
    given = {"backend": backend, "model": SERVED_NAME, "base_url": url, "api_key_env": None}
    config = TypeAdapter[Any](ModelConfig).validate_python(given)
    opened = open_model("main", config, Budget(None), threading.Event(), tmp_path)
    try:
        model, sampling = opened.open(context()), Sampling(temperature=0.0, max_tokens=96)
        first = model.complete([QUESTION], [TOOL], sampling)
        [call] = first.message.tool_calls
        assert (call.name, json.loads(call.arguments)) == (NAME, ARGUMENTS)
        assert (first.message.reasoning or "").strip() == THOUGHT
        assert (first.finish_reason, first.served_model) == ("tool_calls", SERVED_NAME)
        assert first.usage.prompt_tokens > first.usage.completion_tokens > 0
        observed = Message("tool", OBSERVED, tool_call_id=call.id, name=NAME)
        last = model.complete([QUESTION, first.message, observed], [TOOL], sampling)
    finally:
        opened.close()
    assert last.message.content.strip() == ANSWER
    assert (last.message.reasoning or "").strip() == THOUGHT
    assert (last.finish_reason, last.message.tool_calls) == ("stop", ())
