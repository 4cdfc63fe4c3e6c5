"""How hard bugs of a small project are, measured on real runs, and what their issues say."""

from __future__ import annotations

import re

import pytest

from collect.benchmarks.local import Difficulty, LocalBug
from collect.benchmarks.projects.config import (
    DifficultyConfig,
    FactoryConfig,
    HardFeature,
    ProjectConfig,
)
from collect.benchmarks.projects.project import arrange, fetch
from collect.synthesis.difficulty import Clues, features_of, rank_functions, reading_rank
from collect.synthesis.making import Candidate, Judge, Outcome, Selection, Step
from collect.synthesis.mutations.base import Mutation
from collect.synthesis.workbench import PythonWorkbench
from sandbox import SandboxConfig
from tests.collect.synthesis.sample import write_project

RATES = """\
CACHE = {}


class Rate:
    def __init__(self, unit, factor):
        self.unit = unit
        self.factor = factor

    def __repr__(self):
        raise RuntimeError("no measurement may run this")


def to_grams(amount, rate):
    return amount * rate.factor


def limited(amount):
    return min(amount, 1000)
"""
LEDGER = """\
from shop.rates import Rate, limited, to_grams

KILO = Rate("kg", 10)


def weights(amounts):
    found = []
    for amount in amounts:
        found.append(limited(to_grams(amount, KILO)))
    return found


def line(weight):
    return f"{padded(weight)} g"


def padded(weight):
    return str(weight).rjust(5)


def report(amounts):
    lines = []
    for weight in weights(amounts):
        lines.append(line(weight))
    return lines


def heaviest(amounts):
    return max(weights(amounts))
"""
TESTS = """\
import pytest

from shop.ledger import heaviest, report


def check_report(given, text):
    found = report(given)
    assert found[-1] == text


def test_short():
    assert report([1]) == ["   10 g"]


@pytest.mark.parametrize(("size", "lines"), [(6, 6)])
def test_long(size, lines):
    numbers = list(range(size))
    assert len(report(numbers)) == lines
    check_report(numbers, "   50 g")


def test_heaviest():
    found = heaviest([1, 7, 3])
    assert found == 70


def test_empty():
    assert report([]) == []
"""
FILES = {
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1.0"\nlicense = "MIT"\n',
    "shop/__init__.py": "",
    "shop/rates.py": RATES,
    "shop/ledger.py": LEDGER,
    "tests/test_ledger.py": TESTS,
}
LONG = "tests/test_ledger.py::test_long[6-6]"
HEAVIEST = "tests/test_ledger.py::test_heaviest"


SHORT = "tests/test_ledger.py::test_short"


def edit(old: str, new: str, scope: str) -> Mutation:
    start = RATES.index(old)
    first = RATES[: RATES.index(f"def {scope}")].count("\n") + 1
    line = RATES[:start].count("\n") + 1
    lines, end = (first, line), start + len(old)
    return Mutation(
        "made_here", "state", line, start, end, new, scope, lines, "shop/rates.py", RATES
    )


AT_MOST_FOUR = edit("amount * rate", "min(amount, 4) * rate", "to_grams")
ONE_LESS = edit("rate.factor", "rate.factor - 1", "to_grams")
TWO_LESS = edit("1000)", "1000) - 2", "limited")
LIMIT = edit("1000)", "45)", "limited")
NOTHING_SMALL = edit("1000)", "1000) if amount > 10 else 0", "limited")


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    folder = write_project(tmp_path_factory.mktemp("shop"), FILES)
    wanted, config = ProjectConfig(folder=str(folder), name="shop"), FactoryConfig(min_tests=4)
    project = arrange(wanted, fetch(wanted, config), SandboxConfig())
    bench = PythonWorkbench(project, SandboxConfig(), config)
    return Judge(project, bench.run_suite(), bench, config)


def judged(judge: Judge, *edits: Mutation) -> Outcome:
    return judge.judge(Candidate(edits, (LONG, HEAVIEST, SHORT), 3))


@pytest.fixture(scope="module")
def bug(judge: Judge) -> LocalBug:
    outcome = judged(judge, AT_MOST_FOUR)
    assert outcome.bug is not None, outcome
    return outcome.bug


def test_distance_is_counted_from_the_first_entry_that_goes_wrong(bug: LocalBug) -> None:
    assert bug.fail_to_pass == (LONG, HEAVIEST)
    assert bug.difficulty is not None
    # The sixth of twelve entries is the first that differs. Then come `limited`, six times `line`
    # and `padded`, the test's helper, and a second report.
    second_report = 2 + 6 * 2 + 6 * 2
    assert bug.difficulty == Difficulty(
        failing_tests=2,
        covering_tests=3,
        reaching_tests=3,
        functions=6,
        on_traceback=False,
        entries=12,
        right_entries=5,
        calls_to_failure=1 + 6 * 2 + 1 + second_report,
        call_depth=3,
        call_distance=4,
        file_distance=1,
        reading_rank=bug.difficulty.reading_rank,
    )


def test_an_issue_has_values_of_the_run_and_no_name_of_the_tests(bug: LocalBug) -> None:
    text = bug.problem_statement
    assert "result = report([0, 1, 2, 3, 4, 5])\nprint(result[-1])\n" in text
    assert "`'   40 g'`" in text
    assert "`'   50 g'`" in text
    assert not re.search(r"test|check|given|found|numbers", text)


def test_what_makes_a_bug_rare_silent_and_natural(bug: LocalBug) -> None:
    config = DifficultyConfig(passing_per_failing=1, functions=6)
    found = features_of(bug, config)
    assert {HardFeature.SILENT, HardFeature.WIDE} <= set(found)
    assert HardFeature.RARE not in found
    assert bug.difficulty is not None
    one = bug.difficulty.model_copy(update={"failing_tests": 1})
    assert HardFeature.RARE in features_of(bug.model_copy(update={"difficulty": one}), config)
    seen = bug.edits[0].model_copy(update={"kind": "off_by_one"})
    assert HardFeature.NATURAL not in features_of(bug.model_copy(update={"edits": (seen,)}), config)


@pytest.mark.slow
def test_edits_interact_if_they_fail_otherwise_together(judge: Judge) -> None:
    both = judged(judge, ONE_LESS, TWO_LESS).bug
    assert both is not None
    assert both.difficulty is not None
    assert both.difficulty.interacting is True
    # The limit changes nothing any more.
    assert judged(judge, AT_MOST_FOUR, LIMIT).dropped_at is Step.EACH


def test_no_failure_of_several_edits_outlives_the_one_that_the_issue_tells(judge: Judge) -> None:
    # Without the first edit, only another test than that of the issue fails.
    assert judged(judge, AT_MOST_FOUR, NOTHING_SMALL).dropped_at is Step.EACH


@pytest.mark.parametrize(
    ("wanted", "kept"),
    [
        (DifficultyConfig(), True),
        (DifficultyConfig(required=(HardFeature.REPEATED, HardFeature.OTHER_FILE)), True),
        (DifficultyConfig(required=(HardFeature.REPEATED,), right_entries=6), False),
        (DifficultyConfig(required=(HardFeature.INTERACTING,)), False),
        (DifficultyConfig(at_least=8, top_k=20), True),
        (DifficultyConfig(at_least=9, top_k=20), False),
    ],
)
def test_bugs_are_selected_by_their_features(
    bug: LocalBug, wanted: DifficultyConfig, kept: bool
) -> None:
    selection = Selection(FactoryConfig(difficulty=wanted))
    selection.add(Outcome(candidate_id="a", kind="made_here", bug=bug))
    assert selection.dropped == ({} if kept else {Step.HARD: 1})
    # Features are counted for bugs that are not kept, too.
    assert selection.features[HardFeature.OFF_TRACEBACK] == 1
    assert selection.features[HardFeature.INTERACTING] == 0


READ = {
    "shop/rates.py": RATES.encode(),
    "shop/ledger.py": LEDGER.encode(),
}


@pytest.mark.parametrize(
    ("clues", "first"),
    [
        (
            Clues("", "", [("shop/ledger.py", "line", 14), ("shop/ledger.py", "padded", 18)]),
            "padded",
        ),
        (Clues("", "heaviest([1])", []), "heaviest"),
        (Clues("It should be at most 1000, the limited amount", "", []), "limited"),
        (Clues("limited", "weights", [("shop/rates.py", "to_grams", 14)]), "to_grams"),
    ],
)
def test_a_reader_looks_at_the_traceback_then_names_then_words(clues: Clues, first: str) -> None:
    ranked = rank_functions(READ, READ, clues)
    assert ranked[0].place.name == first
    assert len(ranked) == 9
    assert reading_rank(ranked, {("shop/rates.py", first), ("shop/ledger.py", first)}) == 1
    assert reading_rank(ranked, {("shop/rates.py", "")}) is None
