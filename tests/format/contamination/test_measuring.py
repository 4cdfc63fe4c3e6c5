"""A benchmark against training data of every kind."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from collect.benchmarks.base import Instance
from collect.benchmarks.bundled import BundledBenchmark
from collect.code.patches import apply_patch
from collect.errors import ConfigError
from collect.store.messages import Message, ToolCall
from collect.store.records import MessageRow
from format.config import FormatConfig
from format.contamination import (
    BugOverlap,
    ContaminationReport,
    TrainingRow,
    instance_rows,
    measure,
    rows_of,
)
from format.stage import run_format
from stepinto import main
from tests.format.conversations import make_rollouts, write_run

CONFIG = Path(__file__).parents[3] / "configs" / "quickstart.yaml"
BUGS = BundledBenchmark().instances()[:3]
BUG, OTHER, THIRD = BUGS


def measured(*rows: TrainingRow, bugs: Iterable[Instance] = BUGS) -> dict[str, BugOverlap]:
    report = measure(list(bugs), rows, ["made"])
    return {bug.instance_id: bug for bug in report.bugs}


def fixed_file(bug: Instance) -> str:
    after = apply_patch(bug.files, bug.gold_patch)
    [path] = [path for path in after if after[path] != bug.files[path]]
    return after[path].decode()


def test_a_bug_by_what_it_is() -> None:
    by_id = measured(TrainingRow("r", (), benchmark="bundled", instance_id=BUG.id))[BUG.id]
    assert (by_id.same_id, by_id.same_hash, by_id.share) == (True, False, 1.0)
    by_hash = measured(TrainingRow("r", (), benchmark="local", instance_hash=BUG.hash))[BUG.id]
    assert (by_hash.same_id, by_hash.same_hash, by_hash.share) == (False, True, 1.0)
    unnamed = measured(TrainingRow("r", (), instance_id=BUG.id))[BUG.id]
    assert unnamed.same_id
    of_another = measured(TrainingRow("r", (), benchmark="local", instance_id=BUG.id))[BUG.id]
    assert (of_another.same_id, of_another.share) == (False, 0.0)
    address = f"https://example.org/someone/{BUG.repository}.git"
    near = measured(TrainingRow("r", (), repository=address))[BUG.id]
    assert (near.same_repository, near.same_commit, near.share) == (True, False, 0.0)


def test_a_bug_by_its_commit() -> None:
    bug = replace(BUG, commit="0123456789abcdef0123456789abcdef01234567")
    for commit, same in (
        ("0123456789AB", True),
        ("0123456", True),
        ("0123457", False),
        ("", False),
    ):
        [found] = measured(TrainingRow("r", (), commit=commit), bugs=[bug]).values()
        assert found.same_commit is same, commit


def test_a_bug_by_its_text() -> None:
    told = BUG.problem_statement.upper().replace("\n", " \n\n")
    numbered = "\n".join(f"{n:>5}  {line}" for n, line in enumerate(fixed_file(OTHER).split("\n")))
    found = measured(TrainingRow("the task", (told,)), TrainingRow("the fix", ("", numbered)))
    assert (found[BUG.id].problem.share, found[BUG.id].patch.share) == (1.0, 0.0)
    assert found[BUG.id].problem.first_in == "the task"
    assert found[OTHER.id].patch.share == 1.0
    assert found[OTHER.id].patch.first_in == "the fix"
    assert found[THIRD.id].share == 0.0


def test_the_buggy_code_alone_gives_no_fix_away() -> None:
    code = tuple(data.decode() for data in BUG.files.values())
    found = measured(TrainingRow("r", code), bugs=[BUG])[BUG.id]
    assert found.patch.of > 0
    assert found.patch.share == 0.0
    patch = measured(TrainingRow("r", (), (BUG.gold_patch,)), bugs=[BUG])[BUG.id]
    assert patch.patch.share == 1.0


def test_a_text_too_short_to_tell() -> None:
    short = replace(BUG, problem_statement="It fails.", gold_patch="")
    found = measured(TrainingRow("r", ("It fails.",)), bugs=[short])[BUG.id]
    assert (found.problem.share, found.patch.share, found.share) == (None, None, 0.0)


def test_counts() -> None:
    report = measure(BUGS, instance_rows([BUG]), ["made"])
    assert report.counts()["share over 80%"] == 1
    assert report.counts()["same id"] == 1
    assert report.bugs[0].problem.share == 1
    assert report.worst[0].instance_id == BUG.id
    assert (
        ContaminationReport.model_validate_json(
            report.model_dump_json(exclude_computed_fields=True)
        )
        == report
    )


def test_rows_stream_by() -> None:
    held = 0

    def rows() -> Iterator[TrainingRow]:
        nonlocal held
        for number in range(2000):
            held += 1
            yield TrainingRow(f"row {number}", (f"{BUG.problem_statement} {number}",))

    report = measure([BUG], rows(), ["made"])
    assert (report.rows, held) == (2000, 2000)
    assert report.bugs[0].problem.first_in == "row 0"


def conversation_about(bug: Instance) -> Any:
    """A run's rollout whose subagent was told the problem, and edited the fixed file."""
    [(rollout, (main_agent, sub))] = make_rollouts(1)
    told = MessageRow(Message("user", bug.problem_statement))
    arguments = json.dumps({"new_string": fixed_file(bug)})
    edit = MessageRow(Message("assistant", "", tool_calls=(ToolCall("e", "edit", arguments),)))
    answer = MessageRow(Message("tool", "done", tool_call_id="e", name="edit"))
    *before, last = sub.messages
    sub = replace(sub, messages=(*before, told, edit, answer, last))
    return [(rollout, (main_agent, sub)), *make_rollouts(2)[1:]]


def test_a_run_and_what_format_made_of_it(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", conversation_about(BUG))
    run_format(FormatConfig(test_fraction=0, max_invalid_tool_calls=None), run)
    for path in (run, run / "sft"):
        found = measure(BUGS, rows_of(path), [str(path)])
        assert (found.bugs[0].problem.share, found.bugs[0].patch.share) == (1.0, 1.0)
        assert found.bugs[0].problem.first_in.startswith("row ")
        assert found.counts()["share over 50%"] == 1
    assert all(row.instance_hash for row in rows_of(run))


def test_a_run_without_rows_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    with pytest.raises(ConfigError, match="run `stepinto format` on this run"):
        list(rows_of(run))


def test_files_of_rows(tmp_path: Path) -> None:
    row = {
        "instance_id": "django__django-1",
        "repo": "django/django",
        "base_commit": "0123456789",
        "patch": BUG.gold_patch,
        "hints": [{"text": BUG.problem_statement}],
    }
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n\n")
    (tmp_path / "more.jsonl.gz").write_bytes(gzip.compress(json.dumps(row).encode()))
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "rows.parquet")
    (tmp_path / "notes.txt").write_text("nothing")
    read = list(rows_of(tmp_path))
    assert [row.source.split(",")[0] for row in read] == [
        "more.jsonl.gz",
        "rows.jsonl",
        "rows.parquet",
    ]
    for each in read:
        assert (each.instance_id, each.repository) == ("django__django-1", "django/django")
        assert each.commit == "0123456789"
        found = measured(each, bugs=[BUG])[BUG.id]
        assert (found.problem.share, found.patch.share) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("rows.jsonl", b"{}\n{", "line 2: not JSON"),
        ("rows.jsonl", b"[1]\n", "line 1: must be an object"),
        ("rows.jsonl.gz", b"plain", "not a whole gzip file"),
        ("rows.parquet", b"plain", "not Parquet"),
        ("rows.txt", b"", "is no training data: give a run folder"),
    ],
)
def test_what_is_no_training_data(tmp_path: Path, name: str, content: bytes, told: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=told):
        list(rows_of(path))
    with pytest.raises(ConfigError, match="is no training data"):
        list(rows_of(tmp_path / "nowhere"))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "made.jsonl").write_text(json.dumps({"text": BUG.problem_statement}) + "\n")
    given = [str(CONFIG), f"runs_folder={tmp_path}", "run=test"]
    limited = [*given, "eval.benchmark={name: bundled, limit: 3}"]
    training = ["--training", str(tmp_path / "made.jsonl")]
    assert main(["bench", "contamination", *limited, *training]) == 0
    shown = capsys.readouterr().out
    assert "3 bugs of bundled against 1 training row" in shown
    report = json.loads((tmp_path / "test" / "contamination.json").read_text())
    assert [round(bug["share"]) for bug in report["bugs"]] == [1, 0, 0]
    assert BUG.id in shown
    other = ["--training", str(CONFIG), "--ngram", "5", "run=own"]
    assert main(["bench", "contamination", *limited, *other]) == 0
    assert json.loads((tmp_path / "own" / "contamination.json").read_text())["ngram_words"] == 5
