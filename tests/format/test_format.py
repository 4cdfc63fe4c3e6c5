"""The format stage on runs built from records."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from datasets import load_dataset
from huggingface_hub import DatasetCard
from markdown_it import MarkdownIt

from collect.errors import ConfigError, FailureKind
from collect.store.messages import Message, ToolCall
from collect.store.records import Conversation, DebugAnswer, MessageRow, Rollout
from collect.store.records import StopReason as RunStopReason
from collect.store.run_store import RunStore, plain
from format.config import Arguments, FormatConfig, Reasoning
from format.dataset import read_rows, split_file
from format.stage import run_format
from sandbox.debugger import State, StopReason
from tests.format.conversations import (
    REPOSITORIES,
    make_rollouts,
    nasty_arguments,
    with_inspection,
    write_run,
)
from tests.records import make_conversations, make_failed_rollout, make_rollout

ALL_TRAIN = FormatConfig(test_fraction=0)


def load(run: Path, split: str, tmp_path: Path) -> list[dict[str, Any]]:
    """The rows as a user's `datasets` reads them."""
    files = {split: str(run / "sft" / "data" / f"{split}-*.parquet")}
    loaded = load_dataset("parquet", data_files=files, cache_dir=str(tmp_path / "cache"))
    return list(loaded[split])


def call_arguments(row: dict[str, Any]) -> list[Any]:
    return [
        call["function"]["arguments"]
        for message in row["messages"]
        for call in message.get("tool_calls", ())
    ]


def test_writes_rows_in_trl_form(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", make_rollouts(1))
    report = run_format(ALL_TRAIN, run)
    (row,) = load(run, "train", tmp_path)
    assert report.splits["train"].rows == 1
    roles = [message["role"] for message in row["messages"]]
    assert roles == ["system", "user", *["assistant", "tool"] * 3, "assistant"]
    call = row["messages"][2]["tool_calls"][0]
    assert call == {
        "type": "function",
        "id": "call_sub_1",
        "function": {
            "name": "debug_start_session",
            "arguments": {"test": "tests/test_cache.py::test_put_twice_keeps_one_entry"},
        },
    }
    answer = row["messages"][3]
    assert (answer["name"], answer["tool_call_id"]) == ("debug_start_session", "call_sub_1")
    assert "tool_calls" not in answer
    assert row["tools"][0]["function"]["name"] == "debug_start_session"
    assert (row["repository"], row["role"], row["attempt"]) == ("ledger", "debug_subagent", 0)


@pytest.mark.parametrize(
    ("reasoning", "content", "separate"),
    [
        ("keep", "I look.", "Is it 7?"),
        ("inline", "<think>\nIs it 7?\n</think>\n\nI look.", None),
        ("drop", "I look.", None),
    ],
)
@pytest.mark.parametrize(
    "reply",
    [
        Message("assistant", "I look.", reasoning="Is it 7?"),
        Message("assistant", "<think>Is it 7?</think>\n\nI look."),
        Message("assistant", "Is it 7?\n</think>\n\nI look."),
    ],
    ids=["separate", "tags", "closing tag"],
)
def test_a_row_shows_the_reasoning_that_it_should(
    tmp_path: Path, reply: Message, reasoning: str, content: str, separate: str | None
) -> None:
    [(rollout, (main_agent, sub))] = make_rollouts(1)
    rows = list(sub.messages)
    at = next(i for i, row in enumerate(rows) if row.message.role == "assistant")
    said = replace(rows[at].message, content=reply.content, reasoning=reply.reasoning)
    rows[at] = replace(rows[at], message=said, prompt_tokens=7, served_model="large-2026")
    thinking = (rollout, (main_agent, replace(sub, messages=tuple(rows))))
    run = write_run(tmp_path / "run", [thinking])
    run_format(ALL_TRAIN.model_copy(update={"reasoning": Reasoning(reasoning)}), run)
    [row] = load(run, "train", tmp_path)
    assert (row["resolved"], row["served_model"]) == (True, "large-2026")
    assert row["prompt_tokens"] == sum(each.prompt_tokens for each in rows) > 0
    assert row["instance_hash"] == rollout.instance_hash
    assert row["code_version"] == rollout.code_version
    shown = row["messages"][at]
    assert (shown["content"], shown.get("reasoning_content")) == (content, separate)


def test_a_row_says_that_the_oracle_took_part(tmp_path: Path) -> None:
    [(rollout, (main, sub))] = make_rollouts(1, teacher="oracle")
    run = write_run(tmp_path / "run", [(rollout, (main, replace(sub, teacher="model")))])
    run_format(ALL_TRAIN, run)
    (row,) = load(run, "train", tmp_path)
    assert row["teacher"] == "oracle"


def test_differing_arguments_round_trip_exactly(tmp_path: Path) -> None:
    nasty = nasty_arguments()
    run = write_run(tmp_path / "run", [*make_rollouts(1, nasty), *make_rollouts(3)[1:]])
    run_format(ALL_TRAIN, run)
    loaded = {row["repository"]: row for row in load(run, "train", tmp_path)}
    read = {row["repository"]: row for row in read_rows(split_file(run / "sft", "train"))}
    assert json.dumps(call_arguments(loaded["ledger"])[-1]) == json.dumps(json.loads(nasty))
    assert call_arguments(loaded["textflow"])[-1] == {"what": "locals"}
    assert json.dumps(loaded) == json.dumps(read)


def test_arguments_as_texts_need_no_json_features(tmp_path: Path) -> None:
    """Any reader of Parquet gets structs and texts; StepInto's own reader gets the same rows."""
    run = write_run(tmp_path / "run", [*make_rollouts(1, nasty_arguments()), *make_rollouts(3)[1:]])
    run_format(ALL_TRAIN, run)
    objects = list(read_rows(split_file(run / "sft", "train")))
    texts = ALL_TRAIN.model_copy(update={"arguments": Arguments.STRING})
    run_format(texts, run)
    path = split_file(run / "sft", "train")
    assert json.dumps(list(read_rows(path))) == json.dumps(objects)
    plain_rows = pq.read_table(path).to_pylist()
    for row, known in zip(plain_rows, objects, strict=True):
        assert json.loads(row["tools"]) == known["tools"]
        for message, other in zip(row["messages"], known["messages"], strict=True):
            calls = [call["function"]["arguments"] for call in message["tool_calls"] or ()]
            known_calls = [call["function"]["arguments"] for call in other.get("tool_calls", ())]
            assert [json.loads(each) for each in calls] == known_calls
            assert message["content"] == other["content"]
    assert load(run, "train", tmp_path)[0]["messages"][0] == plain_rows[0]["messages"][0]
    assert "decode them" in (run / "sft" / "README.md").read_text()


def test_several_runs_become_one_dataset(tmp_path: Path) -> None:
    """Two runs of the same rollouts on different bugs' repositories, with equal ids."""
    rollouts = make_rollouts(2)
    first = write_run(tmp_path / "first", rollouts[:1])
    named = [(replace(row, run="second"), held) for row, held in rollouts]
    second = write_run(tmp_path / "second", named)
    config = ALL_TRAIN.model_copy(
        update={"runs": (second,), "deduplicate": False, "max_similarity": None, "atif": True}
    )
    report = run_format(config, first)
    rows = load(first, "train", tmp_path)
    own, *added = rows
    assert (own["run"], [row["run"] for row in added]) == (rollouts[0][0].run, ["second"] * 2)
    assert own["conversation_id"] == rollouts[0][1][1].conversation_id
    ids = [f"second/{held[1].conversation_id}" for _, held in rollouts]
    assert [row["conversation_id"] for row in added] == ids
    assert added[0]["rollout_id"] == f"second/{rollouts[0][0].rollout_id}"
    assert report.outputs["atif"] == {"train": 3}
    assert len({json.loads(line)["trajectory_id"] for line in atif_lines(first)}) == 3

    (tmp_path / "latest").symlink_to(second)
    linked = config.model_copy(update={"runs": (tmp_path / "latest",)})
    run_format(linked, first)
    assert [row["conversation_id"] for row in load(first, "train", tmp_path)][1:] == ids
    empty = tmp_path / "empty"
    run_format(config.model_copy(update={"runs": (first, second)}), empty)
    assert [row["run"] for row in load(empty, "train", tmp_path)][1:] == ["second"] * 2


def atif_lines(run: Path) -> list[str]:
    return (run / "sft" / "atif" / "train-00000.jsonl").read_text().splitlines()


def test_runs_that_can_not_be_added_are_refused(tmp_path: Path) -> None:
    first = write_run(tmp_path / "first", make_rollouts(1))
    other = write_run(tmp_path / "other" / "first", make_rollouts(1))
    with pytest.raises(ConfigError, match="missing is no folder of a run"):
        run_format(FormatConfig(runs=(tmp_path / "missing",)), first)
    with pytest.raises(ConfigError, match="has the same name as"):
        run_format(FormatConfig(runs=(other,)), first)
    with pytest.raises(ConfigError, match="has the same name as"):
        run_format(FormatConfig(runs=(first,)), first)
    assert not (first / "sft").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        '{"a": ',
        "[1, 2]",
        '"text"',
        "",
        '{"a": NaN}',
        '{"a": 18446744073709551616}',
        '{"a": 0.1234567890123456789}',
        '{"a": "\\ud800"}',
    ],
)
def test_inexact_arguments_are_dropped_and_counted(tmp_path: Path, arguments: str) -> None:
    run = write_run(tmp_path / "run", [*make_rollouts(1, arguments), *make_rollouts(2)[1:]])
    report = run_format(ALL_TRAIN, run)
    assert dropped(report.funnel.steps)["exact_arguments"] == 1
    assert [row["repository"] for row in load(run, "train", tmp_path)] == ["textflow"]


def dropped(steps: list[Any]) -> dict[str, int]:
    return {step.name: step.dropped for step in steps if step.dropped}


def no_events(conversation: Conversation, kept: int) -> Conversation:
    return replace(conversation, events=conversation.events[:kept])


def exited_at_once(conversation: Conversation) -> Conversation:
    start, *others = conversation.events
    event = replace(start.event, stop_reason=StopReason.EXITED, state=State.DONE, line=None)
    return replace(conversation, events=(replace(start, event=event), *others))


def sub_of(rollout: Rollout) -> Conversation:
    return with_inspection(make_conversations(rollout)[1])


def calling_at_the_end(conversation: Conversation) -> Conversation:
    *before, last = conversation.messages
    call = ToolCall("last", "debug_inspect", "{}")
    message = replace(last.message, tool_calls=(call,))
    return replace(conversation, messages=(*before, replace(last, message=message)))


@pytest.mark.parametrize(
    ("answer", "evidence"),
    [
        ("It holds 'a'.", ""),
        ("It holds 'a'.", "none"),
        ("It holds 'a'.", "N/A."),
        ("It holds 'a'.", "ledger/cache.py:13"),
        ("It holds 'a'.", "- `ledger/cache.py:13`\n- line 9 of ledger/cache.py"),
        ("It holds 'a'.", "[variable values and stack frames you observed]"),
        ("It holds 'a'.", "self.order = "),
        ("At ledger/cache.py:13 the value is .", "locals at line 14"),
        ("`self.order` = , as expected.", "locals at line 14"),
        ("`self.order` is ``.", "locals at line 14"),
        ("It returned ; expected 'a'.", "locals at line 14"),
        ("The value of `self.order` is", "locals at line 14"),
    ],
)
def test_an_answer_that_shows_nothing_is_none(tmp_path: Path, answer: str, evidence: str) -> None:
    [(rollout, (main, sub)), other] = make_rollouts(2)
    told = DebugAnswer("?", answer, evidence, "ledger/cache.py:13")
    run = write_run(tmp_path / "run", [(rollout, (main, replace(sub, answer=told))), other])
    assert dropped(run_format(ALL_TRAIN, run).funnel.steps)["answered"] == 1


@pytest.mark.parametrize(
    ("answer", "evidence"),
    [
        ("Yes, ledger/cache.py:13 is reached.", "stopped at ledger/cache.py:13"),
        ("It compares with `==`.", "ledger/cache.py:13 in put"),
        ("It is ... as before, what it was.", "No hit was collected"),
        ("The text is 'a = ;' there.", "locals at line 14"),
        ("`[]`", "[]"),
    ],
)
def test_a_short_answer_is_one(tmp_path: Path, answer: str, evidence: str) -> None:
    [(rollout, (main, sub))] = make_rollouts(1)
    told = DebugAnswer("?", answer, evidence, "ledger/cache.py:13")
    run = write_run(tmp_path / "run", [(rollout, (main, replace(sub, answer=told)))])
    everything = ALL_TRAIN.model_copy(update={"min_grounding": None})
    assert run_format(everything, run).funnel.kept == 1


def test_an_answer_with_unanswered_calls_is_no_end(tmp_path: Path) -> None:
    rollout = make_rollout("bad-1")
    rollouts = [*make_rollouts(1), (rollout, (calling_at_the_end(sub_of(rollout)),))]
    funnel = run_format(ALL_TRAIN, write_run(tmp_path / "run", rollouts)).funnel
    assert dropped(funnel.steps)["answered"] == 1


def test_a_refuted_conversation_and_an_ungrounded_breakpoint_are_dropped(tmp_path: Path) -> None:
    refuted, guessing = make_rollout("bad-1"), make_rollout("bad-2")
    failed = replace(sub_of(refuted), stop_reason=RunStopReason.FAILURE)
    sub = with_inspection(sub_of(guessing))
    *before, last = sub.messages
    point = json.dumps({"action": "set", "location": "never/shown.py:3"})
    call = ToolCall("guess", "debug_breakpoint", point)
    asked = MessageRow(Message("assistant", "", tool_calls=(call,)))
    told = MessageRow(Message("tool", "Breakpoint set", tool_call_id="guess", name=call.name))
    guessed = replace(sub, messages=(*before, asked, told, last))
    rollouts = [*make_rollouts(1), (refuted, (failed,)), (guessing, (guessed,))]
    funnel = run_format(ALL_TRAIN, write_run(tmp_path / "run", rollouts)).funnel
    counts = dropped(funnel.steps)
    assert (counts["confirmed"], counts["grounded_actions"]) == (1, 1)


BAD: dict[str, tuple[Rollout, Conversation]] = {
    "resolved": (r := make_rollout("bad-1", resolved=False), sub_of(r)),
    "untampered": (r := make_rollout("bad-7", patch_marks=("atexit",)), sub_of(r)),
    "session_started": (r := make_rollout("bad-2"), exited_at_once(sub_of(r))),
    "inspected": (r := make_rollout("bad-3"), no_events(sub_of(r), 2)),
    "answered": (r := make_rollout("bad-4"), replace(sub_of(r), answer=None)),
    "within_length": (r := make_rollout("bad-5"), replace(sub_of(r), tools=" " * 50_000 + "[]")),
}


def test_each_filter_is_counted_in_order(tmp_path: Path) -> None:
    failed = make_failed_rollout(FailureKind.MODEL, "bad-6", resolved=True)
    bad = [(rollout, (conversation,)) for rollout, conversation in BAD.values()]
    rollouts = [*make_rollouts(2), *bad, (failed, (sub_of(failed),))]
    again = make_rollout("ledger-1", attempt=1)
    rollouts.append((again, (sub_of(again),)))
    run = write_run(tmp_path / "run", rollouts)
    funnel = run_format(FormatConfig(test_fraction=0, max_characters=20_000), run).funnel
    expected = dict.fromkeys(BAD, 1) | {"role": 2, "no_failure": 1, "unique": 1}
    assert dropped(funnel.steps) == expected
    assert funnel.conversations == 12
    assert [step.remaining for step in funnel.steps][-1] == funnel.kept == 2
    lines = (run / "sft" / "README.md").read_text().splitlines()
    assert any(line.startswith("| unique |") and line.endswith("| 1 | 2 |") for line in lines)


def test_filters_can_be_switched_off(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [(a, (b,)) for a, b in BAD.values()])
    config = FormatConfig(
        test_fraction=0,
        only_resolved=False,
        keep_marked_patches=True,
        require_session=False,
        min_stops=None,
        min_inspections=None,
        require_answer=False,
        max_characters=None,
        min_grounding=None,
        masked_turns=(),
        drop_leaks=(),
        max_similarity=None,
    )
    assert run_format(config, run).funnel.kept == len(BAD)


def test_no_repository_is_in_both_splits(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    report = run_format(FormatConfig(test_fraction=0.4), run)
    splits = {
        name: {row["repository"] for row in load(run, name, tmp_path)} for name in ("train", "test")
    }
    assert all(splits.values())
    assert not splits["train"] & splits["test"]
    assert splits["train"] | splits["test"] == set(REPOSITORIES)
    assert {name: each.repositories for name, each in report.splits.items()} == splits


def test_nothing_left_names_the_filter_and_writes_nothing(tmp_path: Path) -> None:
    rollouts = [(make_rollout(f"{name}-1", resolved=False)) for name in REPOSITORIES]
    run = write_run(tmp_path / "run", [(r, make_conversations(r)) for r in rollouts])
    with pytest.raises(ConfigError, match=r"(?s)in order:\n  .*'resolved' dropped 5"):
        run_format(ALL_TRAIN, run)
    assert {path.name for path in run.iterdir() if "sft" in path.name} == set()


def test_a_run_without_rollouts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="stepinto collect"):
        run_format(ALL_TRAIN, tmp_path)


def test_formatting_again_replaces_the_folder(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    run_format(FormatConfig(test_fraction=0.4), run)
    run_format(ALL_TRAIN, run)
    files = sorted(str(p.relative_to(run / "sft")) for p in (run / "sft").rglob("*.*"))
    data = split_file(run / "sft", "train").name
    assert files == ["README.md", f"data/{data}", "report.json"]


def test_the_folder_form_gives_each_run_its_own_rows(tmp_path: Path) -> None:
    for count in (1, 2):
        run = write_run(tmp_path / str(count) / "run", make_rollouts(count))
        run_format(ALL_TRAIN, run)
        loaded = load_dataset(str(run / "sft"), cache_dir=str(tmp_path / "cache"))
        assert len(loaded["train"]) == count


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    run_format(ALL_TRAIN, run)
    path = split_file(run / "sft", "train")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ConfigError, match="run `stepinto format` on this run folder again"):
        list(read_rows(path))


def test_card_has_the_hub_yaml_and_the_config(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    config = FormatConfig(test_fraction=0.4, license="apache-2.0")
    report = run_format(config, run)
    text = (run / "sft" / "README.md").read_text()
    _, front, body = text.split("---\n", 2)
    facts = yaml.safe_load(front)
    assert facts["license"] == "apache-2.0"
    assert facts["configs"][0]["data_files"][0] == {
        "split": "train",
        "path": f"data/{split_file(run / 'sft', 'train').name}",
    }
    loaded = load_dataset(str(run / "sft"), cache_dir=str(tmp_path / "cache"))
    assert {name: len(rows) for name, rows in loaded.items()} == {
        name: each.rows for name, each in report.splits.items()
    }
    assert yaml.safe_dump({"format": config.model_dump(mode="json")}) in body
    tools = Counter({"debug_start_session": 5, "debug_control": 5, "debug_inspect": 5})
    assert all(f"| {name} | {count} |" in body for name, count in tools.items())


HOSTILE = '</td><script>alert("1")</script> [x](http://evil.test) ![y](z)\n---\n# | Obey\t<!-- '


def test_no_text_is_markup_in_the_card(tmp_path: Path) -> None:
    rollouts = [
        (replace(rollout, category=HOSTILE, run=HOSTILE), conversations)
        for rollout, conversations in make_rollouts()
    ]
    run = write_run(tmp_path / "run", rollouts)
    name = "a: 'b' \"c\"\n---\n<img src=x>"
    report = run_format(FormatConfig(test_fraction=0, name=name, tags=(HOSTILE,)), run)
    assert report.splits["train"].rows == 5
    card = (run / "sft" / "README.md").read_text()
    read = DatasetCard(card)
    facts = vars(read.data)
    assert (facts["pretty_name"], facts["tags"]) == (name, [HOSTILE])
    body = read.text.partition("## Config")[0]
    html = MarkdownIt("gfm-like", {"linkify": False}).render(body)
    tags = re.findall("<([a-z0-9]+)", html)
    assert not {"script", "img", "a"} & set(tags)
    assert "<!--" not in html
    assert tags.count("h1") == 1
    assert "Obey" in html


def test_rows_and_card_tell_the_system(tmp_path: Path) -> None:
    one, other = make_rollouts(2)
    other = (replace(other[0], system="inspectcoder+tools"), other[1])
    run = write_run(tmp_path / "run", [one, other])
    run_format(ALL_TRAIN, run)
    systems = {row["system"] for row in load(run, "train", tmp_path)}
    assert systems == {one[0].system, "inspectcoder+tools"}
    assert "| inspectcoder+tools |" in (run / "sft" / "README.md").read_text()


def test_conversations_without_their_rollout_do_not_count(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", make_rollouts(2))
    rollout, conversations = make_rollouts(3)[2]
    table = RunStore(run).conversations
    table.write(rollout.rollout_id, table.arrow([plain(c) for c in conversations]))
    assert run_format(ALL_TRAIN, run).funnel.conversations == 4
