"""What the pages of conversations and outcomes show, ready for their templates."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from collect.code.patches import TestFiles
from collect.question_records import Question
from collect.questions.asking import VARIANT as QUESTIONS
from collect.questions.grounding import MAX_CHARACTERS, GroundedClaim, answer_texts, ground
from collect.questions.scoring import score_text
from collect.rollouts.rollout import FAIL_TO_PASS
from collect.store.records import Conversation, MessageRow, Role, Rollout
from eval.report.facts import outcome_of
from eval.report.rendering import render
from sandbox.debugger import DebugEvent, StopReason
from sandbox.debugger import render as render_event

LISTED = re.compile(r"(?P<current>->)? *(?P<breakpoint>\*)? *(?P<number>\d+)(?: {2}(?P<text>.*))?")
"""A line of `DebugEvent.source`: `->` marks the current line, `*` a breakpoint."""
MOST_LINES = 3_000
"""Limit for a patch in a page; the Parquet files have it whole."""
MOST_TESTS = 200
HEADS = ("diff ", "index ", "--- ", "+++ ", "new file", "deleted file", "# ")
KINDS = {"+": "added", "-": "removed", "@": "hunk"}
View = dict[str, Any]
"""The fields of something that a template shows."""


@dataclass(frozen=True)
class Link:
    page: str
    """File name, in the same folder."""
    role: Role | None = None
    """None for a rollout that failed before any conversation."""
    index: int = 0
    steps: int = 0


def conversation_view(
    conversation: Conversation,
    children: Mapping[str, Sequence[Link]],
    question: Question | None,
) -> View:
    """What the page of a conversation shows. `children` are the conversations that its calls
    started, by call id; `question` is the runtime question that it answers."""
    rows = conversation.messages
    turns = turns_of(conversation, children)
    # The task is what comes before the model's first step.
    told = next((i for i, turn in enumerate(turns) if turn["step"]), len(turns))
    return {
        "conversation": conversation,
        "question": question_view(question, conversation.final_answer) if question else None,
        "answer": answer_view(conversation),
        "task": turns[:told],
        "turns": turns[told:],
        "tools": tools_of(conversation.tools),
        "prompt_tokens": sum(row.prompt_tokens for row in rows),
        "completion_tokens": sum(row.completion_tokens for row in rows),
        "seconds": sum(row.seconds for row in rows),
        "dollars": sum(row.dollars for row in rows),
    }


def turns_of(conversation: Conversation, children: Mapping[str, Sequence[Link]]) -> list[View]:
    """All messages of the conversation, answers below the calls that they answer."""
    rows = conversation.messages
    events: dict[tuple[int, str], list[View]] = defaultdict(list)
    for event in conversation.events:
        events[event.message_index, event.tool_call_id].append(event_view(event.event))
    turns: list[View] = []
    index = steps = 0
    while index < len(rows):
        message = rows[index].message
        is_step = message.role == "assistant"
        steps += is_step
        answers = _answers(rows, index) if is_step else {}
        calls = [
            {
                "call": call,
                "arguments": readable_arguments(call.arguments),
                "answer": rows[answers[call.id]] if call.id in answers else None,
                "answer_index": answers.get(call.id),
                "events": events.get((index, call.id), ()),
                "children": children.get(call.id, ()),
            }
            for call in message.tool_calls
        ]
        known = {call.id for call in message.tool_calls}
        # Events without a call: from actions in the text, or from an earlier session.
        others = [
            view
            for (at, call_id), views in events.items()
            if at == index and call_id not in known
            for view in views
        ]
        turns.append(
            {
                "index": index,
                "row": rows[index],
                "step": steps if is_step else 0,
                "calls": calls,
                "events": others,
            }
        )
        index += 1 + len(answers)
    return turns


def _answers(rows: Sequence[MessageRow], asked: int) -> dict[str, int]:
    """Index of the answer to each of a message's calls, by call id. A model may reuse an id in a
    later message, so only the directly following answers count."""
    known = {call.id for call in rows[asked].message.tool_calls}
    found: dict[str, int] = {}
    for index in range(asked + 1, len(rows)):
        message = rows[index].message
        call_id = message.tool_call_id or ""
        if message.role != "tool" or call_id not in known or call_id in found:
            break
        found[call_id] = index
    return found


def readable_arguments(raw: str) -> list[tuple[str, str]] | None:
    """A call's arguments by name, strings as they are; None if they are not a JSON object."""
    try:
        parsed = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict):
        return None
    return [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in parsed.items()
    ]


def event_view(event: DebugEvent) -> View:
    """An event: its CSS class, its first line as text, and its source lines with their marks."""
    if event.stop_reason in (StopReason.EXITED, StopReason.KILLED):
        kind = "ended"
    elif event.stop_reason is not None:
        kind = "stop"
    else:
        kind = "error" if event.error_kind is not None else "look"
    source = []
    for line in event.source:
        found = LISTED.fullmatch(line)
        # The debugger may list something other than source.
        marks = found.groupdict() if found else {"number": "", "text": line}
        source.append({"current": None, "breakpoint": None, **marks, "text": marks["text"] or ""})
    headline = render_event(event).partition("\n")[0]
    return {"event": event, "kind": kind, "headline": headline, "source": source}


def answer_view(conversation: Conversation) -> View | None:
    """An answer's fields and the claims in them; None if it has none whose claims are checked."""
    told = answer_texts(conversation)
    has_fields = conversation.answer is not None and len(told) > 1
    labels = ("Answer", "Evidence", "Location") if has_fields else ("Cause",)
    texts = [(label, text) for label, text in zip(labels, told, strict=False) if text]
    if not texts:
        return None
    grounding = ground(conversation, TestFiles())
    fields = [(label, marked(text, grounding.claims)) for label, text in texts]
    return {"fields": fields, "grounding": grounding}


def marked(text: str, claims: Sequence[GroundedClaim]) -> list[tuple[str, str]]:
    """The text split at claims that it contains verbatim, each with its evidence, which is empty
    between claims; longer claims come first."""
    supports: dict[str, str] = {}
    for claim in sorted(claims, key=lambda each: len(each.text)):
        supports[claim.text] = claim.grounded.value
        _, _, value = claim.text.partition(" = ")
        if value:
            supports[value] = claim.grounded.value
    if not supports:
        return [(text, "")]
    either = "|".join(map(re.escape, sorted(supports, key=len, reverse=True)))
    pieces: list[tuple[str, str]] = []
    done = 0
    for found in re.finditer(rf"(?<!\w)(?:{either})(?!\w)", text[:MAX_CHARACTERS]):
        pieces += [(text[done : found.start()], ""), (found[0], supports[found[0]])]
        done = found.end()
    return [*pieces, (text[done:], "")]


def tools_of(sent: str) -> list[View]:
    """The tools that the model had, in OpenAI's format; empty for anything else."""
    try:
        return [
            {
                "name": str(function["name"]),
                "description": str(function.get("description", "")),
                "parameters": list(function.get("parameters", {}).get("properties", {})),
            }
            for function in (tool["function"] for tool in json.loads(sent))
        ]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []


def question_view(question: Question, answer: str) -> View:
    """The question with the parts of the true answer, and the verdict on an answer, computed
    again."""
    truth = question.truth.model_dump(exclude={"kind"}, exclude_none=True)
    return {
        "question": question,
        "truth": [(name, _told(value)) for name, value in truth.items() if value != ""],
        "verdict": score_text(question, answer),
    }


def _told(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(_told(item) for item in value)
    if not isinstance(value, Mapping):
        return str(value)
    if "text" in value:
        return f"{value['text']}  ({value['type']})" if value["type"] else str(value["text"])
    within = f" in {value['function']}" if value.get("function") else ""
    return f"{value['file']}:{value['line']}{within}"


def outcome_markup(row: Rollout) -> Markup:
    """A rollout's outcome as HTML: tests that matter, patch, costs."""
    telling = [
        test for test in row.tests if test.group == FAIL_TO_PASS or test.before != test.after
    ]
    lines = row.patch.rstrip("\n").split("\n") if row.patch.strip() else []
    patch = [
        ("head" if line.startswith(HEADS) else KINDS.get(line[:1], "same"), line) for line in lines
    ]
    kinds = [kind for kind, _ in patch]
    shown = telling[:MOST_TESTS]
    text = render(
        "outcome.html.j2",
        row=row,
        outcome=outcome_of(row),
        shown_tests=shown,
        other_tests=len(row.tests) - len(shown),
        patch=patch[:MOST_LINES],
        patch_left_out=len(patch[MOST_LINES:]),
        added=kinds.count("added"),
        removed=kinds.count("removed"),
        is_question=row.variant == QUESTIONS,
    )
    return Markup(text)
