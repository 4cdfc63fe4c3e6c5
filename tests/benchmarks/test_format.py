"""The benchmark of the format stage: its runs are made of real sessions, and can be formatted."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from benchmarks.format import Template, measure, write_run
from collect.code.patches import TestFiles
from collect.questions.grounding import ground
from collect.store.records import Conversation
from collect.store.run_store import RunStore, conversation_from_plain, rollout_from_plain
from sandbox.debugger import Action
from tests.format.sessions import Session, see, stop
from tests.records import make_rollout

ROLLOUT = make_rollout()


@pytest.fixture
def session() -> Conversation:
    held = Session("Question: What is it?\nTest: tests/test_cart.py::test")
    held.debug(stop(action=Action.START, function="Cart.discount"))
    for number in range(8):
        seen = [(f"wording{number}{place}", f"'surprise{number}{place}'") for place in "abc"]
        held.debug(see(*seen))
    return held.answer("`wording3b` = 'surprise3b'", location="shop/cart.py:42 in Cart.discount")


def test_a_copy_has_other_names_and_stays_grounded(session: Conversation) -> None:
    template = Template(ROLLOUT, session)
    rows = [template.filled(random.Random(seed)) for seed in range(2)]
    copies = [conversation_from_plain(conversation) for _, conversation in rows]
    assert [rollout_from_plain(rollout).instance_id for rollout, _ in rows] == [
        "ledger-cache-1"
    ] * 2
    for copy in copies:
        assert "discount" not in str(copy)
        assert "surprise" not in str(copy)
        assert [row.message.role for row in copy.messages] == [
            row.message.role for row in session.messages
        ]
        assert ground(copy, TestFiles()).counts == ground(session, TestFiles()).counts
        assert ground(copy, TestFiles()).score == 1
    assert copies[0] != copies[1]


@pytest.mark.slow
def test_a_run_of_copies_is_formatted(tmp_path: Path, session: Conversation) -> None:
    run = tmp_path / "run"
    write_run(run, [Template(ROLLOUT, session)], conversations=60, seed=0)
    store = RunStore(run)
    rollouts = {row.rollout_id: row for row in store.read_rollouts()}
    assert {row.rollout_id for row in store.read_conversations()} == rollouts.keys()
    resolved = sum(row.resolved for row in rollouts.values())
    (run / "config.yaml").write_text(f"run: run\nruns_folder: {tmp_path}\n")
    measured = measure(run, [])
    dropped = {step.name: step.dropped for step in measured.report.funnel.steps if step.dropped}
    assert measured.report.funnel.conversations == 60
    assert dropped.keys() <= {"resolved", "unique", "not_near_duplicate"}
    assert measured.report.funnel.kept >= resolved * 0.8
    assert measured.peak_bytes > 1e7
