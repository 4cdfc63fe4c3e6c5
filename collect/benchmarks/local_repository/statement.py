"""What an agent is told of a repository whose tests fail, where the user does not say it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from collect.benchmarks.base import Instance
from collect.benchmarks.local_repository.runs import SHOWN_OUTPUT, SuiteRun
from collect.errors import ConfigError
from collect.factory.issue_text import read_symptom, write_issue

SUFFIXES = (".md", ".txt", ".rst")
SHOWN_TESTS = 10


def read_statement(given: str) -> str:
    """The text itself, or that of the file that it names. Raises ConfigError."""
    if not given.endswith(SUFFIXES) or len(given.split()) != 1:
        text, where = given, "benchmark.problem_statement"
    else:
        try:
            text, where = Path(given).read_text("utf-8"), given
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"benchmark.problem_statement: {given} can't be read ({error}); name a file of "
                "UTF-8 text, or give the text itself"
            ) from error
    if not text.strip():
        raise ConfigError(f"{where} is empty: say what is wrong, or leave it out")
    return text


def write_statement(instance: Instance, failing: Sequence[str], run: SuiteRun) -> str:
    """How the first failing test fails: as users report it and what the exception says, if the
    runner tells, else as it was printed."""
    reason = run.reasons.get(failing[0])
    if reason is None or not reason.place:
        return _printed(failing, run)
    symptom = read_symptom(
        instance.repository,
        failing,
        files=instance.files,
        exception=reason.type,
        message=reason.message,
        output=run.output,
    )
    issue = write_issue(symptom, instance.id).strip()
    said = f"The first one fails with:\n\n```\n{reason.message[:SHOWN_OUTPUT]}\n```"
    return f"{issue}\n\n{_named(failing)}\n\n{said}\n"


def _printed(failing: Sequence[str], run: SuiteRun) -> str:
    how = "does not end" if run.timed_out else "fails"
    said = f"\n\nThe end of what was printed:\n\n```\n{run.end}\n```" if run.end else ""
    return f"`{failing[0]}` {how}\n\n{_named(failing)}{said}\n"


def _named(failing: Sequence[str]) -> str:
    shown = "\n".join(f"- `{test}`" for test in failing[:SHOWN_TESTS])
    more = len(failing) - SHOWN_TESTS
    return f"Failing tests:\n\n{shown}" + (f"\n- and {more} more" if more > 0 else "")
