"""HumanEvalFix: the bugs of bigcode/humanevalpack (OctoPack, arXiv:2308.07124, section 4).

Each task becomes two files. In Python, `prompt` + solution becomes `solution.py`, and `test`
becomes `test_solution.py`, with upstream's code unchanged except that its final call moves into a
test function. In Java, `Main.java` is upstream's test class, with the imports of the program.

A problem in all its languages counts as one repository, so that splits keep it together.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from collect.benchmarks import row_files
from collect.benchmarks.base import Instance, Language
from collect.benchmarks.running import StoredBenchmark
from collect.benchmarks.self_repair.benchmark import parsed
from collect.code.patches import diff_trees
from collect.errors import ConfigError
from sandbox.text import source_lines

HUB_ID = "bigcode/humanevalpack"


class Row(BaseModel):
    """Only the upstream columns that we use."""

    model_config = ConfigDict(extra="ignore", strict=True)

    task_id: str
    prompt: str
    canonical_solution: str
    buggy_solution: str
    test: str
    entry_point: str
    docstring: str
    bug_type: str


@dataclass(eq=False)
class HumanEvalFixBenchmark(StoredBenchmark):
    """HumanEvalFix from a file or the hub. Some of the buggy programs never end."""

    name: ClassVar[str] = "humanevalfix"
    path: Path | None = None
    hub_id: str = HUB_ID
    test_timeout: float = 60.0
    languages: Sequence[Language] = ("python",)

    def _read(self) -> Iterator[Instance]:
        for where, row in self._rows():
            task = row_files.checked(where, row, Row, HUB_ID)
            language, _, number = task.task_id.partition("/")
            if language.lower() not in self.languages:
                wanted = " or ".join(language.capitalize() for language in self.languages)
                raise ConfigError(
                    f"{where}: column task_id: {task.task_id} is not a {wanted} task; give the "
                    "file of that language, or set benchmark.language"
                )
            is_java = language.lower() == "java"
            yield _instance(where, task, "java" if is_java else "python", number)

    def _rows(self) -> row_files.Rows:
        if self.path is not None:
            yield from row_files.file_rows(self.path, "benchmark.path")
            return
        for name in self.languages:
            yield from row_files.hub_rows(self.hub_id, "benchmark.path", split="test", name=name)


def _instance(where: str, task: Row, language: Language, number: str) -> Instance:
    if language == "java":
        solution, test_file, test = "Solution.java", "Main.java", "Main"
        command = "javac -d /tmp/classes *.java && java -cp /tmp/classes Main"
        tests = _java_test_file(where, task)
    else:
        solution, test_file = "solution.py", "test_solution.py"
        test, command = f"{test_file}::test_check", f"python -m pytest {test_file}"
        tests = _python_test_file(where, task)
    program = task.prompt + task.buggy_solution
    buggy = {solution: program.encode(), test_file: tests.encode()}
    correct = {**buggy, solution: (task.prompt + task.canonical_solution).encode()}
    specification = "\n".join("    " + line for line in source_lines(task.docstring))
    return Instance(
        id=task.task_id,
        benchmark=HumanEvalFixBenchmark.name,
        language=language,
        repository=f"{HumanEvalFixBenchmark.name}/{number}",
        problem_statement=(
            f"`{task.entry_point}` in `{solution}` does not do what it should\n\n"
            f"`{command}` fails. This is what `{task.entry_point}` is meant to do:"
            f"\n\n{specification}\n\n"
            f"The tests in `{test_file}` are right; the mistake is in `{solution}`.\n"
        ),
        fail_to_pass=(test,),
        pass_to_pass=(),
        gold_patch=diff_trees(buggy, correct),
        files=buggy,
        test_paths=(test_file,),
        solution="" if language == "java" else solution,
        category=task.bug_type,
    )


def _java_test_file(where: str, task: Row) -> str:
    if not re.search(r"\bpublic class Main\b", task.test):
        raise ConfigError(f"{where}: column test: must hold `public class Main`")
    imports = "\n".join(re.findall(r"^import .*;$", task.prompt, re.MULTILINE))
    return f"{imports}\n\n{task.test.strip()}\n"


def _python_test_file(where: str, task: Row) -> str:
    tree = parsed(where, "test", task.test)
    last = tree.body[-1] if tree.body else None
    if not (isinstance(last, ast.Expr) and isinstance(last.value, ast.Call)):
        raise ConfigError(f"{where}: column test: must end with the call that runs the check")
    lines = source_lines(task.test)
    kept = "\n".join(lines[: last.lineno - 1]).strip("\n")
    call = "\n".join("    " + line for line in lines[last.lineno - 1 : last.end_lineno])
    # The names of the program that the test uses; upstream runs both in one namespace.
    defined: set[str] = set()
    for node in parsed(where, "prompt", task.prompt + task.canonical_solution).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Assign):
            defined |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        else:
            defined |= _imported(node)
    inside = list(ast.walk(tree))
    used = {node.id for node in inside if isinstance(node, ast.Name)}
    imported = {name for node in inside for name in _imported(node)}
    names = ", ".join(sorted({task.entry_point} | (defined & used) - imported))
    return f"from solution import {names}\n\n\n{kept}\n\n\ndef test_check():\n{call}\n"


def _imported(node: ast.AST) -> set[str]:
    aliases = node.names if isinstance(node, ast.Import | ast.ImportFrom) else []
    return {(alias.asname or alias.name).partition(".")[0] for alias in aliases}
