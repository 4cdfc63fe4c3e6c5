"""A recorded main agent's questions, asked again of another subagent."""

from __future__ import annotations

import json
from pathlib import Path

import stepinto
from collect.store.records import Role
from collect.store.run_store import RunStore

ANSWER = (
    "<debug_answer>\nquestion: as asked\nanswer: not established\nevidence: none\nlocation: none\n"
    "</debug_answer>"
)


def scripted(folder: Path) -> str:
    """A subagent that inspects once and establishes nothing."""
    call = {"name": "debug_control", "arguments": '{"action": "continue"}'}
    replies = [{"content": "I look.", "tool_calls": [call]}, {"content": ANSWER}]
    (folder / "script.jsonl").write_text(json.dumps({"role": "debug_subagent", "replies": replies}))
    return f"models.weak={{backend: replay, path: {folder / 'script.jsonl'}}}"


def test_the_same_questions_are_asked_of_another_subagent(tmp_path: Path) -> None:
    run, bug = tmp_path / "first", "{name: bundled, instances: [calrules__rent_day_drifts]}"
    settings = [f"runs_folder={tmp_path}", "collect.main=oracle", "collect.sub=oracle"]
    settings += ["run=first", f"collect.benchmark={bug}"]
    assert stepinto.main(["collect", "configs/debug2fix.yaml", *settings]) == 0
    again = [
        *(scripted(tmp_path), f"models.recorded={{backend: replay, path: {run}}}"),
        *("eval.variants=[debug2fix_tool_limit]", "eval.pairs=[{main: recorded, sub: weak}]"),
        *(f"eval.benchmark={bug}", "eval.statistics={resamples: 1000}"),
    ]
    assert stepinto.main(["eval", str(run), *again]) == 0
    first, second = (list(RunStore(at).read_conversations()) for at in (run, run / "eval"))
    answers = [each.final_answer for each in second if each.role is Role.DEBUG_SUBAGENT]
    assert answers == [ANSWER]
    # The main agent said what it had said before, and what it asked was the same.
    said = [
        [call.arguments for each in held if each.role is Role.MAIN for call in each.calls.values()]
        for held in (first, second)
    ]
    assert said[0] == said[1]
