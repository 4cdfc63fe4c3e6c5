"""The program as it is in the middle of a repair, against the correct one."""

from __future__ import annotations

import re
from dataclasses import replace

from collect.benchmarks.base import Instance
from collect.errors import ModelFailure
from collect.patches import apply_patch, diff_trees

FENCED = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"^ *\d+  ?", re.MULTILINE)


def numbered_code(task: str) -> str:
    """The program in an Inspector's task, without its line numbers."""
    # A coding task may hold blocks of code itself.
    found = FENCED.search(task.rpartition("## Buggy Code\n")[2])
    return NUMBER.sub("", found[1]) if found else ""


def newest_code(task: str) -> str:
    """The program in a Patch Coder's task: the last block, for versions come in order."""
    blocks = FENCED.findall(task)
    return str(blocks[-1]) if blocks else ""


def as_it_is(instance: Instance, code: str) -> Instance:
    """The bug with this version of its program, and a gold patch from there.

    Raises ModelFailure where no correct program is known: then the oracle knows nothing.
    """
    if not instance.gold_patch:
        raise ModelFailure(
            f"{instance.id} comes without a correct program, and the oracle knows no other; take "
            "a model instead, or bugs that have one"
        )
    correct = apply_patch(instance.files, instance.gold_patch)
    files = {**instance.files, instance.solution: code.encode()}
    patch = diff_trees(files, correct)
    if not patch:
        raise ModelFailure(
            f"{instance.id} still fails with its correct program, and the oracle knows no other"
        )
    return replace(instance, files=files, gold_patch=patch)


def program(instance: Instance) -> str:
    """The program of a bug."""
    return instance.files[instance.solution].decode("utf-8", "replace")


def correct_program(instance: Instance) -> str:
    """What the gold patch makes of it."""
    fixed = apply_patch(instance.files, instance.gold_patch)
    return fixed[instance.solution].decode("utf-8", "replace")
