"""The rows as the tokens that were sampled, for off-policy training: `sft/token-ids/`.

A trainer that renders and tokenizes a row again gets other ids than the model was given and wrote.
With `models.NAME.logprobs: true` these are in the run.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import chain
from pathlib import Path
from typing import Any

from collect.store.records import Conversation
from format.candidates import Candidate, Candidates
from format.config import Vocabulary
from format.dataset import COLUMNS, Column, SplitWriter
from format.turn_quality import trained_turns, turn_qualities

logger = logging.getLogger(__name__)
FOLDER = "token-ids"
TOKEN_COLUMNS = {
    "conversation_id": COLUMNS["conversation_id"],
    "prompt_ids": Column("token ids of the prompt of the first reply", "integers"),
    "completion_ids": Column(
        "all that follows: the replies as they were sampled, and what stands between them",
        "integers",
    ),
    "completion_mask": Column(
        "for each of `completion_ids` 1 if it is of a reply that is trained on, else 0", "integers"
    ),
    "logprobs": Column(
        "for each of `completion_ids` the natural logarithm of its probability, as its server gave "
        "it; 0 between the replies",
        "numbers",
    ),
}
"""Named as TRL and verifiers name them."""
NO_TOKENS = "lack the tokens of a reply: set models.NAME.logprobs=true before you collect"
CHANGED = "have a prompt that does not begin with the tokens before it"
TRANSLATED = "are translated: set format.vocabulary=native"


def write_token_ids(source: Candidates, splits: Mapping[str, str], folder: Path) -> dict[str, int]:
    """Write the tokens of the conversations in `splits`, which names the split of each; returns how
    many there are by split. Those that are no single sequence of sampled tokens have nulls."""
    counts = Counter[str]()
    without = Counter[str]()
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(closing(SplitWriter(folder / FOLDER, name, TOKEN_COLUMNS)))
            for name in dict.fromkeys(splits.values())
        }
        for candidate in chain.from_iterable(source.rollouts()):
            name = candidate.conversation.conversation_id
            if name not in splits:
                continue
            tokens = tokens_of(candidate)
            row: dict[str, Any] = dict.fromkeys(TOKEN_COLUMNS)
            if isinstance(tokens, str):
                without[tokens] += 1
            else:
                row |= tokens
            writers[splits[name]].add(row | {"conversation_id": name})
            counts[splits[name]] += 1
    if without:
        why = "; ".join(f"{count:,} {reason}" for reason, count in without.items())
        logger.warning(
            f"format.token_ids: of {counts.total():,} rows {without.total():,} have nulls in "
            f"sft/{FOLDER}: {why}"
        )
    return dict(counts)


def tokens_of(candidate: Candidate) -> dict[str, Any] | str:
    """The columns of a row, or why it has none."""
    conversation, config = candidate.conversation, candidate.config
    if candidate.inspects and config.vocabulary is Vocabulary.DEBUG2FIX:
        return TRANSLATED
    trained = trained_turns(turn_qualities(conversation), config.masked_turns)
    return one_sequence(conversation, trained)


def one_sequence(conversation: Conversation, trained: Sequence[bool]) -> dict[str, Any] | str:
    """The conversation's tokens; `trained` says of each reply whether it is trained on."""
    replies = [row.tokens for row in conversation.messages if row.message.role == "assistant"]
    prompt: list[int] = []
    completion: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    for number, (reply, is_trained) in enumerate(zip(replies, trained, strict=True)):
        if reply is None:
            return NO_TOKENS
        if reply.kept != len(prompt) + len(completion):
            return CHANGED
        if number == 0:
            prompt += reply.prompt_ids
        else:
            completion += reply.prompt_ids
            mask += [0] * len(reply.prompt_ids)
            logprobs += [0.0] * len(reply.prompt_ids)
        completion += reply.token_ids
        mask += [int(is_trained)] * len(reply.token_ids)
        logprobs += reply.logprobs
    if not replies:
        return NO_TOKENS
    return {
        "prompt_ids": prompt,
        "completion_ids": completion,
        "completion_mask": mask,
        "logprobs": logprobs,
    }
