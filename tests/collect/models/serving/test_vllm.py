"""A tiny model and an adapter of it, served by vLLM itself."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from collect.errors import ModelFailure
from collect.models.base import Sampling
from collect.models.budget import Budget
from collect.models.config import VllmConfig
from collect.models.endpoint import NAME, QUESTION, TOOL
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
CALL = f'<tool_call>\n{{"name": "{NAME}", "arguments": {{"expression": "total"}}}}\n</tool_call>'
CONTEXT = 1024


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model that answers the check's question with a call, and an adapter that spoils it."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = build_tiny_model(tmp_path_factory.mktemp("model"), heads=2)
    adapter = tmp_path_factory.mktemp("adapter")
    tokenizer = AutoTokenizer.from_pretrained(model)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": QUESTION.content}],
        tools=[TOOL],
        add_generation_prompt=True,
        tokenize=False,
    )
    teach(model, {prompt: CALL}, steps=80)
    settings = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    get_peft_model(AutoModelForCausalLM.from_pretrained(model), settings).save_pretrained(adapter)
    return model, adapter


def config(folders: tuple[Path, Path], model: str | None, **settings: Any) -> VllmConfig:
    base, adapter = folders
    server = {
        "model": str(base),
        "adapters": {"tuned": str(adapter)},
        "command": SERVER,
        "dtype": "float32",
        "max_context": CONTEXT,
        "environment": {"VLLM_CPU_KVCACHE_SPACE": 1, "HF_HUB_OFFLINE": 1},
        "arguments": ["--enforce-eager", "--max-num-seqs", 4],
    }
    sampling = {"temperature": 0.0, "max_tokens": 64}
    return VllmConfig.model_validate(
        {"backend": "vllm", "model": model, "server": server | settings, "sampling": sampling}
    )


def test_vllm_serves_a_model_and_its_adapter(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = {"base": config(folders, None), "tuned": config(folders, "tuned")}
    backends = {
        name: open_model(name, each, Budget(None), threading.Event(), tmp_path)
        for name, each in models.items()
    }
    try:
        warnings = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
        assert len(warnings) == 1, warnings
        assert "tuned (model tuned" in warnings[0]
        base = backends["base"].open(context())
        reply = base.complete([QUESTION], [TOOL], models["base"].sampling)
        (call,) = reply.message.tool_calls
        assert (call.name, json.loads(call.arguments)) == (NAME, {"expression": "total"})
        assert reply.usage.prompt_tokens > 0
        tuned = backends["tuned"].open(context())
        spoiled = tuned.complete([QUESTION], [TOOL], models["tuned"].sampling)
        assert spoiled.message.content != reply.message.content
        with pytest.raises(ModelFailure, match="context is too long"):
            base.complete([Message("user", "total " * 2000)], [], Sampling(max_tokens=8))
    finally:
        for backend in backends.values():
            backend.close()
    assert len(list((tmp_path / "servers").iterdir())) == 1


def test_vllm_rules_out_invalid_calls(tmp_path: Path) -> None:
    """A model that wants a tool that there is not calls the one that there is."""
    from transformers import AutoTokenizer

    model = build_tiny_model(tmp_path / "model", heads=2)
    prompt = AutoTokenizer.from_pretrained(model).apply_chat_template(
        [{"role": "user", "content": QUESTION.content}],
        tools=[TOOL],
        add_generation_prompt=True,
        tokenize=False,
    )
    teach(model, {prompt: CALL.replace(NAME, "write").replace("expression", "path")}, steps=80)
    served = config((model, model), None, adapters={}, constrain_calls=True)
    sampling = served.sampling.model_copy(update={"max_tokens": 400})
    backend = open_model("sub", served, Budget(None), threading.Event(), tmp_path)
    try:
        reply = backend.open(context()).complete([QUESTION], [TOOL], sampling)
    finally:
        backend.close()
    (call,) = reply.message.tool_calls
    assert call.name == NAME
    assert json.loads(call.arguments).keys() == {"expression"}
