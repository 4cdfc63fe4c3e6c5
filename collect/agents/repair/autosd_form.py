"""AutoSD's form of acting: hypothesis, prediction, experiment; then, with what was observed, a
conclusion and the next hypothesis."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from collect.agents.forms import Answered, MalformedAction, worst
from collect.agents.repair.autosd_script import HOW_TO
from collect.agents.repair.code_blocks import fenced_blocks
from collect.messages import Message, ToolCall
from collect.records import MessageRow

EXPERIMENT_TOOL = "experiment"
DONE = "<DEBUGGING DONE>"
HEADING = re.compile(
    r"^[ \t>#*_-]*(Attempt(?=[ \t]*\d)|Hypothesis|Prediction|Experiment|Observation|Conclusion)"
    r"(?:[ \t]*\d+\.?)?[ \t]*[*_]*(?::[*_]*|[ \t]*$)[ \t]*",
    re.MULTILINE | re.IGNORECASE,
)
VERDICT = re.compile(
    r"(?P<undecided>undecided|not rejected)"
    r"|(?P<rejected>(?:\bnot|n't)(?: be| been)? (?:supported|confirmed)|unsupported"
    r"|rejected|refuted)"
    r"|(?P<supported>supported|confirmed)",
    re.IGNORECASE,
)
NO_EXPERIMENT = (
    'There was no experiment in your response. Write "Hypothesis:", "Prediction:" and '
    f'"Experiment:" with one script in backticks. {HOW_TO} If the cause is confirmed, end your '
    f"conclusion with {DONE} instead."
)
WARN_AT = 2


@dataclass(frozen=True)
class Trial:
    """One turn of the scientific method; parts that the model left out are empty."""

    hypothesis: str = ""
    prediction: str = ""
    experiment: str = ""
    observation: str = ""
    conclusion: str = ""

    @property
    def rejected(self) -> bool:
        """Whether the conclusion says so of the hypothesis."""
        verdict = VERDICT.search(self.conclusion)
        return verdict is not None and verdict.lastgroup == "rejected"


class ScientificForm:
    """One experiment a reply; a reply that ends the debugging has none."""

    by_tools = False
    stop: tuple[str, ...] = ("\nObservation:", "\n**Observation")
    stops_at_error = True

    def calls(self, reply: Message, step: int) -> Sequence[ToolCall]:
        parts = list(sections(reply.content))
        script = next((script_of(text) for name, text in parts if name == "experiment"), "")
        if script:
            arguments = json.dumps({"script": script})
            return [ToolCall(f"experiment_{step}", EXPERIMENT_TOOL, arguments)]
        if is_done(reply.content):
            return []
        raise MalformedAction(f"Format error: {NO_EXPERIMENT}")

    def answered(self, answered: Answered) -> MessageRow | None:
        return None

    def all_answered(
        self, answered: Sequence[Answered], left_out: int, steps_left: int
    ) -> MessageRow | None:
        text = "\n".join(f"Observation: {each.reply.text}" for each in answered)
        if 0 < steps_left <= WARN_AT:
            text += f"\n\nYou have {steps_left} steps left; end with {DONE} within them."
        seconds = sum(each.seconds for each in answered)
        return MessageRow(Message("user", text), seconds=seconds, tool_outcome=worst(answered))


def sections(text: str) -> Iterator[tuple[str, str]]:
    """The headed parts of a reply, names in lower case.

    It is read up to where the model makes up an observation, or goes on after its experiment as
    if it had one, and up to where it says that it is done.
    """
    text = _until_done(text)
    marks = list(HEADING.finditer(text))
    ends = [mark.start() for mark in marks[1:]]
    experimented = False
    for mark, end in zip(marks, [*ends, len(text)], strict=False):
        name = mark[1].lower()
        if name == "observation" or experimented:
            return
        experimented = name == "experiment"
        yield name, text[mark.end() : end].strip()


def is_done(text: str) -> bool:
    """Whether a reply ends the debugging."""
    return DONE.lower() in text.lower()


def _until_done(text: str) -> str:
    at = text.lower().find(DONE.lower())
    return text if at < 0 else text[: at + len(DONE)]


def script_of(text: str) -> str:
    """The script in an experiment's text: in a fenced block, in backticks, or the text itself."""
    blocks = [block for block in fenced_blocks(text) if block.strip()]
    if blocks:
        return blocks[0].strip()
    start, end = text.find("`"), text.rfind("`")
    if 0 <= start < end:
        return text[start + 1 : end].strip()
    return text.strip().strip("`").strip()


def trials_of(messages: Sequence[Message]) -> list[Trial]:
    """What a debugging conversation has tried, from the messages after its task."""
    trials: list[Trial] = []
    for message in messages:
        if message.role == "assistant":
            _note_reply(trials, dict(sections(message.content)))
        elif message.role == "user" and trials and message.content.startswith("Observation:"):
            observed = message.content.removeprefix("Observation:").partition("\n\nYou have ")[0]
            trials[-1] = replace(trials[-1], observation=observed.strip())
    return trials


def _note_reply(trials: list[Trial], parts: dict[str, str]) -> None:
    if trials and parts.get("conclusion"):
        conclusion = parts["conclusion"].removesuffix(DONE).rstrip()
        trials[-1] = replace(trials[-1], conclusion=conclusion)
    new = {name: parts.get(name, "") for name in ("hypothesis", "prediction", "experiment")}
    if any(new.values()):
        trials.append(Trial(**new))


def debugging_log(trials: Sequence[Trial]) -> str:
    """The log as a Patch Coder reads it: without the hypotheses that were rejected."""
    kept = [trial for trial in trials if not trial.rejected]
    if not kept:
        return "No hypothesis about the cause was supported by an experiment."
    return "\n\n".join(_written(number, trial) for number, trial in enumerate(kept, 1))


def _written(number: int, trial: Trial) -> str:
    parts = vars(trial).items()
    lines = [f"{name.capitalize()}: {text}" for name, text in parts if text]
    return "\n".join([f"Attempt {number}.", *lines])
