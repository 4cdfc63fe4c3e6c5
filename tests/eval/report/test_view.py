"""`stepinto view`: any run's folder, what it shows of it, and what it refuses."""

from __future__ import annotations

import csv
import re
import webbrowser
from pathlib import Path

import pytest
import yaml

import stepinto
from collect.benchmarks.base import Instance
from collect.questions.asking import VARIANT, question_rollout_id
from collect.store.run_store import RunStore
from tests.eval.report.reading import broken_links, read
from tests.eval.shop_questions import shop_questions
from tests.records import make_conversations, make_rollout


def view(*arguments: str | Path | int) -> int:
    return stepinto.main(["view", *map(str, arguments)])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that collected and was evaluated, both on two bugs."""
    for folder in (tmp_path / "run", tmp_path / "run" / "eval"):
        store = RunStore.open(folder)
        for number in range(2):
            rollout = make_rollout(f"bug-{number}", resolved=number == 0)
            store.add(rollout, make_conversations(rollout))
        store.close()
    (tmp_path / "run" / "eval" / "tables.md").write_text("# Evaluation\n\n| a |\n|---|\n| <b> |\n")
    return tmp_path / "run"


def test_a_run_with_all_its_stages(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(webbrowser, "open", shown.append)
    assert view(run, "--open") == 0
    assert "8 conversations" in capsys.readouterr().out
    index = run / "report" / "index.html"
    assert shown == [index.resolve().as_uri()]
    page = read(index)
    assert "In place" in page.text
    assert "<b>" in page.words
    assert "4 rollouts" in page.text
    assert {found["data-stage"] for _, found in page.tags if "data-stage" in found} == {
        "collect",
        "eval",
    }
    assert broken_links(run / "report") == []


def test_part_of_a_run(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "elsewhere"
    chosen = ["--outcome", "not_resolved", "--bug", "bug-*", "--limit", "1"]
    assert view(run, "--output", output, *chosen) == 0
    assert "the first 1 of 2 rollouts" in capsys.readouterr().out
    assert (
        "1 of 4 rollouts are shown; 2 match the filters given" in read(output / "index.html").text
    )


def test_a_sample_for_a_reviewer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, rows = tmp_path / "run", [make_rollout(f"bug-{n}", resolved=n % 2 == 0) for n in range(40)]
    store = RunStore.open(run)
    for row in rows:
        store.add(row, make_conversations(row))
    store.close()
    chosen = ["--outcome", "resolved", "--sample"]
    assert view(run, *chosen, 5) == 0
    assert "5 of 20 rollouts" in capsys.readouterr().out
    sheet = run / "audit" / "sample.csv"
    small = list(csv.DictReader(sheet.read_text().splitlines()))
    bugs = {row["instance_id"] for row in small}
    assert len(bugs) == 5
    assert bugs <= {row.instance_id for row in rows if row.resolved}
    assert bugs != {row.instance_id for row in sorted(rows, key=lambda r: r.instance_id)[:5]}
    assert all("+++ b/ledger/cache.py" in read(sheet.parent / r["page"]).text for r in small)
    assert {(row["outcome"], row["correct"], row["note"]) for row in small} == {
        ("resolved", "", "")
    }

    assert view(run, *chosen, 5) == 2
    assert "may have a reviewer's verdicts" in capsys.readouterr().err
    assert view(run, "--output", tmp_path / "more", *chosen, 10) == 0
    larger = csv.DictReader((tmp_path / "more" / "sample.csv").read_text().splitlines())
    assert bugs < {row["instance_id"] for row in larger}
    assert view(run, "--sample", 0) == 2


def test_where_nothing_is_of_what_is_asked_for_it_says_so(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert view(run, "--output", tmp_path / "elsewhere", "--variant", "debug2fx") == 0
    assert "no rollout is of what the options name" in capsys.readouterr().out


def test_answers_are_shown_with_their_questions(
    tmp_path: Path, shop: Instance, capsys: pytest.CaptureFixture[str]
) -> None:
    question = shop_questions(shop)[0]
    (tmp_path / "questions.jsonl").write_text(f"{question.model_dump_json()}\n")
    (tmp_path / "questions.work.jsonl").write_text('{"settings": "of an interrupted stage"}\n')
    rollout = make_rollout(
        shop.id,
        rollout_id=question_rollout_id(question.id, shop.hash, "small", 0),
        variant=VARIANT,
        main_model="",
        resolved=False,
    )
    store = RunStore.open(tmp_path)
    store.add(rollout, make_conversations(rollout)[1:])
    store.close()
    assert view(tmp_path) == 0
    page = read(tmp_path / "report" / "conversations" / f"collect-{rollout.rollout_id}-0.html")
    assert "What is `net` at shop.py:18?" in page.text
    assert "Truth: text 47" in page.text
    assert "Verdict no answer" in page.text


def test_two_runs_without_a_common_bug(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runs = tmp_path / "before", tmp_path / "after"
    for run in runs:
        store = RunStore.open(run / "eval")
        store.add(make_rollout(f"bug-{run.name}"), [])
        store.close()
    assert view(*runs) == 0
    assert "before and after have no bug in common" in caplog.text


def test_two_runs_on_one_page(tmp_path: Path) -> None:
    """Of ten bugs both played eight; the first run resolves one of these, the second seven."""
    runs = tmp_path / "before", tmp_path / "after"
    played = {"before": (range(9), range(2)), "after": (range(1, 10), range(1, 8))}
    for run in runs:
        bugs, resolved = played[run.name]
        store = RunStore.open(run / "eval")
        for number in bugs:
            rollout = make_rollout(f"bug-{number}", resolved=number in resolved)
            store.add(rollout, make_conversations(rollout))
        if run.name == "after":
            store.add(make_rollout("bug-1", main_model="other", sub_calls=0), [])
        store.close()
        model = {"backend": "local", "model": f"{run}/model"}
        config = {"run": run.name, "runs_folder": str(tmp_path), "models": {"small": model}}
        config["agents"] = {"sub_max_steps": 12 if run.name == "before" else 16}
        (run / "config.yaml").write_text(yaml.safe_dump(config))
    assert view(*runs) == 0
    page = read(runs[1] / "comparison" / "index.html")
    assert "Both played 8 bugs. The bugs differ" in page.text
    assert "1 bug only before: bug-0; 1 bug only after: bug-9" in page.text
    row = "Debug2Fix, large → small 8 8 12.5 87.5 +75.0"
    assert row in page.text
    low, high = re.findall(rf"{re.escape(row)} (\S+) to (\S+) ", page.text)[0]
    assert 0 < float(low) < 75 <= float(high)
    assert "Debug2Fix, other → small only in after" in page.text
    assert "agents.sub_max_steps 12 16" in page.text
    assert "models.small.model" not in page.text, "each run's own model is the same setting"
    assert "95 %, a bootstrap of bugs" in page.text
    assert broken_links(runs[1] / "comparison") == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere"], "nowhere: no such folder"),
        (["run", "nowhere"], "nowhere: no such folder"),
        (["run", "."], "run and . can't be compared"),
        (["run", "--outcome", "solved"], "there is no 'solved'; there are: resolved"),
        (["run", "--output", "."], "is no report of StepInto's"),
    ],
)
def test_mistakes_are_told(
    run: Path,
    arguments: list[str],
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(run.parent)
    assert view(*arguments) == 2
    assert told in capsys.readouterr().err


def test_a_config_of_another_release_is_no_obstacle(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "config.yaml").write_text("run: run\nagents: {later_key: 1}\n")
    assert view(run) == 0
    assert "shown without the run's config" in capsys.readouterr().err
