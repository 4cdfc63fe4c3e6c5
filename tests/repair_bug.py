"""A self-repair bug of one file, with public and private tests, and its benchmark."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from collect.agents.config import AgentsConfig, RepairConfig
from collect.agents.rollout_context import RoleModel
from collect.agents.systems import SYSTEMS
from collect.benchmarks.base import Instance, TestResults
from collect.benchmarks.pytest_run import run_pytest
from collect.code.patches import diff_trees
from collect.models.base import ModelBackend, Sampling
from collect.models.config import OracleConfig
from collect.oracle import OracleBackend
from collect.rollouts.rollout import RolloutSettings, RolloutSpec, RolloutTrace, run_rollout
from collect.store.records import MODEL_TEACHER, ORACLE_TEACHER
from sandbox import Sandbox, SandboxConfig

CORRECT = '''\
from collections import Counter


def top_word(text, stop_words=()):
    """The most frequent word of a text, the first by the alphabet of several; None of none."""
    counts = Counter()
    for word in text.split():
        word = word.strip(".,").lower()
        if word not in stop_words:
            counts[word] += 1
    best = None
    for word, count in sorted(counts.items()):
        if best is None or count > counts[best]:
            best = word
    return best


def top_words(texts, stop_words=()):
    """The most frequent word of each text, without repetitions, in order."""
    found = []
    for text in texts:
        word = top_word(text, stop_words)
        if word is not None and word not in found:
            found.append(word)
    return found
'''
BUGGY = CORRECT.replace("count > counts[best]", "count >= counts[best]")
PUBLIC = """\
from solution import top_word, top_words


def test_one_word():
    assert top_word("Tea, tea.") == "tea"


def test_the_first_of_several():
    assert top_word("b a b a c") == "a"


def test_each_text():
    assert top_words(["x y x", "y x y", "x"]) == ["x", "y"]
"""
PRIVATE = """\
from solution import top_word


def test_nothing():
    assert top_word("the", stop_words=("the",)) is None


def test_many():
    assert top_word("d c b a") == "a"
"""
FAULT_LINE = 1 + BUGGY.splitlines().index("        if best is None or count >= counts[best]:")
FAILING = "test_solution.py::test_the_first_of_several"
FILES = {"solution.py": BUGGY.encode(), "test_solution.py": PUBLIC.encode()}
BUG = Instance(
    id="top-word",
    benchmark="repair-bugs",
    language="python",
    repository="repair-bugs/top-word",
    problem_statement="Write `top_word`: the most frequent word, of several the first.",
    fail_to_pass=(FAILING, "test_private.py::test_many"),
    pass_to_pass=(
        "test_solution.py::test_one_word",
        "test_solution.py::test_each_text",
        "test_private.py::test_nothing",
    ),
    gold_patch=diff_trees(FILES, {**FILES, "solution.py": CORRECT.encode()}),
    files=FILES,
    hidden_files={"test_private.py": PRIVATE.encode()},
    test_paths=("test_solution.py", "test_private.py"),
    solution="solution.py",
)


class RepairBugs:
    """A benchmark of given bugs."""

    name = "repair-bugs"

    def __init__(self, *instances: Instance, test_timeout: float = 30.0) -> None:
        self._instances = instances or (BUG,)
        self._test_timeout = test_timeout

    def instances(self) -> Sequence[Instance]:
        return self._instances

    def prepare(self, instance: Instance, sandbox: Sandbox) -> None:
        sandbox.write_files(instance.files)

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        return run_pytest(sandbox, list(tests), self._test_timeout)


def repair(
    variant: str,
    backend: ModelBackend | None = None,
    sandbox: SandboxConfig | None = None,
    instance: Instance = BUG,
    test_timeout: float = 30.0,
    **settings: object,
) -> RolloutTrace:
    """A rollout of a system on a bug; by the oracle where no other model is given.

    `test_timeout` is in seconds, for one run of the tests.
    """
    played_by_oracle = backend is None
    backend = backend or OracleBackend("m", OracleConfig(backend="oracle"))
    role_model = RoleModel(
        backend, Sampling(), ORACLE_TEACHER if played_by_oracle else MODEL_TEACHER
    )
    agents = AgentsConfig(repair=RepairConfig.model_validate(settings))
    bugs = RepairBugs(instance, test_timeout=test_timeout)
    rollout_settings = RolloutSettings(
        bugs, sandbox or SandboxConfig(), agents, {"m": role_model}, threading.Event()
    )
    sub = "m" if SYSTEMS[variant].subagent else None
    return run_rollout(RolloutSpec(instance, variant, "m", sub, 0), rollout_settings)
