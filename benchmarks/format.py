"""What `stepinto format` takes for a run of many conversations.

    python -m benchmarks.format --conversations 1000000 --work /tmp/format-benchmark

The oracle holds a few real sessions on the bundled bugs. The run is made of copies in which the
names of the program under test are replaced by random words, the same for each name throughout, so
that answers stay grounded in what was observed and no two sessions are alike. Then the format stage
runs on it in a process of its own. Printed are its conversations a second and its peak memory.
"""

from __future__ import annotations

import argparse
import builtins
import json
import keyword
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from collect.rollouts.stage import run_collect
from collect.store.records import Conversation, Role, Rollout
from collect.store.run_store import RunStore, plain
from configs.loading import load_config
from format.report import FormatReport

QUICKSTART = Path(__file__).parent.parent / "configs" / "quickstart.yaml"
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
        # What is called somehow in the program: not in the prompts, the tools or the language.
        seen = [row.event for row in conversation.events]
        texts = [
            *(event.function or "" for event in seen),
            *(line for event in seen for line in event.source),
            *(f"{value.name} {value.text}" for event in seen for value in event.values),
        ]
        said = [conversation.messages[0].message.content, conversation.tools]
        keys = re.findall(r'"(\w+)": ', text)
        fixed = {*dir(builtins), *keyword.kwlist, *keys, "self", "tests"}
        fixed |= set(WORD.findall("\n".join(said)))
        names = "|".join(sorted({*WORD.findall("\n".join(texts))} - fixed, key=len, reverse=True))
        # Behind `\n` in JSON text a word begins though a letter is before it.
        self._pieces = re.split(rf"(?:(?<![\w\\])|(?<=\\n))({names})(?!\w)", text)
        self._words = self._pieces[1::2]
        self._names = list(dict.fromkeys(self._words))

    def filled(self, chance: random.Random) -> tuple[Row, Row]:
        """The rows of a copy with other words."""
        words = {name: "".join(chance.choices(LETTERS, k=len(name))) for name in self._names}
        self._pieces[1::2] = [words[name] for name in self._words]
        rollout, conversation = json.loads("".join(self._pieces))
        return rollout, conversation


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


def make_run(run: Path, conversations: int) -> None:
    """Write a run with a config, in place of one that is not whole."""
    shutil.rmtree(run, ignore_errors=True)
    with TemporaryDirectory() as folder:
        overrides = ["run=templates", f"runs_folder={folder}"]
        config = load_config(QUICKSTART, [*overrides, "collect.benchmark.limit=6"])
        run_collect(config, config.collect, config.folder, config.held_out)
        store = RunStore(config.folder)
        rollouts = {row.rollout_id: row for row in store.read_rollouts()}
        templates = [
            Template(rollouts[conversation.rollout_id], conversation)
            for conversation in store.read_conversations()
            if conversation.role is Role.DEBUG_SUBAGENT
        ]
        write_run(run, templates, conversations, seed=0)
    (run / "config.yaml").write_text(f"run: {run.name}\nruns_folder: {run.parent}\n")


class Measured(NamedTuple):
    """What the stage took."""

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    report: FormatReport


def measure(run: Path, overrides: list[str]) -> Measured:
    """Run the command line's format stage on a run folder."""
    began = time.monotonic()
    command = [sys.executable, "-m", "stepinto", "format", str(run), *overrides]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - began
    if status:
        sys.exit(f"format failed on {run}")
    report = FormatReport.model_validate_json((run / "sft" / "report.json").read_text())
    # Kilobytes on Linux.
    peak = usage.ru_maxrss * 1024
    return Measured(seconds, usage.ru_utime + usage.ru_stime, peak, report)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--conversations", type=int, default=1_000_000)
    parser.add_argument("--work", type=Path, help="where the run is made; kept, and used again")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="of the config")
    options = parser.parse_args()
    count = options.conversations
    with TemporaryDirectory() as temporary:
        run = (options.work or Path(temporary)) / f"run-{count}"
        if not (run / "config.yaml").is_file():
            make_run(run, count)
        measured = measure(run, options.overrides)
    table = Table("", "", title="stepinto format", show_header=False)
    table.add_row("conversations", f"{count:,}")
    table.add_row("rows", f"{measured.report.funnel.kept:,}")
    table.add_row("seconds", f"{measured.wall_seconds:,.1f}")
    table.add_row("conversations a second", f"{count / measured.wall_seconds:,.0f}")
    table.add_row("CPU seconds", f"{measured.cpu_seconds:,.1f}")
    table.add_row("conversations a CPU second", f"{count / measured.cpu_seconds:,.0f}")
    table.add_row("peak memory, MB", f"{measured.peak_bytes / 1e6:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
