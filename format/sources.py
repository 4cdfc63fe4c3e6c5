"""A run's conversations as candidates, with what is known of the bug and of the whole rollout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from collect.benchmarks.opening import open_benchmark, select_instances
from collect.records import Conversation
from collect.replaying.records import verified_conversations
from collect.store import RunStore
from format.candidates import Background, Candidate, Outcome
from format.config import FormatConfig
from format.leaks import gold_lines, reads_git_history
from format.preferences.siblings import asked_before_changes


class Candidates:
    """Can be read again and again; no more than one rollout's conversations are held at once."""

    def __init__(
        self, config: FormatConfig, store: RunStore, outcomes: Mapping[str, Outcome]
    ) -> None:
        """`outcomes` are those of the rollouts, by id. Raises ConfigError for a benchmark whose
        gold patches can't be read."""
        self._config, self._store, self._outcomes = config, store, outcomes
        self._gold = _gold(config)
        self._verified = verified_conversations(store.folder)

    def __iter__(self) -> Iterator[Candidate]:
        for rollout in self.rollouts():
            yield from rollout

    def rollouts(self) -> Iterator[Sequence[Candidate]]:
        """The conversations of each rollout."""
        # Those of a rollout stand together.
        # A rollout still in flight has no row yet; its conversations do not count.
        found = self._store.read_conversations(finished=self._outcomes.keys())
        for rollout_id, held in groupby(found, _rollout_id):
            outcome = self._outcomes[rollout_id]
            conversations = list(held)
            lines = self._gold.get(outcome.instance_hash)
            git = any(map(reads_git_history, conversations))
            background = Background(lines, git, asked_before_changes(conversations))
            yield [self._candidate(each, outcome, background) for each in conversations]

    def _candidate(
        self, conversation: Conversation, outcome: Outcome, background: Background
    ) -> Candidate:
        verified = self._verified.get(conversation.conversation_id)
        return Candidate(
            conversation,
            outcome,
            self._config.vocabulary,
            background,
            verified,
        )


def _gold(config: FormatConfig) -> dict[str, frozenset[str]]:
    """The telling lines that each gold patch adds, by the bug's hash."""
    return {
        bug.hash: gold_lines(bug.gold_patch)
        for each in config.gold_benchmarks
        for bug in select_instances(each, open_benchmark(each))
        if bug.gold_patch
    }


def _rollout_id(conversation: Conversation) -> str:
    return conversation.rollout_id
