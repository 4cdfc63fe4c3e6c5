"""Reading a run's config."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from collect.errors import ConfigError
from collect.models.budget import Budget, read_spent
from collect.models.config import EndpointConfig
from collect.store.files import LOCK
from collect.store.run_store import RunStore
from configs.loading import RunConfig, config_saved, load_config, nothing_saved
from stepinto import main

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
TEXT = """\
run: mine
models:
  oracle: {backend: oracle}
  small: {backend: local, model: "{run}/model"}
collect: {attempts: 2}
"""


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(f"{TEXT}runs_folder: {tmp_path}\n")
    return path


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_configs_are_valid(path: Path) -> None:
    config = load_config(path)
    assert config.run == path.stem
    named = {name for _, main, sub in config.eval.arms() for name in (main, sub) if name}
    if "collect" in config.stages:
        named |= {config.collect.main, config.collect.sub}
    assert named <= config.models.keys()


def test_overrides_and_the_run_placeholder(config_file: Path) -> None:
    config = load_config(
        config_file, ["collect.variants=[baseline]", "run=other", "runner.concurrency=7"]
    )
    assert config.collect.variants == ("baseline",)
    assert config.collect.attempts == 2
    assert config.runner.concurrency == 7
    assert config.model_config_of("small").model_dump()["model"].endswith("/other/model")


def test_a_run_folder_stands_for_its_config(config_file: Path) -> None:
    config = load_config(config_file, ["collect.attempts=3"])
    with config_saved(config):
        assert load_config(config.folder) == config
    assert load_config(config.folder) == config


def test_a_config_that_does_not_fit_leaves_the_earlier_one(config_file: Path) -> None:
    first, second = load_config(config_file), load_config(config_file, ["seed=7"])
    with config_saved(first):
        pass
    with pytest.raises(ConfigError), config_saved(second):
        raise ConfigError("does not fit")
    assert load_config(first.folder) == first


def refused(config: RunConfig, *written: str) -> None:
    with config_saved(config):
        (config.folder / "rollouts").mkdir()
        for name in written:
            (config.folder / name).touch()
        raise ConfigError("refused")


def test_a_refused_run_leaves_nothing_unless_it_has_worked(config_file: Path) -> None:
    config = load_config(config_file)
    with pytest.raises(ConfigError):
        refused(config)
    assert not config.folder.exists()
    with pytest.raises(ConfigError):
        refused(config, LOCK)
    assert not config.folder.exists()
    with pytest.raises(ConfigError):
        refused(config, "rollouts/first.parquet")
    assert load_config(config.folder) == config


def test_what_a_refused_run_has_spent_is_kept(config_file: Path) -> None:
    config = load_config(config_file)
    config.folder.mkdir()
    Budget(None, 0.25, config.folder).note()
    with pytest.raises(ConfigError):
        refused(config)
    assert read_spent(config.folder) == 0.25


def test_a_check_alone_leaves_no_new_folder(config_file: Path) -> None:
    config = load_config(config_file)
    for _ in range(2):
        with nothing_saved(config):
            RunStore.open(config.folder).close()
    assert not config.folder.exists()
    config.folder.mkdir()
    with nothing_saved(config):
        pass
    assert config.folder.is_dir()


def test_another_model_has_no_prices_until_they_are_given(
    config_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config_file.write_text(
        f"{TEXT}runs_folder: {config_file.parent}\n".replace(
            "models:", "models:\n  big: {backend: openai, model: gpt-5, prices: {input: 1}}"
        )
    )

    def prices(*overrides: str) -> tuple[float, bool]:
        caplog.clear()
        model = load_config(config_file, overrides).model_config_of("big")
        assert isinstance(model, EndpointConfig)
        return model.prices.input, "set models.big.prices" in caplog.text

    assert prices() == (1, False)
    assert prices("models.big.model=gpt-5") == (1, False)
    assert prices("models.big.model=other") == (0, True)
    assert prices("models.big.model=other", "models.big.prices={input: 2}") == (2, False)
    assert prices("models.big.prices.input=2", "models.big.model=other") == (2, False)
    other = "{backend: openai, model: other, prices: {input: 3}}"
    assert prices(f"models.big={other}", f"models.more={other}") == (3, False)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("colect.attempts=1", "colect: there is no such key; did you mean 'collect'?"),
        ("collect.atempts=1", "collect.atempts: there is no such key; did you mean 'attempts'?"),
        ("concurrency=4", "concurrency: there is no such key; did you mean 'runner.concurrency'?"),
        ("zzz=4", "zzz: there is no such key; there are: agents, "),
        ("models.small.modl=x", "models.small.modl: there is no such key; did you mean 'model'?"),
        ("sandbox.backend=podman", "sandbox.backend: must be 'local' or 'docker'"),
        ("collect.attempts=0", "greater than or equal to 1 (it is 0)"),
        ("collect.attempts", "must have the form key.subkey=value"),
        ("run.name=x", "'run' is a value, it has no keys"),
        ("run=[", "is not YAML"),
        (
            "models.small.backend=oracel",
            "models.small.backend: must be one of 'openai', 'anthropic', 'responses', 'vllm', "
            "'local', "
            """'oracle', 'manual', 'replay', 'relay' (it is "oracel"); did you mean 'oracle'?""",
        ),
        ("models.small={model: x}", "models.small.backend: it is missing"),
        ("collect.benchmark.name=bundeld", """(it is "bundeld"); did you mean 'bundled'?"""),
        ("collect.variants=[debug2fx]", "did you mean 'debug2fix'?"),
        ("collect.variants=baseline", "collect.variants: must be a list (it is a text)"),
        ("models=[]", "models: must be a mapping (it is a list)"),
        ("stages=[]", "stages: must have at least 1 item (it is a list)"),
        ("runs_folder=5", "runs_folder: must be a path (it is 5)"),
        ("runner.concurrency={2024-01-01: a}", "must be a whole number (it is a mapping)"),
        ("models.small={backend: [oracle]}", "models.small.backend: must be one of"),
        ("models.small={backend: null}", "(it is null)"),
        ("models.small={backend: vllm, vllm: 5}", "models.small.vllm: there is no such key"),
        ("sandbox.local=5", "sandbox.local: there is no such key"),
        ("collect=null", "collect: must be a mapping (it is null)"),
        ("collect.attempts=many", """collect.attempts: must be a whole number (it is "many")"""),
        (
            "agents.debug_run_code=often",
            """agents.debug_run_code: must be true or false (it is "often")""",
        ),
    ],
)
def test_bad_overrides_are_refused(config_file: Path, override: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(config_file, [override])
    assert told in str(caught.value)


def test_a_wrong_name_in_a_list_is_one_problem(config_file: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(config_file, ["eval.variants=[nonsense]"])
    first, *problems = str(caught.value).splitlines()
    assert first.endswith("the config is wrong:")
    assert len(problems) == 1
    assert "eval.variants.0: must be 'baseline'" in problems[0]


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("collect.benchmark={name: bundled, commit: abc}", "commit: for name=local alone"),
        (f"collect.attempts={'x' * 900}", "must be a whole number"),
        ("models.small.server={port: 1}", "there is no such key"),
    ],
)
def test_what_is_not_at_fault_is_not_shown(config_file: Path, override: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(config_file, [override])
    _, problem = str(caught.value).splitlines()
    assert told in problem
    assert len(problem) < 200


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("sandbox.environment", "[TOKEN=geheim]"),
        ("sandbox.environment.TOKEN", "[geheim]"),
        ("models.m.server.arguments", "--api-key geheim"),
        ("models.m.extra_body", "geheim"),
        ("models.m.api_key_env", "[geheim]"),
    ],
)
def test_a_value_that_may_hold_a_key_is_not_shown(
    config_file: Path, place: str, value: str
) -> None:
    backend = "vllm" if "server" in place else "openai"
    with pytest.raises(ConfigError) as caught:
        load_config(config_file, [f"models.m={{backend: {backend}, model: x}}", f"{place}={value}"])
    assert f"  {place}: must be a " in str(caught.value)
    assert "geheim" not in str(caught.value)


ENDPOINT = "models.m={backend: openai, model: x}"
SECRET = "geheim"


@pytest.mark.parametrize(
    ("override", "place"),
    [
        (f"models.m.base_url=https://me:{SECRET}@host/v1", "models.m.base_url"),
        (f"models.m.base_url=https://{SECRET}@host/v1", "models.m.base_url"),
        (f"models.m.base_url=https://host/v1?api-key={SECRET}", "models.m.base_url"),
        (f"models.m.api_key={SECRET}", "models.m.api_key"),
        (f"models.m.api_key_env=sk-{SECRET}", "models.m.api_key_env"),
        (f"models.m.extra_body={{api_key: {SECRET}}}", "models.m.extra_body.api_key"),
        (
            f"models.m.extra_body={{headers: {{Authorization: Bearer {SECRET}}}}}",
            "models.m.extra_body.headers.Authorization",
        ),
        (
            f"models.v={{server: {{model: x, arguments: [--api-key, {SECRET}]}}}}",
            "models.v.server.arguments",
        ),
        (
            f"models.v={{server: {{model: x, command: [HF_TOKEN={SECRET}, vllm]}}}}",
            "models.v.server.command",
        ),
        (f"models.v={{server: {{environment: {{HF_TOKEN: {SECRET}}}}}}}", "environment.HF_TOKEN"),
        (
            "models.v={server: {model: x, environment: {VLLM_API_KEY: 12345}}}",
            "environment.VLLM_API_KEY",
        ),
        ("models.v={server: {model: x, arguments: [--api-key, 12345]}}", "server.arguments"),
        (f"sandbox.java.maven_options=[-Dgithub.token={SECRET}]", "java.maven_options"),
        (f"sandbox.java.gradle_options=[-Pnexus.password={SECRET}]", "java.gradle_options"),
        (f"models.m.base_url=https://host/v1?key={SECRET}", "models.m.base_url"),
        (f"collect.benchmark.path=ssh://me:{SECRET}@host/bugs", "collect.benchmark.path"),
    ],
)
def test_a_key_in_a_config_is_refused_and_written_nowhere(
    config_file: Path, capsys: pytest.CaptureFixture[str], override: str, place: str
) -> None:
    assert main(["collect", str(config_file), ENDPOINT, override]) == 2
    told = capsys.readouterr().err
    assert f"{place} is a key, or holds one" in told
    assert "`api_key_env`" in told
    assert SECRET not in told
    assert list(config_file.parent.iterdir()) == [config_file]


def test_what_tests_read_may_be_called_a_key(config_file: Path) -> None:
    """Of clouds and of databases; agents see it anyhow."""
    config = load_config(
        config_file,
        [
            "sandbox.environment={AWS_SECRET_ACCESS_KEY: testing}",
            "collect.benchmark={name: local, path: x, variables: {DB_PASSWORD: x}}",
        ],
    )
    assert config.sandbox.environment == {"AWS_SECRET_ACCESS_KEY": "testing"}


def test_what_only_sounds_like_a_key_is_none(config_file: Path) -> None:
    body = "{stop_token: x, end_token: y, max_tokens: 3, skip_special_tokens: true, api_key: null}"
    config = load_config(
        config_file,
        [
            f"models.m={{backend: openai, model: x, api_key_env: MY_KEY, extra_body: {body}}}",
            "models.m.base_url=https://host/v1?api-version=7",
            "models.m.sampling.stop=['Password=x']",
            "collect.benchmark={name: local, path: 'ssh://git@host/repository'}",
        ],
    )
    assert config.models.keys() >= {"m"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("run: [", "can't be read as YAML"),
        ("- run", "must hold keys and values, not list"),
        ("models: {}", "run: it is missing"),
        ("run: a/b", "run: must be a name"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert told in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no config"):
        load_config(tmp_path / "none.yaml")


def test_a_copied_run_folder_is_the_run(config_file: Path, tmp_path: Path) -> None:
    original = load_config(config_file)
    with config_saved(original):
        copy = shutil.copytree(original.folder, tmp_path / "elsewhere" / "copy")
    config = load_config(copy)
    assert config.folder == copy
    assert config.model_config_of("small").model_dump()["model"] == f"{copy}/model"
    assert load_config(copy, ["run=third"]).folder == tmp_path / "elsewhere" / "third"
