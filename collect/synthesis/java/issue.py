"""Issue texts of Java bugs, from the symptom alone."""

from __future__ import annotations

from tree_sitter import Node

from collect.benchmarks.projects.issue_text import MAX_CHARACTERS, MAX_LINES, Shown, compose
from collect.benchmarks.projects.layout import is_below
from collect.benchmarks.projects.project import Project
from collect.benchmarks.projects.symptom import Claim, Outcome
from collect.code.java_tree import called_name, declarators, text_of, walk, words
from collect.synthesis.bug import Caught
from collect.synthesis.java.symptom import (
    JavaSymptom,
    checked_call,
    margin_text,
    read_failure,
    read_java_claim,
    read_java_symptom,
    thrown_in,
)

_NAMING = words("formal_parameter enhanced_for_statement resource catch_formal_parameter")


def write_java_issue(project: Project, caught: Caught, seed: str) -> str:
    """A bug report: what was called, what happened, what was expected. The same for the same
    seed."""
    tests = [path for path in project.source.files if is_below(path, project.test_paths)]
    failure = read_failure(caught.trace)
    symptom = read_java_symptom(
        project.source.name, caught.failing, failure, project.source.files, tests
    )
    claim = read_java_claim(symptom)
    exception = claim.actual if claim.outcome is Outcome.WRONG_ERROR else failure.type
    shown = Shown(symptom.project, symptom.tests, exception, java_snippet(symptom, claim))
    return compose(claim, shown, seed, "java")


def java_snippet(symptom: JavaSymptom, claim: Claim) -> str:
    """The test's lines up to the failing one. Empty where they need fields or helpers of the test,
    or are many."""
    body = symptom.method.child_by_field_name("body") if symptom.method is not None else None
    last = symptom.statement
    if body is None or last is None or last.parent != body:
        return ""
    before = [node for node in body.named_children if node.end_byte <= last.start_byte]
    kept = [node for node in before if not checked_call(node)[0]]
    if any(_needs_more(node, [*kept, last]) for node in [*kept, last]):
        return ""
    code = "\n".join([*map(margin_text, kept), _shown(last, claim)])
    long = len(code) > MAX_CHARACTERS or code.count("\n") >= MAX_LINES
    return "" if long else code


def _shown(statement: Node, claim: Claim) -> str:
    """The last line: what it computes, rather than that it is checked."""
    name, arguments = checked_call(statement)
    if not name:
        return margin_text(statement)
    thrown = thrown_in(arguments)
    if thrown is not None and claim.outcome in (Outcome.NO_ERROR, Outcome.WRONG_ERROR):
        if thrown.type == "block":
            return "\n".join(map(margin_text, thrown.named_children))
        return f"{text_of(thrown)};"
    if claim.call and claim.outcome is Outcome.WRONG_VALUE:
        return f"System.out.println({claim.call});"
    if claim.call and claim.outcome is Outcome.ERROR:
        return f"{claim.call};"
    return margin_text(statement)


def _needs_more(node: Node, statements: list[Node]) -> bool:
    """Whether a statement uses what none of the statements declares: fields or helpers."""
    declared = {
        text_of(name)
        for statement in statements
        for part in walk(statement)
        for name in _declared(part)
    }
    return any(
        _is_own_call(part)
        or part.type == "this"
        or (part.type == "identifier" and _is_free(part) and text_of(part) not in declared)
        for part in walk(node)
    )


def _is_own_call(node: Node) -> bool:
    """Whether it calls a method of the test's class, an assertion apart."""
    if node.type != "method_invocation" or node.child_by_field_name("object") is not None:
        return False
    return not called_name(node).startswith("assert") and called_name(node) != "fail"


def _declared(node: Node) -> list[Node]:
    names = [each.child_by_field_name("name") for each in declarators(node)]
    if node.type in _NAMING:
        names.append(node.child_by_field_name("name"))
    if node.type == "lambda_expression":
        given = node.child_by_field_name("parameters")
        if given is not None:
            names += [given] if given.type == "identifier" else list(given.named_children)
    return [name for name in names if name is not None]


def _is_free(identifier: Node) -> bool:
    """Whether it stands for a variable, by Java's own naming; not for a member of something."""
    parent = identifier.parent
    if parent is None or text_of(identifier)[:1].isupper():
        return False
    if parent.type == "method_invocation":
        return identifier != parent.child_by_field_name("name")
    if parent.type == "field_access":
        return identifier == parent.child_by_field_name("object")
    return parent.type != "method_reference" or identifier == parent.named_children[0]
