"""A real browser without a screen, and reports for it to open."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

import stepinto
from collect.benchmarks.base import Instance
from tests.collect.questions.conftest import shop, shop_folder
from tests.eval.report.pages import hostile_run
from tests.eval.shop_questions import shop_questions

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["shop", "shop_folder"]

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
QUIET = ("--disable-background-networking", "--disable-component-update", "--no-first-run")


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest, hostile: Path) -> Iterator[Browser]:
    """Chromium; skips where there is none, though not in CI.

    Playwright keeps an event loop running in this thread, in which no rollout can be done: so the
    reports are made before, if a test opens them, and it ends with the module.
    """
    if any("evaluated" in getattr(each, "fixturenames", ()) for each in request.session.items):
        request.getfixturevalue("evaluated")
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        told = f"needs a browser: none of {', '.join(BROWSERS)} is installed; see .ci/install"
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=QUIET)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def evaluated(tmp_path_factory: pytest.TempPathFactory, shop: Instance, shop_folder: Path) -> Path:
    """The report of a real evaluation: two arms on a bug, and two runtime questions."""
    folder = tmp_path_factory.mktemp("evaluated")
    questions = folder / "asked.jsonl"
    questions.write_text(
        "".join(f"{each.model_dump_json()}\n" for each in shop_questions(shop)[:2])
    )
    evaluation = {
        "benchmark": {
            "name": "bundled",
            "instances": ["ledgerbook__quarter_end_gain"],
            "split": "all",
        },
        "variants": ["baseline", "debug2fix_tool_limit"],
        "pairs": [{"main": "oracle", "sub": "oracle"}],
        "statistics": {"resamples": 1000},
        "questions": {
            "models": ["oracle"],
            "path": str(questions),
            "benchmark": {"name": "bundled", "path": str(shop_folder), "split": "all"},
        },
    }
    config = {"run": "small", "runs_folder": str(folder), "eval": evaluation}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    assert stepinto.main(["eval", str(path)]) == 0
    return folder / "small" / "eval" / "report"


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run in which everything that can be printed is hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    hostile_run(folder)
    assert stepinto.main(["view", str(folder)]) == 0
    return folder / "report"
