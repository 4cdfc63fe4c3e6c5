"""The debugger and single steps of the virtual machine tell the same of Java statements."""

from __future__ import annotations

import shutil

import pytest

from benchmarks.truth_java import MAIN, PROGRAMS, compare, main, table

SMALL = """
public class Statements {
    static int tick;

    static int next(int number) {
        tick++;
        return number;
    }

    public static void main(String[] arguments) {
        int sum = Math.max(
            next(1),
            next(2));
        for (int number : new int[] {1, 2}) {
            sum += next(number);
        }
        Runnable task = () -> next(3);
        task.run();
        try {
            sum /= next(0);
        } catch (ArithmeticException error) {
            sum++;
        } finally {
            sum = next(
                sum);
        }
    }
}
"""


@pytest.fixture(autouse=True)
def with_a_jdk() -> None:
    if shutil.which("javac") is None:
        pytest.skip("there is no JDK on this machine")


def test_a_small_program_is_told_as_it_runs() -> None:
    found = compare(SMALL)
    assert (found.wrong_hits(), found.wrong_stops(), found.wrong_values()) == ({}, 0, [])
    assert len(found.trace) == 25, table(found)
    assert found.trace[0].values == {"tick": "0"}


@pytest.mark.slow
def test_all_statements_are_told_as_they_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    cells = capsys.readouterr().out.splitlines()[-1].split(" | ")
    assert cells[-3:] == ["0", "0", "0 |"]
    assert (PROGRAMS / f"{MAIN}.java").is_file()
