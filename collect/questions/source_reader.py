"""A baseline that answers from the source alone, without running the program.

It acts like a hurried reader: for a value it takes the nearest assignment, default or literal, it
says yes to every reachability question, and takes the first assertion as the failing one and the
first `raise` as the exception. Its score shows how much of a question file needs no debugger.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from collect.benchmarks.base import Instance
from collect.question_records import (
    Ask,
    AssertionAsk,
    ExceptionAsk,
    Location,
    PostFixAsk,
    Question,
    ReachAsk,
    RootCauseAsk,
    ValueAsk,
)
from collect.questions.episode import with_files
from collect.questions.program import Program
from collect.questions.python_module import PythonModule
from collect.questions.rows import Answered
from collect.questions.scoring import score
from collect.questions.sides import is_literal, sides_at
from collect.store.records import DebugAnswer

NO_GUESS = "None"


def read_all(questions: Sequence[Question], instances: Mapping[str, Instance]) -> list[Answered]:
    """Answer and score every question."""
    answered: dict[str, Answered] = {}
    # Grouped by program, since parsing takes long.
    for _, asked in groupby(sorted(questions, key=_program_of), _program_of):
        first, *rest = asked
        bug = instances[first.instance_id]
        patch = first.patch if bug.files else ""
        program = Program.of(bug, with_files(bug, bug.files, patch).files)
        for question in (first, *rest):
            guess = SourceReader(program, question.test).answer(question.ask)
            answered[question.id] = Answered(question, score(question, guess))
    return [answered[question.id] for question in questions]


def _program_of(question: Question) -> tuple[str, str]:
    return question.instance_id, question.patch


class SourceReader:
    def __init__(self, program: Program, test: str) -> None:
        self._program = program
        path, _, name = test.partition("::")
        test_module = program.tests.get(path)
        self._test = test_module if isinstance(test_module, PythonModule) else None
        self._test_name = name.partition("[")[0].replace("::", ".")

    def answer(self, ask: Ask) -> DebugAnswer:
        """A guess in the form of a subagent's answer."""
        match ask:
            case ValueAsk():
                text = f"`{ask.expression}` is {self._value(ask)}."
            case ReachAsk():
                text = f"Yes, {ask.place} is reached{', once' if ask.count else ''}."
            case PostFixAsk():
                value = self._value(ask.value)
                text = f"Yes, the test passes now. `{ask.value.expression}` is {value}."
            case AssertionAsk():
                text = self._assertion()
            case ExceptionAsk():
                text = self._exception()
            case RootCauseAsk():
                text = f"The wrong value comes from {self._first_called()}."
        return DebugAnswer(question="", answer=text, evidence="source only", location="")

    def _value(self, ask: ValueAsk) -> str:
        """The nearest literal given to the name: above the line, as a default, in the test."""
        module = self._program.module(ask.place.file)
        name = ask.expression.partition("[")[0]
        if not isinstance(module, PythonModule):
            return NO_GUESS
        given = [
            (line, text)
            for line, text in _given(module.tree, name)
            if line <= ask.place.line + ask.after
        ]
        if given:
            return max(given)[1]
        anywhere = [text for _, text in _given(module.tree, name)]
        return (anywhere or self._arguments(ask.place) or [NO_GUESS])[0]

    def _arguments(self, place: Location) -> list[str]:
        """The literals that the test passes to the function."""
        wanted = place.function.rpartition(".")[2]
        node = self._test_node()
        calls = [part for part in ast.walk(node) if isinstance(part, ast.Call)] if node else []
        return [
            ast.unparse(argument)
            for call in calls
            if ast.unparse(call.func).rpartition(".")[2] == wanted
            for argument in call.args
            if is_literal(argument)
        ]

    def _assertion(self) -> str:
        """The first assertion of the test, else of its file; else `None` is a fair guess."""
        if self._test is None:
            return "The first assertion of the test fails."
        for node in filter(None, (self._test_node(), self._test.tree)):
            for part in ast.walk(node):
                if isinstance(part, ast.Assert):
                    sides = sides_at(self._test.tree, part.lineno)
                    expected = sides.expected if sides is not None and sides.expected else "True"
                    return (
                        f"{self._test.path}:{part.lineno} fails: actual {NO_GUESS}, "
                        f"expected {expected}."
                    )
        return "The first assertion of the test fails."

    def _exception(self) -> str:
        read = self._program.modules.values()
        for module in (each for each in read if isinstance(each, PythonModule)):
            for part in ast.walk(module.tree):
                if isinstance(part, ast.Raise) and isinstance(part.exc, ast.Call):
                    name = ast.unparse(part.exc.func)
                    return f"{name}, raised at {module.path}:{part.lineno}."
        return f"KeyError, raised at {self._first_called()}."

    def _first_called(self) -> str:
        """The first statement of the first function that the test calls."""
        node = self._test_node()
        calls = [part for part in ast.walk(node) if isinstance(part, ast.Call)] if node else []
        names = [ast.unparse(call.func).rpartition(".")[2] for call in calls]
        statements = [s for m in self._program.modules.values() for s in m.statements]
        for name in names:
            for each in statements:
                if each.place.function.rpartition(".")[2] == name:
                    return f"{each.place}, in {each.place.function}"
        return str(statements[0].place) if statements else "nowhere"

    def _test_node(self) -> ast.AST | None:
        return self._test.functions.get(self._test_name) if self._test is not None else None


def _given(tree: ast.Module, name: str) -> Iterator[tuple[int, str]]:
    """The literals that a name is assigned or has as its default, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value) if is_literal(value):
                for target in targets:
                    if ast.unparse(target) == name:
                        yield node.lineno, ast.unparse(value)
            case ast.FunctionDef(args=arguments):
                yield from _defaults(node, arguments, name)


def _defaults(
    node: ast.FunctionDef, arguments: ast.arguments, name: str
) -> Iterator[tuple[int, str]]:
    named = [*arguments.posonlyargs, *arguments.args]
    with_default = named[len(named) - len(arguments.defaults) :]
    for argument, default in zip(with_default, arguments.defaults, strict=True):
        if argument.arg == name and is_literal(default):
            yield node.lineno, ast.unparse(default)
