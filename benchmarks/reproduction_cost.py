"""`python -m benchmarks.reproduction_cost RUN [RUN ...]`: what InspectCoder's tables would cost.

Reads the rollouts of measured runs, takes the calls, tokens and sandbox time that each system
needed for one bug, and multiplies by the paper's numbers of bugs. Tokens are those that the run's
own model was asked with and answered: another model thinks longer or shorter. A scripted model
(the oracle) has no tokens; from its conversations they are estimated, at four characters a token.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from collect.store.records import Conversation, Rollout
from collect.store.run_store import RunStore
from eval.labels import VARIANT_NAMES

BUGS = {"BigCodeBench-R": 607, "LiveCodeBench-R": 151}
"""The paper's benchmarks (section 3.2)."""
CHARACTERS_A_TOKEN = 4


class Spent(NamedTuple):
    """What one rollout took."""

    calls: float
    prompt_tokens: float
    completion_tokens: float
    seconds: float


def spent_on(rollout: Rollout, conversations: Iterable[Conversation]) -> Spent:
    """A rollout's calls, tokens and sandbox time."""
    prompt = rollout.main_prompt_tokens + rollout.sub_prompt_tokens
    completion = rollout.main_completion_tokens + rollout.sub_completion_tokens
    if not prompt:
        for conversation in conversations:
            # Every reply reads all that came before it.
            read = len(conversation.tools)
            for row in conversation.messages:
                message = row.message
                length = len(message.content) + sum(len(c.arguments) for c in message.tool_calls)
                if message.role == "assistant":
                    prompt += read // CHARACTERS_A_TOKEN
                    completion += length // CHARACTERS_A_TOKEN
                read += length
    return Spent(rollout.main_steps + rollout.sub_steps, prompt, completion, rollout.seconds)


def main() -> None:
    """Print a Markdown table, one row a system: for one bug, then for each benchmark."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reproduction_cost", description=__doc__
    )
    parser.add_argument("runs", nargs="+", type=Path, help="run folders, or their eval folders")
    parser.add_argument("--input-price", type=float, default=1.6, help="$ per million tokens")
    parser.add_argument("--output-price", type=float, default=6.4, help="$ per million tokens")
    options = parser.parse_args()
    spent: dict[str, list[Spent]] = defaultdict(list)
    for folder in options.runs:
        store = RunStore(folder)
        conversations: dict[str, list[Conversation]] = defaultdict(list)
        for conversation in store.read_conversations():
            conversations[conversation.rollout_id].append(conversation)
        for rollout in store.read_rollouts():
            if rollout.failure_kind is None:
                found = spent_on(rollout, conversations[rollout.rollout_id])
                spent[rollout.variant].append(found)
    heads = ["System", "Bugs", "Calls", "Input", "Output", "Seconds"]
    for name in BUGS:
        heads += [f"{name}: calls", "tokens", "sandbox hours", "$"]
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for variant, name in VARIANT_NAMES.items():
        if variant not in spent:
            continue
        calls, prompt, completion, seconds = map(fmean, zip(*spent[variant], strict=True))
        count = str(len(spent[variant]))
        row = [name, count, f"{calls:.1f}", f"{prompt:,.0f}", f"{completion:,.0f}"]
        row.append(f"{seconds:.1f}")
        for bugs in BUGS.values():
            tokens = bugs * (prompt + completion) / 1e6
            price = prompt * options.input_price + completion * options.output_price
            hours = bugs * seconds / 3600
            row += [f"{bugs * calls:,.0f}", f"{tokens:.1f}M", f"{hours:.1f}"]
            row.append(f"{bugs * price / 1e6:.2f}")
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
