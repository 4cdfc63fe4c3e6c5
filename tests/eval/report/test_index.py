"""The index: what was run, and what it says of the primary comparison."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from collect.store.run_store import RunStore
from eval.config import StatisticsConfig
from eval.figures import results_of
from eval.metrics import Labels, compare
from eval.paired import paired_report
from eval.report.facts import Selection, choose
from eval.report.index import arm_names, card_view, verdict
from eval.tables import write_tables
from tests.eval.test_metrics import baseline_rollout
from tests.records import make_conversations, make_rollout


def told(folder: Path, resolved: int, **statistics: Any) -> str:
    """The verdict on Debug2Fix, which resolves so many of ten bugs, and a baseline: none."""
    rows = [make_rollout(f"bug-{n}", resolved=n < resolved) for n in range(10)]
    rows += [baseline_rollout(f"bug-{n}", resolved=False) for n in range(10)]
    paired = paired_report(rows, StatisticsConfig(resamples=1000, **statistics), "baseline")
    write_tables(compare(rows), rows, folder, paired=paired)
    results = results_of(folder)
    found = verdict(results, arm_names(results, Labels()))
    assert found is not None
    assert found["established"] == (" does better than " in found["text"])
    return str(found["text"])


def test_a_difference_is_established_by_interval_and_corrected_p(tmp_path: Path) -> None:
    assert told(tmp_path, 10).startswith("Debug2Fix, large → small does better than Baseline")
    assert "+100.0 points on 10 bugs (100.0 % against 0.0 %; 95 % interval" in told(tmp_path, 10)
    # The interval of five of ten leaves out 0, and its p is 0.0625.
    assert "is not established: +50.0 points" in told(tmp_path, 5)
    assert "does better than" in told(tmp_path, 5, confidence=0.9)
    assert "is not established: +0.0 points" in told(tmp_path, 0)


def test_an_evaluation_of_one_arm_has_no_verdict() -> None:
    assert verdict({}, {}) is None
    assert verdict({"comparisons": []}, {}) is None


@pytest.mark.parametrize(
    ("stages", "command"),
    [
        (["collect"], "stepinto collect {config} run=first-again"),
        (["eval"], "stepinto eval {config} run=first-again"),
        (
            ["collect", "eval"],
            "stepinto run {config} run=first-again 'models.small.model={{run}}/model'",
        ),
    ],
)
def test_the_header_says_what_was_run(tmp_path: Path, stages: list[str], command: str) -> None:
    run = tmp_path / "first"
    sources = {stage: run / stage for stage in stages}
    for folder in sources.values():
        store = RunStore.open(folder)
        for number in range(2):
            rollout = make_rollout(
                f"bug-{number}", dollars=0.5, started_at=86_400.0 * number, code_commit="a" * 40
            )
            store.add(rollout, make_conversations(rollout))
        store.close()
    models = {
        "small": {"backend": "local", "model": f"{run}/model"},
        "large": {"backend": "oracle"},
    }
    config = {"run": "first", "runs_folder": str(tmp_path), "models": models}
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    _, totals = choose(sources, Selection())
    card = card_view(run, totals, run / "report")
    facts = card["facts"]
    assert facts["Models"] == ["large: scripted", f"small: local {run}/model"]
    assert len(facts["Bugs"]) == len(stages)
    assert all("2 bugs of " in told and "repository " in told for told in facts["Bugs"])
    assert f"${len(stages)}.00" in facts["Cost"][0]
    assert facts["Date"] == ["1970-01-01 to 1970-01-02"]
    assert all("aaaaaaaaaaaa" in told for told in facts["Code"])
    assert card["config"] == "../config.yaml"
    assert shlex.split(card["command"]) == shlex.split(command.format(config=run / "config.yaml"))
