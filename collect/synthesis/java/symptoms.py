"""How a failing test of a Java project reads: what it calls, expects and gets, and the code that
shows it."""

from __future__ import annotations

import posixpath
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from collect.benchmarks.projects.failing_input import MAX_LINES, MAX_SNIPPET
from collect.benchmarks.projects.issue_text import MAX_CHARACTERS, Claim, Outcome
from collect.benchmarks.projects.project import Reason
from collect.code.java_tree import (
    called_name,
    declarators,
    declared_in,
    field_text,
    fields,
    line_of,
    parse,
    text_of,
    walk,
    words,
)
from collect.synthesis.java_mutations.base import (
    METHODS,
    arguments_of,
    around,
    parameters_of,
)

# Read the failures of Java tests from the runner's stack traces.

_FRAME = re.compile(r"^\tat (?:[\w.@/-]+/)?([\w.$<>]+)\.([\w$<>]+)\(([\w$-]+\.java):(\d+)\)", re.M)
_IDENTITY = re.compile(r"@[0-9a-f]{4,}\b")
_EXCEPTION = re.compile(r"([A-Za-z_][\w.$]*)(?::|\s*$)")
_LAMBDA = re.compile(r"^lambda\$(\w+)\$\d+$")


def enclosing_method(method: str) -> str:
    """For a lambda, the method around it; else the method itself."""
    return _LAMBDA.sub(r"\1", method)


def source_path(file: str, sources: Sequence[str]) -> str | None:
    """The path, among these, of a file that is named relative to its source root."""
    return next((path for path in sources if f"/{path}".endswith(f"/{file}")), None)


@dataclass(frozen=True)
class Frame:
    """One line of a stack trace."""

    class_name: str
    """With the package."""
    method: str
    """For a lambda, the enclosing method."""
    file: str
    """Relative to its source root."""
    line: int

    def path(self, sources: Sequence[str]) -> str | None:
        """The path of its file, among these."""
        return source_path(self.file, sources)


@dataclass(frozen=True)
class Failure:
    """How one test failed."""

    type: str
    """The exception's class, without its package."""
    message: str
    frames: tuple[Frame, ...]
    """Frames of the exception and its causes, innermost first."""
    whole: bool
    """Whether the stack trace is complete."""

    def reason(self, sources: Sequence[str]) -> Reason:
        """The failure in comparable form: its place is the innermost frame in these files."""
        if self.type == "StackOverflowError":
            # Where the stack overflows depends on what else is on it.
            return Reason(self.type, "", "")
        place = next((frame for frame in self.frames if frame.path(sources) is not None), None)
        return Reason(self.type, self.message, f"{place.file}:{place.line}" if place else "")


def read_failure(trace: str) -> Failure:
    """A stack trace as Java prints it."""
    text = _IDENTITY.sub("@...", trace.partition("\n\tat ")[0]).strip()
    named = _EXCEPTION.match(text)
    kind = re.split(r"[.$]", named[1])[-1] if named else "Exception"
    message = text[named.end() :].strip() if named else text
    frames = []
    for class_name, method, name, line in _FRAME.findall(trace):
        file = posixpath.join(class_name.rpartition(".")[0].replace(".", "/"), name)
        frames.append(Frame(class_name, enclosing_method(method), file, int(line)))
    return Failure(kind, message, tuple(frames), not trace.endswith("..."))


# A Java bug's symptom: which test fails, and how.

_WORD = re.compile(r"[A-Za-z_]\w*")
_BEFORE = words("Before BeforeEach BeforeMethod")
_WRAPPERS = words("try_statement for_statement while_statement enhanced_for_statement if_statement")
_BUILT_IN = words(
    "java lang util String Object Integer Long Double Math List Map Set Optional Arrays Objects "
    "Collections run accept apply get test call invoke invoke0 forEach"
)


@dataclass(frozen=True)
class JavaSymptom:
    """How a bug shows."""

    failure: Failure
    method: Node | None
    """The first failing test's method; None if it can't be found."""
    statement: Node | None
    """Its failing statement; None if the test fails outside its own statements."""
    hidden: frozenset[str]
    """Names in the stack trace that the test does not show: no report may contain them."""
    outside: Mapping[str, str]
    """The names that the method's body does not declare, and their types: its parameters, and the
    fields in its file."""
    fixture: Sequence[Node] = ()
    """What gives the fields their values before the test, in order: fields with a value, and the
    statements of the methods that run before each test."""


def read_java_symptom(
    test: str, failure: Failure, files: Mapping[str, bytes], test_files: Sequence[str]
) -> JavaSymptom:
    """The symptom of a test's failure; `test_files` are the paths of the test sources."""
    class_name, _, name = test.partition("#")
    inside = next(
        (f for f in failure.frames if f.method == name and f.path(test_files) is not None), None
    )
    path = class_name.partition("$")[0].replace(".", "/") + ".java"
    own = inside or Frame(class_name, name, path, 0)
    nodes = list(walk(parse(files.get(own.path(test_files) or "", b""))))
    inherits = source_path(path, test_files) if own.file != path else None
    trees = [nodes, *([list(walk(parse(files[inherits])))] if inherits is not None else [])]
    named = [node for node in nodes if field_text(node, "name") == name]
    methods = [node for node in named if node.type == "method_declaration"]
    method = next((m for m in methods if inside is None or _has_line(m, inside.line)), None)
    outside = dict.fromkeys(parameters_of(method), "") if method is not None else {}
    for node in nodes:
        if node.type == "field_declaration":
            outside |= dict(declared_in(node))
    hidden = {
        word
        for frame in failure.frames
        if frame.file != own.file
        for word in (frame.method, *re.split(r"[.$]", frame.class_name)[-2:])
    }
    shown = set(_WORD.findall(text_of(method))) if method is not None else set()
    statement = _statement(method, inside.line) if method is not None and inside else None
    unseen = frozenset(hidden - shown - _BUILT_IN)
    return JavaSymptom(failure, method, statement, unseen, outside, tuple(_fixture(trees)))


def _fixture(trees: Sequence[Sequence[Node]]) -> Iterator[Node]:
    """See `JavaSymptom.fixture`; each tree is of a class that inherits from the one before."""
    for nodes in trees:
        yield from (node for node in nodes if node.type == "field_declaration")
    for node in (node for nodes in trees for node in nodes):
        if node.type == "marker_annotation" and field_text(node, "name") in _BEFORE:
            for body in fields(around(node, METHODS), "body"):
                yield from body.named_children


def _has_line(node: Node, line: int) -> bool:
    return line_of(node) <= line <= node.end_point.row + 1


def _statement(method: Node, line: int) -> Node | None:
    """The innermost statement of a test at a line, outside lambdas."""
    found = None
    pending = fields(method, "body")
    while pending:
        node = pending.pop()
        if not _has_line(node, line):
            continue
        if node.type in _WRAPPERS or "block" in node.type or node.type.endswith("_clause"):
            pending += reversed(node.named_children)
        elif node.type.endswith(("_statement", "_declaration")):
            found = node
    return found


_EQUAL = words("assertEquals assertArrayEquals assertIterableEquals assertSame assertLinesMatch")
_CONDITIONS = {
    "assertTrue": "{0}",
    "assertFalse": "!({0})",
    "assertNull": "{0} == null",
    "assertNotNull": "{0} != null",
    "assertNotEquals": "!{0}.equals({1})",
    "assertNotSame": "{0} != {1}",
    "assertInstanceOf": "{1} instanceof {0}",
}
_THROWS = words("assertThrows assertThrowsExactly expectThrows")
_ASSERTIONS = words("AssertionError AssertionFailedError ComparisonFailure ArrayComparisonFailure")
_VALUES = re.compile(r"\A(?=.*>$)(?>.*?expected: ?<)(.*)> but was: ?<(.*)>$", re.DOTALL)
_NOTHING = re.compile(r"nothing was thrown|^Expected exception: ")
_OTHER = re.compile(r"\A(?>.*?Unexpected exception type thrown).*<(?:[\w.]*\.)?(\w+)>$", re.DOTALL)
_OF_JDK = words(
    "size get equals isEmpty contains containsKey toString length asList of valueOf hashCode add "
    "put remove iterator next stream collect toList charAt format getClass println"
)


def read_java_claim(symptom: JavaSymptom) -> Claim:
    """The first failing test's claim, without anything that only the stack trace shows."""
    failure = symptom.failure
    name, given = _outer_call(symptom.statement)
    # JUnit 4 takes a message as the first argument, JUnit 5 as the last one.
    at_end = any(frame.class_name.startswith("org.junit.jupiter.") for frame in failure.frames)
    needed = 1 if name in _CONDITIONS and "{1}" not in _CONDITIONS[name] else 2
    if not at_end and len(given) > needed and given[0].type == "string_literal":
        given = given[1:]
    subject = _initialised(_subject(name, given, symptom.statement), symptom.method)
    call, function = _code(subject), _called(subject)
    expected = ""
    if name in _THROWS and given:
        expected = text_of(given[0]).removesuffix(".class")
    elif told := re.match(r"Expected exception: ([\w.$]+)", failure.message):
        expected = told[1].rpartition(".")[2]
    if _NOTHING.search(failure.message):
        return Claim(Outcome.NO_ERROR, call, function, expected)
    if (other := _OTHER.search(failure.message)) is not None and name in _THROWS:
        return Claim(Outcome.WRONG_ERROR, call, function, expected, actual=other[1])
    if failure.type not in _ASSERTIONS:
        message = _visible(failure.message.split("\n")[0], symptom)
        return Claim(Outcome.ERROR, call, function, message=message)
    expected, actual = _values(name, given, symptom)
    if expected and actual and expected != actual:
        return Claim(Outcome.WRONG_VALUE, call, function, expected, actual)
    form, texts = _CONDITIONS.get(name, ""), [_code(each) for each in given]
    fits = form and len(texts) > form.count("{1}") and all(texts)
    return Claim(Outcome.UNMET, call, function, condition=form.format(*texts) if fits else "")


def _evaluated(statement: Node | None) -> list[Node]:
    """The expressions that a statement evaluates."""
    if statement is not None and statement.type == "local_variable_declaration":
        return [value for each in declarators(statement) for value in fields(each, "value")]
    return statement.named_children if statement is not None else []


def _outer_call(statement: Node | None) -> tuple[str, list[Node]]:
    """Name and arguments of the outermost call of a statement; empty if it is none."""
    match _evaluated(statement):
        case [call, *_] if call.type == "method_invocation":
            return called_name(call), arguments_of(call)
    return "", []


def _thrown_in(arguments: Sequence[Node]) -> Node | None:
    """The body of the lambda that an assertion calls."""
    lambdas = [argument for argument in arguments if argument.type == "lambda_expression"]
    return lambdas[0].child_by_field_name("body") if lambdas else None


def _subject(name: str, given: Sequence[Node], statement: Node | None) -> Node | None:
    """The expression that goes wrong; for a comparison, the side under test."""
    if name in _EQUAL:
        return given[_tested(given)] if len(given) > 1 else None
    if name in _THROWS:
        body = _thrown_in(given)
        inner = body.named_children if body is not None and body.type == "block" else []
        return inner[-1].named_children[0] if inner and inner[-1].named_children else body
    found: Sequence[Node] = given if name in _CONDITIONS or name == "assertThat" else ()
    if not name.startswith("assert"):
        found = _evaluated(statement)
    return next(iter(found), None)


def _initialised(subject: Node | None, method: Node | None) -> Node | None:
    """For a variable of the test, the call that initialised it; else the subject itself."""
    if subject is None or subject.type != "identifier" or method is None:
        return subject
    for node in walk(method):
        if node.type == "variable_declarator" and node.end_byte <= subject.start_byte:
            for value in fields(node, "value"):
                named = field_text(node, "name") == text_of(subject)
                if named and value.type == "method_invocation":
                    return value
    return subject


def _tested(both: Sequence[Node]) -> int:
    """Index of the side of an equality that is under test; some assertions put it first."""
    constant = [
        not any(part.type in ("identifier", "method_invocation") for part in walk(side))
        for side in both[:2]
    ]
    return 0 if constant[1] and not constant[0] else 1


def _code(node: Node | None) -> str:
    """The node's source on one line; empty if it is long."""
    if node is None or node.type == "block":
        return ""
    text = re.sub(r"(?<!\s)[^\S\n]*+\n\s*+", " ", text_of(node))
    return text if len(text) <= MAX_CHARACTERS else ""


def _called(node: Node | None) -> str:
    """The program's method or class that an expression is about."""
    for part in walk(node) if node is not None else ():
        if part.type == "method_invocation" and called_name(part) not in _OF_JDK:
            return called_name(part)
        if part.type == "object_creation_expression":
            return f"new {field_text(part, 'type')}"
    return ""


def _values(name: str, given: Sequence[Node], symptom: JavaSymptom) -> tuple[str, str]:
    """Expected and actual value of an equality."""
    found = _VALUES.search(symptom.failure.message)
    if found is None or name not in _EQUAL:
        return "", ""
    expected, actual = found[1], found[2]
    if symptom.failure.type == "ComparisonFailure":
        # JUnit 4 puts brackets around the difference.
        if any(text.count("[") != 1 or text.count("]") != 1 for text in (expected, actual)):
            return "", ""
        expected, actual = (text.replace("[", "").replace("]", "") for text in (expected, actual))
    if len(given) > 1 and _tested(given) == 0:
        expected, actual = actual, expected
    return _visible(expected, symptom), _visible(actual, symptom)


def _visible(text: str, symptom: JavaSymptom) -> str:
    """The text; empty if it is long, or has a name or an address that no user would see."""
    unseen = set(_WORD.findall(text)) & symptom.hidden
    long = len(text) > MAX_CHARACTERS or "\n" in text
    return "" if long or unseen or "..." in text else text.strip()


# A short code snippet that shows a bug, from the failing test.


def java_snippet(symptom: JavaSymptom, claim: Claim) -> str:
    """The test's lines up to the failing one, after those that give its fields their values. Empty
    if there are too many, or if they need the test's parameters or helpers."""
    body = symptom.method.child_by_field_name("body") if symptom.method is not None else None
    last = symptom.statement
    if body is None or last is None or last.parent != body:
        return ""
    before = [node for node in body.named_children if node.end_byte <= last.start_byte]
    lines = [node for node in before if not _is_check(node)]
    before_all = _needed(symptom, [*lines, last])
    if before_all is None:
        return ""
    code = "\n".join([*before_all, *map(_dedented, lines), _last_line(last, claim)])
    long = len(code) > MAX_SNIPPET or code.count("\n") >= MAX_LINES
    return "" if long else code


def _needed(symptom: JavaSymptom, lines: Sequence[Node]) -> list[str] | None:
    """The code that gives these lines their fields; None if they need what it can't give."""

    def outside(node: Node) -> set[str]:
        names = {text_of(part) for part in walk(node) if part.type == "identifier"}
        return names & symptom.outside.keys()

    own = {name for line in lines for name in _given_values(line)}
    needed = set().union(*map(outside, lines)) - own
    used: list[Node] = []
    for statement in reversed(symptom.fixture):
        if outside(statement) & needed:
            used.insert(0, statement)
            needed |= outside(statement)
    if any(_needs_class(part) for line in (*used, *lines) for part in walk(line)):
        return None
    code = []
    for statement in used:
        given = needed.intersection(_given_values(statement))
        if given or statement.type != "field_declaration":
            code.append(_with_type(statement, [symptom.outside[name] for name in given]))
        needed -= given
    return None if needed else code


def _with_type(statement: Node, types: Sequence[str]) -> str:
    """The code of a statement outside the class, where it declares variables of these types."""
    declared = statement.child_by_field_name("type")
    if declared is not None and statement.type == "field_declaration":
        return (statement.text or b"")[declared.start_byte - statement.start_byte :].decode()
    return " ".join([*types, _dedented(statement)])


def _given_values(statement: Node) -> list[str]:
    """The variables that a statement gives a value, if that is all it does."""
    if statement.type in ("field_declaration", "local_variable_declaration"):
        given = [each for each in declarators(statement) if fields(each, "value")]
        return [field_text(each, "name") for each in given]
    match statement.named_children:
        case [assignment] if assignment.type == "assignment_expression":
            return [field_text(assignment, "left")]
    return []


def _is_check(statement: Node) -> bool:
    name = _outer_call(statement)[0]
    return name.startswith("assert") or name in ("fail", "verify")


def _dedented(node: Node) -> str:
    return textwrap.dedent(" " * node.start_point.column + text_of(node))


def _last_line(statement: Node, claim: Claim) -> str:
    """The last line, reduced to the expression that the assertion checks."""
    if not _is_check(statement):
        return _dedented(statement)
    thrown = _thrown_in(_outer_call(statement)[1])
    if thrown is not None and claim.outcome in (Outcome.NO_ERROR, Outcome.WRONG_ERROR):
        if thrown.type == "block":
            return "\n".join(map(_dedented, thrown.named_children))
        return f"{text_of(thrown)};"
    if claim.call and claim.outcome is Outcome.WRONG_VALUE:
        return f"System.out.println({claim.call});"
    if claim.call and claim.outcome is Outcome.ERROR:
        return f"{claim.call};"
    return _dedented(statement)


def _needs_class(node: Node) -> bool:
    """Whether it is the test's object, or a call of its helper."""
    if node.type == "method_invocation" and not fields(node, "object"):
        return not called_name(node).startswith("assert") and called_name(node) != "fail"
    return node.type == "this"


def stands_alone(call: str) -> bool:
    """Whether a call names no variable and no helper of the test."""
    for node in walk(parse(f"{call};".encode())):
        if node.type == "method_invocation" and not fields(node, "object"):
            return False
        name = node.type == "identifier" and text_of(node)[:1].islower()
        if name and [node] != fields(node.parent, "name"):
            return False
    return bool(call)
