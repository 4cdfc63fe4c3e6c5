"""Issue texts in users' style, from the symptom alone: never where the fault is, or its fix."""

from __future__ import annotations

import ast
import builtins
import keyword
import random
import re
import string
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeGuard

from collect.benchmarks.base import Language
from collect.benchmarks.projects.failing_input import (
    EQUAL,
    Scene,
    definitions,
    is_check,
    snippet,
    with_values,
)
from collect.benchmarks.pytest_run import section_of

# Comparisons and exceptions that tests check, and how pytest and unittest print their failures.

CONDITIONS = dict.fromkeys(EQUAL, "{0} == {1}") | {
    "assertTrue": "{0}",
    "assertFalse": "not {0}",
    "assertIn": "{0} in {1}",
    "assertNotIn": "{0} not in {1}",
    "assertIs": "{0} is {1}",
    "assertIsNot": "{0} is not {1}",
    "assertIsNone": "{0} is None",
    "assertIsNotNone": "{0} is not None",
    "assertIsInstance": "isinstance({0}, {1})",
    "assertNotEqual": "{0} != {1}",
    "assertLess": "{0} < {1}",
    "assertLessEqual": "{0} <= {1}",
    "assertGreater": "{0} > {1}",
    "assertGreaterEqual": "{0} >= {1}",
}
"""The operators that unittest's methods check."""
_RAISES = {"raises", "assertRaises", "assertRaisesRegex", "assertRaisesRegexp", "assert_raises"}
_RAISES |= {"warns", "assertWarns"}
_OPENING = re.compile(r"^(?:assert |\w+ differ: )")


def sides(statement: ast.AST | None) -> tuple[ast.expr, ast.expr] | None:
    """Left and right side of the comparison that a statement asserts; None if it asserts none."""
    if isinstance(statement, ast.Assert):
        test = statement.test
        while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test = test.operand
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return test.left, test.comparators[0]
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        if name_of(call.func) in EQUAL and len(call.args) >= 2:
            return call.args[0], call.args[1]
    return None


def is_equality(statement: ast.AST | None) -> bool:
    """Whether it asserts that two values are equal or identical."""
    if isinstance(statement, ast.Assert):
        test = statement.test
        return isinstance(test, ast.Compare) and [*map(type, test.ops)] in ([ast.Eq], [ast.Is])
    return sides(statement) is not None


def raising(statement: ast.AST | None) -> ast.Call | None:
    """The `raises(...)` call of a statement; None if it expects no exception."""
    manager = statement.items[0].context_expr if isinstance(statement, ast.With) else None
    if isinstance(statement, ast.Expr):
        manager = statement.value
    if isinstance(manager, ast.Call) and name_of(manager.func) in _RAISES and manager.args:
        return manager
    return None


def assignments(function: ast.AST, before: int) -> dict[str, ast.expr]:
    """The values last assigned to a test's variables, by statements that end above a line."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and (node.end_lineno or 0) < before:
            parts = [part for target in node.targets for part in ast.walk(target)]
            found |= {part.id: node.value for part in parts if isinstance(part, ast.Name)}
    return found


def is_constant(node: ast.expr, given: Mapping[str, ast.expr]) -> bool:
    """Whether a value is a constant, also through variables of the test."""
    if isinstance(node, ast.Name) and node.id in given:
        return is_constant(given[node.id], {})
    if is_method_of_constant(node):
        return all(is_constant(argument, given) for argument in node.args)
    return not any(isinstance(part, ast.Name | ast.Call) for part in ast.walk(node))


def is_method_of_constant(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether it is a call such as `"".join(lines)`, which does not involve the program."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Constant | ast.JoinedStr)
    )


def is_written(node: ast.expr, given: Mapping[str, ast.expr]) -> bool:
    """Whether a value is what a test expects rather than gets: a constant, an object made of
    constants, or a variable that holds one or comes from outside."""
    if isinstance(node, ast.Name):
        return node.id not in given or is_written(given[node.id], {})
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.value.id[:1].isupper()
    if isinstance(node, ast.Call):
        made = is_method_of_constant(node) or name_of(node.func)[:1].isupper()
        return made and all(is_written(argument, given) for argument in node.args)
    children = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
    return all(is_written(child, given) for child in children)


def printed_values(message: str) -> tuple[str, str]:
    """Left and right value of the first line that says `assert x == y` or unittest's `x != y`;
    empty if there is none."""
    for line in message.split("\n"):
        text = _OPENING.sub("", line.strip())
        try:
            compared = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError):
            continue
        equality = ast.Eq | ast.NotEq | ast.Is
        if isinstance(compared, ast.Compare) and isinstance(compared.ops[0], equality):
            left = ast.get_source_segment(text, compared.left) or ""
            right = ast.get_source_segment(text, compared.comparators[-1]) or ""
            return (left, right) if len(compared.ops) == 1 else ("", "")
    return "", ""


def name_of(function: ast.expr) -> str:
    """The last name of the called expression; empty if it has none."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


_FRAME = re.compile(r"^(\S+\.py):(\d+): in (\S+)\n((?: {4}.*(?:\n|\Z))*)", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_IDENTIFIER = re.compile(
    r"(?<![A-Za-z])[A-Za-z]++_\w*|_\w+|(?<![a-z])[a-z]++[A-Z]\w*|[A-Z][a-z]++[A-Z]\w*"
    r"|(?<!\w)\w++(?=\()|(?<=\.)\w+"
)
_OF_TESTS = re.compile(r"(?:^|\.)(?:tests?|testing|conftest|test_\w+|\w+_test|\w*helpers?)(?:\.|$)")
"""Matches module names of test code."""
_KNOWN = {*dir(builtins), *keyword.kwlist, "self", "cls"}


@dataclass(frozen=True)
class Symptom:
    project: str
    tests: tuple[str, ...]
    """Node ids of the failing tests."""
    source: str
    """Source of the first failing test's function; empty if it can't be found."""
    imports: tuple[str, ...]
    """The import statements of the test's module."""
    exception: str
    """The class of the first failing test's exception, without its module."""
    message: str
    """The exception's message, as pytest shows it."""
    expected_exception: str = ""
    """The exception that the test expects that statement to raise, as written there."""
    helpers: frozenset[str] = frozenset()
    """Names of the tests' own functions and classes, and of the standard library."""
    hidden: frozenset[str] = frozenset()
    """Names in the traceback that the test does not show: no report may contain them."""
    function: ast.FunctionDef | None = None
    """The tree of `source`."""
    failing: ast.stmt | None = None
    """The failing statement in it; None if the test fails outside its own statements."""
    definitions: Mapping[str, str] = field(default_factory=dict)
    """Source of the tests' own functions and classes that the test needs, if the run told it."""


def read_symptom(
    project: str,
    tests: Sequence[str],
    *,
    files: Mapping[str, bytes],
    exception: str,
    message: str,
    output: str,
    scene: Scene | None = None,
) -> Symptom:
    """Read the symptom from pytest's output with `--tb=short`, and from what was seen in the run.

    `files` is the project's tree. `exception` and `message` belong to the first test's failure; the
    message may start with the exception's name.
    """
    path, *names = tests[0].partition("[")[0].split("::")
    frames = [_Frame(*found) for found in _FRAME.findall(section_of(tests[0], output))]
    if scene is None:
        # An inherited test may be in another file.
        inside = next((frame for frame in frames if frame.function == names[-1]), None)
    else:
        at = scene.path, str(scene.line)
        inside = next((frame for frame in frames[::-1] if (frame.path, frame.line) == at), None)
    module = files.get(inside.path if inside else path, b"").decode(errors="replace")
    tree = _parsed(module)
    imports = tuple(
        ast.get_source_segment(module, node) or ""
        for node in tree.body
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level)
        if not any(map(_OF_TESTS.search, _modules(node)))
    )
    # The test's function: the one that the frame is in, or else the one with the test's name.
    name = inside.function if inside else names[-1]
    named = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    named = (node for node in named if node.name == name)
    function = next((node for node in named if inside is None or _is_around(node, inside)), None)
    failing = None
    if function is not None and inside is not None:
        inner = [node for node in ast.walk(function) if isinstance(node, ast.stmt)]
        around = [node for node in inner[1:] if _is_around(node, inside)]
        around.sort(key=lambda node: (node.end_lineno or 0) - node.lineno)
        failing = around[0] if around else None
    if function is not None:
        function, failing = with_values(function, failing, scene)
    own = definitions(scene) if scene is not None else {}
    blocks = [
        node
        for node in (ast.walk(function) if function is not None else ())
        if isinstance(node, ast.stmt) and any(part is failing for part in ast.walk(node))
    ]
    raises = next(filter(None, map(raising, reversed(blocks))), None)
    source = ast.unparse(function) if function is not None else ""
    outside = [frame for frame in frames if inside is None or frame.path != inside.path]
    shown = {*_WORD.findall(source), *_WORD.findall("\n".join(imports)), exception}
    return Symptom(
        project=project,
        tests=tuple(tests),
        source=source,
        imports=(*imports, *(scene.imports if scene is not None else ())),
        exception=exception,
        message=re.sub(rf"^(?:\w+\.)*{re.escape(exception)}(?:: |\n|$)", "", message),
        expected_exception=ast.unparse(raises.args[0]) if raises is not None else "",
        helpers=frozenset(_helpers(tree)),
        hidden=frozenset(name for frame in outside for name in frame.names()) - shown - _KNOWN,
        function=function,
        failing=failing,
        definitions=own,
    )


class _Frame(NamedTuple):
    path: str
    line: str
    function: str
    code: str

    def names(self) -> Iterator[str]:
        """Names of the file, its folder and the function, and what looks like a name in the
        code."""
        yield from (part for part in re.split(r"[/\\]|\.py$", self.path)[-3:] if part)
        yield self.function
        yield from _IDENTIFIER.findall(self.code)


def _is_around(node: ast.stmt, frame: _Frame) -> bool:
    return node.lineno <= int(frame.line) <= (node.end_lineno or 0)


def _parsed(source: str) -> ast.Module:
    """The syntax tree; an empty one if it is not Python."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _helpers(tree: ast.Module) -> Iterator[str]:
    """Names that the test's module defines, or imports from other test modules or the standard
    library."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            beside = node.module is None and node.level == 1
            if beside or (node.module is not None and _is_foreign(node.module)):
                yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            names = [alias for alias in node.names if _is_foreign(alias.name)]
            yield from (alias.asname or alias.name for alias in names)


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    names = [alias.name for alias in node.names]
    return names if isinstance(node, ast.Import) else [node.module or ""]


def _is_foreign(module: str) -> bool:
    """Whether a module's name shows that it is not the project's own code."""
    standard = module.partition(".")[0] in sys.stdlib_module_names
    return standard or _OF_TESTS.search(module) is not None


# What a failing test claims: which call goes wrong, what it expects, and what it gets.

MAX_CHARACTERS = 300
"""Limit for a value, an expression or a message in a report."""
_BUILT_IN = {name for kind in (str, bytes, list, dict, set) for name in dir(kind)}
"""Methods of built-in types, which are no clue about the program."""
_BUILT_IN |= {*dir(builtins), "raises"}
_NOT_RAISED = re.compile(r"DID NOT (?:RAISE|WARN)|not raised(?: by \S+)?\s*$")
_LOCAL = re.compile(r"(?<![\w.])(\.*+)(?:(?:\w++\.++)++<locals>\.)++")
"""The functions around a class that a test defines."""
_MESSAGES = re.compile(
    r"^(?>.*?Regex: )(.+)\n\s*+(?:Input|Actual message): (.+)", re.IGNORECASE | re.MULTILINE
)


class Outcome(StrEnum):
    """How the program fails the test."""

    WRONG_VALUE = "wrong_value"
    UNMET = "unmet"
    """A condition does not hold."""
    NO_ERROR = "no_error"
    ERROR = "error"
    WRONG_ERROR = "wrong_error"
    """Another exception than expected."""
    WRONG_MESSAGE = "wrong_message"
    """The expected exception, with another message."""


@dataclass(frozen=True)
class Claim:
    """The contents of a report. Any text may be empty."""

    outcome: Outcome
    call: str
    """The expression or statement that goes wrong."""
    function: str
    """The name of the called function."""
    expected: str = ""
    """A value; for NO_ERROR and WRONG_ERROR, the exception; for WRONG_MESSAGE, its message."""
    actual: str = ""
    condition: str = ""
    """For UNMET: the condition that does not hold."""
    message: str = ""
    """For ERROR and WRONG_ERROR: the exception's message."""

    @property
    def tells(self) -> bool:
        """Whether it tells what should happen."""
        return bool(self.expected or self.condition) or self.outcome is Outcome.ERROR


class Checked(NamedTuple):
    """What a failing statement checks or evaluates."""

    statement: ast.AST | None
    """It, or the last one of its block."""
    subject: ast.expr | None
    """The expression that goes wrong; None if it is constant."""
    given: Mapping[str, ast.expr]
    """The test's variables before it."""
    is_value: bool
    """Whether it compares the subject with an expected value."""
    value_first: bool
    """Whether the expected value is on the left."""


def checked(symptom: Symptom) -> Checked:
    statement, given = symptom.failing, dict[str, ast.expr]()
    if symptom.function is not None and statement is not None:
        given = assignments(symptom.function, statement.lineno)
    inner = statement.body[-1] if isinstance(statement, ast.With) else statement
    both = sides(inner)
    written = tuple(is_written(side, given) for side in both) if both else ()
    subject = _subject(inner, given)
    if both:
        subject = both[1] if written == (True, False) else both[0]
    if subject is not None and is_constant(subject, given):
        subject = None
    # If both sides are computed, neither is the expected value.
    is_value = is_equality(inner) and written != (False, False)
    subject = _inlined(subject, symptom, given)
    return Checked(inner, subject, given, is_value, written == (True, False))


def read_claim(symptom: Symptom) -> Claim:
    """The first failing test's claim, without anything that only the traceback shows."""
    statement, subject, given, is_value, value_first = checked(symptom)
    call = _code(subject)
    function = _called(subject or statement, given, symptom.helpers | symptom.definitions.keys())
    expected = symptom.expected_exception
    if expected and _NOT_RAISED.search(symptom.message):
        return Claim(Outcome.NO_ERROR, call, function, expected)
    if expected and (texts := _MESSAGES.search(symptom.message)):
        wanted, actual = (visible(text, symptom) for text in texts.groups())
        return Claim(Outcome.WRONG_MESSAGE, call, function, wanted, actual)
    if symptom.exception not in ("AssertionError", "Failed"):
        message = visible(symptom.message.split("\n")[0], symptom)
        if expected:
            return Claim(Outcome.WRONG_ERROR, call, function, expected, message=message)
        value = visible(_expected_value(symptom, statement), symptom)
        return Claim(Outcome.ERROR, call, function, value, message=message)
    if is_value:
        values = excerpts(*printed_values(symptom.message))
        actual, expected = (visible(value, symptom) for value in values)
        if value_first:
            actual, expected = expected, actual
        if expected and actual and expected != actual:
            return Claim(Outcome.WRONG_VALUE, call, function, expected, actual)
    return Claim(Outcome.UNMET, call, function, condition=_code(_condition(statement)))


def excerpts(one: str, other: str) -> tuple[str, str]:
    """Two values; of long ones, what is around their first difference."""
    if max(len(one), len(other)) <= MAX_CHARACTERS:
        return one, other
    pairs = enumerate(zip(one, other, strict=False))
    same = next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
    start = max(same - MAX_CHARACTERS // 4, 0)
    parts = (text[start : start + MAX_CHARACTERS // 2] for text in (one, other))
    left, right = ("…" * (start > 0) + part + "…" for part in parts)
    return left, right


def _inlined(
    subject: ast.expr | None, symptom: Symptom, given: Mapping[str, ast.expr]
) -> ast.expr | None:
    """For a variable that only the failing statement reads: the expression that it holds."""
    function, failing = symptom.function, symptom.failing
    if not (isinstance(subject, ast.Name) and subject.id in given and function and failing):
        return subject
    name = subject.id
    parts = [part for part in ast.walk(function) if isinstance(part, ast.Name)]
    before = [part for part in parts if part.id == name and part.lineno < failing.lineno]
    return given[name] if len(before) == 1 else subject


def _expected_value(symptom: Symptom, statement: ast.AST | None) -> str:
    """What a test expects of a statement that raises: the value that it compares the result with,
    there or in the first check after it."""
    result = ""
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        result = statement.targets[0].id
    later: list[ast.AST] = []
    if result and symptom.function is not None and symptom.failing is not None:
        nodes = (node for node in ast.walk(symptom.function) if isinstance(node, ast.stmt))
        later = [node for node in nodes if node.lineno > symptom.failing.lineno]
    for node in [statement, *later]:
        both = sides(node) if is_equality(node) else None
        for one, other in (both, both[::-1]) if both else ():
            fits = node is statement or (isinstance(one, ast.Name) and one.id == result)
            if fits and is_constant(other, {}) and not is_constant(one, {}):
                return ast.unparse(other)
    return ""


def _code(node: ast.AST | None) -> str:
    """The node's source on one line; empty if it is long or consists of variables only."""
    if node is None or isinstance(node, ast.For | ast.While | ast.If | ast.Try):
        return ""
    parts = ast.Call | ast.Attribute | ast.Subscript
    if not any(isinstance(part, parts) for part in ast.walk(node)):
        return ""
    text = ast.unparse(node)
    return text if len(text) <= MAX_CHARACTERS and "\n" not in text else ""


def _subject(statement: ast.AST | None, given: Mapping[str, ast.expr]) -> ast.expr | None:
    """The expression that a statement checks or evaluates, if it is no comparison."""
    if isinstance(statement, ast.Assert):
        return statement.test
    if raises := raising(statement):
        rest = raises.args[1:]
        starred = any(isinstance(argument, ast.Starred) for argument in rest[:1])
        return ast.Call(rest[0], rest[1:], raises.keywords) if rest and not starred else None
    if isinstance(statement, ast.Expr | ast.Assign | ast.AnnAssign | ast.Return):
        value = statement.value
        if not isinstance(value, ast.Call) or not name_of(value.func).startswith("assert"):
            return value
        computed = (argument for argument in value.args if not is_constant(argument, given))
        return next(computed, value)
    return None


def _condition(statement: ast.AST | None) -> ast.expr | None:
    """The condition of an assertion."""
    if isinstance(statement, ast.Assert):
        return statement.test
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        form = CONDITIONS.get(name_of(call.func))
        texts = [ast.unparse(arg) for arg in call.args]
        starred = any(isinstance(argument, ast.Starred) for argument in call.args)
        if form is not None and not starred and len(texts) > form.count("{1}"):
            return ast.parse(form.format(*texts), mode="eval").body
    return None


def _called(node: ast.AST | None, given: Mapping[str, ast.expr], helpers: frozenset[str]) -> str:
    """The program's function or method behind an expression, also through the variable that holds
    its result."""
    parts = list(ast.walk(node)) if node is not None else []
    for part in parts:
        if isinstance(part, ast.Call) and not is_method_of_constant(part):
            name = name_of(part.func)
            own = isinstance(part.func, ast.Name) and part.func.id in given
            known = own or name in {*_BUILT_IN, *EQUAL, ""}
            # The first name of `match.set_data` is `match`.
            root = part.func
            while isinstance(root, ast.Attribute):
                root = root.value
            helping = isinstance(root, ast.Name) and root.id in helpers
            if not known and not helping:
                return name
    sources = [given[part.id] for part in parts if isinstance(part, ast.Name) and part.id in given]
    return next(filter(None, (_called(source, {}, helpers) for source in sources)), "")


def visible(text: str, symptom: Symptom, *, printed: bool = False) -> str:
    """The text; empty if it is long, or has a name or an address that no user would see. Classes in
    a value that is `printed` are seen."""
    text = _LOCAL.sub(r"\1", text)
    words = set(_WORD.findall(text))
    inner = {word for word in words if word.startswith("_")} | set(re.findall(r"\b(\w++)\(", text))
    unseen = words & symptom.hidden
    if not printed:
        unseen |= inner - set(re.findall(r"\w+", symptom.source))
    long = len(text) > MAX_CHARACTERS or "\n" in text
    return "" if long or unseen or re.search(r"\b0x[0-9a-f]|\.\.\.", text) else text.strip()


# The report.


def failing_inputs(symptom: Symptom) -> Iterator[str]:
    """Short programs that may fail, from the simplest on; none if the test needs more than can be
    shown."""
    function, node = symptom.function, symptom.failing
    if function is None or node is None:
        return
    statement, subject, _, is_value, _ = checked(symptom)
    value, condition = getattr(statement, "value", None), _condition(statement)
    lasts = []
    if isinstance(node, ast.With) and raising(node):
        node = node.body[-1]
    elif raising(node) and subject is not None:
        lasts = [ast.unparse(subject)]
    elif is_value and subject is not None:
        # Only the expression that the assertion checks.
        lasts = [f"print({ast.unparse(subject)})"]
    elif not is_check(node) and isinstance(value, ast.Call):
        lasts = [f"print({ast.unparse(value)})"]
    if condition is not None:
        lasts.append(f"assert {ast.unparse(condition)}")
    for whole in (False, True):
        for last in lasts or [ast.unparse(node)]:
            parts = function, node, last, symptom.imports, symptom.definitions
            if code := snippet(*parts, whole=whole):
                yield code


_LEFT_OUT = ("found", "closing")
"""Optional parts of a text once it has named the test."""


def write_issue(symptom: Symptom, seed: str) -> str:
    """A bug report: what was called, what happened, what was expected. Deterministic for a seed.

    It has no name that only the traceback shows, and no message or value that contains one.
    """
    shown = {"project": symptom.project, "exception": symptom.exception}
    shown["snippet"] = next(failing_inputs(symptom), "")
    return compose(read_claim(symptom), symptom.tests, shown, seed)


def compose(
    claim: Claim,
    tests: Sequence[str],
    shown: Mapping[str, str],
    seed: str,
    language: Language = "python",
) -> str:
    """A report of a claim. Skips phrases that need a missing part.

    `tests` are the failing tests, if it may name one; `shown` has the project, and of the first
    test the exception's class and the snippet, which may be empty.
    """
    structures, phrases = _read_phrases()
    possible = {**phrases["any"], **phrases[language], **phrases[claim.outcome.value]}
    count = str(len(tests)) if len(tests) > 1 else ""
    known = {**asdict(claim), **shown, "test": tests[0] if tests else "", "count": count}
    facts = {name: fact for name, fact in known.items() if fact}
    if not tests:
        told = ("snippet",) if "snippet" in facts else ()
        structures = [each for each in structures if ("snippet" in each) == bool(told)]
    generator = random.Random(seed)
    test_named = False
    lines: list[str] = []
    for part in generator.choice(structures):
        # A string that is not a part's name is literal text.
        line = part
        if part in possible:
            line = _phrase(part, possible, facts, test_named, generator)
            test_named = test_named or facts.get("test", "\0") in line
        if line or (not part and lines and lines[-1]):
            lines.append(line)
    return "\n".join(lines).strip() + "\n"


def _phrase(
    part: str,
    phrases: Mapping[str, Sequence[str]],
    facts: Mapping[str, str],
    test_named: bool,
    generator: random.Random,
) -> str:
    """One of the part's phrases whose facts are all known, or nothing; those with more facts are
    more likely."""
    if part == "snippet" and part not in facts:
        part = "test"
    possible = [phrase for phrase in phrases[part] if _needs(phrase) <= facts.keys()]
    if part in ("happened", "expected"):
        most = max((len(_needs(phrase)) for phrase in possible), default=0)
        possible = [phrase for phrase in possible if len(_needs(phrase)) == most]
    if test_named:
        others = [phrase for phrase in possible if "test" not in _needs(phrase)]
        possible = others if others or part in _LEFT_OUT else possible
    if not possible:
        return ""
    texts = {phrase.format_map(facts): 1 + len(_needs(phrase)) for phrase in possible}
    if part == "title":
        short = {text: weight for text, weight in texts.items() if len(text) <= 90}
        texts = short or texts
    return generator.choices(list(texts), list(texts.values()))[0]


def _needs(phrase: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(phrase) if name}


@cache
def _read_phrases() -> tuple[Sequence[Sequence[str]], Mapping[str, Mapping[str, Sequence[str]]]]:
    """The structures, and the phrases by outcome and part."""
    read = tomllib.loads(Path(__file__).with_name("issue_phrases.toml").read_text("utf-8"))
    structures = [structure["parts"] for structure in read.pop("structures")]
    return structures, read
