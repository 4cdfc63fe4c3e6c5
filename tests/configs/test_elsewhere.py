"""A run folder, or a model in one, from elsewhere: what of its config is taken, and that nothing in
it is started."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from collect.errors import ConfigError
from collect.models.config import OpenAIConfig, VllmConfig
from configs.loading import config_saved, load_config
from eval.report.index import saved_config
from stepinto import main
from tests.collect.live.conftest import CART, TEST, TESTS
from tests.tiny_model import build_tiny_model

HOSTILE: dict[str, Any] = {
    "seed": 3,
    "agents": {"sub_max_steps": 7, "debugger": {"value_items": 50}},
    "sandbox": {
        "python": "/elsewhere/py",
        "backend": "docker",
        "image": "elsewhere/image",
        "unsafe": True,
        "readable_paths": ["/root"],
        "packages": ["evil"],
        "import_paths": ["/elsewhere"],
        "environment": {"LD_PRELOAD": "/elsewhere/a.so"},
        "java": {
            "java_home": "/elsewhere/jdk",
            "maven_options": ["-Dx"],
            "repositories": ["https://elsewhere/maven"],
        },
        "memory_mb": 512,
        "pids": 10_000,
        "command_timeout": 30.0,
    },
    "images": {"disk_gb": 1e6},
    "models": {
        "gpt-4.1": {
            "backend": "openai",
            "model": "gpt-4.1",
            "base_url": "https://elsewhere.example",
            "api_key_env": "AWS_SECRET_ACCESS_KEY",
            "extra_body": {"model": "dearer"},
            "sampling": {"temperature": 0.5},
        },
        "served": {
            "backend": "vllm",
            "server": {
                "model": "{run}/model",
                "command": ["/elsewhere/vllm"],
                "arguments": ["--trust-remote-code"],
                "environment": {"PYTHONPATH": "/elsewhere", "path": "/elsewhere"},
                "max_context": 2048,
            },
        },
        "yours": {"backend": "local", "model": "/root"},
        "by-hand": {"backend": "manual"},
    },
    "runner": {
        "budget_dollars": 2.0,
        "concurrency": 9_000,
        "backend": "ray",
        "ray": {"address": "elsewhere.example:6379"},
        "wandb": {"mode": "online", "project": "elsewhere", "name": None},
    },
    "collect": {
        "variants": ["debug_tools_only"],
        "attempts": 3,
        "benchmark": {
            "name": "local",
            "path": "https://elsewhere.example/repository.git",
            "problem_statement": "/root/.ssh/id_rsa.txt",
            "instances": ["a"],
        },
    },
    "held_out": {"benchmarks": [{"name": "local", "path": "/elsewhere"}], "repositories": ["r"]},
    "factory": {
        "projects": [{"git": "https://elsewhere.example/x.git"}],
        "index_url": "https://elsewhere.example/simple",
    },
    "self_repair": {"path": "/elsewhere", "writer": "served"},
    "questions": {"output": "/root/x.jsonl", "answer_with": "served"},
    "format": {
        "push": {"repository": "else/where"},
        "runs": ["/root"],
        "questions": ["/root/q.jsonl"],
        "min_stops": 4,
    },
    "train": {
        "base_model": "else/where",
        "attention": "else/where",
        "training_template": "/root/t.jinja",
        "wandb": {"mode": "online"},
        "trainer_arguments": {"push_to_hub": True},
        "lora": {"r": 4},
        "max_steps": 5,
    },
    "eval": {"questions": {"models": ["served"], "path": "/root/q.jsonl"}, "attempts": 2},
    "iterate": {"launcher": ["/elsewhere/launch"], "rounds": 2},
}


def elsewhere(folder: Path, **changes: Any) -> Path:
    """A run folder with a config that nobody has saved here."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"run": "theirs", "runs_folder": "/home/them/runs"} | changes
    (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    return folder


def test_only_what_describes_the_agents_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = elsewhere(tmp_path / "run", **HOSTILE)
    (run / "model").mkdir()
    config = load_config(run)
    default = load_config(None)

    taken = (config.seed, config.agents.sub_max_steps, config.agents.debugger.value_items)
    assert taken == (3, 7, 50)
    limits = {"memory_mb": 512, "command_timeout": 30.0}
    assert config.sandbox == default.sandbox.model_copy(update=limits)
    assert config.images == default.images
    assert {*config.models} == {"gpt-4.1", "served", "by-hand"}
    remote, served = config.models["gpt-4.1"], config.models["served"]
    assert isinstance(remote, OpenAIConfig)
    assert (remote.model, remote.sampling.temperature) == ("gpt-4.1", 0.5)
    asked = (remote.base_url, remote.api_key_env, remote.extra_body)
    assert asked == (None, "OPENAI_API_KEY", {})
    assert isinstance(served, VllmConfig)
    assert (served.server.model, served.server.max_context) == (f"{run}/model", 2048)
    started = (served.server.command, served.server.arguments, served.server.environment)
    assert started == (None, (), {})
    assert config.runner == default.runner.model_copy(update={"budget_dollars": 2.0})
    bugs = config.collect.benchmark
    assert (bugs.name, bugs.instances) == ("local", ("a",))
    assert (bugs.path, bugs.problem_statement) == (None, None)
    assert [each.path for each in config.held_out.benchmarks] == [None]
    assert config.held_out.repositories == ("r",)
    assert config.factory == default.factory
    assert config.self_repair == default.self_repair
    assert (config.questions.output, config.questions.answer_with) == (None, "served")
    rows = config.format
    assert (rows.push, rows.runs, rows.questions, rows.min_stops) == (None, (), (), 4)
    trained = config.train
    assert trained.lora is not None
    assert (trained.lora.r, trained.max_steps) == (4, 5)
    programs = (trained.attention, trained.wandb, trained.trainer_arguments)
    assert programs == (None, None, {})
    assert trained.base_model == default.train.base_model
    assert trained.training_template is None
    assert config.eval.questions is not None
    assert (config.eval.questions.path, config.eval.attempts) == (None, 2)
    assert (config.iterate.launcher, config.iterate.rounds) == ((), 2)

    told = capsys.readouterr().err
    assert f"you have not saved {run}/config.yaml here" in told
    assert '\n  sandbox.python="/elsewhere/py", now null\n' in told
    assert "\n  sandbox.pids=10000, now 256\n" in told
    assert "such as 'sandbox.python=\"/elsewhere/py\"'" in told
    assert "memory_mb" not in told


def test_what_the_user_says_counts_and_is_not_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = elsewhere(tmp_path / "run", sandbox={"python": "/elsewhere/py", "pids": 300})
    config = load_config(run, ["sandbox.python=/elsewhere/py"])
    assert config.sandbox.python == "/elsewhere/py"
    told = capsys.readouterr().err
    assert "sandbox.pids" in told
    assert "sandbox.python" not in told


def test_a_file_that_the_user_names_is_taken_whole(tmp_path: Path) -> None:
    run = elsewhere(tmp_path / "run", sandbox={"python": "/elsewhere/py"})
    assert load_config(run / "config.yaml").sandbox.python == "/elsewhere/py"


def test_settings_as_the_users_own_pass_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    default = load_config(None).model_dump(mode="json")
    run = elsewhere(tmp_path / "run", **default | {"run": "theirs"})
    assert load_config(run).sandbox == load_config(None).sandbox
    assert capsys.readouterr().err == ""


def test_ones_own_run_stands_for_its_whole_config_wherever_it_lies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = [f"runs_folder={tmp_path}", "run=mine", "sandbox.python=/opt/py", "runner.concurrency=7"]
    config = load_config(None, own)
    with config_saved(config):
        pass
    assert load_config(tmp_path / "mine") == config
    shutil.move(tmp_path / "mine", tmp_path / "moved")
    assert load_config(tmp_path / "moved").sandbox == config.sandbox
    assert capsys.readouterr().err == ""

    with (tmp_path / "moved" / "config.yaml").open("a") as file:
        file.write("\n")
    assert load_config(tmp_path / "moved").sandbox.python is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sandbox.python", "'{run}/py'"),
        ("sandbox.python", "'{run}/../run/py'"),
        ("sandbox.java.java_home", "'{run}/jdk'"),
        ("sandbox.java.maven_home", "'{run}/maven'"),
        ("sandbox.java.gradle_home", "'{run}/gradle'"),
        ("sandbox.readable_paths", "[/opt, '{run}/files']"),
        ("models.v", "{backend: vllm, server: {model: m, command: [python, '{run}/vllm']}}"),
        ("iterate.launcher", "['{run}/launch']"),
    ],
)
def test_no_program_lies_in_a_run(tmp_path: Path, key: str, value: str) -> None:
    own = [f"runs_folder={tmp_path}", "run=run", f"{key}={value}"]
    with pytest.raises(ConfigError, match=f"{key}[a-z.]*: .* lies in the run's folder"):
        load_config(None, own)


def test_a_link_to_a_program_in_a_run_is_one(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "py").touch()
    (tmp_path / "py").symlink_to("run/py")
    own = [f"runs_folder={tmp_path}", "run=run", f"sandbox.python={tmp_path}/py"]
    with pytest.raises(ConfigError, match="lies in the run's folder"):
        load_config(None, own)


ALIASES = "\n".join(
    ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join(9 * [f'*a{n - 1}'])}]" for n in range(1, 12))]
)
MERGES = "\n".join(
    [
        "a0: &a0 {x0: 1}",
        *(f"a{n}: &a{n} {{<<: [{', '.join(9 * [f'*a{n - 1}'])}]}}" for n in range(1, 12)),
    ]
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (ALIASES, "more than 100000 values"),
        (MERGES, "can't be read as YAML"),
        ("x: &x [*x]\n", "more than 100000 values"),
        ("[" * 100_000, "can't be read as YAML"),
        ("sandbox: !!python/object/apply:os.system ['touch canary']\n", "can't be read as YAML"),
        (f"x: {'1:' * 400_000}1\ny: {'z' * 400_000}", "bytes, more than"),
        ("models: [{model: /root}]\n", "the config is wrong"),
    ],
)
def test_no_config_of_a_run_is_a_bomb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run = elsewhere(tmp_path / "run")
    (run / "config.yaml").write_text(f"runs_folder: /home/them\n{text}")
    with pytest.raises(ConfigError, match=told):
        load_config(run)
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    "path",
    [
        "{run}/../own",
        "{run}/nowhere/../../own",
        "nowhere/../../../own",
        "--config=run/c.yaml",
        "x" * 5_000,
    ],
)
def test_no_files_of_a_model_lie_outside_of_a_run(tmp_path: Path, path: str) -> None:
    run = elsewhere(
        tmp_path / "run",
        models={
            "local": {"backend": "local", "model": path},
            "template": {"backend": "local", "model": "a/b", "chat_template": path},
            "adapter": {"backend": "local", "model": "a/b", "adapter": path},
            "replay": {"backend": "replay", "path": path},
            "inside": {"backend": "local", "model": "{run}/model"},
        },
    )
    assert list(load_config(run).models) == ["inside"]


@pytest.mark.parametrize("settings", [{5: 1}, {"agents": {"x": "a\0b"}}, {"run": "\ud800"}])
def test_what_is_no_text_is_refused(tmp_path: Path, settings: dict[Any, Any]) -> None:
    run = elsewhere(tmp_path / "run")
    (run / "config.yaml").write_text(yaml.safe_dump({"runs_folder": "/home/them"} | settings))
    with pytest.raises(ConfigError, match="is no text"):
        load_config(run)


@pytest.mark.parametrize("text", [ALIASES, MERGES, "[" * 100_000, "models: [1]"])
def test_pages_of_a_run_read_no_bomb(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    assert saved_config(tmp_path) == {}


def test_names_of_settings_say_nothing_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = elsewhere(tmp_path / "run", **{"x\nstepinto: all is well\x1b[2J": 1})
    load_config(run)
    told = capsys.readouterr().err
    assert "x\\nstepinto: all is well\\x1b[2J=1" in told


# The commands.


def program(path: Path, canary: Path) -> Path:
    """An interpreter that leaves a file, and then is Python."""
    path.write_text(f'#!/bin/sh\ntouch "{canary}"\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "c.yaml").write_text(
        f"run: recorded\nruns_folder: {folder}\nmodels: {{oracle: {{backend: oracle}}}}\n"
        "collect: {benchmark: {name: bundled, limit: 1}}\n"
    )
    assert main(["collect", str(folder / "c.yaml")]) == 0
    return folder / "recorded"


@pytest.fixture
def downloaded(collected: Path, tmp_path: Path) -> Path:
    """A run whose config names programs in it and beside it, which leave `canary` behind."""
    run = tmp_path / "downloaded"
    shutil.copytree(collected, run)
    program(run / "py", tmp_path / "canary")
    program(tmp_path / "py", tmp_path / "canary")
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["sandbox"] |= {
        "python": "{run}/py",
        "unsafe": True,
        "readable_paths": [str(tmp_path)],
    }
    (run / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    return run


@pytest.mark.parametrize("where", ["in the run", "beside it"])
@pytest.mark.parametrize("command", ["replay", "collect", "view", "format", "status"])
def test_no_command_starts_a_program_that_a_run_names(
    downloaded: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    where: str,
) -> None:
    if where == "beside it":
        path = downloaded / "config.yaml"
        path.write_text(path.read_text().replace("{run}/py", str(tmp_path / "py")))
    status = main([command, str(downloaded)])
    told = capsys.readouterr().err
    assert not (tmp_path / "canary").exists()
    if command in ("replay", "collect"):
        assert status == 0, told
        assert "sandbox.python=" in told


LINKS = (
    *(".tmp-config.yaml", "replay/.lock", "report/index.html", "report/conversations/x.html"),
    *("progress.json", "conversations", "rollouts", "sft", "journal", "settings"),
)


@pytest.mark.parametrize("name", LINKS)
def test_no_link_in_a_run_leads_a_command_out(
    collected: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    run, mine = tmp_path / "run", tmp_path / "mine"
    shutil.copytree(collected, run)
    shutil.copytree(run / "rollouts", mine)
    (mine / ".tmp-x").write_text("mine")
    path = run / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(mine / ".tmp-x" if path.suffix or name.endswith(".lock") else mine)
    before = {each.name: each.read_bytes() for each in mine.iterdir()}
    commands = (["replay"], ["view"], ["format"], ["collect"], ["status"], ["play", "--wait", "0"])
    for command, *more in commands:
        assert main([command, str(run), *more]) == 2, command
        assert "is a link to" in capsys.readouterr().err
    assert {each.name: each.read_bytes() for each in mine.iterdir()} == before
    own = tmp_path / "own.yaml"
    own.write_text(f"run: own\nruns_folder: {tmp_path}\nformat: {{runs: ['{run}']}}\n")
    assert main(["format", str(own)]) == 2
    assert "is a link to" in capsys.readouterr().err


def repository(folder: Path) -> Path:
    for name, text in {"shop/cart.py": CART, "tests/test_cart.py": TESTS}.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.slow
def test_a_model_from_elsewhere_brings_no_program(
    downloaded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = build_tiny_model(downloaded / "model", context=16_384)
    repo = repository(tmp_path / "repo")
    asked = ["ask", "What is result?", "--repo", str(repo), "--test", TEST]
    main([*asked, "agents.start_session=auto", "--timeout", "5", "--model", str(model)])
    told = capsys.readouterr().err
    assert not (tmp_path / "canary").exists()
    assert "sandbox.python=" in told
    assert f"starts `{TEST}` under the debugger" in told


@pytest.mark.slow
@pytest.mark.parametrize("form", ["auto_map", "pickle", "adapter pickle"])
def test_a_models_files_run_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: SIM115 - no terminal to ask at
    monkeypatch.setattr("builtins.input", lambda told: "y")
    canary = tmp_path / "canary"
    folder = model = build_tiny_model(tmp_path / "model")
    code = f"import pathlib\npathlib.Path({str(canary)!r}).touch()\n"
    if form == "auto_map":
        (model / "evil.py").write_text(f"{code}class Evil: pass\n")
        facts = json.loads((model / "config.json").read_text())
        facts["model_type"] = "unheard_of"
        facts["auto_map"] = {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"}
        (model / "config.json").write_text(json.dumps(facts))

    class Evil:
        def __reduce__(self) -> tuple[Any, ...]:
            return exec, (code,)

    if form == "pickle":
        (model / "model.safetensors").unlink()
        (model / "pytorch_model.bin").write_bytes(pickle.dumps(Evil()))
    elif form == "adapter pickle":
        folder = tmp_path / "adapter"
        folder.mkdir()
        facts = {"peft_type": "LORA", "base_model_name_or_path": str(model), "r": 2}
        (folder / "adapter_config.json").write_text(json.dumps(facts))
        (folder / "adapter_model.bin").write_bytes(pickle.dumps(Evil()))
    repo = repository(tmp_path / "repo")
    asked = ["ask", "What?", "--repo", str(repo), "--test", TEST, "--model", str(folder)]
    assert main(asked) == 2
    assert not canary.exists()
    assert "no model at" in capsys.readouterr().err or form != "pickle"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.json", "[]"),
        ("tokenizer.json", "{}"),
        ("tokenizer_config.json", "null"),
        ("model.safetensors", "x"),
        ("training.json", "[" * 100_000),
        ("chat_template.jinja", "{{ 1 / 0 }}"),
        ("chat_template.jinja", "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}"),
        ("chat_template.jinja", "{% include '/etc/passwd' %}"),
        ("adapter_config.json", "{}"),
        ("adapter_config.json", '{"base_model_name_or_path": 5}'),
    ],
)
def test_a_broken_model_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    model = build_tiny_model(tmp_path / "model", context=16_384)
    (model / name).write_text(text)
    repo = repository(tmp_path / "repo")
    asked = ["ask", "What?", "--repo", str(repo), "--test", TEST, "--timeout", "60"]
    assert main([*asked, "--model", str(model)]) == 2
    assert "stepinto: " in capsys.readouterr().err
