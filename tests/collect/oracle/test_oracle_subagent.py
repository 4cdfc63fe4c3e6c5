"""Where the oracle looks when the faulty line is not the first it gets to."""

from __future__ import annotations

import random
from contextlib import closing

import pytest

from collect.agents.debug_tools import debug_tools
from collect.agents.subagent_task import DebugSubagentArguments, parse_answer, subagent_task
from collect.agents.tools import Toolbox
from collect.benchmarks.base import Instance
from collect.code.patches import changed_lines, diff_trees
from collect.code.source import line_at_fault, place_of
from collect.oracle.scripted import ExplorationPolicy
from collect.oracle.subagent import OracleSubagent
from collect.store.records import DebugAnswer, Role
from sandbox import SandboxConfig, open_sandbox
from sandbox.debugger import Action, open_debugger
from tests.repair_bug import repair

SOURCE = """\
def plural(count):
    return count != 1


def label(count):
    name = "many"
    if count < 0:
        name = "none"
    return name


def shown(count):
    text = label(count)
    return text.upper()
"""
TEST = "from solution import shown\n\n\ndef test_one():\n    assert shown(1) == 'ONE'\n"


def labels_bug(fixed: str, source: str = SOURCE) -> Instance:
    """A bug with this fix."""
    files = {"solution.py": source.encode(), "test_solution.py": TEST.encode()}
    return Instance(
        id="labels",
        benchmark="repair-bugs",
        language="python",
        repository="repair-bugs/labels",
        problem_statement="One is shown as many.",
        fail_to_pass=("test_solution.py::test_one",),
        pass_to_pass=(),
        gold_patch=diff_trees(files, {**files, "solution.py": fixed.encode()}),
        files=files,
        test_paths=("test_solution.py",),
    )


def asked(fixed: str, source: str = SOURCE) -> tuple[DebugAnswer, int]:
    """The subagent's answer on a bug with this fix, and how many sessions it took."""
    trace = repair("debug2fix_tool_limit", instance=labels_bug(fixed, source))
    assert trace.failure is None, trace.failure
    [log] = [log for log in trace.logs if log.role is Role.DEBUG_SUBAGENT]
    answer = parse_answer(log.final_answer)
    assert answer is not None
    return answer, sum(row.event.action is Action.START for row in log.events)


@pytest.mark.slow
def test_of_a_line_that_never_runs_it_tells_what_its_function_got() -> None:
    answer, sessions = asked(SOURCE.replace('"none"', '"one"'))
    assert sessions == 3
    assert "label is entered at solution.py:6" in answer.answer
    assert "never gets to solution.py:8" in answer.answer
    assert "count = 1" in answer.evidence
    assert answer.location == "solution.py:8"


@pytest.mark.slow
def test_what_may_run_in_a_child_process_is_not_said_to_be_unreached() -> None:
    call = "multiprocessing.get_context('fork').Pool(1).apply(label, (count,))"
    source = SOURCE.replace("text = label(count)", f"text = {call}")
    source = f"import multiprocessing\n{source}"
    answer, _ = asked(source.replace('"many"', '"one"'), source)
    assert answer.location == "not known: it may run in a child process"


@pytest.mark.slow
def test_of_several_functions_it_looks_at_the_one_that_runs() -> None:
    fixed = SOURCE.replace("count != 1", "count > 1").replace("text.upper()", '"ONE"')
    answer, sessions = asked(fixed)
    assert sessions == 2
    assert answer.location == "solution.py:14"
    assert "text = 'many'" in answer.evidence


class Thorough(ExplorationPolicy):
    """Takes every likely detour."""

    def detour(self, chance: float) -> bool:
        return chance >= 0.5


def test_it_sees_how_the_test_ends_past_other_suspects() -> None:
    bug = labels_bug(SOURCE.replace('"many"', '"one"'))
    script = OracleSubagent(bug, Thorough(random.Random(0)))
    arguments = DebugSubagentArguments(
        question="Which of solution.py:6 and solution.py:14 is wrong?", test=bug.fail_to_pass[0]
    )
    with (
        open_sandbox(SandboxConfig()) as sandbox,
        closing(open_debugger(bug.language, sandbox)) as debugger,
    ):
        sandbox.write_files(bug.files)
        tools = Toolbox(debug_tools(debugger))
        turns = script.turns(subagent_task(arguments))
        said, answers = [next(turns)], []
        while said[-1].tool_calls:
            answers = [tools.call(call).text for call in said[-1].tool_calls]
            said.append(turns.send(answers))
    assert "It comes to solution.py:14 afterwards" in said[-2].content
    assert "post mortem" in answers[-1]
    assert "The test then fails with AssertionError" in said[-1].content


def test_a_default_value_is_at_fault_though_nothing_stops_there() -> None:
    files = {"solution.py": SOURCE.replace("label(count)", "label(count=1)").encode()}
    ranges = changed_lines(diff_trees(files, {"solution.py": SOURCE.encode()}))
    defaults = [each for each in ranges if each.start == 5]
    place = place_of(files, defaults)
    assert (place.line, place.function) == (6, "label")
    assert line_at_fault(defaults, place) == 5
    other = [each for each in ranges if each.start == 13]
    assert line_at_fault(other, place_of(files, other)) == 13
