"""Debug2Fix with the adaptive tool limit: editing is open until a patch fails the tests."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from collect.agents.config import AgentsConfig
from collect.agents.rollout_context import RoleModel
from collect.benchmarks.bundled import BundledBenchmark
from collect.code.patches import changed_paths
from collect.config import RuntimeConfig
from collect.errors import ConfigError
from collect.models.base import ModelBackend, Sampling
from collect.models.config import OracleConfig
from collect.oracle import OracleBackend
from collect.rollouts.rollout import RolloutSettings, RolloutSpec, RolloutTrace, run_rollout
from collect.rollouts.rows import RunIdentity
from collect.rollouts.stage import rollouts_batch
from collect.store.messages import Message, ToolCall
from collect.store.records import Role, ToolOutcome
from sandbox import SandboxConfig
from tests.scripted_model import ScriptedBackend

BENCHMARK = BundledBenchmark()
INSTANCE = next(i for i in BENCHMARK.instances() if i.id == "ledgerbook__quarter_end_gain")
(FAULT,) = changed_paths(INSTANCE.gold_patch)
TEST = INSTANCE.fail_to_pass[0]
BUGGY, CORRECT = (
    re.findall(rf"^[{sign}](?![{sign}])(.*)", INSTANCE.gold_patch, re.M)[0] for sign in "-+"
)
BLOCK = (
    "<debug_answer>\n**Question**: q\n**Answer**: a\n**Evidence**: e\n**Location**: l:1\n"
    "</debug_answer>"
)


def rollout(backend: ModelBackend) -> RolloutTrace:
    agents = AgentsConfig(main_max_reminders=0)
    models = {"m": RoleModel(backend, Sampling())}
    settings = RolloutSettings(BENCHMARK, SandboxConfig(), agents, models, threading.Event())
    return run_rollout(RolloutSpec(INSTANCE, "debug2fix_adaptive_limit", "m", "m", 0), settings)


def call(name: str, **arguments: str) -> Message:
    return Message("assistant", tool_calls=(ToolCall("c", name, json.dumps(arguments)),))


def test_a_failed_patch_closes_editing_until_the_subagent_is_asked() -> None:
    run = call("run_tests")
    right = call("edit_file", path=FAULT, old_string=BUGGY, new_string=CORRECT)
    main = [
        run,
        call("bash", command=f"echo '# no fix' >> {FAULT}"),
        run,
        right,
        call("bash", command=f"echo '# more' >> {FAULT}"),
        call("debug_subagent", question="q", test=TEST),
        run,
        right,
        run,
        Message("assistant", "Done."),
    ]
    script = {"main": main, "debug_subagent": [Message("assistant", BLOCK)]}
    trace = rollout(ScriptedBackend("m", script))
    answers = [row for row in trace.logs[0].rows if row.tool_outcome is not None]
    texts = [row.message.content for row in answers]
    outcomes = [row.tool_outcome for row in answers]
    refused = [at for at, outcome in enumerate(outcomes) if outcome is ToolOutcome.REFUSED]
    assert refused == [3, 4]
    assert all("your patch failed the tests" in texts[at] for at in refused)
    assert TEST in texts[0]
    # Neither the code as it was given nor the patch that was asked about closes it.
    assert [at for at, text in enumerate(texts) if "Your patch failed" in text] == [2]
    assert texts[8] == f"All {len(INSTANCE.public_tests)} tests pass."
    assert trace.verdict.resolved
    assert "# more" not in trace.patch


def test_the_oracle_plays_it() -> None:
    trace = rollout(OracleBackend("m", OracleConfig(backend="oracle")))
    assert trace.failure is None
    assert [log.role for log in trace.logs] == [Role.MAIN, Role.DEBUG_SUBAGENT]
    assert trace.verdict.resolved


def test_a_bug_without_tests_to_see_is_refused(tmp_path: Path) -> None:
    files = {test.partition("::")[0] for test in INSTANCE.public_tests}
    bug = replace(INSTANCE, hidden_files=dict.fromkeys(files, b""))
    runtime = RuntimeConfig.model_validate({"models": {"m": {"backend": "oracle"}}})
    spec = RolloutSpec(bug, "debug2fix_adaptive_limit", "m", "m", 0)
    with (
        pytest.raises(ConfigError, match="runs tests that agents may see, and bundled"),
        rollouts_batch(runtime, BENCHMARK, [spec], RunIdentity("run", 0), tmp_path),
    ):
        pass
