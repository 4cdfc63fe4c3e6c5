"""What a failing Java test claims: what it calls, what it expects, and what it gets."""

from __future__ import annotations

import posixpath
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from collect.benchmarks.java_run import enclosing_classes
from collect.benchmarks.projects.project import Reason
from collect.benchmarks.projects.symptom import MAX_CHARACTERS, Claim, Outcome
from collect.code.java_tree import called_name, declarators, line_of, parse, text_of, walk, words

# Read the failures of Java tests from the runner's stack traces.


_FRAME = re.compile(r"^\tat (?:[\w.@/-]+/)?([\w.$<>]+)\.([\w$<>]+)\(([\w$-]+\.java):(\d+)\)", re.M)
_IDENTITY = re.compile(r"@[0-9a-f]{4,}\b")
_EXCEPTION = re.compile(r"([A-Za-z_][\w.$]*)(?::|\s*$)")
_LAMBDA = re.compile(r"lambda\$(\w+)\$\d+")


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
        places = (frame for frame in self.frames if source_of(frame, sources) is not None)
        place = next(places, None)
        return Reason(self.type, self.message, f"{place.file}:{place.line}" if place else "")


def read_traces(tests: Sequence[str], reports: Sequence[Mapping[str, object]]) -> dict[str, str]:
    """The first stack trace of each failing test: its own, or that of an enclosing class."""
    traces: dict[str, str] = {}
    for report in reports:
        if report["status"] == "failed":
            traces.setdefault(str(report["test"]), str(report.get("message", "")))
    around = {test: [test, *reversed(enclosing_classes(test))] for test in tests}
    return {
        test: next(traces[name] for name in names if name in traces)
        for test, names in around.items()
        if any(name in traces for name in names)
    }


def read_failure(trace: str) -> Failure:
    """A stack trace as Java prints it."""
    text = _IDENTITY.sub("@...", trace.partition("\n\tat ")[0]).strip()
    named = _EXCEPTION.match(text)
    kind = re.split(r"[.$]", named[1])[-1] if named else "Exception"
    message = text[named.end() :].strip() if named else text
    return Failure(kind, message, tuple(_frames(trace)), not trace.endswith("..."))


def _frames(trace: str) -> Iterator[Frame]:
    for found in _FRAME.finditer(trace):
        class_name, method, name, line = found.groups()
        inside = _LAMBDA.fullmatch(method)
        folder = class_name.rpartition(".")[0].replace(".", "/")
        yield Frame(
            class_name, inside[1] if inside else method, posixpath.join(folder, name), int(line)
        )


def source_of(frame: Frame, sources: Sequence[str]) -> str | None:
    """The path, among `sources`, of a frame's file."""
    return next((path for path in sources if f"/{path}".endswith(f"/{frame.file}")), None)


# A Java bug's symptom: which test fails, and how.


_WORD = re.compile(r"[A-Za-z_]\w*")
_WRAPPERS = words("try_statement for_statement while_statement enhanced_for_statement if_statement")
_BUILT_IN = words(
    "java lang util String Object Integer Long Double Math List Map Set Optional Arrays Objects "
    "Collections run accept apply get test call invoke invoke0 forEach"
)


@dataclass(frozen=True)
class JavaSymptom:
    """How a bug shows."""

    project: str
    tests: tuple[str, ...]
    failure: Failure
    method: Node | None
    """The first failing test's method; None if it can't be found."""
    statement: Node | None
    """Its failing statement; None if the test fails outside its own statements."""
    hidden: frozenset[str]
    """Names in the stack trace that the test does not show: no report may contain them."""


def read_java_symptom(
    project: str,
    tests: Sequence[str],
    failure: Failure,
    files: Mapping[str, bytes],
    test_files: Sequence[str],
) -> JavaSymptom:
    """The symptom of the first test's failure; `test_files` are the paths of the test sources."""
    class_name, _, name = tests[0].partition("#")
    path = class_name.partition("$")[0].replace(".", "/") + ".java"
    inside = next(_inside(failure.frames, name, test_files), None)
    wanted = inside.file if inside is not None else path
    file = next((each for each in test_files if f"/{each}".endswith(f"/{wanted}")), "")
    root = parse(files.get(file, b""))
    method = _method(root, name, inside)
    statement = _statement(method, inside) if inside is not None else None
    shown = set(_WORD.findall(text_of(method))) if method is not None else set()
    outside = [frame for frame in failure.frames if frame.file != wanted]
    hidden = {word for frame in outside for word in _words(frame)}
    return JavaSymptom(
        project, tuple(tests), failure, method, statement, frozenset(hidden - shown - _BUILT_IN)
    )


def margin_text(node: Node) -> str:
    """A node's source, dedented."""
    return textwrap.dedent(" " * node.start_point.column + text_of(node))


def _words(frame: Frame) -> list[str]:
    return [frame.method, *re.split(r"[.$]", frame.class_name)[-2:]]


def _inside(frames: Sequence[Frame], name: str, files: Sequence[str]) -> Iterator[Frame]:
    for frame in frames:
        if frame.method == name and any(f"/{each}".endswith(f"/{frame.file}") for each in files):
            yield frame


def _method(root: Node, name: str, inside: Frame | None) -> Node | None:
    for node in walk(root):
        own = node.child_by_field_name("name")
        if node.type != "method_declaration" or own is None or text_of(own) != name:
            continue
        if inside is None or line_of(node) <= inside.line <= node.end_point.row + 1:
            return node
    return None


def _statement(method: Node | None, inside: Frame) -> Node | None:
    """The innermost statement of a test at a line, outside lambdas."""
    found = None
    pending = [method.child_by_field_name("body")] if method is not None else []
    while pending:
        node = pending.pop()
        if node is None or not line_of(node) <= inside.line <= node.end_point.row + 1:
            continue
        is_statement = node.type.endswith(("_statement", "_declaration"))
        if is_statement and node.type not in _WRAPPERS:
            found = node
        elif node.type in _WRAPPERS or "block" in node.type or node.type.endswith("_clause"):
            pending += reversed(node.named_children)
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
_VALUES = re.compile(r"expected: ?<(.*)> but was: ?<(.*)>$", re.DOTALL)
_NOTHING = re.compile(r"nothing was thrown|^Expected exception: ")
_OTHER = re.compile(r"Unexpected exception type thrown.*<(?:[\w.]*\.)?(\w+)>$", re.DOTALL)
_OF_JDK = words(
    "size get equals isEmpty contains containsKey toString length asList of valueOf hashCode add "
    "put remove iterator next stream collect toList charAt format getClass println"
)


def read_java_claim(symptom: JavaSymptom) -> Claim:
    """The first failing test's claim, without anything that only the stack trace shows."""
    checked = _call(symptom.statement)
    arguments = _arguments(checked)
    name = called_name(checked) if checked is not None else ""
    subject = _given(_subject(name, arguments, symptom), symptom)
    call, function = _code(subject), _called(subject)
    if _NOTHING.search(symptom.failure.message):
        return Claim(Outcome.NO_ERROR, call, function, _expected(name, arguments, symptom))
    if (other := _OTHER.search(symptom.failure.message)) is not None and name in _THROWS:
        expected = _expected(name, arguments, symptom)
        return Claim(Outcome.WRONG_ERROR, call, function, expected, actual=other[1])
    if symptom.failure.type not in _ASSERTIONS:
        message = _shown(symptom.failure.message.split("\n")[0], symptom)
        return Claim(Outcome.ERROR, call, function, message=message)
    expected, actual = _values(name, arguments, symptom)
    if expected and actual and expected != actual:
        return Claim(Outcome.WRONG_VALUE, call, function, expected, actual)
    return Claim(Outcome.UNMET, call, function, condition=_condition(name, arguments, symptom))


def thrown_in(arguments: Sequence[Node]) -> Node | None:
    """The body of the lambda that an assertion calls."""
    for argument in arguments:
        if argument.type == "lambda_expression":
            return argument.child_by_field_name("body")
    return None


def checked_call(statement: Node | None) -> tuple[str, list[Node]]:
    """Name and arguments of the assertion in a statement; empty if it is none."""
    call = _call(statement)
    name = called_name(call) if call is not None else ""
    is_check = name.startswith("assert") or name in ("fail", "verify")
    return (name, _arguments(call)) if is_check else ("", [])


def _call(statement: Node | None) -> Node | None:
    """The outermost call of a statement."""
    if statement is None or not statement.named_children:
        return None
    first = statement.named_children[0]
    if statement.type == "local_variable_declaration":
        value = _value(statement)
        first = value if value is not None else first
    return first if first.type == "method_invocation" else None


def _arguments(call: Node | None) -> list[Node]:
    given = call.child_by_field_name("arguments") if call is not None else None
    return list(given.named_children) if given is not None else []


def _without_message(arguments: Sequence[Node], count: int, symptom: JavaSymptom) -> Sequence[Node]:
    """JUnit 4 takes a message as the first argument, JUnit 5 as the last one."""
    frames = symptom.failure.frames
    last = any(frame.class_name.startswith("org.junit.jupiter.") for frame in frames)
    first = not last and len(arguments) > count and arguments[0].type == "string_literal"
    return arguments[1:] if first else arguments


def _subject(name: str, arguments: Sequence[Node], symptom: JavaSymptom) -> Node | None:
    """The expression that goes wrong; for a comparison, the side under test."""
    if name in _EQUAL:
        both = _without_message(arguments, 2, symptom)
        return both[_tested(both)] if len(both) > 1 else None
    if name in _CONDITIONS:
        return next(iter(_without_message(arguments, 1, symptom)), None)
    if name in _THROWS:
        body = thrown_in(arguments)
        inner = body.named_children if body is not None and body.type == "block" else []
        return inner[-1].named_children[0] if inner and inner[-1].named_children else body
    if name == "assertThat" and arguments:
        return arguments[0]
    if symptom.statement is None or symptom.statement.type == "local_variable_declaration":
        return _value(symptom.statement)
    first = next(iter(symptom.statement.named_children), None)
    return first if first is not None and not name.startswith("assert") else None


def _given(subject: Node | None, symptom: JavaSymptom) -> Node | None:
    """For a variable of the test, the call that initialised it."""
    if subject is None or subject.type != "identifier" or symptom.method is None:
        return subject
    for node in walk(symptom.method):
        if node.type == "variable_declarator" and node.end_byte <= subject.start_byte:
            name, value = (node.child_by_field_name(each) for each in ("name", "value"))
            named = name is not None and text_of(name) == text_of(subject)
            if named and value is not None and value.type == "method_invocation":
                return value
    return subject


def _value(statement: Node | None) -> Node | None:
    if statement is None:
        return None
    values = [each.child_by_field_name("value") for each in declarators(statement)]
    return next((value for value in values if value is not None), None)


def _is_constant(node: Node) -> bool:
    return not any(part.type in ("identifier", "method_invocation") for part in walk(node))


def _tested(both: Sequence[Node]) -> int:
    """Index of the side of an equality that is under test; some assertions put it first."""
    return 0 if _is_constant(both[1]) and not _is_constant(both[0]) else 1


def _code(node: Node | None) -> str:
    """The node's source on one line; empty if it is long."""
    if node is None or node.type == "block":
        return ""
    text = re.sub(r"\s*\n\s*", " ", text_of(node))
    return text if len(text) <= MAX_CHARACTERS else ""


def _called(node: Node | None) -> str:
    """The program's method or class that an expression is about."""
    if node is None:
        return ""
    for part in walk(node):
        if part.type == "method_invocation" and called_name(part) not in _OF_JDK:
            return called_name(part)
        if part.type == "object_creation_expression":
            kind = part.child_by_field_name("type")
            return f"new {text_of(kind)}" if kind is not None else ""
    return ""


def _condition(name: str, arguments: Sequence[Node], symptom: JavaSymptom) -> str:
    form = _CONDITIONS.get(name, "")
    given = _without_message(arguments, 1, symptom)
    texts = [_code(each) for each in given]
    fits = form and len(texts) > form.count("{1}") and all(texts)
    return form.format(*texts) if fits else ""


def _expected(name: str, arguments: Sequence[Node], symptom: JavaSymptom) -> str:
    if name in _THROWS and arguments:
        return text_of(arguments[0]).removesuffix(".class")
    told = re.match(r"Expected exception: ([\w.$]+)", symptom.failure.message)
    return told[1].rpartition(".")[2] if told else ""


def _values(name: str, arguments: Sequence[Node], symptom: JavaSymptom) -> tuple[str, str]:
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
    both = _without_message(arguments, 2, symptom)
    if len(both) > 1 and _tested(both) == 0:
        expected, actual = actual, expected
    return _shown(expected, symptom), _shown(actual, symptom)


def _shown(text: str, symptom: JavaSymptom) -> str:
    """The text; empty if it is long, or has a name or an address that no user would see."""
    unseen = set(re.findall(r"[A-Za-z_]\w*", text)) & symptom.hidden
    long = len(text) > MAX_CHARACTERS or "\n" in text
    return "" if long or unseen or re.search(r"@\.\.\.|\.\.\.", text) else text.strip()
