"""Questions put to the oracle, through real sessions, and to a reader of the source."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from collect.agents.config import AgentsConfig
from collect.agents.debug2fix import instructions_hash, instructions_of
from collect.benchmarks.base import Instance
from collect.config import RuntimeConfig
from collect.errors import ConfigError
from collect.oracle.answering import OracleAnswerer
from collect.oracle.scripted import ExplorationPolicy
from collect.question_records import (
    SOURCE_READER,
    Category,
    ExceptionAsk,
    Question,
    QuestionsConfig,
)
from collect.questions.answering import answer
from collect.questions.building import build
from collect.questions.observations import sets_unnamed_breakpoint
from collect.questions.scoring import score_text
from collect.replay import Finder, ReplayStatus, replay_rollouts
from collect.rollouts.status import read_heartbeat
from collect.store.records import Role
from collect.store.run_store import RunStore
from format.config import FormatConfig
from format.dataset import read_rows, split_file
from format.stage import run_format
from sandbox import SandboxConfig
from sandbox.debugger import State
from tests.collect.questions.asked import root_cause


@pytest.fixture(scope="module")
def oracle_run(shop_config: QuestionsConfig, shop_run: Path) -> Path:
    """The run's folder, with the questions answered."""
    answers = answer(RuntimeConfig(), shop_config, shop_run)
    wrong = [each for each in answers.answered if not each.verdict.correct]
    assert not wrong, wrong
    assert (answers.missing, answers.reasons) == (0, ())
    return shop_run


@pytest.mark.slow
def test_the_rows_are_a_subagents(oracle_run: Path, shop_questions: list[Question]) -> None:
    store = RunStore(oracle_run)
    rollouts = {row.rollout_id: row for row in store.read_rollouts()}
    assert len(rollouts) == len(shop_questions)
    beat = read_heartbeat(oracle_run)
    assert beat is not None
    assert (beat.done, beat.total, beat.ended) == (len(rollouts), len(rollouts), True)
    assert {row.category for row in rollouts.values()} == {c.value for c in Category}
    for row in store.read_conversations():
        assert (row.role, row.parent_conversation_id) == (Role.DEBUG_SUBAGENT, None)
        assert row.variant == rollouts[row.rollout_id].variant == "questions"
        assert rollouts[row.rollout_id].resolved
        assert row.answer is not None
        assert any(event.event.stops_program for event in row.events)


@pytest.mark.slow
def test_answers_show_the_same_when_they_are_replayed(
    oracle_run: Path, shop_config: QuestionsConfig, tmp_path: Path
) -> None:
    run = shutil.copytree(oracle_run, tmp_path / "run")
    finder = Finder([shop_config.benchmark], SandboxConfig(), [run / "questions.jsonl"])
    report = replay_rollouts(RuntimeConfig(), finder, run)
    assert report.counts == {ReplayStatus.VERIFIED: len(list(RunStore(run).read_rollouts()))}
    assert (report.left, report.reasons) == (0, ())
    shutil.rmtree(run / "replay")
    nothing_known = Finder([shop_config.benchmark], SandboxConfig(), [])
    with pytest.raises(ConfigError, match="--questions FILE"):
        replay_rollouts(RuntimeConfig(), nothing_known, run)


@pytest.mark.slow
def test_every_right_answer_is_grounded_in_its_session(oracle_run: Path) -> None:
    config = FormatConfig(test_fraction=0, max_similarity=None, min_inspections=None)
    report = run_format(config, oracle_run)
    dropped = {step.name: step.dropped for step in report.funnel.steps}
    assert (dropped["resolved"], dropped["grounded"]) == (0, 0)
    for row in read_rows(split_file(oracle_run / "sft", "train")):
        assert row["grounding"] in (1.0, None)
        assert (row["fix_touched_location"], row["debug_helped"]) == (None, None)


@pytest.mark.slow
def test_root_causes_are_searched_from_the_failure_back(
    shop_config: QuestionsConfig, tmp_path: Path
) -> None:
    """In several ways, each by what was shown before."""
    limits = {"per_category": 0, "limits": {Category.ROOT_CAUSE: 1}, "attempts": 5}
    config = shop_config.model_copy(update=limits)
    build(RuntimeConfig(), config, tmp_path)
    answers = answer(RuntimeConfig(), config, tmp_path)
    assert all(each.verdict.correct for each in answers.answered)
    sessions = list(RunStore(tmp_path).read_conversations())
    assert len(sessions) == 5
    for session in sessions:
        assert not sets_unnamed_breakpoint(session)
        stops = [row.event for row in session.events if row.event.stops_program]
        failed = [event.state is State.POST_MORTEM for event in stops].index(True)
        assert {event.file for event in stops[:failed]} <= {"tests/test_shop.py"}
        assert "shop.py" in {event.file for event in stops[failed + 1 :]}
    assert len({tuple(names) for names in _calls(tmp_path).values()}) > 1


@pytest.mark.slow
def test_direct_sessions_go_the_shortest_way(
    oracle_run: Path, shop_config: QuestionsConfig, tmp_path: Path
) -> None:
    config = shop_config.model_copy(update={"output": str(oracle_run / "questions.jsonl")})
    direct = RuntimeConfig.model_validate(
        {"models": {"oracle": {"backend": "oracle", "sessions": "direct"}}}
    )
    answers = answer(direct, config, tmp_path)
    assert all(each.verdict.correct for each in answers.answered)
    in_functions = {
        each.rollout and each.rollout.rollout_id
        for each in answers.answered
        if isinstance(each.question.ask, ExceptionAsk) and each.question.ask.function
    }
    varied, shortest = _calls(oracle_run), _calls(tmp_path)
    assert varied.keys() == shortest.keys()
    for question, names in shortest.items():
        # A session that was opened at the question's line needs no other start.
        assert names.count("debug_start_session") <= 1
        assert "read_file" not in names
        # To an exception in a function it goes past those that are raised before.
        assert len(names) <= len(varied[question]) or question in in_functions
    assert sum(map(len, shortest.values())) < sum(map(len, varied.values()))
    for row in RunStore(tmp_path).read_conversations():
        calls = [call for each in row.messages for call in each.message.tool_calls]
        assert not any('"test":' in call.arguments for call in calls)
        assert row.answer is not None
        for note in row.answer.evidence.split("; "):
            assert len(note) < 60 or note.rpartition(" = ")[2] not in row.answer.answer


def test_compact_sessions_have_no_files_and_answers_without_the_question(
    shop_config: QuestionsConfig, shop_run: Path, tmp_path: Path
) -> None:
    agents = AgentsConfig(subagent_form="compact", sub_file_tools=False)
    path = str(shop_run / "questions.jsonl")
    update = {"output": path, "answer_limit": 7}
    answers = answer(RuntimeConfig(agents=agents), shop_config.model_copy(update=update), tmp_path)
    assert [each.verdict.correct for each in answers.answered] == [True] * 7
    assert {each.question.category for each in answers.answered} > {Category.ROOT_CAUSE}
    for row in RunStore(tmp_path).read_conversations():
        assert "debug_run_code" not in row.tools
        assert not {"read_file", "grep", "list_files"} & set(_calls(tmp_path)[row.rollout_id])
        last = row.messages[-1].message.content
        assert last.startswith("<debug_answer>\n**Answer**: ")
        assert row.answer is not None
        assert (row.answer.question, row.answer.answer in last) == ("", True)
        opening = instructions_hash(row.messages[0].message.content, json.loads(row.tools))
        assert opening == instructions_of(agents)["python"]


def _calls(run: Path) -> dict[str, list[str]]:
    """The tools that each question's session called, in order."""
    return {
        row.rollout_id: [call.name for at in row.messages for call in at.message.tool_calls]
        for row in RunStore(run).read_conversations()
    }


@pytest.mark.slow
def test_what_is_answered_is_not_asked_again(
    oracle_run: Path, shop_config: QuestionsConfig
) -> None:
    before = {row.rollout_id: row.started_at for row in RunStore(oracle_run).read_rollouts()}
    assert answer(RuntimeConfig(), shop_config, oracle_run).missing == 0
    assert before == {r.rollout_id: r.started_at for r in RunStore(oracle_run).read_rollouts()}
    with pytest.raises(ConfigError, match="seed"):
        answer(RuntimeConfig(seed=1), shop_config, oracle_run)


def test_the_source_alone_says_little(
    shop_run: Path, shop_config: QuestionsConfig, tmp_path: Path
) -> None:
    path = str(shop_run / "questions.jsonl")
    config = shop_config.model_copy(update={"output": path, "answer_with": SOURCE_READER})
    answers = answer(RuntimeConfig(), config, tmp_path)
    right = [each for each in answers.answered if each.verdict.correct]
    assert len(right) <= 2
    assert answers.conversations is None


def test_the_oracle_is_not_given_the_answer(shop: Instance, shop_questions: list[Question]) -> None:
    """What a session that never stops shows is no answer."""
    for question in shop_questions:
        script = OracleAnswerer(shop, question.ask, ExplorationPolicy(random.Random(0)))
        said = script.last_word()
        assert not score_text(question, said).correct
    assert (
        "net"
        not in OracleAnswerer(
            shop, root_cause().ask, ExplorationPolicy(random.Random(0))
        ).last_word()
    )


@pytest.mark.slow
def test_several_attempts_of_one_question(
    shop: Instance, shop_config: QuestionsConfig, shop_run: Path, tmp_path: Path
) -> None:
    path = str(shop_run / "questions.jsonl")
    changes = {"output": path, "answer_limit": 1, "attempts": 2}
    config = shop_config.model_copy(update={**changes, "answer_with": ("oracle", SOURCE_READER)})
    assert config.answerers == ("oracle", SOURCE_READER)
    answers = answer(RuntimeConfig(), config.answered_by("oracle"), tmp_path)
    assert (len(answers.answered), answers.missing) == (2, 0)
    rows = list(RunStore(tmp_path).read_rollouts())
    assert sorted(row.attempt for row in rows) == [0, 1]
    more = config.answered_by("oracle").model_copy(update={"attempts": 3})
    assert len(answer(RuntimeConfig(), more, tmp_path).answered) == 3
    kept = {row.rollout_id: row.started_at for row in RunStore(tmp_path).read_rollouts()}
    assert all(kept[row.rollout_id] == row.started_at for row in rows)


def test_a_draw_of_the_questions(
    shop_config: QuestionsConfig, shop_questions: list[Question], shop_run: Path, tmp_path: Path
) -> None:
    changes = {"output": str(shop_run / "questions.jsonl"), "answer_with": SOURCE_READER}
    drawn = {**changes, "answer_limit": 3, "answer_shuffle_seed": 0}

    def asked(**more: object) -> list[str]:
        config = shop_config.model_copy(update={**drawn, **more})
        return [each.question.id for each in answer(RuntimeConfig(), config, tmp_path).answered]

    everything = asked(answer_limit=None)
    assert sorted(everything) == sorted(question.id for question in shop_questions)
    assert asked() == everything[:3]
    assert asked(answer_shuffle_seed=None) == [question.id for question in shop_questions[:3]]
    assert len({tuple(asked(answer_shuffle_seed=seed)) for seed in range(4)}) > 1
