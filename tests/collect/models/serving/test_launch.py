"""The command that starts vLLM, from a config and what its folders say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collect.errors import ConfigError
from collect.models.config import ServerConfig
from collect.models.serving.server import plan_launch
from tests.collect.models.serving.conftest import write_adapter


def command(**settings: Any) -> list[str]:
    config = ServerConfig.model_validate({"model": "org/model", "command": ["true"]} | settings)
    return plan_launch(config)


def value(given: list[str], option: str) -> str:
    return given[given.index(option) + 1]


def model_folder(folder: Path, parser: str | None = "hermes", template: str = "{{ x }}") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text("{}")
    return trained(folder, parser, template)


def trained(folder: Path, parser: str | None, template: str) -> Path:
    """What `stepinto train` leaves beside the weights."""
    (folder / "training.json").write_text(json.dumps({"config": {"tool_call_parser": parser}}))
    (folder / "chat_template.jinja").write_text(template)
    return folder


def test_a_hub_model_with_nothing_said() -> None:
    assert command() == [
        *("true", "serve", "org/model", "--served-model-name", "served", "--dtype", "auto"),
        *("--tensor-parallel-size", "1", "--enable-auto-tool-choice"),
        *("--tool-call-parser", "hermes"),
    ]


def test_every_setting_is_an_option(tmp_path: Path) -> None:
    template = tmp_path / "t.jinja"
    template.write_text("")
    given = command(
        tool_call_parser=None,
        chat_template=template,
        max_context=2048,
        dtype="float32",
        tensor_parallel=2,
        gpu_memory_utilization=0.5,
        arguments=["--max-num-seqs", 16],
    )
    assert "--tool-call-parser" not in given
    assert "--enable-auto-tool-choice" not in given
    for option, expected in {
        "--chat-template": str(template),
        "--max-model-len": "2048",
        "--dtype": "float32",
        "--tensor-parallel-size": "2",
        "--gpu-memory-utilization": "0.5",
    }.items():
        assert value(given, option) == expected
    assert given[-2:] == ["--max-num-seqs", "16"]


def test_calls_are_constrained_by_the_server() -> None:
    assert value(command(constrain_calls=True), "--tool-strict-level") == "parameter"
    # Without a parser there are no calls.
    assert "--tool-strict-level" not in command(constrain_calls=True, tool_call_parser=None)


def test_the_module_takes_the_model_as_an_option() -> None:
    module = ["true", "-m", "vllm.entrypoints.openai.api_server"]
    assert command(command=module)[:5] == [*module, "--model", "org/model"]


@pytest.mark.parametrize(("parser", "given"), [("qwen3_coder", "qwen3_coder"), (None, None)])
def test_a_trained_model_says_its_parser(
    tmp_path: Path, parser: str | None, given: str | None
) -> None:
    options = command(model=str(model_folder(tmp_path / "model", parser)))
    assert ("--tool-call-parser" in options) == (given is not None)
    assert given is None or value(options, "--tool-call-parser") == given
    named = command(model=str(tmp_path / "model"), tool_call_parser="mistral")
    assert value(named, "--tool-call-parser") == "mistral"


def test_adapters_with_their_rank_template_and_parser(tmp_path: Path) -> None:
    one = trained(write_adapter(tmp_path / "one", r=12), "hermes", "{{ a }}")
    two = trained(write_adapter(tmp_path / "two", r=8, rank_pattern={"q": 40}), "hermes", "{{ a }}")
    given = command(adapters={"one": one, "two": two})
    assert value(given, "--max-lora-rank") == "64"
    assert value(given, "--max-loras") == "2"
    assert f"one={one}" in given
    assert f"two={two}" in given
    assert value(given, "--chat-template") == str(one / "chat_template.jinja")


def test_a_folder_with_an_adapter_alone_is_served_on_its_base(tmp_path: Path) -> None:
    base = model_folder(tmp_path / "base")
    folder = write_adapter(tmp_path / "model", base_model_name_or_path=str(base))
    trained(folder, "hermes", "{{ a }}")
    given = command(model=str(folder))
    assert given[1:3] == ["serve", str(base)]
    assert value(given, "--served-model-name") == "served-base"
    assert f"served={folder}" in given
    assert value(given, "--chat-template") == str(folder / "chat_template.jinja")


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"r": 1024}, "rank is 1024, and vLLM serves up to 512"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save set, which vLLM does not serve"),
        ({"peft_type": "IA3"}, "peft_type IA3"),
    ],
)
def test_adapters_that_vllm_does_not_serve(
    tmp_path: Path, facts: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        command(adapters={"one": write_adapter(tmp_path / "one", **facts)})


def test_what_can_not_be_served_together_is_refused(tmp_path: Path) -> None:
    one = trained(write_adapter(tmp_path / "one"), "hermes", "{{ a }}")
    two = trained(write_adapter(tmp_path / "two"), "mistral", "{{ b }}")
    both = {"one": one, "two": two}
    with pytest.raises(ConfigError, match="different tool-call parsers"):
        command(adapters=both)
    with pytest.raises(ConfigError, match="different chat templates"):
        command(adapters=both, tool_call_parser="hermes")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"model": "runs/none/model"}, "no model in that folder"),
        ({"adapters": {"one": "nowhere"}}, "nowhere is no adapter"),
        ({"adapters": {"served": "nowhere"}}, "can't be the name of an adapter"),
        ({"chat_template": "nowhere.jinja"}, "no file nowhere.jinja"),
        ({"command": ["no-such-vllm"]}, "no program no-such-vllm; pip install"),
    ],
)
def test_missing_things_are_told_before_work_starts(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        command(**settings)


def test_no_name_is_an_option(tmp_path: Path) -> None:
    """vLLM has some that load Python files: a folder or a run of others would run code."""
    option, adapter = "--config=run/c.yaml", write_adapter(tmp_path / "adapter")
    hostile = write_adapter(tmp_path / "hostile", base_model_name_or_path=option)
    parser = model_folder(tmp_path / "model", parser="--trust-remote-code")
    for settings in (
        {"model": option},
        {"model": str(hostile)},
        {"model": str(parser)},
        {"adapters": {"--middleware": str(adapter)}},
        {"tool_call_parser": "--tool-parser-plugin"},
    ):
        with pytest.raises(ConfigError, match="but an option"):
            command(**settings)
