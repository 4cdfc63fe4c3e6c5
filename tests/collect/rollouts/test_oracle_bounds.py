"""What the oracle is worth on the bundled bugs, with a subagent that answers and without."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from collect.benchmarks.bundled import BundledBenchmark
from collect.code.source import function_at, read_source
from collect.oracle.candidates import gold_candidate
from collect.rollouts.stage import run_collect
from collect.store.records import Conversation, Rollout
from collect.store.run_store import RunStore
from configs.loading import load_config
from sandbox.debugger import StopReason

CONFIG = Path(__file__).resolve().parents[3] / "configs" / "debug2fix.yaml"
BUNDLED = BundledBenchmark(languages=("python", "java"))
INSTANCES = {instance.id: instance for instance in BUNDLED.instances()}
PYTHON = [name for name, instance in INSTANCES.items() if instance.language == "python"]
JAVA = ["gridcalc__moving-source", "parcelroute__lost-loads"]
"""One changes several places, the other a constructor."""
needs_maven = pytest.mark.skipif(shutil.which("mvn") is None, reason="there is no Maven here")


def collect(folder: Path, run: str, *overrides: str) -> tuple[list[Rollout], list[Conversation]]:
    own = [f"runs_folder={folder}", f"run={run}", "collect.benchmark.split=all"]
    own += ["collect.main=oracle", "collect.sub=oracle"]
    config = load_config(CONFIG, [*own, *overrides])
    run_collect(config, config.collect, config.folder)
    store = RunStore(config.folder)
    return list(store.read_rollouts()), list(store.read_conversations())


def only(instances: list[str]) -> str:
    return f"collect.benchmark.instances=[{','.join(instances)}]"


def stopped_in_buggy_function(conversation: Conversation) -> bool:
    instance = INSTANCES[conversation.instance_id]
    gold = gold_candidate(instance)
    path = gold.line.path
    source = read_source(path, instance.files[path])
    for row in conversation.events:
        event = row.event
        if event.stop_reason in (StopReason.BREAKPOINT, StopReason.STEP) and event.file == path:
            assert event.line is not None
            found = function_at(source, event.line)
            if (found.name if found else "") == gold.function:
                return True
    return False


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_oracle_resolves_the_bundled_bugs(tmp_path: Path) -> None:
    """Half of them say as much as all."""
    wanted = PYTHON[::2]
    rollouts, conversations = collect(tmp_path, "full", only(wanted))
    assert len(rollouts) == len(wanted) >= 15
    resolved = {row.instance_id for row in rollouts if row.resolved}
    assert len(resolved) >= 0.93 * len(wanted)
    assert resolved <= {c.instance_id for c in conversations if stopped_in_buggy_function(c)}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_oracle_depends_on_the_answer(tmp_path: Path) -> None:
    """One candidate of four is right by chance; a third of the bugs say as much as all."""
    silent = ["models.silent={backend: oracle, answer: nothing}", "collect.sub=silent"]
    rollouts, _ = collect(tmp_path, "silent", *silent, only(PYTHON[::3]))
    assert len(rollouts) == len(PYTHON[::3]) >= 10
    assert sum(row.resolved for row in rollouts) <= 0.45 * len(rollouts)


@pytest.mark.slow
@pytest.mark.timeout(600)
@needs_maven
def test_the_oracle_resolves_java_bugs_from_inside_the_buggy_function(tmp_path: Path) -> None:
    chosen = ["collect.benchmark.language=java", only(JAVA)]
    rollouts, conversations = collect(tmp_path, "java", *chosen, "runner.concurrency=2")
    assert {row.instance_id for row in rollouts if row.resolved} == set(JAVA)
    assert {row.language for row in rollouts} == {"java"}
    assert {c.instance_id for c in conversations if stopped_in_buggy_function(c)} == set(JAVA)
