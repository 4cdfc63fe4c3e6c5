"""The settings that rollouts were made with, and how others differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collect.agents.config import AgentsConfig
from collect.agents.debug2fix import instructions_of
from collect.config import RuntimeConfig
from collect.models.config import LocalConfig
from collect.rollouts.batch import check_instructions, note_settings, settings_facts, what_differs
from collect.rollouts.rollout import RolloutSpec
from collect.store.records import digest
from tests.collect.models.contexts import context

ORACLE = {"backend": "oracle"}

FACTS: dict[str, Any] = {
    "seed": 0,
    "sandbox": {"memory_mb": 4096, "readable_paths": []},
    "models": [{"backend": "openai", "model": "gpt-5"}],
}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seed": 3}, "seed: was 0, is 3"),
        (
            {"sandbox": {"memory_mb": 64, "readable_paths": ["/data"]}},
            'sandbox.memory_mb: was 4096, is 64; sandbox.readable_paths: was [], is ["/data"]',
        ),
        (
            {"models": [{"backend": "openai", "model": "gpt-5", "top_p": 1}]},
            "models[0].top_p: was not set, is 1",
        ),
        (
            {"sandbox": dict.fromkeys("abcdef", 1)},
            "sandbox.a: was not set, is 1; sandbox.b: was not set, is 1; "
            "sandbox.c: was not set, is 1; sandbox.d: was not set, is 1; "
            "sandbox.e: was not set, is 1; 3 more",
        ),
    ],
)
def test_what_differs_is_named(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    note_settings(tmp_path, FACTS)
    differs = what_differs(tmp_path, digest(FACTS), FACTS | change)
    assert differs == f"other settings ({told})"


@pytest.mark.parametrize("garbage", [b"", b"\xff\0", b"[" * 100_000, b"5"])
def test_garbage_in_their_place_is_other_settings(tmp_path: Path, garbage: bytes) -> None:
    note_settings(tmp_path, FACTS)
    (kept,) = (tmp_path / "settings").iterdir()
    kept.write_bytes(garbage)
    assert what_differs(tmp_path, digest(FACTS), FACTS).startswith("other settings (")


def test_settings_that_were_not_kept(tmp_path: Path) -> None:
    assert what_differs(tmp_path, "0" * 16, FACTS).startswith("another sandbox, agents")


def test_a_served_model_is_what_it_is_wherever_it_is_served(tmp_path: Path) -> None:
    def hash_of(**server: Any) -> str:
        model = {"backend": "vllm", "server": {"model": str(tmp_path)} | server}
        runtime = RuntimeConfig.model_validate({"models": {"oracle": ORACLE, "sub": model}})
        spec = RolloutSpec(context().instance, "debug2fix", "oracle", "sub", 0)
        return digest(settings_facts(runtime, spec))

    here = hash_of()
    assert hash_of(command=["vllm"], tensor_parallel=2, restarts=0) == here
    assert hash_of(max_context=64) != here
    (tmp_path / "model.safetensors").write_text("trained again")
    assert hash_of() != here


def test_a_model_that_learned_other_instructions_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    compact = AgentsConfig(subagent_form="compact")
    learned = {"instructions": [instructions_of(compact)["python"]]}
    (tmp_path / "training.json").write_text(json.dumps(learned))
    models = {
        "small": LocalConfig(backend="local", model=str(tmp_path)),
        "untuned": LocalConfig(backend="local", model=str(tmp_path / "none")),
    }
    check_instructions(compact, models, {"small", "untuned", None})
    check_instructions(AgentsConfig(), models, {"untuned"})
    assert not caplog.records
    told = check_instructions(AgentsConfig(), models, {"small"})
    assert told.startswith("small learned with another system prompt or other tools than this run")
    assert [record.getMessage() for record in caplog.records] == [told]
