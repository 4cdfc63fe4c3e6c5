"""What a config may say about models."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from collect.models.base import Sampling, Usage
from collect.models.config import LocalConfig, ModelConfig, OpenAIConfig, OracleConfig, Prices

ADAPTER: TypeAdapter[ModelConfig] = TypeAdapter(ModelConfig)


def test_the_backend_chooses_the_fields() -> None:
    remote = ADAPTER.validate_python(
        {"backend": "openai", "model": "large", "prices": {"input": 2}, "api_key_env": None}
    )
    assert isinstance(remote, OpenAIConfig)
    local = ADAPTER.validate_python({"backend": "local", "model": "folder"})
    assert isinstance(local, LocalConfig)
    assert local.sampling == Sampling(max_tokens=512)
    assert isinstance(ADAPTER.validate_python({"backend": "oracle"}), OracleConfig)


@pytest.mark.parametrize(
    "wrong",
    [
        {"backend": "openai"},
        {"backend": "openai", "model": "x", "api_key": "secret"},
        {"backend": "local", "model": "x", "max_batch": 0},
        {"backend": "local", "model": "x", "batch_wait_seconds": 0.1},
        {"backend": "oracle", "sampling": {}},
        {"backend": "vllm"},
        {"backend": "vllm", "server": {"model": "x"}, "base_url": "http://127.0.0.1:1/v1"},
        {"backend": "vllm", "server": {"model": "x"}, "model": "unknown-adapter"},
        {"backend": "vllm", "server": {"model": "x", "modle": "y"}},
        {"backend": "replay"},
        {"backend": "other"},
        {"model": "x"},
    ],
)
def test_wrong_fields_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ADAPTER.validate_python(wrong)


def test_cached_tokens_cost_what_input_does_unless_told() -> None:
    usage = Usage(prompt_tokens=1_000_000, completion_tokens=500_000, cached_tokens=400_000)
    assert Prices(input=2, output=8).dollars(usage) == pytest.approx(6)
    assert Prices(input=2, cached_input=0.5, output=8).dollars(usage) == pytest.approx(5.4)
    assert Prices(input=2, cached_input=0).dollars(usage) == pytest.approx(1.2)
    assert Prices().free
    assert not Prices(output=1).free
