"""Write a report: first the pages of the selected rollouts, then the index with tables and charts
of each stage, a summary of all rollouts, and links to the pages.

Layout of the folder::

    index.html            tables, charts, and the list of conversations
    sample.csv            the rollouts of a random sample, for a reviewer's verdicts
    conversations/*.html  one page per conversation

Every page contains its own style, and fetches nothing. Of all conversations, only those of one
rollout are in memory.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from collect.code.patches import TestFiles
from collect.errors import ConfigError
from collect.question_records import Question, read_questions
from collect.questions.asking import VARIANT as QUESTIONS
from collect.questions.asking import rollouts_of
from collect.questions.claims import MAX_CHARACTERS
from collect.questions.grounding import GroundedClaim, answer_texts, ground
from collect.questions.scoring import score_text
from collect.rollouts.progress import ProgressBar
from collect.rollouts.rollout import FAIL_TO_PASS
from collect.store.files import WORK, file_name, write_text
from collect.store.messages import ToolCall
from collect.store.records import Conversation, MessageRow, Role, Rollout
from collect.store.run_store import RunStore
from eval.figures import MARKDOWN, csv_text, table
from eval.metrics import Labels
from eval.report.facts import Selection, ShownRollout, Totals, choose
from eval.report.index import View, arm_class, card_view, html_of, outcomes_table, part_view
from eval.report.rendering import GENERATOR, highlighted, render
from format.dataset import call_arguments
from sandbox.debugger import DebugEvent, StopReason
from sandbox.debugger import render as render_event

INDEX, PAGES, SAMPLE = "index.html", "conversations", "sample.csv"
LISTED = re.compile(
    r"(?P<current>->)? *+(?P<breakpoint>\*)? *+(?P<number>\d+)(?: {2}(?P<text>.*))?"
)
"""A line of `DebugEvent.source`: `->` marks the current line, `*` a breakpoint."""
MOST_LINES = 3_000
"""Limit for a patch in a page; the Parquet files have it whole."""
MOST_TESTS = 200
LEAST_REPEATED = 200
"""A tool's answer of so many characters is not shown again."""
CODE = {"python": "x.py", "java": "X.java"}
HEADS = ("diff ", "index ", "--- ", "+++ ", "new file", "deleted file", "# ")
KINDS = {"+": "added", "-": "removed", "@": "hunk"}


@dataclass(frozen=True)
class Link:
    page: str
    """File name, in the same folder."""
    role: Role | None = None
    """None for a rollout that failed before any conversation."""
    index: int = 0
    steps: int = 0


@dataclass(frozen=True)
class ReportRequest:
    title: str
    run: Path
    sources: Mapping[str, Path]
    """Folders with rollouts, by stage."""
    output: Path
    """The report's folder: a new one, or that of an earlier report."""
    selection: Selection = field(default_factory=Selection)
    questions: Sequence[Path] = ()
    """Files with the runtime questions that were answered, if they still exist."""
    labels: Labels = field(default_factory=Labels)


@dataclass(frozen=True)
class ReportPaths:
    index: Path
    pages: int
    rollouts: int
    """Rollouts with pages."""
    matching: int
    """Rollouts that match the selection, ignoring the limit."""


def write_report(request: ReportRequest) -> ReportPaths:
    """Write the pages, replacing an earlier report.

    Raises ConfigError if the folder holds anything else, verdicts on a sample among it, or a table
    can't be read.
    """
    output, index, sample = request.output, request.output / INDEX, request.output / SAMPLE
    check_output(output)
    folder = output / PAGES
    folder.mkdir(parents=True, exist_ok=True)
    write_text(index, render("unfinished.html.j2", title=request.title))
    chosen, totals = choose(request.sources, request.selection)
    questions = questions_of(chosen, request.questions)
    earlier = {path.name for path in folder.glob("*.html")}
    links: dict[tuple[str, str], Sequence[Link]] = {}
    written: set[str] = set()
    place = {(each.stage, each.row.rollout_id): at for at, each in enumerate(chosen)}
    with ProgressBar("pages of rollouts", len(chosen)) as bar:
        for shown, conversations in _rollouts(request.sources, chosen):
            question = questions.get(shown.row.rollout_id)
            at = place[shown.stage, shown.row.rollout_id]
            neighbours = (chosen[max(at - 1, 0) : at], chosen[at + 1 : at + 2])
            pages = _pages(request, shown, conversations, question, neighbours)
            for link, text in pages:
                write_text(folder / link.page, text, durable=False)
                written.add(link.page)
            links[shown.stage, shown.row.rollout_id] = [link for link, _ in pages]
            bar.advance()
    for name in earlier - written:
        (folder / name).unlink()
    listed = [(shown, links[shown.stage, shown.row.rollout_id]) for shown in chosen]
    write_text(index, _index(request, totals, listed))
    if request.selection.at_random:
        write_text(sample, csv_text([SAMPLE_COLUMNS, *map(_sample_row, listed)]))
    return ReportPaths(index, len(written), len(chosen), totals.matching)


def check_output(output: Path) -> None:
    """Raise ConfigError if pages in this folder would replace anything but an earlier report."""
    index, sample = output / INDEX, output / SAMPLE
    is_report = index.is_file() and GENERATOR in index.read_text(encoding="utf-8", errors="replace")
    is_free = not output.exists() or (output.is_dir() and not any(output.iterdir()))
    if not is_report and not is_free:
        raise ConfigError(
            f"{output} is no report of StepInto's; name a new folder for it with --output, "
            "or remove that one"
        )
    if sample.exists():
        raise ConfigError(
            f"{sample} may have a reviewer's verdicts; name a new folder with --output, or remove "
            "that file"
        )


SAMPLE_COLUMNS = (
    *("stage", "variant", "main_model", "sub_model", "benchmark", "instance_id", "attempt"),
    *("outcome", "page", "correct", "note"),
)
"""The last two are for a reviewer to fill in."""


def _sample_row(listed: tuple[ShownRollout, Sequence[Link]]) -> tuple[str | int, ...]:
    shown, (first, *_) = listed
    row = shown.row
    models = (row.main_model, row.sub_model)
    bug = (row.benchmark, row.instance_id, row.attempt)
    return (shown.stage, row.variant, *models, *bug, shown.outcome, f"{PAGES}/{first.page}", "", "")


def question_files(run: Path) -> list[Path]:
    """A run's files of questions, without the beginnings of files that were interrupted."""
    folders = (run, run / "eval", run / "eval" / "questions")
    found = [path for folder in folders for path in sorted(folder.glob("*questions*.jsonl"))]
    return [path for path in found if not path.name.endswith(WORK)]


def questions_of(chosen: Iterable[ShownRollout], paths: Iterable[Path]) -> Mapping[str, Question]:
    """The files' questions that these rollouts answer, by rollout id.

    Missing files are skipped; raises ConfigError for one that can't be read.
    """
    asked = [each.row for each in chosen if each.row.variant == QUESTIONS]
    wanted = {each.rollout_id for each in asked}
    answering = {(each.sub_model, each.attempt) for each in asked}
    found: dict[str, Question] = {}
    for path in dict.fromkeys(paths):
        if wanted and path.is_file():
            answered = rollouts_of(read_questions(path), answering)
            found |= {key: question for key, question in answered if key in wanted}
    return found


def _rollouts(
    sources: Mapping[str, Path], chosen: Sequence[ShownRollout]
) -> Iterator[tuple[ShownRollout, list[Conversation]]]:
    """Each selected rollout with its conversations in start order."""
    for stage, folder in sources.items():
        missing = {each.row.rollout_id: each for each in chosen if each.stage == stage}
        if missing:
            rows = RunStore(folder).read_conversations(only=set(missing))
            for rollout_id, group in groupby(rows, lambda row: row.rollout_id):
                yield missing.pop(rollout_id), sorted(group, key=lambda row: row.index)
        yield from ((each, []) for each in missing.values())


def _pages(
    request: ReportRequest,
    shown: ShownRollout,
    conversations: Sequence[Conversation],
    question: Question | None,
    neighbours: tuple[Sequence[ShownRollout], Sequence[ShownRollout]],
) -> list[tuple[Link, str]]:
    """One page per conversation of a rollout, or one without any. The first has the outcome.
    The ends lead to the first pages of its neighbours: the rollouts before and after it, if any."""
    links = {
        each.conversation_id: Link(page_name(shown, number), each.role, each.index, each.steps)
        for number, each in enumerate(conversations)
    }
    all_links = list(links.values()) or [Link(page_name(shown))]
    before, after = ([page_name(row) for row in each] or [""] for each in neighbours)
    line = [*before, *(link.page for link in all_links), *after]
    pages = []
    for number, link in enumerate(all_links):
        values: dict[str, Any] = {"conversation": None, "question": None, "answer": None}
        if conversations:
            conversation = conversations[number]
            children: dict[str, list[Link]] = defaultdict(list)
            for other in conversations:
                if other.parent_conversation_id == conversation.conversation_id:
                    children[other.parent_call_id or ""].append(links[other.conversation_id])
            values = conversation_view(conversation, children, question, shown.row.language)
            values["parent"] = links.get(conversation.parent_conversation_id or "")
        text = render(
            "conversation.html.j2",
            title=request.title,
            shown=shown,
            variant=request.labels.variant(shown.arm.variant),
            models=request.labels.models(shown.arm, shown.scripted),
            conversations=all_links,
            before=line[number],
            after=line[number + 2],
            result=outcome_view(shown.row) if number == 0 else None,
            **values,
        )
        pages.append((link, text))
    return pages


def conversation_view(
    conversation: Conversation,
    children: Mapping[str, Sequence[Link]],
    question: Question | None,
    language: str,
) -> View:
    """What the page of a conversation shows. `children` are the conversations that its calls
    started, by call id; `question` is the runtime question that it answers."""
    rows = conversation.messages
    turns = turns_of(conversation, children, language)
    # The task is what comes before the model's first step.
    told = next((i for i, turn in enumerate(turns) if turn["step"]), len(turns))
    return {
        "conversation": conversation,
        "question": question_view(question, conversation.final_answer) if question else None,
        "answer": answer_view(conversation),
        "task": turns[:told],
        "turns": turns[told:],
        "tools": [tool["function"] for tool in json.loads(conversation.tools)],
        "prompt_tokens": sum(row.prompt_tokens for row in rows),
        "completion_tokens": sum(row.completion_tokens for row in rows),
        "seconds": sum(row.seconds for row in rows),
        "dollars": sum(row.dollars for row in rows),
    }


def turns_of(
    conversation: Conversation, children: Mapping[str, Sequence[Link]], language: str
) -> list[View]:
    """All messages of the conversation, answers below the calls that they answer."""
    rows = conversation.messages
    seen: dict[str, int] = {}
    for index, row in enumerate(rows):
        if row.message.role == "tool" and len(row.message.content) >= LEAST_REPEATED:
            seen.setdefault(row.message.content, index)
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
        earlier = {
            call_id: first
            for call_id, at in answers.items()
            if (first := seen.get(rows[at].message.content, at)) != at
        }
        calls = [
            {
                "earlier": earlier.get(call.id),
                "call": call,
                "arguments": readable_arguments(call),
                "answer": rows[answers[call.id]] if call.id in answers else None,
                "answer_index": answers.get(call.id),
                "code": code_names(call, language),
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


def readable_arguments(call: ToolCall) -> list[tuple[str, str]] | None:
    """A call's arguments by name, strings as they are; None if they are not a JSON object."""
    try:
        parsed = call_arguments(call)
    except ValueError:
        return None
    return [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in parsed.items()
    ]


def code_names(call: ToolCall, language: str) -> defaultdict[str, str]:
    """By argument, and under "" of the answer, the name of a file that tells in which language it
    is; empty if it is no code."""
    arguments = dict(readable_arguments(call) or ())
    path = arguments.get("path", "")
    code = CODE.get(language, "")
    known = {"": path, "command": "x.sh", "code": code, "expression": code, "condition": code}
    of_file = dict.fromkeys(("content", "old_string", "new_string"), path)
    return defaultdict(str, known | of_file)


def event_view(event: DebugEvent) -> View:
    """An event: its CSS class, its first line as text, and its source lines with their marks."""
    if event.stop_reason in (StopReason.EXITED, StopReason.KILLED):
        kind = "ended"
    elif event.stop_reason is not None:
        kind = "stop"
    else:
        kind = "error" if event.error_kind is not None else "look"
    source: list[View] = []
    for line in event.source:
        found = LISTED.fullmatch(line)
        # The debugger may list something other than source.
        marks = found.groupdict() if found else {"number": "", "text": line}
        source.append({"current": None, "breakpoint": None, **marks, "text": marks["text"] or ""})
    texts = (shown["text"].replace("\n", "\\n") for shown in source)
    code = highlighted("\n".join(texts), event.file or "")
    for shown, text in zip(source, code.split("\n"), strict=False):
        shown["text"] = text
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
    # Not the digits of `1.5.0`, `-5` or `cart.py:5` for a claim of 5.
    words = rf"(?<!\w)(?<![\w./:-](?=\d))(?:{either})(?!\w|(?<=\d)[./:-]\d)"
    for found in re.finditer(words, text[:MAX_CHARACTERS]):
        pieces += [(text[done : found.start()], ""), (found[0], supports[found[0]])]
        done = found.end()
    return [*pieces, (text[done:], "")]


def question_view(question: Question, answer: str) -> View:
    """The question with the parts of the true answer, and the verdict, computed again."""
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


def outcome_view(row: Rollout) -> View:
    """A rollout's outcome: tests that matter, and the patch."""
    telling = [
        test for test in row.tests if test.group == FAIL_TO_PASS or test.before != test.after
    ]
    lines = row.patch.rstrip("\n").split("\n") if row.patch.strip() else []
    patch = [
        ("head" if line.startswith(HEADS) else KINDS.get(line[:1], "same"), line) for line in lines
    ]
    kinds = [kind for kind, _ in patch]
    shown = telling[:MOST_TESTS]
    return {
        "shown_tests": shown,
        "other_tests": len(row.tests) - len(shown),
        "patch": patch[:MOST_LINES],
        "patch_left_out": len(patch[MOST_LINES:]),
        "added": kinds.count("added"),
        "removed": kinds.count("removed"),
        "is_question": row.variant == QUESTIONS,
    }


def page_name(shown: ShownRollout, number: int = 0) -> str:
    """The file name of a rollout's page. A collected rollout and an evaluated one can have the same
    id."""
    return f"{shown.stage}-{file_name(shown.row.rollout_id)}-{number}.html"


def _index(
    request: ReportRequest, totals: Totals, rows: Sequence[tuple[ShownRollout, Sequence[Link]]]
) -> str:
    labels = request.labels
    parts = [
        part_view(stage, folder, request.output, labels)
        for stage, folder in request.sources.items()
        if (folder / MARKDOWN).is_file()
    ]
    places = {part["stage"]: part["places"] for part in parts}
    listed = []
    for shown, links in rows:
        arm = labels.name(shown.arm, shown.scripted)
        mark = arm_class(arm, places.get(shown.stage, {}))
        listed.append({"shown": shown, "links": links, "arm": arm, "mark": mark})
    categories = {shown.row.category for shown, _ in rows if shown.row.category}
    values = {
        ("outcome", "Outcome"): {shown.outcome.value for shown, _ in rows},
        ("stage", "Stage"): {shown.stage for shown, _ in rows},
        ("arm", "Arm"): {str(each["arm"]) for each in listed},
        ("category", "Category"): categories,
    }
    failures = [["Stage", "Failure", "Rollouts"]]
    failures += [[*key, str(count)] for key, count in totals.failures.most_common()]
    return render(
        "index.html.j2",
        title=request.title,
        facts=card_view(request.run, totals, request.output),
        totals=totals,
        has_scripted=any(scripted for _, _, scripted, _ in totals.outcomes),
        parts=parts,
        outcomes=html_of(table(outcomes_table(totals, labels))),
        failures=html_of(table(failures)) if totals.failures else None,
        rows=listed,
        with_category=bool(categories),
        filters=[(*key, sorted(found)) for key, found in values.items() if len(found) > 1],
    )
