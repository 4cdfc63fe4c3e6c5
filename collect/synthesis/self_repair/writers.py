"""Writers of solutions for problems: the oracle, a model, or a file."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

from collect.agents.inspectcoder.code_blocks import fenced_blocks
from collect.benchmarks.base import Instance
from collect.benchmarks.row_files import file_rows
from collect.benchmarks.self_repair.benchmark import SOLUTION, Edit, Problem
from collect.errors import ConfigError, ModelFailure
from collect.field_errors import the_nearest
from collect.models.base import ConversationContext, ModelBackend, Sampling
from collect.quantities import counted, first_of
from collect.store.messages import Message
from collect.synthesis.mutations.finding import find_mutations, shuffled

logger = logging.getLogger(__name__)

ORACLE = "oracle"
ROLE = "solution_writer"
"""The role for which a model is opened; a recording for `replay` may name it."""
PROMPT = Path(__file__).parent / "prompts" / "write_solution.md"


@dataclass(frozen=True)
class Solution:
    """One program for one problem."""

    code: str
    written_by: str
    edit: Edit | None = None
    dollars: float = 0.0


class SolutionWriter(Protocol):
    """Writes solutions. Thread-safe."""

    def solutions(self, problem: Problem) -> Iterator[Solution]:
        """One solution after another, until one is a bug worth keeping. A model writes only one,
        and none if it fails. Raises InfrastructureFailure, BudgetExhausted, RolloutStopped."""


@dataclass(frozen=True)
class OracleWriter:
    """Breaks the canonical solution by one edit, a different one each time."""

    seed: int
    max_edits: int

    def solutions(self, problem: Problem) -> Iterator[Solution]:
        if problem.canonical is None:
            return
        mutations = shuffled(find_mutations(problem.canonical), f"{self.seed}:{problem.id}")
        for mutation in islice(mutations, self.max_edits):
            edit = Edit(kind=mutation.kind, category=mutation.category, line=mutation.line)
            yield Solution(mutation.apply(), ORACLE, edit)


@dataclass(frozen=True)
class ModelWriter:
    """Asks a model once."""

    backend: ModelBackend
    sampling: Sampling
    seed: int

    def solutions(self, problem: Problem) -> Iterator[Solution]:
        # Models expect an instance; there is no bug yet.
        instance = Instance(
            id=problem.id,
            benchmark=problem.source,
            language="python",
            repository=problem.id,
            problem_statement=problem.statement,
            fail_to_pass=(),
            pass_to_pass=(),
            gold_patch="",
            solution=SOLUTION,
        )
        model = self.backend.open(ConversationContext(instance, ROLE, 0, ROLE, 0))
        sampling = self.sampling
        if sampling.seed is not None:
            sampling = sampling.model_copy(update={"seed": sampling.seed + self.seed})
        try:
            completion = model.complete([Message("user", prompt(problem))], (), sampling)
        except ModelFailure:
            return
        code = code_of(completion.message.content)
        if code:
            yield Solution(code, self.backend.name, dollars=completion.dollars)


class SolutionsFile:
    """Reads existing solutions, such as those that BigCodeBench-R's authors publish."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError."""
        self._path = path
        self._code: dict[str, str] = {}
        for where, row in file_rows(path, "self_repair.solutions"):
            name = _cell(where, row, "task_id", "question_id")
            if name in self._code:
                raise ConfigError(f"{where}: a second solution for {name}; give one a problem")
            self._code[name] = _cell(where, row, "buggy_solution", "solution")

    def solutions(self, problem: Problem) -> Iterator[Solution]:
        code = self._code.get(problem.id)
        if code:
            yield Solution(code, self._path.name)

    def with_solution(self, problems: Sequence[Problem]) -> list[Problem]:
        """The problems for which the file has a solution, even an empty one; reports how many have
        none. Raises ConfigError if none has one."""
        found = [problem for problem in problems if problem.id in self._code]
        unknown = sorted(self._code.keys() - {problem.id for problem in found})
        if not found:
            hint = the_nearest(unknown[0], [p.id for p in problems]) if unknown else ""
            raise ConfigError(
                f"{self._path}: none of its {counted(len(unknown), 'solution')} is of one of the "
                f"{counted(len(problems), 'problem')} of self_repair.source ({first_of(unknown)})"
                f"{hint}"
            )
        if unknown:
            logger.warning(
                f"{self._path}: {counted(len(unknown), 'solution')} of problems that are not among "
                f"the chosen source's: {first_of(unknown)}"
            )
        if len(found) < len(problems):
            known = f"{len(found)} of {len(problems)} problems"
            logger.info(f"{self._path}: has solutions of {known}, and only these are tried")
        return found


def _cell(where: str, row: object, *columns: str) -> str:
    """The text of the first of these columns that a row has."""
    for column in columns:
        value = row.get(column) if isinstance(row, dict) else None
        if isinstance(value, str):
            return value
    raise ConfigError(f"{where}: must have the column {' or '.join(columns)}, with text in it")


def prompt(problem: Problem) -> str:
    """The prompt for a model; the statement says how the program begins."""
    return PROMPT.read_text("utf-8").replace("{statement}", problem.statement)


def code_of(reply: str) -> str:
    """The longest fenced block of a reply, even without its end; the whole reply if there is none.

    Unlike for a patch, the code may be invalid here: the funnel counts such solutions.
    """
    blocks = fenced_blocks(reply)
    code = max(blocks, key=len) if blocks else reply
    return code.strip("\n").rstrip() + "\n" if code.strip() else ""
