"""Configs and run folders that hold what nobody meant: refused before work starts, in words."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collect.errors import ConfigError
from collect.models.budget import read_spent
from collect.store.run_store import RunStore
from configs.loading import load_config
from stepinto import main

BASE = "run: mine\ncollect: {benchmark: {name: bundled, limit: 1}}\n"
LAUGHS = "a0: &a0 [x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
)


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(f"{BASE}runs_folder: {tmp_path / 'runs'}\n")
    return path


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("seed=100000000000000000000000", "seed must lie within 2^62 of 0"),
        ('seed="100000000000000000000000"', "seed must lie within 2^62 of 0"),
        (f"seed={'9' * 5000}", "is not YAML"),
        (r'models.oracle={backend: replay, path: "\0"}', "models.oracle.path holds a NUL"),
        (r'collect.main="\ud83d"', "collect.main holds a NUL or half a character"),
        (r'models={"\0": {backend: oracle}}', r"models.\x00 holds a NUL"),
        ("runner.track_every=1e308", "runner.track_every must lie within 1e+09 of 0"),
        ("runner.track_every=.inf", "runner.track_every must lie within 1e+09 of 0"),
        ("runner.track_every=.nan", "runner.track_every: must be greater than 0"),
        ("runner.min_free_disk_gb='inf'", "runner.min_free_disk_gb must lie within"),
        ("collect.attempts=99999999999", "collect.attempts: must be less than or equal to 10000"),
        ("eval.attempts=99999999999", "eval.attempts: must be less than or equal to 10000"),
        ("collect.variants=[]", "collect.variants: must have at least 1 item"),
        ("runner.concurrency=99999999999", "runner.concurrency: must be less"),
        ("runs_folder=/dev/null", "Not a directory: '/dev/null/mine'"),
        ("runs_folder=/proc/x", "No such file or directory: '/proc/x'"),
        ("run=..", "run: must be a name"),
        ("run=" + "ü" * 101, "run: must have at most 100 characters"),
        pytest.param("sandbox.environment=" + "[" * 2000, "is not YAML", marks=pytest.mark.slow),
        ("collect.benchmark=&a [*a]", "nested over 100 deep"),
    ],
)
def test_a_value_that_nothing_can_take_is_refused(
    config_file: Path, override: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["collect", str(config_file), override]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told
    assert not (config_file.parent / "runs").exists(), "nothing was begun"


MODEL = {"backend": "openai", "model": "large", "api_key_env": None}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("timeout", 1e308),
        ("retries", {"max_retries": 10**9}),
        ("retries", {"retry_after_max": 1e300}),
        ("retries", {"outage_wait": float("inf")}),
        ("prices", {"input": float("inf")}),
        ("sampling", {"max_tokens": 10**30}),
        ("sampling", {"seed": 10**23}),
        ("sampling", {"temperature": float("nan")}),
        ("concurrency", 10**12),
    ],
)
def test_so_is_one_of_a_model(config_file: Path, field: str, value: object) -> None:
    given = json.dumps({"large": MODEL | {field: value}}).replace("Infinity", ".inf")
    with pytest.raises(ConfigError, match=f"models.large.{field}"):
        load_config(config_file, [f"models={given.replace('NaN', '.nan')}"])


@pytest.mark.parametrize(
    "text",
    [
        LAUGHS,
        "[" * 200_000,
        "a: &a {b: *a}",
        pytest.param("{" * 5000, marks=pytest.mark.slow),
    ],
)
def test_a_bomb_is_refused(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bomb.yaml"
    path.write_text(text)
    assert main(["collect", str(path)]) == 2
    assert f"{path} can't be read as YAML: " in capsys.readouterr().err


def test_aliases_are_still_taken(config_file: Path) -> None:
    with config_file.open("a") as file:
        file.write("models: {a: &a {backend: oracle}, b: *a, c: {<<: *a, candidates: 3}}\n")
    assert load_config(config_file).models.keys() == {"a", "b", "c"}


@pytest.mark.parametrize("garbage", ["", "many", "nan", "-5", "inf", "\0", "1 2"])
def test_garbage_is_nothing_that_was_spent(tmp_path: Path, garbage: str) -> None:
    (tmp_path / "spent.txt").write_text(garbage)
    with pytest.raises(ConfigError, match=f"{tmp_path}/spent.txt is not the dollars"):
        read_spent(tmp_path)


@pytest.mark.slow
def test_garbage_in_a_runs_folder_is_told_and_loses_nothing(
    config_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["collect", str(config_file)]) == 0
    run = load_config(config_file).folder
    before = list(RunStore(run).rollouts.rows())
    (run / "spent.txt").write_text("many")
    assert main(["collect", str(config_file), "collect.benchmark.limit=2"]) == 2
    assert f"{run / 'spent.txt'} is not the dollars" in capsys.readouterr().err
    for garbage in (b"", b"\xff\0", b"[" * 100_000, b"5"):
        for path in (run / "settings").iterdir():
            path.write_bytes(garbage)
        assert main(["collect", str(config_file), "seed=7"]) == 2
        assert "holds rollouts made with other settings" in capsys.readouterr().err
    assert list(RunStore(run).rollouts.rows()) == before
    (run / "spent.txt").unlink()
    assert main(["collect", str(config_file), "collect.benchmark.limit=2"]) == 0


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from([2**63, -(2**70), 1e308, "{run}", "..", "/dev/null", "\0", "inf", "1e999"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)  # fmt: skip
PLACES = st.sampled_from(
    ["run", "runs_folder", "seed", "stages", "sandbox", "sandbox.memory_mb", "sandbox.packages",
     "models", "models.oracle", "models.oracle.backend", "runner", "runner.concurrency", "agents",
     "agents.main_max_steps", "collect", "collect.variants", "collect.benchmark", "format",
     "collect.benchmark.name", "format.test_fraction", "train", "train.learning_rate", "eval",
     "eval.pairs", "held_out", "factory", "questions", "self_repair", "images", "nothing"]
)  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[*HealthCheck])
@given(PLACES, VALUES)
def test_any_value_anywhere_is_taken_or_refused(
    tmp_path_factory: pytest.TempPathFactory, place: str, value: object
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.yaml"
    path.write_text(BASE)
    text = json.dumps(value).replace("Infinity", ".inf").replace("NaN", ".nan")
    with suppress(ConfigError):
        load_config(path, [f"{place}={text}"])
