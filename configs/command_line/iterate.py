"""`stepinto iterate`: improve a small model in rounds, by the best of its own sessions (expert
iteration).

A round is a run of its own, in `RUN/round-N`, with the stages of every run: the student answers
questions or is the subagent in rollouts, the best of its right and grounded sessions become rows,
with some of the teacher's, and train the next round's student. All students are evaluated in
`RUN/eval`, on the same questions and bugs. Each stage does what is missing, so a killed iteration
goes on when the command is given again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from collect.agents.systems import SYSTEMS
from collect.config import ROUND
from collect.errors import ConfigError
from collect.models.config import LocalConfig, RelayConfig, VllmConfig, training_of
from collect.questions.building import questions_path
from collect.store.files import write_text
from collect.store.run_store import RunStore
from configs.command_line.shared import CONFIG_HELP, add_overrides, console, heading
from configs.command_line.stages import STAGES, Stage, check_sections, do_stages, evaluate
from configs.loading import RunConfig, load_config
from eval.config import Pair
from eval.figures import RESULTS, table
from eval.metrics import MISSING, decimal, span
from eval.standalone import FORMAT_REPORT
from format.mixture import Facet
from format.report import SOURCE

TABLE = "rounds.md"


def add_iterate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", type=Path, help=CONFIG_HELP)
    add_overrides(parser)
    parser.set_defaults(command=iterate)


def iterate(options: argparse.Namespace) -> int:
    """Do the config's stages, then the rounds. Each round ends with an evaluation."""
    config = load_config(options.config, options.overrides)
    try:
        check_iterate(config)
    except ConfigError as error:
        if "iterate" in config.model_fields_set:
            raise
        raise ConfigError(
            f"{options.config} has no `iterate` section, such as subagent-iterate has "
            f"(`stepinto init subagent-iterate`); with its defaults: {error}"
        ) from error
    first = [_stage(config, name) for name in config.stages if name != "eval"]
    status = do_stages(config, [*first, partial(measure, played=0)])
    for number in range(1, config.iterate.rounds + 1):
        if status:
            return status
        heading(f"round {number}")
        stages = [_stage(config, name) for name in (*config.iterate.stages, "format", "train")]
        status = do_stages(round_config(config, number), stages) or measure(config, number)
    return status


def check_iterate(config: RunConfig) -> None:
    """Raise ConfigError if the rounds, or one of their stages, would be refused."""
    chosen, measured = config.iterate, config.eval
    model, name = config.model_config_of(chosen.student), chosen.student
    whole = config.train.lora is None or config.train.merge
    if not isinstance(model, LocalConfig | VllmConfig):
        why = f"iterate.student: {name} has backend: {model.backend}, and its weights can't be "
        raise ConfigError(f"{why}replaced by trained ones; name a local or a vllm model")
    if isinstance(model, VllmConfig) and model.model is not None:
        raise ConfigError(
            f"iterate.student: models.{name}.model names an adapter; rounds replace server.model"
        )
    if not whole and (isinstance(model, LocalConfig) or chosen.start_from == "last"):
        raise ConfigError(
            "train.merge=false saves adapters alone, which neither a local model nor "
            "iterate.start_from=last can use; set train.merge=true"
        )
    if isinstance(model, LocalConfig) and model.adapter and chosen.start_from == "last":
        raise ConfigError(
            f"iterate.start_from=last: models.{name}.adapter is no whole model to train on; merge "
            "it into a folder, or start from base"
        )
    relay = config.model_config_of(player_of(config))
    if chosen.relay and not (isinstance(relay, RelayConfig) and relay.student == name):
        raise ConfigError(f"iterate.relay: {chosen.relay} is no relay whose student is {name}")
    if config.train.method != "sft":
        raise ConfigError(f"train.method={config.train.method}: rounds train on rows, by sft alone")
    alone = measured.questions is not None and name in measured.questions.models
    if not alone and name not in {pair.sub for pair in measured.pairs}:
        raise ConfigError(
            f"eval measures {name}, the student of iterate, neither in eval.questions.models nor "
            "as `sub` in eval.pairs; name it in one of them"
        )
    for arm in measured_config(config, chosen.rounds).eval.not_run():
        last = student_name(name, chosen.rounds)
        raise ConfigError(
            f"eval.statistics.comparisons names an arm that is not run: {arm}; the student of the "
            f"last round is {last}"
        )
    asked = questions_path(config.questions, config.folder)
    if "answer" in chosen.stages and "questions" not in config.stages and not asked.is_file():
        raise ConfigError(
            f"iterate.stages: there are no questions to answer in {asked}; add questions to "
            "`stages`, or set questions.output to a file of them"
        )
    stages = {*config.stages, "format", "train", "eval"}
    if chosen.launcher:
        # Only there can it be told whether all GPUs are used.
        stages.remove("train")
    check_sections(config.model_copy(update={"stages": tuple(stages)}))
    if "collect" in chosen.stages:
        config.model_config_of(config.collect.main)
        if not any(SYSTEMS[variant].subagent for variant in config.collect.variants):
            raise ConfigError(
                f"iterate.stages: {name} would be the subagent in rollouts, and none of "
                "collect.variants has one; add debug2fix"
            )


def _stage(config: RunConfig, name: str) -> Stage:
    return train_apart if name == "train" and config.iterate.launcher else STAGES[name]


def train_apart(config: RunConfig) -> int:
    """Train in processes that `iterate.launcher` starts."""
    command = [*config.iterate.launcher, "-m", "stepinto", "train", str(config.folder)]
    import psutil  # of the extra `train`

    with subprocess.Popen(command) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            # A SIGTERM may have reached this process alone, and `accelerate launch` leaves its own.
            ended = process.poll() is not None
            started = [] if ended else psutil.Process(process.pid).children(recursive=True)
            for each in (*started, process):
                with suppress(psutil.NoSuchProcess):
                    each.terminate()
            raise


# The configs of a round, and of the evaluation.


def round_config(config: RunConfig, number: int) -> RunConfig:
    """The config of a round's run."""
    chosen, folder = config.iterate, config.folder
    asked: dict[str, Any] = {"attempts": chosen.attempts}
    if "answer" in chosen.stages:
        questions = str(questions_path(config.questions, folder))
        asked |= {"output": questions, "answer_with": player_of(config)}
        if chosen.answer_limit is not None:
            seed = (config.questions.answer_shuffle_seed or 0) + number
            asked |= {"answer_limit": chosen.answer_limit, "answer_shuffle_seed": seed}
    collect = {"sub": player_of(config), "attempts": chosen.attempts}
    student = retrained(config, chosen.student, number - 1, chosen.temperature)
    changes = {
        "run": f"{ROUND}{number}",
        "runs_folder": folder,
        "models": {**config.models, chosen.student: student},
        "questions": config.questions.model_copy(update=asked),
        "collect": config.collect.model_copy(update=collect),
        "format": config.format.model_copy(update=_rows(config, number)),
        "train": config.train.model_copy(update=_training(config, number)),
    }
    return config.model_copy(update=changes)


def _rows(config: RunConfig, number: int) -> dict[str, Any]:
    """The settings of `format` in a round: from which runs, and how many."""
    chosen, files = config.iterate, config.format.questions
    runs = [_folder(config, each) for each in range(1, number) if chosen.earlier_rounds]
    if chosen.teacher_share != 0:
        teacher = [config.folder] if (config.folder / "rollouts").is_dir() else []
        runs += [*teacher, *config.format.runs]
    asked = questions_path(config.questions, config.folder)
    if asked.is_file():
        files = tuple(dict.fromkeys((*files, str(asked))))
    mixture: dict[str, Any] = {"best": chosen.keep}
    if chosen.teacher_share is not None:
        shares = {Facet.MODEL: {player_of(config): 1 - chosen.teacher_share}}
        mixture["least_shares"] = {**config.format.mixture.least_shares, **shares}
    return {
        "runs": tuple(runs),
        "questions": files,
        "mixture": config.format.mixture.model_copy(update=mixture),
        "push": None,
    }


def _training(config: RunConfig, number: int) -> dict[str, Any]:
    """The settings of `train` in a round: on which model, without copies that no round reads."""
    settings: dict[str, Any] = {"save_untuned": False, "checkpoints_at": ()}
    if config.iterate.start_from == "last":
        last = model_of(config, number - 1)
        # A template is known by the name of the base model, which is a folder now.
        settings |= {"base_model": last, "base_model_sha256": None} | config.train.templates
    return settings


def _folder(config: RunConfig, number: int) -> Path:
    return config.folder / f"{ROUND}{number}"


def player_of(config: RunConfig) -> str:
    """The model that plays in the rounds, by its name."""
    return config.iterate.relay or config.iterate.student


def model_of(config: RunConfig, number: int) -> str:
    """The student that a round has trained, as a folder; of round 0 the config's."""
    if number:
        return str(_folder(config, number) / "model")
    model = config.models[config.iterate.student]
    assert isinstance(model, LocalConfig | VllmConfig), "checked before"
    return model.model if isinstance(model, LocalConfig) else model.server.model


def retrained(
    config: RunConfig, name: str, number: int, temperature: float | None = None
) -> LocalConfig | VllmConfig:
    """The student, or another model on its weights, with the weights that a round has trained."""
    model = config.models[name]
    assert isinstance(model, LocalConfig | VllmConfig), "checked before"
    folder, changes = model_of(config, number), dict[str, Any]()
    if number and isinstance(model, LocalConfig):
        changes = {"model": folder, "adapter": None}
    elif number and isinstance(model, VllmConfig):
        changes = {"server": model.server.model_copy(update={"model": folder})}
    if temperature is not None:
        changes["sampling"] = model.sampling.model_copy(update={"temperature": temperature})
    return model.model_copy(update=changes)


def on_its_weights(config: RunConfig) -> list[str]:
    """The student, and the other models on its weights, such as one with `constrain_calls`."""

    def weights(name: str) -> object:
        match config.models[name]:
            case LocalConfig() as model:
                return model.model, model.adapter
            case VllmConfig(model=None) as model:
                return model.server.model
        return name

    student = config.iterate.student
    return [name for name in config.models if weights(name) == weights(student)]


def measured_config(config: RunConfig, played: int) -> RunConfig:
    """The config whose evaluation has the students of so many rounds beside the first one, and
    what else it measures of the first one's weights."""
    evaluation, models = config.eval, dict(config.models)
    asked = evaluation.questions.models if evaluation.questions is not None else ()
    pairs = evaluation.pairs
    for number in range(1, played + 1):
        for like in on_its_weights(config):
            name = student_name(like, number)
            later = [
                Pair(main=pair.main, sub=name) for pair in evaluation.pairs if pair.sub == like
            ]
            if like in asked or later:
                models[name] = retrained(config, like, number)
            if like in asked:
                asked = tuple(dict.fromkeys((*asked, name)))
            pairs = tuple(dict.fromkeys((*pairs, *later)))
    changes: dict[str, Any] = {"pairs": pairs}
    if evaluation.questions is not None:
        changes["questions"] = evaluation.questions.model_copy(update={"models": asked})
    measured = evaluation.model_copy(update=changes)
    return config.model_copy(update={"models": models, "eval": measured})


def student_name(name: str, number: int) -> str:
    """The name in `RUN/eval` of a model on the weights that a round has trained."""
    return f"{name}-{ROUND}{number}" if number else name


# What came of it.


def measure(config: RunConfig, played: int) -> int:
    """Evaluate the students so far, and write the table of rounds."""
    if played < config.iterate.rounds and _folder(config, played + 1).exists():
        # Done by an earlier start.
        return 0
    status = do_stages(measured_config(config, played), [evaluate])
    if not status:
        text = table(list(round_rows(config, played)))
        write_text(config.folder / TABLE, f"{text}\n")
        console.print(f"{text}\nrounds: {config.folder / TABLE}")
    return status


def round_rows(config: RunConfig, played: int) -> Iterator[list[str]]:
    """The table's header, and a row for the first student and each round's."""
    asked, arms = _evaluated(config.folder)
    alone = {row["model"]: row for row in asked}
    places = list(dict.fromkeys((arm["variant"], arm["main_model"]) for arm in arms))
    is_asked, player = config.iterate.student in alone, player_of(config)
    yield [
        *("Round", f"Attempts of {player}", "Right %", f"Rows of {player}", "Other rows", "Loss"),
        *(("Questions right %", "95 %") if is_asked else ()),
        *(f"{variant}, {main}: resolved %" for variant, main in places),
    ]
    for number in range(played + 1):
        name = student_name(config.iterate.student, number)
        cells = [str(number), *(_made(config, number) if number else [MISSING] * 5)]
        if is_asked:
            facts = alone.get(name, {})
            ends = facts.get("accuracy_low"), facts.get("accuracy_high")
            cells += [decimal(facts.get("accuracy")), span(*ends)]
        rates = {
            (arm["variant"], arm["main_model"]): arm["pass_rate"]
            for arm in arms
            if arm["sub_model"] == name
        }
        yield [*cells, *(decimal(rates.get(place)) for place in places)]


def _evaluated(run: Path) -> tuple[Sequence[dict[str, Any]], Sequence[dict[str, Any]]]:
    """The results of subagents alone, and of arms with a main agent."""
    found = []
    for folder, name in ((run / "eval" / "questions", "models"), (run / "eval", "arms")):
        path = folder / RESULTS
        found.append(json.loads(path.read_text(encoding="utf-8"))[name] if path.is_file() else [])
    return found[0], found[1]


def _made(config: RunConfig, number: int) -> list[str]:
    """A round's attempts, how many percent of them were right, its rows, and the last loss."""
    folder = _folder(config, number)
    right = [row.resolved for row in RunStore(folder).read_rollouts()]
    report = json.loads((folder / FORMAT_REPORT).read_text(encoding="utf-8"))
    sources: Mapping[str, int] = report["splits"]["train"]["sources"]
    place, player = SOURCE.index("model"), player_of(config)
    own = sum(rows for key, rows in sources.items() if key.split("\t")[place] == player)
    rows = sum(sources.values())
    losses = training_of(folder / "model")["loss_curve"]
    share = decimal(100 * sum(right) / len(right))
    loss = decimal(losses[-1]["loss"] if losses else None, "{:.3f}")
    return [str(len(right)), share, str(own), str(rows - own), loss]
