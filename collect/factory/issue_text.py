"""Issue texts as users write them, from the symptom alone: never where the fault is, or its fix."""

from __future__ import annotations

import random
import string
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from collect.benchmarks.base import Language
from collect.factory.claims import Claim, read_claim
from collect.factory.snippets import snippet
from collect.factory.symptom import Symptom, read_symptom

PHRASES = Path(__file__).with_name("issue_phrases.toml")
MAX_TITLE = 90
"""Characters."""
_ANY = "any"
_LEFT_OUT = ("found", "closing")
"""Parts that a text does without once it has named the test."""

__all__ = ["Symptom", "read_symptom", "write_issue"]


def write_issue(symptom: Symptom, seed: str) -> str:
    """A bug report: what was called, what happened, what was expected. The same for the same seed.

    It has no name that only the traceback shows, and no message or value that has one.
    """
    claim = read_claim(symptom)
    shown = Shown(symptom.project, symptom.tests, symptom.exception, snippet(symptom, claim))
    return compose(claim, shown, seed)


@dataclass(frozen=True)
class Shown:
    """What a report tells beside the claim."""

    project: str
    tests: Sequence[str]
    """Those that fail."""
    exception: str
    """The class that the first of them fails with."""
    snippet: str
    """Empty where there is none."""


def compose(claim: Claim, shown: Shown, seed: str, language: Language = "python") -> str:
    """A report of a claim. Phrases that need a part without a text are not taken."""
    structures, phrases = _read_phrases()
    known = {
        "project": shown.project,
        "test": shown.tests[0],
        "count": str(len(shown.tests)) if len(shown.tests) > 1 else "",
        "exception": shown.exception,
        "snippet": shown.snippet,
        "call": claim.call,
        "function": claim.function,
        "expected": claim.expected,
        "actual": claim.actual,
        "condition": claim.condition,
        "message": claim.message,
    }
    writer = _Writer(
        {**phrases[_ANY], **phrases[language], **phrases[claim.outcome.value]},
        {name: fact for name, fact in known.items() if fact},
        random.Random(seed),
    )
    return writer.text(writer.generator.choice(structures))


class _Writer:
    """Fills in the parts of one text."""

    def __init__(
        self,
        phrases: Mapping[str, Sequence[str]],
        facts: Mapping[str, str],
        generator: random.Random,
    ) -> None:
        self.generator = generator
        self._phrases = phrases
        self._facts = facts
        self._test_named = False

    def text(self, parts: Sequence[str]) -> str:
        """The parts, line by line; what is not the name of a part stands for itself."""
        lines: list[str] = []
        for part in parts:
            line = self._line(part) if part in self._phrases else part
            if line or (not part and lines and lines[-1]):
                lines.append(line)
        return "\n".join(lines).strip() + "\n"

    def _line(self, part: str) -> str:
        """One of the part's phrases whose facts are all known, those that tell most likeliest."""
        if part == "snippet" and part not in self._facts:
            part = "test"
        known = set(self._facts)
        possible = [phrase for phrase in self._phrases[part] if _needs(phrase) <= known]
        if self._test_named:
            others = [phrase for phrase in possible if "test" not in _needs(phrase)]
            possible = others if others or part in _LEFT_OUT else possible
        if not possible:
            return ""
        texts = {phrase.format_map(self._facts): 1 + len(_needs(phrase)) for phrase in possible}
        if part == "title":
            short = {text: weight for text, weight in texts.items() if len(text) <= MAX_TITLE}
            texts = short or texts
        text = self.generator.choices(list(texts), list(texts.values()))[0]
        self._test_named = self._test_named or self._facts["test"] in text
        return text


def _needs(phrase: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(phrase) if name}


@cache
def _read_phrases() -> tuple[Sequence[Sequence[str]], Mapping[str, Mapping[str, Sequence[str]]]]:
    """The structures, and the phrases by outcome and part."""
    read = tomllib.loads(PHRASES.read_text("utf-8"))
    structures = [structure["parts"] for structure in read.pop("structures")]
    return structures, read
