"""A baseline that answers from the source alone, like a hurried reader: for a value it takes the
nearest assignment, default or literal, it says yes to every reachability question, and takes the
first assertion as the failing one and the first `raise` as the exception. Its score shows how much
of a question file needs no debugger."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from collect.benchmarks.base import Instance
from collect.code.patches import apply_patch
from collect.question_records import (
    Ask,
    AssertionAsk,
    ExceptionAsk,
    PostFixAsk,
    Question,
    ReachAsk,
    RootCauseAsk,
    ValueAsk,
)
from collect.questions.asking import Answered
from collect.questions.program import Program, PythonModule, is_literal, sides_at
from collect.questions.scoring import score
from collect.store.records import DebugAnswer


def read_all(questions: Sequence[Question], instances: Mapping[str, Instance]) -> list[Answered]:
    """Answer and score every question."""

    def program_of(question: Question) -> tuple[str, str]:
        return question.instance_id, question.patch

    answered: dict[str, Answered] = {}
    # Grouped by program, since parsing takes long.
    for (instance_id, patch), asked in groupby(sorted(questions, key=program_of), program_of):
        bug = instances[instance_id]
        program = Program(bug, apply_patch(bug.files, patch) if bug.files and patch else bug.files)
        for question in asked:
            text = _SourceReader(program, question.test).answer(question.ask)
            guess = DebugAnswer(question="", answer=text, evidence="source only", location="")
            answered[question.id] = Answered(question, score(question, guess))
    return [answered[question.id] for question in questions]


class _SourceReader:
    def __init__(self, program: Program, test: str) -> None:
        path, _, name = test.partition("::")
        module = program.tests.get(path)
        self._program = program
        self._test = module if isinstance(module, PythonModule) else None
        functions = self._test.functions if self._test is not None else {}
        self._function = functions.get(name.partition("[")[0].replace("::", "."))
        parts = ast.walk(self._function) if self._function is not None else ()
        calls = [part for part in parts if isinstance(part, ast.Call)]
        self._calls = [(ast.unparse(each.func).rpartition(".")[2], each.args) for each in calls]
        """What the test calls, with which arguments."""

    def answer(self, ask: Ask) -> str:
        match ask:
            case ValueAsk():
                return f"`{ask.expression}` is {self._value(ask)}."
            case ReachAsk():
                return f"Yes, {ask.place} is reached{', once' if ask.count else ''}."
            case PostFixAsk(value=value):
                told = f"`{value.expression}` is {self._value(value)}."
                return f"Yes, the test passes now. {told}"
            case AssertionAsk():
                return self._assertion()
            case ExceptionAsk():
                return self._exception()
            case RootCauseAsk():
                return f"The wrong value comes from {self._first_called()}."

    def _value(self, ask: ValueAsk) -> str:
        """The nearest literal given to the name: above the line, as a default, in the test."""
        module = self._program.module(ask.place.file)
        if not isinstance(module, PythonModule):
            return "None"
        given = list(_given(module.tree, ask.expression.partition("[")[0]))
        above = [each for each in given if each[0] <= ask.place.line + ask.after]
        if above:
            return max(above)[1]
        function = ask.place.function.rpartition(".")[2]
        arguments = [each for name, args in self._calls if name == function for each in args]
        literals = [ast.unparse(each) for each in arguments if is_literal(each)]
        return [*(text for _, text in given), *literals, "None"][0]

    def _assertion(self) -> str:
        """The first assertion of the test, else of its file; `None` is a fair guess."""
        test = self._test
        if test is not None:
            parts = [p for node in (self._function, test.tree) if node for p in ast.walk(node)]
            for part in parts:
                if isinstance(part, ast.Assert):
                    _, expected = sides_at(test.tree, part.lineno) or (None, None)
                    place = f"{test.path}:{part.lineno}"
                    return f"{place} fails: actual None, expected {expected or True}."
        return "The first assertion of the test fails."

    def _exception(self) -> str:
        for module in self._program.modules.values():
            for part in ast.walk(module.tree) if isinstance(module, PythonModule) else ():
                if isinstance(part, ast.Raise) and isinstance(part.exc, ast.Call):
                    name = ast.unparse(part.exc.func)
                    return f"{name}, raised at {module.path}:{part.lineno}."
        return f"KeyError, raised at {self._first_called()}."

    def _first_called(self) -> str:
        """The first statement of the first function that the test calls."""
        statements = [s for m in self._program.modules.values() for s in m.statements]
        for name, _ in self._calls:
            for each in statements:
                if each.place.function.rpartition(".")[2] == name:
                    return f"{each.place}, in {each.place.function}"
        return str(statements[0].place) if statements else "nowhere"


def _given(tree: ast.Module, name: str) -> Iterator[tuple[int, str]]:
    """The literals that a name is assigned or has as its default, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value) if is_literal(value):
                for target in targets:
                    if ast.unparse(target) == name:
                        yield node.lineno, ast.unparse(value)
            case ast.FunctionDef(args=arguments):
                named = [*arguments.posonlyargs, *arguments.args]
                for argument, default in zip(named[::-1], arguments.defaults[::-1], strict=False):
                    if argument.arg == name and is_literal(default):
                        yield node.lineno, ast.unparse(default)
