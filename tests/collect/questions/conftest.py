"""Questions about the small bug of `tests.shop_bug`."""

from __future__ import annotations

from pathlib import Path

import pytest

from collect.benchmarks.base import Instance
from collect.benchmarks.bundled import BundledBenchmark
from collect.config import RuntimeConfig
from collect.question_records import Question, QuestionsConfig, read_questions
from collect.questions.building import build
from tests.shop_bug import write_shop


@pytest.fixture(scope="session")
def shop_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the bundled benchmark's shape."""
    return write_shop(tmp_path_factory.mktemp("shop"))


@pytest.fixture(scope="session")
def shop(shop_folder: Path) -> Instance:
    """The bug."""
    return BundledBenchmark(shop_folder).instances()[0]


@pytest.fixture(scope="session")
def shop_config(shop_folder: Path) -> QuestionsConfig:
    """At most one question of each category."""
    return QuestionsConfig.model_validate(
        {"benchmark": {"name": "bundled", "path": str(shop_folder)}, "per_category": 1}
    )


@pytest.fixture(scope="session")
def shop_run(shop_config: QuestionsConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run's folder, with the questions made."""
    run = tmp_path_factory.mktemp("run")
    assert build(RuntimeConfig(), shop_config, run) is not None
    return run


@pytest.fixture(scope="session")
def shop_questions(shop_run: Path) -> list[Question]:
    return read_questions(shop_run / "questions.jsonl")
