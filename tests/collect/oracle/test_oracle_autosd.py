"""The oracle's edit scripts make the correct program of the buggy one."""

from __future__ import annotations

import pytest

from collect.agents.baselines.autosd import apply_edits, parse_experiment
from collect.benchmarks.base import Instance
from collect.code.patches import diff_trees
from collect.oracle.baselines import edit_script

BUGGY = '''\
import os


def f(a):
    """Say `a`."""
    b = a + 1
    print("\\n", b)
    return b
'''


def bug(buggy: str, correct: str) -> Instance:
    files = {"solution.py": buggy.encode()}
    return Instance(
        id="i",
        benchmark="b",
        language="python",
        repository="r",
        problem_statement="p",
        fail_to_pass=(),
        pass_to_pass=(),
        gold_patch=diff_trees(files, {"solution.py": correct.encode()}),
        files=files,
        solution="solution.py",
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a + 1", "a - 1"),
        ('"\\n"', "'\\t'"),
        ("    b = a + 1\n", "    if a:\n        b = a + 1\n"),
        ("    b = a + 1\n    print", "    b = a\n    c = b\n    print"),
        ("    return b", "    b += 2\n    return b"),
        ("import os\n", "import os\nimport sys\n"),
        ("import os\n", "import sys\nimport os\n"),
        ("import os\n\n", "import os\n\nimport sys\n"),
        ("import os\n\n\ndef f(a)", "import os\n\n\nX = 1\n\n\ndef f(a, c=X)"),
        ("    return b\n", "    return b\n\n\ndef g():\n    return f(1)\n"),
    ],
)
def test_edit_scripts(old: str, new: str) -> None:
    correct = BUGGY.replace(old, new)
    assert correct != BUGGY
    script = parse_experiment(edit_script(bug(BUGGY, correct)))
    assert isinstance(script, list)
    assert apply_edits(BUGGY, script) == correct


def test_what_is_removed_leaves_a_blank_line() -> None:
    correct = BUGGY.replace('    print("\\n", b)\n', "")
    script = parse_experiment(edit_script(bug(BUGGY, correct)))
    assert isinstance(script, list)
    assert apply_edits(BUGGY, script) == BUGGY.replace('    print("\\n", b)\n', "\n")
