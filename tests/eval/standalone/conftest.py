"""The small bug that the tests of runtime questions ask about."""

from __future__ import annotations

from pathlib import Path

import pytest

from collect.benchmarks.base import Instance
from tests.collect.questions.conftest import shop, shop_config, shop_folder
from tests.eval.shop_questions import shop_questions

__all__ = ["shop", "shop_config", "shop_folder"]


@pytest.fixture(scope="session")
def questions_file(tmp_path_factory: pytest.TempPathFactory, shop: Instance) -> Path:
    path = tmp_path_factory.mktemp("asked") / "questions.jsonl"
    path.write_text("".join(f"{each.model_dump_json()}\n" for each in shop_questions(shop)))
    return path
