from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from collect.benchmarks.base import Instance
from collect.models.config import TRAINING, LocalConfig, ServerConfig, VllmConfig
from collect.store.records import Rollout
from eval.metrics import Labels, compare
from eval.stage import note_training
from eval.standalone import FORMAT_REPORT, trained_repositories
from eval.tables import foot
from format.config import FormatConfig
from format.stage import run_format
from tests.format.conversations import REPOSITORIES, make_rollouts, write_run
from tests.records import make_rollout


def instance(row: Rollout) -> Instance:
    return Instance(
        row.instance_id, row.benchmark, "python", row.repository, "issue", ("t",), (), "patch"
    )


def test_bugs_of_the_training_data_are_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", make_rollouts(2))
    run_format(FormatConfig(test_fraction=0), run)
    trained = json.loads((run / FORMAT_REPORT).read_text())["splits"]["train"]["repositories"]
    assert sorted(trained) == sorted(REPOSITORIES[:2])
    rows = [make_rollout(f"{name}-2") for name in REPOSITORIES[:3]]
    instances = [instance(row) for row in rows]
    seen = note_training(compare(rows), instances, trained_repositories(run, []))
    assert {name for _, name in seen.trained_on} == {f"{name}-2" for name in REPOSITORIES[:2]}
    [warning] = [line for line in foot(seen, Labels()) if "training data" in line]
    assert warning.startswith("Warning: 2 of the bugs")
    unseen = note_training(compare(rows[2:]), instances, trained_repositories(run, []))
    assert not any("training data" in line for line in foot(unseen, Labels()))
    assert not trained_repositories(tmp_path, [])


def test_a_repository_is_known_however_its_name_is_written() -> None:
    rows = [make_rollout(f"{name}-1", repository=name) for name in ("psf/requests", "other/tool")]
    for trained in ("requests", "psf__requests", "https://github.com/PSF/requests.git"):
        seen = note_training(compare(rows), [instance(row) for row in rows], {trained})
        assert [bug for _, bug in seen.trained_on] == [rows[0].instance_id]


def test_a_model_says_itself_what_it_was_trained_on(tmp_path: Path) -> None:
    for name in ("base", "adapter"):
        (tmp_path / name).mkdir()
        (tmp_path / name / TRAINING).write_text(json.dumps({"repositories": [name]}))
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    local = LocalConfig(backend="local", model=str(base), adapter=adapter)
    server = ServerConfig(model=str(base), adapters={"debugger": adapter})
    assert trained_repositories(tmp_path, [local]) == {"base", "adapter"}
    served = VllmConfig(backend="vllm", server=server)
    assert trained_repositories(tmp_path, [served]) == {"base", "adapter"}
    on_the_hub = LocalConfig(backend="local", model="owner/name")
    assert not trained_repositories(tmp_path, [on_the_hub])


def test_what_was_skipped_is_said() -> None:
    comparison = replace(compare([make_rollout("a-1")]), skipped="1 bug is skipped: 1 slow (a-2)")
    [told] = [line for line in foot(comparison, Labels()) if "skipped" in line]
    assert told.startswith("Of the benchmark, 1 bug is skipped: 1 slow (a-2), as")
