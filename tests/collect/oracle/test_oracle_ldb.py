"""The oracle in LDB: its verdicts follow the trace, and its patch follows its verdicts."""

from __future__ import annotations

import json

import pytest

from collect.agents.baselines.ldb import wrong_blocks
from collect.store.records import StopReason
from tests.repair_bug import FAULT_LINE, repair


@pytest.mark.slow
def test_the_oracle_marks_the_faulty_block_and_repairs() -> None:
    trace = repair("ldb_block")
    assert trace.failure is None
    assert (trace.verdict.resolved, trace.stop_reason) == (True, StopReason.FINISHED)
    [log] = trace.logs
    assert log.patch_attempt == 1
    asked, reply = log.rows[1].message.content, log.rows[2].message.content
    assert len(reply.splitlines()) == asked.count("\n[BLOCK-")
    wrong = wrong_blocks(reply)
    assert wrong
    explained = {
        each["block"]: each["explanation"] for each in map(json.loads, reply.splitlines()) if each
    }
    for each in wrong:
        explanation = explained[f"BLOCK-{each}"]
        assert f"solution.py:{FAULT_LINE}" in explanation
        block = asked.partition(f"\n[BLOCK-{each}]\n")[2].partition("[BLOCK-")[0]
        assert "count >= counts[best]" in block
        assert block.splitlines()[0].strip().removeprefix("# ") in explanation
