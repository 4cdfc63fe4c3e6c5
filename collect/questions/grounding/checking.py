"""Checks each claim of an answer against the task's text and the observations."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from collect.agents.inspectcoder.inspector import plan_of
from collect.agents.subagent_task import read_subagent_task
from collect.code.patches import TestFiles
from collect.questions.claims import EXCEPTION, LOCATION, places, same_file
from collect.questions.comparing import Call, Name, Text, parse_value, same
from collect.questions.grounding.observations import (
    Observations,
    Sighting,
    last_part,
    observed,
    plain,
)
from collect.questions.grounding.records import Claim, ClaimKind, GroundedClaim, Grounding, Support
from collect.questions.readable import GUESSED
from collect.questions.value_claims import (
    ROLE,
    WHERE,
    ValueClaim,
    blank,
    compared,
    named_values,
    other_names,
    values_in,
)
from collect.store.records import Conversation, Role

# Finds a claimed value, or words of a claim, among the observations. A value given to a name must
# have been seen under that name or inside its value. If the name was never seen, such as an
# expression in the model's own words, a distinctive value must have been seen somewhere; one that
# anybody would guess (0, True, an empty list) does not count. A name and its value that occur in an
# observation exactly as in the answer count as a quote.


TELLING_CHARACTERS = 3
"""Minimum length of a distinctive string or number: shorter ones occur everywhere."""
_parsed = lru_cache(maxsize=4_096)(parse_value)


def sightings_of_value(claim: Claim, seen: Observations) -> Iterator[Sighting]:
    """Where a claimed value was seen, unordered; a place may repeat."""
    text = plain(claim.text)
    if claim.name:
        for words in {plain(claim.quote), f"{plain(claim.name)} = {text}"}:
            yield from in_texts(words, seen)
        under_name = seen.values.get(last_part(claim.name), ())
        yield from (each for shown, each in under_name if _shows(shown, claim))
        members = list(_members(claim.name, seen))
        yield from (each for value, each in members if same(value, claim.value))
        if under_name or members:
            return
    if claim.name and not _is_telling(claim):
        return
    for found in seen.values.values():
        yield from (each for shown, each in found if _shows(shown, claim))
    for form in _forms(claim):
        yield from in_texts(form, seen)


def _members(name: str, seen: Observations) -> Iterator[tuple[object, Sighting]]:
    """What `lines['tea']` or `cart.total` is, according to the values of `lines` or `cart`."""
    try:
        node = ast.parse(name, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return
    yield from _inside(node, seen)


def _inside(node: ast.expr, seen: Observations) -> Iterator[tuple[object, Sighting]]:
    if not isinstance(node, ast.Subscript | ast.Attribute):
        return
    shown = seen.values.get(last_part(ast.unparse(node.value)), ())
    outer = [(_parsed(text), sighting) for text, sighting in shown]
    for value, sighting in (*outer, *_inside(node.value, seen)):
        try:
            if isinstance(node, ast.Attribute) and isinstance(value, Call):
                yield dict(value.keywords)[node.attr], sighting
            elif isinstance(node, ast.Subscript) and isinstance(value, dict | list | tuple):
                yield value[ast.literal_eval(node.slice)], sighting
        except (LookupError, TypeError, ValueError):
            continue


def _shows(shown: str, claim: Claim) -> bool:
    """Whether a representation shows the claimed value."""
    return plain(shown) == plain(claim.text) or same(_parsed(shown), claim.value)


def _is_telling(claim: Claim) -> bool:
    """Whether a value is distinctive: nobody would guess it."""
    if claim.text in GUESSED:
        return False
    is_number = isinstance(claim.value, int | float) and not isinstance(claim.value, bool)
    return not is_number or len(claim.text) >= TELLING_CHARACTERS


def _forms(claim: Claim) -> Iterator[str]:
    """The texts that can stand for a value."""
    yield plain(claim.text)
    if isinstance(claim.value, str) and claim.value.strip():
        quoted = len(claim.value) < TELLING_CHARACTERS
        yield from (f"'{claim.value}'", f'"{claim.value}"') if quoted else (plain(claim.value),)


def in_texts(words: str, seen: Observations) -> Iterator[Sighting]:
    """The tool answers that contain these words."""
    return (sighting for text, sighting in seen.texts if has_word(text, words))


def has_word(text: str, words: str) -> bool:
    """Whether a text contains the words, not as part of longer ones: `12` is not in `123`, `1.12`
    or `-12`.
    """
    position = text.find(words)
    while words and position >= 0:
        end = position + len(words)
        before, after = text[max(0, position - 1) : position], text[end : end + 2]
        if not _joins(before, words[0]) and not _goes_on(words[-1], after):
            return True
        position = text.find(words, position + 1)
    return False


def _joins(before: str, first: str) -> bool:
    """Whether a character belongs to the word that starts after it."""
    return _is_wordy(first) and (_is_wordy(before) or (first.isdigit() and before in ("-", ".")))


def _goes_on(last: str, after: str) -> bool:
    """Whether the word that ends in a character continues after it."""
    is_fraction = last.isdigit() and re.match(r"\.\d", after) is not None
    return _is_wordy(last) and (_is_wordy(after[:1]) or is_fraction)


def _is_wordy(char: str) -> bool:
    return char.isalnum() or char == "_"


# The values that an answer states, and the expressions that it gives them to.


CUT = re.compile(r"\([\w.$<>\[\], ]*\bcut\)|;\s+(?=[A-Za-z_][\w.]* = )")
"""Where a new value starts, even inside quotes and brackets that a cut left open: after the
debugger's "cut" remark, or at `; name = `.
"""
ENDS = re.compile(r"[;`\n]")
"""Characters that no expression spans."""
MAX_EXPRESSION = 200
"""Characters."""
BLANK = re.compile(r"\s")
"""An expression after other words may start after one."""
QUOTED_NAME = re.compile(r"`([A-Za-z_][\w.\[\]'\"]*)`")


def value_claims(text: str) -> Iterator[Claim]:
    """Every value given to an expression, and every quoted literal."""
    for part in CUT.split(text):
        named = {each.start: (each, _name(part, each)) for each in _whole(part, values_in(part))}
        for name in dict.fromkeys(QUOTED_NAME.findall(part)):
            for each in _whole(part, named_values(part, name)):
                if named.get(each.start, (each, None))[1] is None:
                    named[each.start] = each, name
        yield from (_claim(part, *each) for each in named.values() if _is_claim(*each))
        yield from _sides(part, {start for start, (_, name) in named.items() if name})


def _sides(text: str, named: set[int]) -> Iterator[Claim]:
    """The actual and expected value of an assertion."""
    if not ROLE.search(text):
        return
    sides = compared(text)
    for each in _whole(text, [*sides.actual, *sides.expected]):
        if _is_data(each) and each.start not in named:
            yield _claim(text, each, None)


def _whole(text: str, found: list[ValueClaim]) -> list[ValueClaim]:
    """The values, including text that the reader blanks out although it is part of a value."""
    whole: list[ValueClaim] = []
    for each in found:
        own = text[each.start : each.end]
        value = each.value if own == each.text else parse_value(own)
        if own == each.text or own.startswith("<") or not isinstance(value, Text):
            whole.append(replace(each, text=own, value=value))
    return whole


def _name(text: str, found: ValueClaim) -> str | None:
    """The expression that a value is given to. The debugger also writes `len(x) > 2 = True`, so it
    may be more than a name.
    """
    before = text[: found.start]
    if before.endswith(" = "):
        part = ENDS.split(before[-MAX_EXPRESSION:-3])[-1]
        for start in (0, *(each.end() for each in BLANK.finditer(part))):
            expression = part[start:].strip()
            if _parses(expression):
                return expression
    return other_names(WHERE.sub(blank, text), found)


def _parses(expression: str) -> bool:
    """Whether it is one expression: a tuple comes from text before it."""
    try:
        body = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return not isinstance(body, ast.Tuple)


def _claim(text: str, found: ValueClaim, name: str | None) -> Claim:
    start = text.rfind(name, 0, found.start) if name else found.start
    quote = text[start : found.end].replace("`", "") if 0 <= start < found.start else ""
    return Claim(ClaimKind.VALUE, found.text, name=name or "", value=found.value, quote=quote)


def _is_claim(found: ValueClaim, name: str | None) -> bool:
    """Whether a value is stated: given to a name, or quoted and more than a number or word."""
    if not _is_data(found):
        return False
    if name is not None:
        return True
    if isinstance(found.value, int | float | complex | None) or found.text in GUESSED:
        return False
    return not isinstance(found.value, Call) or found.value.name[:1].isupper()


def _is_data(found: ValueClaim) -> bool:
    """Whether it is a value's representation, not code, which uses names."""
    raised = isinstance(found.value, Call) and EXCEPTION.fullmatch(found.value.name)
    remark = isinstance(found.value, str) and found.text.startswith("(")
    return not raised and not remark and not _has_names(found.value)


def _has_names(value: object) -> bool:
    match value:
        case Name():
            return True
        case Text() | str() | bytes():
            return False
        case list() | tuple():
            return any(map(_has_names, value))
        case dict():
            return any(map(_has_names, (*value.keys(), *value.values())))
        case Call():
            return any(map(_has_names, (*value.arguments, *(each for _, each in value.keywords))))
    return False


# The claims in an answer's text, read like the scorer of runtime questions does.


NAME = r"(?:[A-Za-z_]\w*(?:\.(?:[A-Za-z_]\w*|<\w+>))*|<\w+>)"
FUNCTION_AFTER = re.compile(
    rf"{LOCATION.pattern}[`*)]*,?\s+(?:in|inside|within)\s+(?:the\s+)?`?(?P<function>{NAME})"
)
FUNCTION_BEFORE = re.compile(
    rf"\b(?:in|by|inside|within|function|method)\s+`?(?P<function>{NAME})(?:\(\))?`?,?\s+"
    rf"(?:at\s+|\()`?(?={LOCATION.pattern})"
)
NO_FUNCTIONS = frozenset({"the", "a", "an", "this", "that", "it", "line", "code", "test", "module"})
QUOTED = re.compile(r":?\s*\(?\s*(?P<quote>['\"])(?P<message>(?:\\.|(?!(?P=quote)).)+)(?P=quote)")
"""A quoted message after an exception's type: `KeyError('b')`, `KeyError: 'b'`."""
TOLD = re.compile(r":\s*(?P<message>[^;\n`]+)")
"""A message in a traceback's form, to the end of the line or the quote."""
BEFORE_TOLD = re.compile(r"(?:^|[`;\n]|: )\s*$")
"""What comes before an exception's type in a quoted traceback line; in a sentence, the text after a
colon is prose.
"""
REMARK = re.compile(r"(?<=\s)\((?P<quote>['\"])(?P<message>[^'\"\n]+)(?P=quote)\)")
"""A message in brackets and quotes, not directly after the type."""
PROSE = re.compile(r"\.\s+(?=[A-Z])|\.$")
"""Where a sentence with a message ends."""


def claims_in(text: str) -> tuple[Claim, ...]:
    """The locations, exceptions and values that a text states, each once."""
    found = [*_locations(text), *_exceptions(text), *value_claims(text)]
    return tuple({(claim.kind, str(claim)): claim for claim in found}.values())


def _locations(text: str) -> Iterator[Claim]:
    for file, line, _ in places(text):
        yield Claim(ClaimKind.LOCATION, f"{file}:{line}", file=file, line=line)
    for pattern in (FUNCTION_AFTER, FUNCTION_BEFORE):
        for found in pattern.finditer(text):
            if found["function"].lower() not in NO_FUNCTIONS:
                yield Claim(ClaimKind.LOCATION, found["function"])


def _exceptions(text: str) -> Iterator[Claim]:
    raised = list(EXCEPTION.finditer(text))
    messages = [found["message"] for found in REMARK.finditer(text)] if raised else []
    for found in raised:
        yield Claim(ClaimKind.EXCEPTION, found[0].rpartition(".")[2])
        messages.append(_message(text, found))
    yield from (Claim(ClaimKind.EXCEPTION, each.strip()) for each in messages if each.strip())


def _message(text: str, raised: re.Match[str]) -> str:
    quoted = QUOTED.match(text, raised.end())
    if quoted:
        return quoted["message"]
    told = TOLD.match(text, raised.end())
    if told and BEFORE_TOLD.search(text[: raised.start()]):
        return PROSE.split(told["message"], maxsplit=1)[0]
    return ""


MAX_CHARACTERS = 6_000
"""Characters read per field: a longer field repeats itself and is slow to read."""
REPAIR = re.compile(r"\bto fix (?:the|this) (?:bug|problem|issue)\b", re.IGNORECASE)
"""Where a plan turns to the fix, which nobody can have observed."""


@dataclass(frozen=True)
class Task:
    """The text that the agent was given, and the facts in it."""

    text: str

    @cached_property
    def plain(self) -> str:
        """The text in the form used for comparison."""
        return plain(self.text)

    @cached_property
    def places(self) -> Sequence[tuple[str, int]]:
        """Files and lines, including the main agent's hints."""
        asked = read_subagent_task(self.text)
        path, lines = (asked.path, asked.lines) if asked else (None, None)
        hints = [(path, line) for line in lines or ()] if path else []
        return [*((file, line) for file, line, _ in places(self.text)), *hints]

    @cached_property
    def values(self) -> Sequence[object]:
        """All values, with or without names."""
        return [each.value for each in values_in(self.text)]


def ground(conversation: Conversation, tests: TestFiles) -> Grounding:
    """The claims of a conversation's answer or plan, and the evidence for each."""
    texts = answer_texts(conversation)
    claims = {(c.kind, str(c)): c for text in texts for c in claims_in(text[:MAX_CHARACTERS])}
    if not claims:
        return Grounding()
    roles = [row.message.role for row in conversation.messages]
    end = len(roles) - 1 - roles[::-1].index("assistant")
    task = Task(task_text(conversation))
    seen = observed(conversation, end, tests)
    return Grounding(tuple(_check(claim, task, seen) for claim in claims.values()))


def answer_texts(conversation: Conversation) -> Sequence[str]:
    """The texts to ground: an answer's fields, or what a plan says about the cause."""
    answer = conversation.answer
    if conversation.role is Role.INSPECTOR:
        plan = answer.answer if answer is not None else plan_of(conversation.final_answer)
        return (REPAIR.split(plan, maxsplit=1)[0],)
    return (answer.answer, answer.evidence, answer.location) if answer is not None else ()


def task_text(conversation: Conversation) -> str:
    """What the agent was told before it acted, without its standing instructions."""
    told: list[str] = []
    for row in conversation.messages:
        if row.message.role == "assistant":
            break
        if row.message.role == "user":
            told.append(row.message.content)
    return "\n".join(told)


def _check(claim: Claim, task: Task, seen: Observations) -> GroundedClaim:
    if _is_given(claim, task):
        return GroundedClaim(claim.kind, str(claim), Support.GIVEN)
    sightings = sorted(_sightings(claim, seen), key=lambda each: each.where)
    if not sightings:
        return GroundedClaim(claim.kind, str(claim), Support.UNGROUNDED)
    tested = all(each.in_test for each in sightings)
    return GroundedClaim(
        claim.kind, str(claim), Support.OBSERVED, sightings[0].where, from_test=tested
    )


def _is_given(claim: Claim, task: Task) -> bool:
    if claim.kind is ClaimKind.LOCATION and claim.line:
        return any(line == claim.line and same_file(file, claim.file) for file, line in task.places)
    if claim.kind is not ClaimKind.VALUE:
        return has_word(task.plain, plain(claim.text))
    if not claim.name:
        return any(same(each, claim.value) for each in task.values)
    told = named_values(task.text, claim.name) if claim.name in task.text else ()
    return any(same(each.value, claim.value) for each in told)


def _sightings(claim: Claim, seen: Observations) -> Iterator[Sighting]:
    match claim.kind:
        case ClaimKind.LOCATION if claim.line:
            found = seen.lines.get((posixpath.basename(claim.file), claim.line), ())
            yield from (each for file, each in found if same_file(file, claim.file))
        case ClaimKind.LOCATION:
            yield from _of_function(claim.text, seen)
        case ClaimKind.EXCEPTION:
            yield from _of_exception(plain(claim.text), seen)
        case ClaimKind.VALUE:
            yield from sightings_of_value(claim, seen)


def _of_function(name: str, seen: Observations) -> Iterator[Sighting]:
    for known, sighting in seen.functions.items():
        if known == name or known.endswith(f".{name}"):
            yield sighting
    yield from in_texts(name.rpartition(".")[2], seen)


def _of_exception(text: str, seen: Observations) -> Iterator[Sighting]:
    for raised, message, sighting in seen.exceptions:
        if text == raised or text in message:
            yield sighting
    yield from in_texts(text, seen)
