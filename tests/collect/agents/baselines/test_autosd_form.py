"""AutoSD's log: replies as models write them, and what of it a Patch Coder reads."""

from __future__ import annotations

import json

import pytest

from collect.agents.baselines.autosd import (
    DONE,
    ScientificForm,
    debugging_log,
    is_done,
    is_rejected,
    trials_of,
)
from collect.agents.tools import Answered, MalformedAction, ToolReply
from collect.store.messages import Message, ToolCall

FORM = ScientificForm()
STEP = "Hypothesis: line 3 is wrong\nPrediction: x is 1\nExperiment: `b 3 ;; c ;; p x`"


def scripts(reply: str) -> list[str]:
    calls = FORM.calls(Message("assistant", reply), 1)
    return [json.loads(call.arguments)["script"] for call in calls]


@pytest.mark.parametrize(
    "reply",
    [
        STEP,
        f"{STEP}\nObservation: `7`\nConclusion: supported {DONE}",
        f"{STEP}\nConclusion: The hypothesis is supported. {DONE}",
        f"Conclusion: The hypothesis is rejected.\n\nAttempt 2.\n{STEP}",
        STEP.replace("Experiment:", "**Experiment:**"),
        STEP.replace(
            "Experiment: `b 3 ;; c ;; p x`", "## Experiment\n```pdb\nb 3 ;; c ;; p x\n```"
        ),
        STEP.replace("`", ""),
        STEP.replace("Experiment: `", "Experiment (pdb script) follows.\nExperiment: I run `"),
    ],
)
def test_the_experiment_is_found(reply: str) -> None:
    assert scripts(reply) == ["b 3 ;; c ;; p x"]


def test_a_script_may_hold_backticks() -> None:
    assert scripts("Experiment: `REPLACE(3, \"'`'\", \"'x'\") AND RUN`") == [
        "REPLACE(3, \"'`'\", \"'x'\") AND RUN"
    ]


def test_a_conclusion_ends_the_debugging_whatever_follows_it() -> None:
    reply = f"Conclusion: The hypothesis is supported. {DONE.lower()}\n\n{STEP}"
    assert scripts(reply) == []
    assert is_done(reply)


@pytest.mark.parametrize(
    "reply", ["", "I think line 3 is wrong.", "Experiment: ``", "Observation: 3"]
)
def test_a_reply_without_an_experiment_is_told_how_to_make_one(reply: str) -> None:
    with pytest.raises(MalformedAction, match="no experiment in your response"):
        scripts(reply)


def test_observations_say_when_the_steps_run_out() -> None:
    answered = [Answered(ToolCall("1", "experiment", "{}"), ToolReply("3"), 0.1)]
    texts = []
    for left in (5, 1, 0):
        row = FORM.all_answered(answered, 0, left)
        assert row is not None
        texts.append(row.message.content)
    assert texts[0] == texts[2] == "Observation: 3"
    assert "You have 1 steps left" in texts[1]


def test_the_log_leaves_out_what_was_rejected() -> None:
    messages = [
        Message("assistant", STEP),
        Message("user", "Observation: 1"),
        Message("assistant", f"Conclusion: The hypothesis is not supported.\n\n{STEP}"),
        Message("user", "Format error: ..."),
        Message("assistant", STEP.replace("line 3", "line 4")),
        Message("user", "Observation: [No exception triggered]\n\nYou have 1 steps left; end."),
        Message("assistant", f"Conclusion: The hypothesis is supported. {DONE}"),
    ]
    trials = trials_of(messages)
    assert trials[0]["observation"] == "1"
    assert "observation" not in trials[1]
    log = debugging_log(trials)
    assert log.count("Attempt") == 2
    assert log.endswith(
        "Attempt 2.\nHypothesis: line 4 is wrong\nPrediction: x is 1\n"
        "Experiment: `b 3 ;; c ;; p x`\nObservation: [No exception triggered]\n"
        "Conclusion: The hypothesis is supported."
    )


@pytest.mark.parametrize(
    ("conclusion", "rejected"),
    [
        ("The hypothesis is rejected.", True),
        ("The hypothesis isn't supported by this.", True),
        ("The hypothesis can't be confirmed", True),
        ("It is refuted, although it was supported before.", True),
        ("The hypothesis is supported; the other one was rejected.", False),
        ("The hypothesis is not rejected.", False),
        ("The hypothesis is undecided due to experiment error.", False),
        ("", False),
    ],
)
def test_verdicts(conclusion: str, rejected: bool) -> None:
    assert is_rejected(conclusion) is rejected


def test_a_log_of_nothing_but_rejections_says_so() -> None:
    assert "No hypothesis" in debugging_log([{"hypothesis": "h", "conclusion": "rejected"}])
