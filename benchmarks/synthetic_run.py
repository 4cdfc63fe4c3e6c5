"""Runs of any size, made of real sessions in which names are replaced by random words.

Each template is a rollout that was really held. Its names, those of the program under test, are
found once; a copy of it has other words in their place, the same for each name throughout, so that
answers stay grounded in what was observed and no two sessions are alike.
"""

from __future__ import annotations

import builtins
import json
import keyword
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from collect.store.records import Conversation, Role, Rollout
from collect.store.run_store import RunStore
from collect.store.schema import plain

ROLLOUTS_PER_SHARD = 1_000
BUGS, REPOSITORIES = 20_000, 500
DUPLICATES, UNRESOLVED = 0.05, 0.1
"""Shares of the rollouts."""
WORD = re.compile(r"[A-Za-z_]\w{3,}")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
Row = dict[str, Any]


class Template:
    """A rollout with one conversation, cut at the words that vary."""

    def __init__(self, rollout: Rollout, conversation: Conversation) -> None:
        text = json.dumps([plain(rollout), plain(conversation)])
        names = "|".join(sorted(_names(conversation), key=len, reverse=True))
        # Behind `\n` in JSON text a word begins though a letter is before it.
        pieces = re.split(rf"(?:(?<![\w\\])|(?<=\\n))({names})(?!\w)", text)
        self._pieces, self._words = pieces, pieces[1::2]
        self._names = list(dict.fromkeys(self._words))

    def filled(self, chance: random.Random) -> tuple[Row, Row]:
        """The rows of a copy with other words."""
        words = {name: "".join(chance.choices(LETTERS, k=len(name))) for name in self._names}
        self._pieces[1::2] = [words[name] for name in self._words]
        rollout, conversation = json.loads("".join(self._pieces))
        return rollout, conversation


def _names(conversation: Conversation) -> set[str]:
    """What is called somehow in the program: not in the prompts, the tools or the language."""
    seen = [row.event for row in conversation.events]
    texts = [
        *(event.function or "" for event in seen),
        *(line for event in seen for line in event.source),
        *(f"{value.name} {value.text}" for event in seen for value in event.values),
    ]
    said = [conversation.messages[0].message.content, conversation.tools]
    fixed = {*dir(builtins), *keyword.kwlist, *_keys(plain(conversation)), "self", "tests"}
    fixed |= set(WORD.findall("\n".join(said)))
    return set(WORD.findall("\n".join(texts))) - fixed


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)


def templates_of(run: Path) -> Iterator[Template]:
    """The debug sessions of a run."""
    store = RunStore(run)
    rollouts = {row.rollout_id: row for row in store.read_rollouts()}
    for conversation in store.read_conversations():
        if conversation.role is Role.DEBUG_SUBAGENT:
            yield Template(rollouts[conversation.rollout_id], conversation)


def write_run(folder: Path, templates: Sequence[Template], conversations: int, seed: int) -> None:
    """Write a run of so many conversations, each of a rollout of its own, as the store has it."""
    with closing(RunStore.open(folder)) as store:
        for start in range(0, conversations, ROLLOUTS_PER_SHARD):
            numbers = range(start, min(start + ROLLOUTS_PER_SHARD, conversations))
            rows = [_rows(templates, number, seed) for number in numbers]
            shard = f"shard-{start:09}"
            told = store.conversations.arrow([conversation for _, conversation in rows])
            store.conversations.write(shard, told)
            store.rollouts.write(shard, store.rollouts.arrow([rollout for rollout, _ in rows]))
        store.compact()


def _rows(templates: Sequence[Template], number: int, seed: int) -> tuple[Row, Row]:
    own = random.Random(f"{seed} {number}")
    repeats = number > 0 and own.random() < DUPLICATES
    content = random.Random(f"{seed} content {own.randrange(number) if repeats else number}")
    rollout, conversation = content.choice(templates).filled(content)
    bug = own.randrange(BUGS)
    facts = {
        "rollout_id": f"{own.getrandbits(64):016x}",
        "instance_id": f"bug-{bug}",
        "repository": f"owner/project-{bug % REPOSITORIES}",
    }
    rollout |= facts | {"resolved": own.random() >= UNRESOLVED}
    rollout["instance_hash"] = f"{random.Random(bug).getrandbits(64):016x}"
    conversation |= facts | {"conversation_id": f"{facts['rollout_id']}-0", "index": 0}
    return rollout, conversation | {"parent_conversation_id": None, "parent_call_id": None}
