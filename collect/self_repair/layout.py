"""How a problem and a program for it become the files of a workspace.

`solution.py` is the program as its writer wrote it, so that line numbers are those that everyone
sees. What upstream runs before it, `prelude.py`, is put into its namespace by the tests.
"""

from __future__ import annotations

from pathlib import Path

from collect.self_repair.problem import SOLUTION, Problem

PUBLIC_TESTS = "test_solution.py"
PRIVATE_TESTS = "test_private.py"
CHECKING = "checking.py"
PRELUDE = "prelude.py"
TEST_PATHS = (
    PUBLIC_TESTS,
    PRIVATE_TESTS,
    *(path for file in (CHECKING, PRELUDE) for path in (file, file.removesuffix(".py"))),
)
"""What an agent may not change: files, and packages that would be imported in their place."""


def lay_out(problem: Problem, solution: str) -> dict[str, str]:
    """The files that an agent sees."""
    files = {SOLUTION: solution, PUBLIC_TESTS: problem.public_tests.code}
    if "from checking import" in problem.public_tests.code:
        files[CHECKING] = (Path(__file__).parent / "runtime" / CHECKING).read_text("utf-8")
    if problem.prelude:
        files[PRELUDE] = problem.prelude
    return files


def hidden_files(problem: Problem) -> dict[str, str]:
    """The files that only scoring lays out."""
    return {PRIVATE_TESTS: problem.private_tests.code} if problem.private_tests else {}


def public_tests(problem: Problem) -> tuple[str, ...]:
    """Node ids."""
    return tuple(f"{PUBLIC_TESTS}::{name}" for name in problem.public_tests.names)


def private_tests(problem: Problem) -> tuple[str, ...]:
    """Node ids."""
    names = problem.private_tests.names if problem.private_tests else ()
    return tuple(f"{PRIVATE_TESTS}::{name}" for name in names)


def task_text(problem: Problem) -> str:
    """The coding task with where its program and its tests lie; not what fails."""
    what = f"`{problem.entry_point}` is" if problem.entry_point else "The program is"
    return (
        f"{problem.statement}\n\n"
        f"{what} written in `{SOLUTION}`, and its tests in `{PUBLIC_TESTS}` "
        f"(`python -m pytest {PUBLIC_TESTS}`) must pass.\n"
    )
