"""A tiny random Qwen2 with tools, built in a few seconds without a network.

`build_tiny_model(folder)` writes a folder that transformers, peft, TRL and vLLM load: 2 layers,
hidden size 64, a byte-level BPE tokenizer of 704 tokens trained on a few lines below,
ChatML's special tokens and Qwen2.5's chat template as TRL ships it. Its weights are random, from a
fixed seed; `teach` makes it say given replies, for tests that need a reply with meaning.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sandbox.environment import install_command

SEED = 7
VOCABULARY = 704
CONTEXT = 4096
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CORPUS = """
The test fails: expected 3 entries in the cache, but found 4. Where is self.order changed?
<tool_call>
{"name": "debug_start_session", "arguments": {"test": "tests/test_cache.py::test_put_twice"}}
</tool_call>
Stopped at ledger/cache.py, line 12, in put: self.order.append(key)
<tool_call>
{"name": "debug_inspect", "arguments": {"kind": "evaluate", "expression": "self.order"}}
</tool_call>
{"name": "debug_control", "arguments": {"action": "step_into"}}
{"name": "debug_breakpoint", "arguments": {"action": "set", "path": "a.py", "line": 7}}
{"name": "read", "arguments": {"path": "ledger/cache.py"}}
class Cache:
    def __init__(self, size):
        self.size = size
        self.order = []
        self.items = {}

    def put(self, key, value):
        if len(self.items) >= self.size:
            oldest = self.order.pop(0)
            del self.items[oldest]
        self.order.append(key)
        self.items[key] = value

    def get(self, key, default=None):
        for name, value in self.items.items():
            if name == key:
                return value
        raise KeyError(f"no entry named {key!r}")
<debug_answer>
question: What does self.order hold when the assertion fails?
answer: The key "a" stands twice in self.order, since put appends it without removing the old one.
evidence: after the second call of put, self.order is ['a', 'b', 'a'] and self.items has 2 keys
location: ledger/cache.py, line 12, function put
</debug_answer>
"""


def build_tiny_model(
    folder: Path, context: int = CONTEXT, heads: int = 4, window: int | None = None
) -> Path:
    """Write the model and its tokenizer into the folder, and return it.

    `context` and `window` in tokens; without a window each token sees all before it. vLLM on a CPU
    wants 2 heads: it has no attention for heads smaller than 32.
    """
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = _tokenizer(context)
    tokenizer.save_pretrained(folder)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=heads,
        num_key_value_heads=2,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        initializer_range=0.3,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        use_sliding_window=window is not None,
        sliding_window=window,
        max_window_layers=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


def teach(folder: Path, replies: Mapping[str, str], steps: int = 150) -> None:
    """Train the model in the folder until it continues each prompt with its reply.

    Raises AssertionError where the steps were too few.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    rows = [_row(tokenizer, prompt, reply) for prompt, reply in replies.items()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loss = float("inf")
    for _ in range(steps):
        for ids, labels in rows:
            output = model(input_ids=ids, labels=labels)
            output.loss.backward()
            loss = float(output.loss.detach())
        optimizer.step()
        optimizer.zero_grad()
    assert loss < 0.1, f"the loss is still {loss:.2f} after {steps} steps"
    model.save_pretrained(folder)


def _row(tokenizer: Any, prompt: str, reply: str) -> tuple[Any, Any]:
    import torch

    before = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    after = tokenizer(reply + "<|im_end|>", add_special_tokens=False)["input_ids"]
    labels = [-100] * len(before) + after
    return torch.tensor([before + after]), torch.tensor([labels])


def _tokenizer(context: int) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator([CORPUS, qwen2_5_template()], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=qwen2_5_template(),
        model_max_length=context,
    )


def qwen2_5_template() -> str:
    """Qwen2.5's chat template, from the installed TRL, without importing it."""
    package = importlib.util.find_spec("trl")
    assert package is not None, install_command("train")
    assert package.origin is not None, package
    template = Path(package.origin).parent / "chat_templates" / "qwen2_5.jinja"
    return template.read_text(encoding="utf-8")
