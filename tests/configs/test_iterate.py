"""`stepinto iterate`: its rounds' configs, and an iteration that is killed in each stage."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collect.errors import ConfigError
from collect.store.run_store import RunStore
from configs.command_line.iterate import check_iterate, measured_config, round_config, round_rows
from configs.command_line.shared import STOPPED
from configs.loading import RunConfig, load_config
from format.dataset import read_rows, split_file
from stepinto import main
from tests.tiny_model import build_tiny_model

QUICKSTART = Path(__file__).resolve().parents[2] / "configs" / "quickstart.yaml"
BUG = "{name: bundled, instances: [shopcart__negative-base]}"
ASKED = "per_category: 0, limits: {code_reachability: 1, local_variable: 1}"
ARM = "{variant: debug2fix_tool_limit, main: oracle, sub: %s}"
COMPARED = [
    f"eval.statistics.comparisons=[{{first: {ARM % 'small-round-2'}, second: {ARM % 'small'}}}]"
]


def config(tmp_path: Path, *overrides: str) -> RunConfig:
    """Two rounds with the quickstart's student, from questions that a stage before makes."""
    stages = "stages=[questions, answer, format, train]"
    shown = [f"runs_folder={tmp_path}", "run=it", stages, "iterate.rounds=2"]
    return load_config(QUICKSTART, [*shown, *overrides])


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["iterate.student=none"], "there is no model 'none'"),
        (["iterate.student=oracle"], "oracle has backend: oracle"),
        (["train.method=grpo"], "train.method=grpo: rounds train on rows"),
        (["train.method=dpo"], "train.method=dpo: rounds train on rows"),
        (["eval.pairs=[{main: oracle, sub: oracle}]"], "eval measures small"),
        (["stages=[collect, format, train]"], "there are no questions to answer"),
        (["train.merge=false"], "saves adapters alone"),
        (["models.small.adapter=a", "iterate.start_from=last"], "is no whole model"),
        (["train.trainer_arguments={warmup_step: 3}"], "did you mean 'warmup_steps"),
        ([*COMPARED, "iterate.rounds=1"], "small-round-2.*the last round is small-round-1"),
        (["iterate.relay=oracle"], "oracle is no relay whose student is small"),
        (["iterate.stages=[collect]", "collect.main=none"], "there is no model 'none'"),
        (["iterate.stages=[collect]", "collect.variants=[baseline]"], "none of collect.variants"),
        (
            [
                "models.small={backend: vllm, server: {model: m, adapters: {a: b}}, model: a}",
                "train.merge=false",
            ],
            "names an adapter",
        ),
    ],
)
def test_bad_settings_are_refused_before_work_starts(
    overrides: list[str], told: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=told):
        check_iterate(config(tmp_path, *overrides))


def test_a_refused_iteration_has_done_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [f"runs_folder={tmp_path}", "iterate.student=oracle"]
    assert main(["iterate", str(QUICKSTART), *asked]) == 2
    assert "name a local or a vllm model" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_round_is_a_run_inside_the_run(tmp_path: Path) -> None:
    whole = config(tmp_path, "iterate={rounds: 2, attempts: 5, keep: 2, teacher_share: 0.25}")
    check_iterate(whole)
    (whole.folder / "rollouts").mkdir(parents=True)
    second = round_config(whole, 2)
    assert second.folder == whole.folder / "round-2"
    small: Any = second.models["small"]
    assert (small.model, small.sampling.temperature) == (str(whole.folder / "round-1/model"), 0.8)
    assert second.questions.answerers == ("small",)
    assert second.questions.output == str(whole.folder / "questions.jsonl")
    assert second.questions.attempts == second.collect.attempts == 5
    assert second.format.runs == (whole.folder,)
    assert second.format.mixture.best == 2
    assert second.format.mixture.least_shares == {"model": {"small": 0.75}}
    assert second.train == whole.train
    first: Any = round_config(whole, 1).models["small"]
    assert first.model == str(whole.folder / "model")


def test_a_round_may_go_on_with_the_last_model_and_all_rows(tmp_path: Path) -> None:
    whole = config(
        tmp_path, "iterate={start_from: last, earlier_rounds: true, teacher_share: null}"
    )
    third = round_config(whole, 3)
    assert third.train.base_model == str(whole.folder / "round-2" / "model")
    assert third.train.templates == whole.train.templates
    assert third.format.runs == tuple(whole.folder / f"round-{each}" for each in (1, 2))
    assert not third.format.mixture.least_shares


def test_a_served_student(tmp_path: Path) -> None:
    served = "models.small={backend: vllm, server: {model: Qwen/Qwen2.5-Coder-7B-Instruct}}"
    whole = config(tmp_path, served)
    check_iterate(whole)
    first, second = (round_config(whole, each).models["small"] for each in (1, 2))
    assert getattr(first, "folders", None) == ("Qwen/Qwen2.5-Coder-7B-Instruct",)
    assert getattr(second, "folders", None) == (str(whole.folder / "round-1" / "model"),)


def test_all_students_are_measured_in_one_evaluation(tmp_path: Path) -> None:
    whole = config(tmp_path, "eval.questions={models: [oracle, small]}")
    measured = measured_config(whole, 2)
    assert measured.eval.questions is not None
    assert measured.eval.questions.models == ("oracle", "small", "small-round-1", "small-round-2")
    assert [pair.sub for pair in measured.eval.pairs][1:] == [
        *("small", "small-round-1", "small-round-2")
    ]
    last: Any = measured.models["small-round-2"]
    assert (last.model, last.sampling.temperature) == (str(whole.folder / "round-2/model"), 0)
    assert measured_config(measured, 2) == measured, "a run folder stands for its config"


def test_what_shares_the_students_weights_is_measured_after_each_round_too(tmp_path: Path) -> None:
    local = "{backend: local, model: '%s', constrain_calls: true}"
    whole = config(
        tmp_path,
        f"models.strict={local % '{run}/model'}",
        f"models.other={local % 'elsewhere'}",
        f"models.unasked={local % '{run}/model'}",
        "eval.questions={models: [strict, other, small]}",
    )
    measured = measured_config(whole, 1)
    assert measured.eval.questions is not None
    assert set(measured.eval.questions.models) == {
        *("strict", "other", "small", "strict-round-1", "small-round-1")
    }
    strict: Any = measured.models["strict-round-1"]
    assert (strict.model, strict.constrain_calls) == (str(whole.folder / "round-1/model"), True)
    assert "unasked-round-1" not in measured.models
    assert measured_config(measured, 1) == measured


def test_a_round_draws_questions_of_its_own(tmp_path: Path) -> None:
    whole = config(tmp_path, "iterate.answer_limit=5", "questions.answer_shuffle_seed=3")
    asked = [round_config(whole, number).questions for number in (1, 2)]
    assert [(each.answer_limit, each.answer_shuffle_seed) for each in asked] == [(5, 4), (5, 5)]
    unlimited = round_config(config(tmp_path, "questions.answer_limit=7"), 1).questions
    assert (unlimited.answer_limit, unlimited.answer_shuffle_seed) == (7, None)


def test_students_of_later_rounds_can_be_compared(tmp_path: Path) -> None:
    whole = config(tmp_path, *COMPARED)
    check_iterate(whole)
    assert [each.sub for each in measured_config(whole, 1).eval.not_run()] == ["small-round-2"]
    assert measured_config(whole, 2).eval.not_run() == []
    with pytest.raises(ConfigError, match=r"names an arm that is not run.*smal-round-2"):
        config(tmp_path, COMPARED[0].replace("small-", "smal-"))


def test_a_relay_may_play_in_the_rounds(tmp_path: Path) -> None:
    """With the last round's student."""
    relay = "models.relay={backend: relay, student: small, teacher: oracle}"
    whole = config(tmp_path, relay, "iterate.relay=relay")
    check_iterate(whole)
    second = round_config(whole, 2)
    assert (second.questions.answerers, second.collect.sub) == (("relay",), "relay")
    assert second.format.mixture.least_shares == {"model": {"relay": 0.5}}
    small: Any = second.models["small"]
    assert small.model == str(whole.folder / "round-1" / "model")


def test_the_table_of_students_that_are_not_asked_alone(tmp_path: Path) -> None:
    pairs = "eval.pairs=[{main: oracle, sub: small}]"
    whole = config(tmp_path, "eval.questions={models: [oracle]}", pairs)
    check_iterate(whole)
    arm = {"variant": "debug2fix", "main_model": "oracle", "sub_model": "small", "pass_rate": 50.0}
    for place, results in (
        ("eval/questions", {"models": [{"model": "oracle", "accuracy": 90.0}]}),
        ("eval", {"arms": [arm]}),
    ):
        folder = whole.folder / place
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "results.json").write_text(json.dumps(results))
    head, row = round_rows(whole, 0)
    assert (head[-1], row[-1]) == ("debug2fix, oracle: resolved %", "50.0")
    assert len(head) == len(row) == 7


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_it_goes_on_after_a_kill_in_each_stage(tmp_path: Path) -> None:
    base = build_tiny_model(tmp_path / "tiny", context=16_384)
    unfiltered = "min_stops: null, min_inspections: null, max_invalid_tool_calls: null"
    unfiltered += ", require_session: false, require_answer: false, only_resolved: false"
    sampling = "sampling: {temperature: 0, max_tokens: 8}"
    overrides = [
        f"runs_folder={tmp_path}",
        *("run=it", "runner.concurrency=1", "agents.sub_max_steps=1"),
        "stages=[questions, answer, format, train]",
        f"questions={{benchmark: {BUG}, {ASKED}}}",
        f"models.small={{backend: local, model: '{{run}}/model', max_context: 16384, {sampling}}}",
        f"format={{test_fraction: 0, min_grounding: null, {unfiltered}}}",
        f"train={{base_model: '{base}', max_length: 16384, gradient_accumulation: 1, lora: {{}}}}",
        "train.checkpoint_every=1",
        f"eval={{questions: {{models: [small], benchmark: {BUG}, {ASKED}}}}}",
        "eval.statistics={resamples: 1000}",
        "iterate={rounds: 2, attempts: 2, start_from: last, earlier_rounds: true}",
        f"iterate.launcher=['{sys.executable}']",
    ]
    command = [sys.executable, "-m", "stepinto", "iterate", str(QUICKSTART), *overrides]
    run, first = tmp_path / "it", tmp_path / "it" / "round-1"
    moments: dict[str, Callable[[], bool]] = {
        "answering": lambda: any((first / "rollouts").glob("part-*")),
        "training": lambda: any((first / "train").rglob("checkpoint-*")),
        "evaluating": (first / "model").is_dir,
        "the second round": lambda: any((run / "round-2" / "rollouts").glob("part-*")),
    }
    seen: dict[str, dict[str, object]] = {}
    for moment in moments.values():
        kill_at(moment, command)
        for folder in (run, first, run / "round-2"):
            now = {row.rollout_id: row for row in RunStore(folder).read_rollouts()}
            assert seen.get(str(folder), {}).items() <= now.items(), "no row is done twice"
            seen[str(folder)] = {**now}
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(list(RunStore(first).read_rollouts())) == 4
    rows = list(read_rows(split_file(run / "round-2" / "sft", "train")))
    runs = {row["run"] for row in rows}
    assert {"it"} < runs <= {"it", "round-1", "round-2"}, "the student's best are of either round"
    own = [row for row in rows if row["model"] == "small"]
    assert len(own) == 2, "the best of each of two questions"
    assert len(rows) - len(own) <= len(own)
    lines = (run / "rounds.md").read_text().splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["0", "1", "2"]
    models = {path: path.stat().st_mtime_ns for path in run.glob("**/model/*")}
    assert main(["iterate", str(run)]) == 0, "all is done"
    assert {path: path.stat().st_mtime_ns for path in run.glob("**/model/*")} == models


LAUNCHER = """
import signal, subprocess, sys, time

def end(*_):
    print("ended", flush=True)
    sys.exit(143)

if sys.argv[1:] != ["training"]:
    subprocess.run([sys.executable, __file__, "training"])
else:
    signal.signal(signal.SIGTERM, end)
    print("on", flush=True)
    time.sleep(60)
"""
APART = """
import stepinto, sys
from pathlib import Path
from configs.command_line.iterate import train_apart
from configs.loading import load_config

def train(_):
    return train_apart(load_config(Path(sys.argv[1]), sys.argv[2:]))

stepinto._run_command = train
sys.exit(stepinto.main())
"""


def test_sigterm_reaches_what_the_launcher_has_started(tmp_path: Path) -> None:
    launcher = tmp_path / "launcher.py"
    launcher.write_text(LAUNCHER)
    command = [sys.executable, "-c", APART, str(QUICKSTART)]
    command += [f"iterate={{student: small, launcher: ['{sys.executable}', '{launcher}']}}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "on\n"
        process.terminate()
        assert process.stdout.read() == "ended\n"
    assert process.returncode == STOPPED


def test_no_module_of_the_current_folder_is_trained_by(tmp_path: Path) -> None:
    here, canary = tmp_path / "here", tmp_path / "canary"
    here.mkdir()
    for name in ("stepinto", "multiprocessing"):
        (here / f"{name}.py").write_text(f"open({str(canary)!r}, 'w')\n")
    # Its workers are started as a trainer starts them, with `-c`.
    launcher = tmp_path / "launcher.py"
    launcher.write_text(
        "import multiprocessing, os, subprocess, sys\n"
        "if __name__ == '__main__':\n"
        "    work = multiprocessing.get_context('spawn').Process(target=os.getpid)\n"
        "    work.start()\n"
        "    work.join()\n"
        "    sys.exit(work.exitcode or subprocess.call([sys.executable, *sys.argv[1:]]))\n"
    )
    command = [sys.executable, "-P", "-c", APART, str(QUICKSTART), f"runs_folder={tmp_path}"]
    command += [f"iterate={{student: small, launcher: ['{sys.executable}', '{launcher}']}}"]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    assert not canary.exists()
    assert "there is no config" in done.stderr, "our own command was run"


def kill_at(moment: Callable[[], bool], command: list[str]) -> None:
    """Start a command, and kill it and what it has started once the moment has come."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    while not moment():
        assert process.poll() is None, process.communicate()[0].decode()
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
