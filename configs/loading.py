"""A run's config, and how it is read: one YAML file, dotted overrides on top, every key checked.

The resolved config is saved in the run folder, which can then be given instead of a file. A file is
the user's own, and may name programs. A run folder may be someone else's: of a config that this
user has not saved, only what describes the agents is taken.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, Field, ValidationError

from collect.benchmarks.held_out import HeldOutConfig
from collect.benchmarks.projects.config import FactoryConfig
from collect.config import SAVED_NAME, CollectConfig, RuntimeConfig
from collect.errors import ConfigError, did_you_mean, wrong_fields
from collect.models.budget import SPENT, read_spent
from collect.models.config import VllmConfig
from collect.question_records import QuestionsConfig
from collect.store.files import LOCK, StrictRecord, refuse_links, write_text
from collect.store.plain_yaml import PlainYaml
from collect.synthesis.self_repair.sources import SelfRepairConfig
from eval.config import EvalConfig
from format.config import FormatConfig
from sandbox.base import SandboxConfig
from sandbox.environment import cache_folder
from sandbox.text import storable
from train.config import TrainConfig
from train.job import is_main_process

logger = logging.getLogger(__name__)
StageName = Literal["make", "questions", "answer", "collect", "format", "train", "eval"]
_FILES = Path(__file__).parent.glob("*.yaml")
SHIPPED = {path.stem: path for path in sorted(_FILES, key=lambda path: path.stem)}
"""The configs that come with StepInto, by name."""


class IterateConfig(StrictRecord):
    """The rounds of `stepinto iterate`. Each is a run of its own, `RUN/round-N`."""

    student: str = "small"
    """The model to improve, by its name in `models`: a `local` or `vllm` one. Its folder is the
    first student's; each round's training makes the next one's."""
    relay: str | None = None
    """A `relay` model of that student, which plays in the rounds. null: the student itself."""
    rounds: int = Field(default=3, ge=1, le=1_000)
    """Number of rounds. A larger number continues."""
    stages: tuple[Literal["answer", "collect"], ...] = Field(default=("answer",), min_length=1)
    """What the student does in a round: `answer` the questions of `questions`, or be the subagent
    in the rollouts of `collect`."""
    answer_limit: int | None = Field(default=None, ge=1)
    """Answer at most this many questions in a round, others in each. null: `questions.answer_limit`
    and its order."""
    attempts: int = Field(default=4, ge=1, le=10_000)
    """Its attempts in a round at each question or bug."""
    temperature: float = Field(default=0.8, gt=0, le=2)
    """Its sampling temperature in these attempts; `eval` uses the model's own."""
    keep: int = Field(default=1, ge=1)
    """Most rows of the student about the same question or bug, and most of the teacher: the best,
    as `format.mixture.best`."""
    teacher_share: float | None = Field(default=0.5, ge=0, lt=1)
    """Largest share of the teacher's rows among a round's, which are those of `RUN` itself and of
    `format.runs`. null: all of them."""
    earlier_rounds: bool = False
    """Whether a round's rows include those of the rounds before it."""
    start_from: Literal["base", "last"] = "base"
    """What a round trains: `train.base_model`, or the model that has played in it."""
    launcher: tuple[str, ...] = ()
    """Train in processes of their own, started by this command and `-m stepinto train RUN`:
    `[accelerate, launch, --num_processes, "4"]`, or `[python]`, which leaves the GPU's memory to
    a server afterwards. Empty: train in this process."""


def _run_name(name: str) -> str:
    if not re.fullmatch(r"[\w-][\w.-]*", name):
        raise ValueError(
            "must be a name, of letters, digits, '.', '-' and '_'; set runs_folder for its parent "
            "folder"
        )
    return name


class RunConfig(RuntimeConfig):
    """All settings of a YAML config."""

    run: Annotated[str, AfterValidator(_run_name)] = Field(min_length=1, max_length=100)
    """The run's name, and the name of its folder: letters, digits, `.`, `-` and `_`."""
    runs_folder: Path = Path("runs")
    """The folder of all runs."""
    stages: tuple[StageName, ...] = Field(
        default=("collect", "format", "train", "eval"), min_length=1
    )
    """The stages that `stepinto run` runs, in order; `make`, `questions` and `answer` are those of
    `stepinto bench`."""
    collect: CollectConfig = CollectConfig()
    held_out: HeldOutConfig = HeldOutConfig()
    """Bugs reserved for evaluation, which collect refuses and format drops."""
    self_repair: SelfRepairConfig = SelfRepairConfig()
    """For `stepinto bench self-repair`, which makes a benchmark file."""
    factory: FactoryConfig = FactoryConfig()
    """For `stepinto bench make`, which makes bugs of real projects."""
    questions: QuestionsConfig = QuestionsConfig()
    """For `stepinto bench questions` and `stepinto bench answer`."""
    format: FormatConfig = FormatConfig()
    train: TrainConfig = TrainConfig()
    eval: EvalConfig = EvalConfig()
    iterate: IterateConfig = IterateConfig()
    """For `stepinto iterate`, which improves a model in rounds."""

    @property
    def folder(self) -> Path:
        """The folder of all the run's files."""
        return self.runs_folder / self.run


NAMES = re.compile(
    r"(^|_)(api_?key|access_key(_id)?|private_key|secret_key|subscription_key|token|secret|password"
    r"|passwd|authorization|bearer|credentials?)$"
)
OF_A_TOKENIZER = re.compile(
    r"(bos|eos|bot|eot|boi|eoi|pad|unk|sep|cls|mask|stop|start|end|begin|image|audio|video)_token$"
)
VARIABLE = re.compile(r"[A-Za-z_]\w*")
OF_THE_SANDBOX = re.compile(r"^sandbox\.environment\.|\.benchmark\.variables\.")
"""Settings that programs under test and agents read; tests may need made-up keys there."""
COMMAND_LINES = re.compile(r"(^|_|\.)(arguments|command|options)$")
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
USER = re.compile(r"https?://[^/@\s]+@|(?<!\w)\w++://[^/@\s:]*:[^/@\s]+@")
"""A user in an address. A user without a password is a mere name, but for HTTP servers it may be a
token."""
QUERY = re.compile(r"[?&]([\w-]+)=[^&]")
ASSIGNED = re.compile(r"(?:--?[DP]?)?([\w.-]+)=.")
"""An option or variable assigned on a command line."""


MOST_VALUES, DEEPEST = 100_000, 100
"""Most values in a config, counting each use of a YAML alias, and the deepest nesting."""
LARGEST_WHOLE = 2**62
"""Largest integer: with an attempt's number added, a seed must still fit in 64 bits."""
LARGEST = 1e9
"""Largest float: about 30 years in seconds. System clocks can't wait a thousand times as long."""


def refuse_keys(config: Mapping[str, Any], where: str) -> None:
    """Raises ConfigError for an API key, without showing it, and for more values than a config can
    have; `where` names the config."""
    for number, (place, value) in enumerate(_walk(config)):
        if number > MOST_VALUES or place.count(".") > DEEPEST:
            raise ConfigError(
                f"{where} can't be read as YAML: it has more than {MOST_VALUES} values, with its "
                f"aliases written out, or its lists and mappings are nested over {DEEPEST} deep"
            )
        if _holds_a_key(place, value) and not OF_THE_SANDBOX.search(place):
            raise ConfigError(
                f"{where}: {place} is a key, or holds one, and has no place in a config, which is "
                "kept in the run folder and copied with it. Take it out, and set it in the "
                "environment: `api_key_env` of a model names the variable of its key, "
                "$OPENAI_BASE_URL may hold an address with a user, and a server that StepInto "
                "starts has all variables of this process"
            )


def _walk(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Each value with its dotted name; lists and mappings come before what they hold."""
    yield place, value
    inner: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list | tuple | set | frozenset):
        inner = enumerate(value)
    for name, each in inner:
        yield from _walk(each, f"{place}.{name}" if place else str(name))


def _holds_a_key(place: str, value: Any) -> bool:
    if isinstance(value, list) and COMMAND_LINES.search(place):
        # `--api-key KEY`, `--api-key=KEY` or `API_KEY=KEY`.
        words = [str(each) for each in value]
        names = [found[1] for word in words if (found := ASSIGNED.match(word))]
        options = [pair for pair in pairwise(words) if pair[0].startswith("--")]
        names += [name for name, given in options if not given.startswith("-")]
        return any(map(_names_a_key, names))
    # A key in a YAML file may look like a number.
    if not value or not isinstance(value, str | int) or isinstance(value, bool):
        return False
    if place.endswith(".api_key_env") and not VARIABLE.fullmatch(str(value)):
        return True
    parameters = QUERY.findall(str(value)) if "://" in str(value) else []
    return (
        _names_a_key(place)
        or USER.search(str(value)) is not None
        or any(name in ("key", "sig") or _names_a_key(name) for name in parameters)
    )


def _names_a_key(name: str) -> bool:
    plain = re.sub(r"[-.]", "_", CAMEL.sub("_", name)).lower()
    return bool(NAMES.search(plain)) and not OF_A_TOKENIZER.search(plain)


def refuse_values(config: Any, where: str) -> None:
    """Raises ConfigError for a key or a text that can't be in a file name or file, and for a number
    that rows, clocks and programs can't take."""
    for place, value in _walk(config):
        text = f"{place} {value}"  # of lists and mappings an escaped one
        if "\0" in text or storable(text) != text:
            told = (
                "holds a NUL or half a character (such as \\ud83d), which no file and no command "
                "can: take it out"
            )
        elif isinstance(value, float) and not abs(value) <= LARGEST:
            told = f"must lie within {LARGEST:.0e} of 0: give a smaller number"
        elif isinstance(value, int) and abs(value) > LARGEST_WHOLE:
            told = "must lie within 2^62 of 0: give a smaller number"
        else:
            continue
        raise ConfigError(f"{where}: {ascii(place)[1:-1]} {told}")


BENCHMARK = (
    *("name", "language", "hub_split", "split", "held_out_fraction", "split_seed", "instances"),
    *("shuffle_seed", "limit", "skip", "show_tests", "test_timeout"),
)
MODEL = (
    *("backend", "sampling", "max_tokens", "max_tokens_field", "text_calls", "reasoning"),
    *("reasoning_field", "thinking", "cache_prompts", "logprobs", "tool_choice", "stream"),
    *("parallel_tool_calls", "constrain_calls", "max_context", "dtype", "tool_call_parser"),
    *("candidates", "answer", "sessions", "student", "teacher"),
)
FILES = ("model", "adapter", "adapters", "chat_template", "path")
SECTIONS = {
    "runner": ("budget_dollars",),
    "collect": ("variants", "main", "sub", "attempts"),
    "held_out": ("repositories", "whole_repositories"),
    "questions": (
        *("per_category", "limits", "max_tests", "wrong_patches", "seed", "test_timeout"),
        *("answer_with", "attempts", "answer_limit", "answer_shuffle_seed"),
    ),
    "format": (
        *("roles", "vocabulary", "reasoning", "arguments", "read_arguments", "calls_per_message"),
        *("only_resolved", "only_fully_trained", "only_replay_verified", "keep_marked_patches"),
        *("require_session", "min_stops", "min_inspections", "require_answer", "min_grounding"),
        *("max_invalid_tool_calls", "max_characters", "masked_turns", "drop_leaks"),
        *("max_similarity", "deduplicate", "test_fraction", "split_seed", "preferences"),
        *("mixture", "atif", "llama_factory", "token_ids", "name", "license", "tags"),
    ),
    "train": (
        *("method", "dpo", "lora", "merge", "save_untuned", "epochs", "max_steps", "seed"),
        *("learning_rate", "batch_size", "gradient_accumulation", "max_length", "preflight_rows"),
        *("max_truncated_share", "tool_call_parser", "eval_every", "eval_rows", "checkpoints_at"),
    ),
    "eval": (
        *("variants", "pairs", "attempts", "fork", "baseline", "statistics", "judge"),
        *(
            f"questions.{name}"
            for name in (
                *("models", "limit", "shuffle_seed", "per_category", "limits", "seed"),
                "test_timeout",
            )
        ),
    ),
    "iterate": (
        *("student", "relay", "rounds", "stages", "answer_limit", "attempts", "temperature"),
        *("keep", "teacher_share", "earlier_rounds", "start_from"),
    ),
}
BENCHMARKS = (
    *("collect.benchmark", "questions.benchmark", "eval.benchmark", "eval.questions.benchmark"),
    "held_out.benchmarks.*",
)
OF_AGENTS = (
    *("run", "runs_folder", "seed", "agents"),
    *(f"{section}.{name}" for section, names in SECTIONS.items() for name in names),
    *(f"{place}.{name}" for place in BENCHMARKS for name in BENCHMARK),
    *(f"{place}.{name}" for place in ("models.*", "models.*.server") for name in MODEL),
)
"""The settings, with all below them, that are taken from someone else's run: what describes the
agents and their data. The others name programs, places, keys and addresses, or what may be asked
of a machine, which are the user's to say."""
MODEL_FILES = tuple(
    f"{place}.{name}" for place in ("models.*", "models.*.server") for name in FILES
)
"""These of a model may be paths, which are taken if they lead below the run's folder."""
LIMITS = tuple(
    f"sandbox.{name}"
    for name in (
        *("memory_mb", "pids", "cpus", "open_files", "file_size_mb", "disk_mb", "command_timeout"),
        "output_limit",
    )
)
"""These are taken up to their defaults."""
SHOWN, LONGEST = 20, 300
"""Most settings in a warning, and characters of each."""
Place = tuple[str, ...]
"""A setting by the names of its sections and its own, in which there may be dots."""


def load_config(
    source: Path | None,
    overrides: Sequence[str] = (),
    tell: bool = True,
    own_repository: bool = False,
) -> RunConfig:
    """The config of a YAML file, of a run folder or else of a name in SHIPPED, with
    `key.subkey=value` overrides; None: the defaults, for a command that is about no run. `{run}` in
    any text is replaced by the run's folder. Of a run folder with a config that this user has not
    saved, only what describes the agents is taken; `tell` warns of what is not. With
    `own_repository`, `collect.benchmark` is about the repository that the command is given, and
    what the config says there of other bugs is left out.

    Raises ConfigError that names the file, the key and, for an unknown key, the nearest known one;
    also if the config holds an API key, or a run folder a link that leads out of it."""
    raw: dict[str, Any] = {"run": "live"}
    where = "the command line"
    left_out: Mapping[Place, Any] = {}
    if source is not None:
        where, raw, left_out = _read(source)
    if own_repository and _at(raw, ("collect", "benchmark", "name")) != "local":
        _apply_override(raw, "collect.benchmark={name: local}")
    before = _served(raw)
    for override in overrides:
        _apply_override(raw, override)
    now = _served(raw)
    for name, (model, prices) in before.items():
        given = any(each.startswith(f"models.{name}.prices") for each in overrides)
        same = not given and prices and now.get(name, (None, None))[1] is prices
        if same and now[name][0] != model:
            # They are another model's.
            del raw["models"][name]["prices"]
            logger.warning(
                f"models.{name}.model is now {now[name][0]}, and the prices of {model} are not "
                f"counted for it: for dollars and budgets also set models.{name}.prices"
            )
    refuse_keys(raw, where)
    try:
        config = RunConfig.model_validate(_replaced(raw, "{run}", _folder(raw)))
    except ValidationError as error:
        problems = "\n".join(f"  {line}" for line in wrong_fields(error, RunConfig))
        raise ConfigError(f"{where}: the config is wrong:\n{problems}") from error
    refuse_values(config.model_dump(), where)
    _refuse_programs_of_a_run(config)
    if source is not None and left_out and tell:
        _tell_left_out(source, config, left_out, overrides)
    return config


def _refuse_odd_names(raw: Any, where: str) -> None:
    """Raise ConfigError for a setting whose name is no text, or a text that no file can hold."""
    for place, value in _walk(raw):
        names = value if isinstance(value, dict) else ()
        texts = [*names, value] if isinstance(value, str) else [*names]
        for text in texts:
            if not isinstance(text, str) or storable(text) != text or "\0" in text:
                raise ConfigError(
                    f"{where} can't be read: {ascii(place)[1:-1] or 'it'} has "
                    f"{ascii(text)[:LONGEST]}, which is no text without NUL characters and lone "
                    "surrogates"
                )


def _read(source: Path) -> tuple[str, dict[str, Any], Mapping[Place, Any]]:
    """A config's file, its keys and values, and those that are not taken, by dotted name. Raises
    ConfigError."""
    path = source / SAVED_NAME if source.is_dir() else source
    if not source.exists():
        path = SHIPPED.get(str(source), source)
    if source.is_dir():
        refuse_links(source)
    try:
        data = path.read_bytes()
        raw = yaml.load(data, PlainYaml) if source.is_dir() else yaml.safe_load(data)
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no config {path}; give a YAML file, a run folder with a {SAVED_NAME}, or a "
            f"shipped config's name (`stepinto init --list`){did_you_mean(path.stem, SHIPPED)}"
        ) from error
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} can't be read as YAML: {error}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{path} must hold keys and values, not {type(raw).__name__}")
    if not source.is_dir():
        return str(path), raw, {}
    refuse_keys(raw, str(path))  # also more values than can be copied
    _refuse_odd_names(raw, str(path))
    if Path(_folder(raw)).resolve() != source.resolve():
        # The run folder was copied or moved.
        moved = _replaced(raw, f"{_folder(raw)}/", f"{source}/")
        raw = moved | {"run": source.resolve().name, "runs_folder": str(source.parent)}
    left_out: dict[Place, Any] = {}
    if not _saved_here(data).is_file():
        raw = _of_agents(raw, source.resolve(), left_out)
        models = raw.get("models")
        for name in {place[1] for place in left_out if _is_of(place, MODEL_FILES)}:
            if isinstance(models, dict):
                models.pop(name, None)  # without its weights or its recording it is no model
    return str(path), raw, left_out


def _of_agents(raw: Any, folder: Path, left_out: dict[Place, Any], place: Place = ()) -> Any:
    """What is taken of a value in someone else's config, None for nothing; the rest is added to
    `left_out`."""
    if isinstance(raw, dict) and (raw or not place):
        taken = {
            name: _of_agents(value, folder, left_out, (*place, str(name)))
            for name, value in raw.items()
        }
        kept = {
            name: value for name, value in taken.items() if value is not None or raw[name] is None
        }
        # A section of which nothing is left, such as one for wandb, is not wanted at all.
        return kept if not place or any(value is not None for value in kept.values()) else None
    if isinstance(raw, list) and any(isinstance(each, dict) for each in raw):
        listed = enumerate(raw)
        taken_ones = [_of_agents(each, folder, left_out, (*place, str(at))) for at, each in listed]
        return [each for each in taken_ones if each is not None]
    if raw is None or _is_taken(place, raw, folder):
        return raw
    left_out[place] = raw
    return None


def _is_taken(place: Place, value: Any, folder: Path) -> bool:
    if _is_of(place, LIMITS):
        usual = SandboxConfig.model_fields[place[-1]].default
        return isinstance(value, int | float) and value <= usual
    if _is_of(place, MODEL_FILES):
        text = str(value).replace("{run}", str(folder))
        try:
            is_path = text.startswith((".", "/", "~", "-")) or ".." in Path(text).parts
            is_path = is_path or Path(text).exists()
            return not is_path or Path(text).resolve().is_relative_to(folder)
        except (OSError, ValueError):  # too long, or with a NUL character
            return False
    return _is_of(place, OF_AGENTS)


def _is_of(place: Place, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns names a setting, or a section that it is in. `*` is any name."""
    named = (pattern.split(".") for pattern in patterns)
    return any(
        len(names) <= len(place)
        and all(name in ("*", own) for name, own in zip(names, place, strict=False))
        for names in named
    )


def _tell_left_out(
    source: Path, config: RunConfig, left_out: Mapping[Place, Any], overrides: Sequence[str]
) -> None:
    """Warn of the settings of someone else's run in whose place others are used."""
    used = config.model_dump(mode="json")
    given = [tuple(override.partition("=")[0].split(".")) for override in overrides]
    settings, lines = [], []
    for place, value in left_out.items():
        now = _at(used, place)
        if value == now or any(place[: len(key)] == key for key in given):
            continue
        told = json.dumps(value, default=str)
        settings.append(f"{ascii('.'.join(place))[1:-1]}={told}"[:LONGEST])
        lines.append(f"{settings[-1]}, now {json.dumps(now)[:LONGEST]}")
    if not lines:
        return
    more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    listed = "\n  ".join([*lines[:SHOWN], *more])
    path = source / SAVED_NAME
    logger.warning(
        f"you have not saved {path} here, so only what describes the agents is taken from it. What "
        f"is not taken, and what is used instead:\n  {listed}\nTo take one of them give it on the "
        f"command line, such as {shlex.quote(settings[0])}; to take all, where a command takes a "
        f"config, give it the file {path}"
    )


def _at(value: Any, place: Place) -> Any:
    """The value of a setting; None if there is none."""
    for name in place:
        if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, dict):
            value = value.get(name)
        else:
            return None
    return value


def _refuse_programs_of_a_run(config: RunConfig) -> None:
    """Raise ConfigError if what is started, or read by what is started, lies in the run's folder,
    whose files are data."""
    sandbox, folder = config.sandbox, config.folder.resolve()
    named = {
        "sandbox.python": (sandbox.python,),
        "sandbox.java.java_home": (sandbox.java.java_home,),
        "sandbox.java.maven_home": (sandbox.java.maven_home,),
        "sandbox.java.gradle_home": (sandbox.java.gradle_home,),
        "sandbox.readable_paths": sandbox.readable_paths,
        "sandbox.own_metadata": (sandbox.own_metadata,),
        "sandbox.own_environment": (sandbox.own_environment,),
        "iterate.launcher": config.iterate.launcher,
    }
    for name, model in config.models.items():
        if isinstance(model, VllmConfig):
            named[f"models.{name}.server.command"] = model.server.command or ()
    for setting, paths in named.items():
        for path in filter(None, paths):
            # Not only where a link leads: an environment's interpreter is one.
            places = Path(os.path.abspath(path)), Path(path).resolve()
            if any(place.is_relative_to(folder) for place in places):
                raise ConfigError(
                    f"{setting}: {path} lies in the run's folder {config.folder}, whose files are "
                    "data and never started: give one elsewhere"
                )


def _served(raw: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What each model of a config's mappings names as `model`, and its prices."""
    models = raw.get("models")
    named = models.items() if isinstance(models, dict) else ()
    return {
        name: (each.get("model"), each.get("prices"))
        for name, each in named
        if isinstance(each, dict)
    }


def _apply_override(raw: dict[str, Any], override: str) -> None:
    key, separator, text = override.partition("=")
    if not separator or not key:
        raise ConfigError(f"override {override!r} must have the form key.subkey=value")
    try:
        value = yaml.safe_load(text)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError(f"the value of override {override!r} is not YAML: {error}") from error
    *parents, last = key.split(".")
    for parent in parents:
        raw = raw.setdefault(parent, {})
        if not isinstance(raw, dict):
            raise ConfigError(f"override {override!r}: {parent!r} is a value, it has no keys")
    raw[last] = value


def _folder(raw: dict[str, Any]) -> str:
    return str(Path(str(raw.get("runs_folder", "runs"))) / str(raw.get("run", "")))


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, list):
        return [_replaced(item, old, new) for item in value]
    if isinstance(value, dict):
        return {key: _replaced(item, old, new) for key, item in value.items()}
    return value.replace(old, new) if isinstance(value, str) else value


def save_config(config: RunConfig) -> None:
    """Save a config in its run's folder, and note that this user has."""
    text = yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)
    write_text(config.folder / SAVED_NAME, text)
    note = _saved_here(text.encode())
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()
    except OSError as error:
        logger.warning(
            f"{config.folder} will be taken for someone else's run: {note} can't be written "
            f"({error}); set XDG_CACHE_HOME to a folder that can"
        )


def _saved_here(data: bytes) -> Path:
    """The file that says that this user has saved a config with this content."""
    return cache_folder() / "configs" / hashlib.sha256(data).hexdigest()


@contextmanager
def config_saved(config: RunConfig) -> Iterator[None]:
    """Save the resolved config in the run folder, for later stages and readers. If the config turns
    out not to work, restores the folder's earlier config; a refused run that has done nothing
    leaves no folder. Of several processes, the main one saves."""
    if not is_main_process():
        yield
        return
    folder, path = config.folder, config.folder / SAVED_NAME
    refuse_links(folder)
    earlier = path.read_text(encoding="utf-8") if path.exists() else None
    folder.mkdir(parents=True, exist_ok=True)
    save_config(config)
    try:
        yield
    except Exception:
        if earlier is not None:
            write_text(path, earlier)
        else:
            remove_unused(folder)
        raise


@contextmanager
def nothing_saved(config: RunConfig) -> Iterator[None]:
    """For commands that only look, or keep files elsewhere: a new folder goes if nothing is in
    it."""
    is_new = not config.folder.exists()
    try:
        yield
    finally:
        if is_new:
            remove_unused(config.folder)


def remove_unused(folder: Path) -> None:
    """Remove a run folder in which nothing was done, and nothing spent."""
    made = [each for each in folder.rglob("*") if each.is_symlink() or not each.is_dir()]
    unused = (each.name in (SAVED_NAME, SPENT) or each.name.endswith(LOCK) for each in made)
    if all(unused) and not read_spent(folder):
        shutil.rmtree(folder, ignore_errors=True)
