"""Questions made of real runs: their answers, their funnel, and a run that goes on."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from collect.benchmarks.base import Instance
from collect.benchmarks.bundled import BundledBenchmark
from collect.config import RuntimeConfig
from collect.errors import ConfigError, RolloutStopped
from collect.question_records import (
    AssertionTruth,
    Card,
    Category,
    Drop,
    ExceptionTruth,
    PostFixTruth,
    Question,
    QuestionsConfig,
    ReachTruth,
    RootCauseTruth,
    ValueTruth,
    read_questions,
)
from collect.questions.answering import instances_of
from collect.questions.building import Chooser, Investigator, build
from collect.questions.program import Program
from collect.questions.tracing import Runs, Trace, root_cause_finding, trace_test
from collect.store.files import card_path
from sandbox import SandboxConfig, open_sandbox
from sandbox.debugger import DebugLimits, open_debugger


@pytest.fixture(scope="module")
def trace(shop: Instance) -> Trace:
    """Of its failing test."""
    with open_sandbox(SandboxConfig()) as sandbox:
        sandbox.write_files(shop.files)
        debugger = open_debugger("python", sandbox, DebugLimits())
        try:
            program = Program(shop, shop.files)
            return trace_test(debugger, program, "tests/test_shop.py::test_total", 60)
        finally:
            debugger.close()


def test_a_trace_sees_every_statement_and_the_end(trace: Trace) -> None:
    assert trace.failed
    assert trace.hits["shop.py", 17] == 2
    assert trace.hits["shop.py", 19] == 0
    nets = [stop.locals["net"].text for stop in trace.stops if stop.statement.place.line == 17]
    assert nets == ["0", "13"]
    origin, raised = trace.raises[0]
    assert isinstance(raised.truth, ExceptionTruth)
    assert (raised.truth.type, raised.truth.origin) == ("ValueError", origin)
    assert trace.assertion is not None
    assert isinstance(trace.assertion.truth, AssertionTruth)
    assert trace.assertion.truth.expected is not None
    assert trace.assertion.truth.actual.text == "26"


def test_every_category_has_its_question(shop_questions: list[Question]) -> None:
    assert [question.category for question in shop_questions] == list(Category)


def test_the_true_answers(shop_questions: list[Question]) -> None:
    for question in shop_questions:
        match question.truth:
            case ExceptionTruth(type=kind, origin=origin):
                assert (kind, origin.line) in {("ValueError", 29), ("KeyError", 35)}
            case AssertionTruth(actual=actual, expected=expected):
                assert expected is not None
                assert actual.text != expected.text
            case RootCauseTruth(places=places):
                assert [str(place) for place in places] == ["shop.py:20"]
            case PostFixTruth(passes=passes):
                assert passes is (question.patch == traced_gold(shop_questions))
            case ValueTruth() | ReachTruth():
                assert question.evidence[0].place.startswith("shop.py:")


def traced_gold(questions: list[Question]) -> str:
    """The patch that fixes the bug."""
    return next(q.patch for q in questions if "+        return net + self.rate" in q.patch)


def test_evidence_is_what_two_runs_agree_on(trace: Trace) -> None:
    stops = [stop for stop in trace.stops if "amount" in stop.statement.used]
    truth = RootCauseTruth(places=(stops[0].statement.place,))

    def run(text: str) -> Trace:
        values = {name: replace(value, text=text) for name, value in stops[0].locals.items()}
        return Trace(stops=[replace(stops[0], locals=values), *stops[1:]])

    def seen(one: str, other: str) -> str:
        finding = root_cause_finding(truth, run(one), run(other))
        assert finding is not None
        return finding.seen[0].seen

    assert seen("13", "13") == "net = 13; amount = 13"
    assert seen("13", "14") == ""
    assert seen("<Net at 0x1f>", "<Net at 0x2e>") == "net = <Net>; amount = <Net>"


def test_a_function_in_which_runs_differ_is_unsteady(shop: Instance, trace: Trace) -> None:
    """Also where they agree on other values: that may be chance."""
    program = Program(shop, shop.files)
    assert Runs("test", program, trace, trace).unsteady == frozenset()
    stop = next(stop for stop in trace.stops if "amount" in stop.statement.used)

    def other(text: str) -> Trace:
        values = {name: replace(value, text=text) for name, value in stop.locals.items()}
        return Trace(stops=[replace(s, locals=values) if s is stop else s for s in trace.stops])

    function = stop.statement.place.file, stop.statement.place.function
    assert Runs("test", program, other("1"), other("2")).unsteady == {function}
    assert Runs("test", program, other("<A at 0x1>"), other("<A at 0x2>")).unsteady == frozenset()
    shorter = Trace(stops=[each for each in trace.stops if each is not stop])
    assert Runs("test", program, trace, shorter).unsteady == {function}
    assert Runs("test", program, shorter, trace).unsteady == {function}


def test_the_card_counts_all(shop_run: Path, shop_questions: list[Question]) -> None:
    card = Card.model_validate_json(card_path(shop_run / "questions.jsonl").read_text())
    assert card.questions == len(shop_questions)
    for counts in card.categories.values():
        assert counts.asked == counts.questions + sum(counts.dropped.values())
    assert card.categories[Category.LOCAL].dropped[Drop.ON_SOURCE] > 0
    assert not (shop_run / "questions.work.jsonl").exists()


def test_finished_questions_stay(
    shop_config: QuestionsConfig, shop_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made_again(self: Investigator, *_: object) -> Chooser:
        raise AssertionError

    monkeypatch.setattr(Investigator, "chooser", made_again)
    run = shutil.copytree(shop_run, tmp_path / "run")
    card = build(RuntimeConfig(), shop_config, run)
    assert card is not None
    assert card.questions == len(read_questions(run / "questions.jsonl"))
    with pytest.raises(AssertionError):
        build(RuntimeConfig(), shop_config.model_copy(update={"seed": 1}), run)


def test_a_stopped_run_can_go_on(
    shop_config: QuestionsConfig, shop_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was killed leaves its work file, which is only for the same settings; there may
    be more bugs, or fewer."""

    def killed(self: Investigator, *_: object) -> Chooser:
        raise KeyboardInterrupt

    monkeypatch.setattr(Investigator, "chooser", killed)
    with pytest.raises(KeyboardInterrupt):
        build(RuntimeConfig(), shop_config, tmp_path)
    assert (tmp_path / "questions.work.jsonl").is_file()
    fewer = shop_config.benchmark.model_copy(update={"limit": 1, "shuffle_seed": 1})
    with pytest.raises(KeyboardInterrupt):
        build(RuntimeConfig(), shop_config.model_copy(update={"benchmark": fewer}), tmp_path)
    other = shop_config.model_copy(update={"seed": 1})
    with pytest.raises(ConfigError, match="another questions or sandbox section"):
        build(RuntimeConfig(), other, tmp_path)


def test_a_bug_under_way_ends_when_the_run_is_stopped(
    shop_folder: Path, shop: Instance, shop_config: QuestionsConfig
) -> None:
    stop = threading.Event()
    stop.set()
    benchmark = BundledBenchmark(shop_folder)
    with pytest.raises(RolloutStopped):
        Investigator(benchmark, SandboxConfig(), shop_config, shop, stop).outcome()


def test_questions_of_another_bug_are_refused(
    shop_folder: Path, shop_questions: list[Question]
) -> None:
    benchmark = BundledBenchmark(shop_folder)
    assert set(instances_of(benchmark, shop_questions)) == {"shop__rate"}
    stale = shop_questions[0].model_copy(update={"instance_hash": "f" * 16})
    with pytest.raises(ConfigError, match="another version of shop__rate"):
        instances_of(benchmark, [stale])
    with pytest.raises(ConfigError, match="not among the bugs"):
        instances_of(BundledBenchmark(), shop_questions)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text('{"id": 3}\n')
    with pytest.raises(ConfigError, match="line 1: "):
        read_questions(path)
    with pytest.raises(ConfigError, match="stepinto bench questions"):
        read_questions(tmp_path / "none.jsonl")
