"""How often a model finds a bug by reading alone.

    python -m benchmarks.reading FACTORY_FOLDER --config CONFIG --model NAME --sample 12
    python -m benchmarks.reading FACTORY_FOLDER   # answered by hand: stepinto play runs/reading

The model gets the issue, and tools that list, search and read the buggy project's files, without
those of its tests; nothing can be run. It names up to three places, the most suspect first. A
place is the function that the gold patch changes, or the class or variable outside functions. The
bugs that are not named first can be kept (`--missed`), as a benchmark file of bugs that this model
does not find by reading so many files (`--steps`).
"""

from __future__ import annotations

import argparse
import ast
import random
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated

from pydantic import Field
from rich.console import Console
from rich.table import Table

from collect.agents.config import AgentsConfig
from collect.agents.conversation import AgentSpec
from collect.agents.file_tools import Grep, ListFiles, ReadFile
from collect.agents.rollout_context import RoleModel, RolloutContext
from collect.agents.tools import Arguments, Tool, Toolbox, ToolReply
from collect.benchmarks.base import Instance
from collect.benchmarks.local import BUGS_FILE, LocalBenchmark, read_local_bugs
from collect.benchmarks.workspace import open_instance_sandbox
from collect.code.patches import ChangedRange, apply_patch, outside
from collect.code.source import code_changes, read_source
from collect.code.syntax import parse
from collect.config import RuntimeConfig
from collect.errors import ModelFailure
from collect.models.budget import Budget
from collect.models.config import ManualConfig
from collect.rollouts.executor import open_model
from collect.store.files import write_text
from collect.store.records import Role
from collect.threads import run_in_threads
from configs.loading import load_config

MAX_STEPS = 40
SUSPECTS = 3
SYSTEM = (
    "You look for a bug in a software project, given a user's report. You can list, search and "
    "read the project's files; its tests are not there, and you can't run anything. The bug is in "
    "one place: a function that does something wrong or leaves something out, or a class or a "
    "variable whose definition does. Once you have an idea that you believe, or no further one, "
    f"call name_suspects with up to {SUSPECTS} places, the most suspect first."
)
FORCED = "You have used up your steps. Call name_suspects now."
Name = tuple[str, str]
"""Path and qualified name."""


class Suspect(Arguments):
    path: Annotated[str, Field(description="File, relative to the repository root.")]
    name: Annotated[
        str,
        Field(
            min_length=1,
            description="The function, such as f or Class.method; or the class or variable, if "
            "the fault is outside functions.",
        ),
    ]


class NameSuspectsArguments(Arguments):
    suspects: Annotated[
        tuple[Suspect, ...],
        Field(min_length=1, max_length=SUSPECTS, description="The most suspect place first."),
    ]


@dataclass
class NameSuspects:
    """Ends the conversation with the model's answer."""

    named: Sequence[Suspect] = ()
    name: str = "name_suspects"
    description: str = "Name the places that you suspect. This is your final answer."
    arguments: type[Arguments] = NameSuspectsArguments

    def call(self, arguments: NameSuspectsArguments, call_id: str) -> ToolReply:
        self.named = arguments.suspects
        return ToolReply("Thank you.", conclusion="named")


@dataclass(frozen=True)
class Reading:
    rank: int | None
    """Of the first right suspect, from 1; None if there is none."""
    reads: int
    """Calls of tools that list, search or read."""


def read_bug(
    bug: Instance,
    model: RoleModel,
    config: RuntimeConfig,
    stop: threading.Event,
    steps: int = MAX_STEPS,
) -> Reading:
    """Let a model look for a bug. Raises ModelFailure, RolloutStopped, SandboxError."""
    with open_instance_sandbox(config.sandbox, bug) as sandbox:
        sandbox.write_files(outside(bug.files, bug.test_paths))
        answer = NameSuspects()
        tools: list[Tool] = [ListFiles(sandbox), Grep(sandbox), ReadFile(sandbox), answer]
        context = RolloutContext(
            instance=bug,
            variant="reading",
            attempt=0,
            sandbox=sandbox,
            config=AgentsConfig(),
            role_models={Role.MAIN: model},
            stop=stop,
        )
        box = Toolbox(tools, context.wording)
        spec = AgentSpec(SYSTEM, box, steps, forced_answer=FORCED, concluding=answer.name)
        agent = context.agent(spec, Role.MAIN)
        agent.run(bug.problem_statement)
    right = places_changed(bug)
    ranks = (rank for rank, each in enumerate(answer.named, start=1) if is_named(each, right))
    reads = agent.log.actions.total() - agent.log.actions[answer.name]
    return Reading(next(ranks, None), reads)


def is_named(suspect: Suspect, places: set[Name]) -> bool:
    """Whether it is one of these places; a name may lack its outer parts."""
    return any(
        path == suspect.path and f".{name}".endswith(f".{suspect.name}") for path, name in places
    )


def places_changed(bug: Instance) -> set[Name]:
    """The functions around each changed line, before and after the gold patch, or the classes and
    variables around one that no function holds. For what is missing before, also its class."""
    fixed = apply_patch(bug.files, bug.gold_patch)
    found = set[Name]()
    for before, after in code_changes(bug.files, bug.gold_patch):
        found |= _around(bug.files, before)
        known = {name for name, *_ in _definitions(before.path, bug.files[before.path])}
        for path, name in _around(fixed, after):
            owner = name.rpartition(".")[0]
            found |= {(path, name)} | ({(path, owner)} if owner and name not in known else set())
    return found


def _around(files: Mapping[str, bytes], changed: ChangedRange) -> set[Name]:
    known = list(_definitions(changed.path, files[changed.path]))
    inside = [each for each in known if each[2] <= changed.start and changed.end <= each[3]]
    functions = [name for name, is_function, *_ in inside if is_function]
    return {(changed.path, name) for name in functions or [name for name, *_ in inside]}


def _definitions(path: str, data: bytes) -> Iterator[tuple[str, bool, int, int]]:
    """Qualified names, whether each is a function's, and first and last line."""
    for each in read_source(path, data).functions:
        yield each.name, True, each.first, each.last
    if path.endswith(".py"):
        yield from _outside_functions(parse(data), "")


def _outside_functions(
    scope: ast.Module | ast.ClassDef, prefix: str
) -> Iterator[tuple[str, bool, int, int]]:
    for node in scope.body:
        last = node.end_lineno or node.lineno
        match node:
            case ast.ClassDef(name):
                yield prefix + name, False, node.lineno, last
                yield from _outside_functions(node, f"{prefix}{name}.")
            case ast.Assign([ast.Name(name), *_]) | ast.AnnAssign(ast.Name(name)):
                yield prefix + name, False, node.lineno, last


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("bugs", type=Path, help="a folder or bugs.jsonl of the benchmark `local`")
    parser.add_argument("--model", default="manual", help="by its name in the config")
    parser.add_argument("--config", type=Path, help="its `models`, `sandbox` and `runner` are used")
    parser.add_argument("--sample", type=int, help="so many bugs, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=MAX_STEPS, help="replies of the model a bug")
    parser.add_argument("--missed", type=Path, help="a file, beside bugs.jsonl, for what it misses")
    parser.add_argument("--run", type=Path, default=Path("runs/reading"), help="for played models")
    options = parser.parse_args()
    played = RuntimeConfig(models={"manual": ManualConfig(backend="manual")})
    config = load_config(options.config) if options.config else played
    bugs = list(LocalBenchmark(options.bugs, languages=("python", "java")).instances())
    if options.sample is not None:
        bugs = random.Random(options.seed).sample(bugs, min(options.sample, len(bugs)))
    stop, results = threading.Event(), dict[str, Reading]()
    chosen, budget = config.model_config_of(options.model), Budget(config.runner.budget_dollars)
    with closing(open_model(options.model, chosen, budget, stop, options.run)) as backend:
        model = RoleModel(backend, chosen.sampling)

        def read(bug: Instance) -> None:
            try:
                results[bug.id] = read_bug(bug, model, config, stop, options.steps)
            except ModelFailure as failure:
                results[bug.id] = Reading(None, 0)
                print(f"{bug.id}: {failure}")
            print(f"{bug.id}: {results[bug.id]}", flush=True)

        run_in_threads(bugs, read, config.runner.concurrency, stop)
    Console().print(result_table(list(results.values())))
    if options.missed:
        path = options.bugs / BUGS_FILE if options.bugs.is_dir() else options.bugs
        missed = {bug for bug, reading in results.items() if reading.rank != 1}
        kept = [bug for bug in read_local_bugs(path) if bug.id in missed]
        write_text(options.missed, "".join(f"{bug.model_dump_json()}\n" for bug in kept))


def result_table(readings: Sequence[Reading]) -> Table:
    table = Table("the changed place is", "bugs", "reads", title="found by reading alone")
    for rank in (*range(1, SUSPECTS + 1), None):
        reads = [each.reads for each in readings if each.rank == rank]
        told = "not named" if rank is None else f"named as number {rank}"
        table.add_row(told, str(len(reads)), f"{fmean(reads):.1f}" if reads else "-")
    return table


if __name__ == "__main__":
    main()
