"""Rollouts that go on where they were, after a stop, a kill, or a failure of the endpoint's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from collect.faults import goes_on
from collect.models.journal import FOLDER, Journal, JournalFile, JournalText, journaled
from collect.records import Rollout
from collect.rollout import RolloutSettings
from collect.work import Rows, Work


def replies_of(folder: Path, rollout_id: str) -> JournalFile:
    """Where the replies in a rollout are kept until it has a row that stays."""
    return JournalFile(folder / FOLDER / f"{rollout_id}.jsonl")


def do_with_journal(work: Work, settings: RolloutSettings, text: JournalText) -> Rows:
    """Do it with models whose replies are kept; see `Work.do`.

    Its seconds are also those that the models took, in an earlier start, for what was given back.
    """
    journal = Journal(text, f"{work.settings_hash} {work.spec.instance.hash}")
    players = journaled(settings.players, journal)
    row, conversations = work.do(replace(settings, players=players))
    return replace(row, seconds=row.seconds + journal.seconds_given_back), conversations


def forget_replies(folder: Path, row: Rollout) -> None:
    """Of a rollout that has its row, unless the next start goes on with them."""
    if not goes_on(row.failure_type):
        replies_of(folder, row.rollout_id).replace(None)
