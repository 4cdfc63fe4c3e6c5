"""The category and the difficulty of what was asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from collect.errors import ConfigError
from collect.question_records import Category, Difficulty, Question, RootCauseAsk, RootCauseTruth
from collect.question_records import Location as Place
from collect.questions.asking import VARIANT, question_rollout_id
from collect.questions.building import DEFAULT_NAME
from format.candidates import DifficultyLevel, level_of
from format.config import FormatConfig
from format.dataset import read_rows, split_file
from format.stage import run_format
from tests.format.conversations import make_rollouts, write_run

ASKED = Question(
    id="q1",
    benchmark="bundled",
    instance_id="ledger-1",
    instance_hash="0123456789abcdef",
    repository="ledger",
    language="python",
    category=Category.ROOT_CAUSE,
    question="Where?",
    test="tests/test_cache.py::test",
    ask=RootCauseAsk(),
    truth=RootCauseTruth(places=(Place(file="a.py", line=1, last_line=1),)),
    evidence=(),
    difficulty=Difficulty(hit=3, depth=5),
)


@pytest.mark.parametrize(
    ("hit", "depth", "level"),
    [(1, 0, "easy"), (1, 3, "easy"), (2, 1, "medium"), (1, 4, "medium"), (4, 9, "hard")],
)
def test_visit_and_depth_make_it_hard(hit: int, depth: int, level: str) -> None:
    assert level_of(Difficulty(hit=hit, depth=depth)) is DifficultyLevel(level)


def answered(tmp_path: Path) -> Path:
    """A run in which a question is answered, and one on a bug."""
    own = question_rollout_id(ASKED.id, ASKED.instance_hash, "small", 0)
    facts = {"variant": VARIANT, "category": "root_cause", "main_model": ""}
    asked = make_rollouts(1, **facts, rollout_id=own)
    return write_run(tmp_path / "run", [*asked, *make_rollouts(2)[1:]])


def levels(run: Path) -> dict[str, tuple[str, str | None]]:
    rows = read_rows(split_file(run / "sft", "train"))
    return {row["repository"]: (row["category"], row["difficulty"]) for row in rows}


@pytest.mark.parametrize("named", [False, True])
def test_rows_tell_it_where_the_questions_are_known(tmp_path: Path, named: bool) -> None:
    run = answered(tmp_path)
    file = tmp_path / "asked.jsonl" if named else run / DEFAULT_NAME
    file.write_text(f"{ASKED.model_dump_json()}\n\n")
    config = FormatConfig(test_fraction=0, questions=(str(file),) if named else ())
    report = run_format(config, run)
    assert levels(run) == {"ledger": ("root_cause", "hard"), "textflow": ("state", None)}
    assert report.splits["train"].labels["difficulty"] == {"hard": 1, "null": 1}


def test_without_the_questions_it_is_not_known(tmp_path: Path) -> None:
    run = answered(tmp_path)
    run_format(FormatConfig(test_fraction=0), run)
    assert levels(run)["ledger"] == ("root_cause", None)
    with pytest.raises(ConfigError, match=r"no such file; name the files in format\.questions"):
        run_format(FormatConfig(questions=(str(tmp_path / "none.jsonl"),)), run)
