"""How well grounding tells true claims from false ones, on the Debug Subagents' answers of a run.

    python -m benchmarks.grounding demonstrations --show

Every claim is checked as `stepinto format` checks it. Then each observed one is made false, alone,
and the answer is checked again. `--show` prints the claims that are not grounded, and the false
ones that pass, for a person to read.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from collect.code.patches import TestFiles
from collect.questions.claims import EXCEPTION, blank
from collect.questions.comparing import ADDRESS
from collect.questions.grounding import ClaimKind, GroundedClaim, Support, ground
from collect.store.records import Conversation, DebugAnswer
from collect.store.run_store import RunStore

OTHER_WORDS = {"True": "False", "False": "True", "None": "True"}
CHANGEABLE = re.compile(rf"\b(?:{'|'.join(OTHER_WORDS)})\b|[^\W_]")


def falsified(answer: DebugAnswer, claim: GroundedClaim) -> DebugAnswer | None:
    """The answer with one claim made false; None if its words can't be found."""
    old = claim.text.rpartition(" = ")[2] if claim.kind is ClaimKind.VALUE else claim.text
    if re.fullmatch(r".*:\d+", old):
        new = re.sub(r"\d+$", lambda line: str(int(line[0]) + 5_000), old)
    elif EXCEPTION.fullmatch(old):
        new = f"Other{old}"
    elif found := list(CHANGEABLE.finditer(ADDRESS.sub(blank, old))):
        word = found[-1][0]
        other = str((int(word) + 3) % 10) if word.isdecimal() else "q"
        new = old[: found[-1].start()] + OTHER_WORDS.get(word, other) + old[found[-1].end() :]
    else:
        # An empty list is no longer empty.
        middle = len(old) // 2
        new = f"{old[:middle]}7{old[middle:]}"
    words = re.compile(rf"(?<![\w.]){re.escape(old)}(?!\w)")
    fields = {
        name: words.sub(lambda _: new, getattr(answer, name))
        for name in ("answer", "evidence", "location")
    }
    changed = replace(answer, **fields)
    return changed if changed != answer else None


def check(conversation: Conversation, counts: Counter[str], show: bool) -> None:
    """Count the claims of one answer, and what becomes of them if they are made false."""
    answer, tests = conversation.answer, TestFiles()
    if answer is None:
        return
    grounding = ground(conversation, tests)
    counts["answers"] += 1
    counts.update(grounding.counts)
    for claim in grounding.claims:
        if show and claim.grounded is Support.UNGROUNDED:
            print(f"{conversation.conversation_id}: not grounded: {claim.text}")
    for claim in grounding.claims:
        false = falsified(answer, claim) if claim.grounded is Support.OBSERVED else None
        if false is None:
            continue
        counts["made false"] += 1
        found = ground(replace(conversation, answer=false), tests)
        if found.counts[Support.UNGROUNDED] > grounding.counts[Support.UNGROUNDED]:
            counts["of these not grounded"] += 1
        elif show:
            print(f"{conversation.conversation_id}: passes although made false: {claim.text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", type=Path, nargs="+", help="a run folder")
    parser.add_argument("--show", action="store_true", help="print what a person should read")
    options = parser.parse_args()
    counts = Counter[str]()
    for run in options.run:
        for conversation in RunStore(run).read_conversations():
            if conversation.role == "debug_subagent":
                check(conversation, counts, options.show)
    table = Table("claims", "", title="the claims of the answers")
    for name, count in counts.items():
        table.add_row(name, str(count))
    Console().print(table)


if __name__ == "__main__":
    main()
