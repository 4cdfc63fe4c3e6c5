"""`python -m benchmarks.reproduction_cost RUN [RUN ...]`: what InspectCoder's tables would cost.

Reads the rollouts of measured runs, takes the calls, tokens and sandbox time that each system
needed for one bug, and multiplies by the paper's numbers of bugs. Tokens are those that the run's
own model was asked with and answered: another model thinks longer or shorter. A scripted model
(the oracle) has no tokens; from its conversations they are estimated, at four characters a token.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from collect.models.config import Prices
from collect.store.records import Conversation, Rollout
from collect.store.run_store import RunStore
from eval.labels import VARIANT_NAMES

BUGS = {"BigCodeBench-R": 607, "LiveCodeBench-R": 151}
"""The paper's benchmarks (section 3.2)."""
CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True)
class Spent:
    """What one rollout took."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    seconds: float


def spent_on(rollout: Rollout, conversations: Iterable[Conversation]) -> Spent:
    """A rollout's calls, tokens and sandbox time."""
    prompt = rollout.main_prompt_tokens + rollout.sub_prompt_tokens
    completion = rollout.main_completion_tokens + rollout.sub_completion_tokens
    if not prompt:
        estimates = [_estimated(conversation) for conversation in conversations]
        prompt = sum(first for first, _ in estimates)
        completion = sum(second for _, second in estimates)
    return Spent(rollout.main_steps + rollout.sub_steps, prompt, completion, rollout.seconds)


def _estimated(conversation: Conversation) -> tuple[int, int]:
    """Prompt and completion tokens: every reply reads all that came before it."""
    prompt, completion, read = 0, 0, len(conversation.tools)
    for row in conversation.messages:
        message = row.message
        length = len(message.content) + sum(len(call.arguments) for call in message.tool_calls)
        if message.role == "assistant":
            prompt += read
            completion += length
        read += length
    return prompt // CHARACTERS_A_TOKEN, completion // CHARACTERS_A_TOKEN


def measured(folder: Path) -> dict[str, list[Spent]]:
    """By variant, what each of a run's judged rollouts took."""
    store = RunStore(folder)
    conversations: dict[str, list[Conversation]] = defaultdict(list)
    for conversation in store.read_conversations():
        conversations[conversation.rollout_id].append(conversation)
    spent: dict[str, list[Spent]] = defaultdict(list)
    for rollout in store.read_rollouts():
        if rollout.failure_kind is None:
            found = spent_on(rollout, conversations[rollout.rollout_id])
            spent[rollout.variant].append(found)
    return spent


def table(spent: dict[str, list[Spent]], prices: Prices) -> list[list[str]]:
    """One row a system: for one bug, then for each benchmark of the paper."""
    heads = ["System", "Bugs", "Calls", "Input", "Output", "Seconds"]
    for name in BUGS:
        heads += [f"{name}: calls", "tokens", "sandbox hours", "$"]
    order = [name for name in VARIANT_NAMES if name in spent]
    return [heads, *(_row(VARIANT_NAMES[name], spent[name], prices) for name in order)]


def _row(name: str, spent: Sequence[Spent], prices: Prices) -> list[str]:
    count = len(spent)
    calls = sum(each.calls for each in spent) / count
    prompt = sum(each.prompt_tokens for each in spent) / count
    completion = sum(each.completion_tokens for each in spent) / count
    seconds = sum(each.seconds for each in spent) / count
    row = [
        name,
        str(count),
        f"{calls:.1f}",
        f"{prompt:,.0f}",
        f"{completion:,.0f}",
        f"{seconds:.1f}",
    ]
    for bugs in BUGS.values():
        tokens = bugs * (prompt + completion)
        dollars = bugs * (prompt * prices.input + completion * prices.output) / 1e6
        hours = bugs * seconds / 3600
        row += [f"{bugs * calls:,.0f}", f"{tokens / 1e6:.1f}M", f"{hours:.1f}", f"{dollars:.2f}"]
    return row


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reproduction_cost", description=__doc__
    )
    parser.add_argument("runs", nargs="+", type=Path, help="run folders, or their eval folders")
    parser.add_argument("--input-price", type=float, default=1.6, help="$ per million tokens")
    parser.add_argument("--output-price", type=float, default=6.4, help="$ per million tokens")
    options = parser.parse_args()
    prices = Prices(input=options.input_price, output=options.output_price)
    spent: dict[str, list[Spent]] = defaultdict(list)
    for folder in options.runs:
        for variant, found in measured(folder).items():
            spent[variant] += found
    for row in table(spent, prices):
        print("| " + " | ".join(row) + " |")
        if row[0] == "System":
            print("|" + " --- |" * len(row))


if __name__ == "__main__":
    main()
