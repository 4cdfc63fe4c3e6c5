"""Checks each claim of an answer against the task's text and what its conversation observed."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import filterfalse
from keyword import iskeyword
from sys import intern

from collect.agents.inspectcoder.inspector import plan_of
from collect.agents.subagent_task import read_subagent_task
from collect.code.patches import ChangedRange, PatchError, TestFiles, changed_lines
from collect.code.syntax import expression, source_of
from collect.questions.claims import (
    EXCEPTION,
    INFERRED,
    LOCATION,
    MAX_CHARACTERS,
    MAX_VALUE,
    ROLE,
    WHERE,
    ValueClaim,
    blank,
    compared,
    is_file,
    is_place,
    locations,
    named_values,
    other_names,
    places,
    same_file,
    values_in,
)
from collect.questions.comparing import GUESSED, Call, Name, Text, parse_value, same
from collect.questions.observations import (
    READ_FILE,
    Observations,
    Sighting,
    last_part,
    observed,
    plain,
)
from collect.store.records import Conversation, Role

REPAIR = re.compile(r"\bto fix (?:the|this) (?:bug|problem|issue)\b", re.IGNORECASE)
"""Where a plan turns to the fix, which nobody can have observed."""
TELLING = 3
"""Minimum length of a distinctive string or number: shorter ones occur everywhere."""

CUT = re.compile(r"\([\w.$<>\[\], ]*\bcut\)|(?:;|\band|\bwith)\s+(?=[A-Za-z_][\w.]* = )")
"""Where a new value starts, even inside quotes and brackets that a cut left open."""
WISHED = re.compile(
    r"\b(?:should|would|must|ought to)\s+(?:have\s+)?(?:\w+\s+){0,2}[`*]*$", re.IGNORECASE
)
"""Before a value that the program should have: nobody can have observed it."""
ENTRY = re.compile(r"[`*]*:\s+[`*]*")
"""Between a key and its value: `stock` has 'jam': 3."""
NUMBER_GOES_ON = re.compile(r"[./:-]\d|(?<=\d)\w")
"""After the start of a version, fraction, date or time: `1.5.0`, `2.0rc1`, `1/24`, `10:30`."""
NUMBER_BEFORE = re.compile(r"\d[./:-]\Z")
"""Before its end."""
QUOTED_NAME = re.compile(r"`([A-Za-z_][\w.\[\]'\"]*)`")
BETWEEN = re.compile(r"`?[^`'\"()\[\]{}]*`?")
"""Between a name and its value, with no other code."""

NAME = r"(?:[A-Za-z_]\w*(?:\.(?:[A-Za-z_]\w*|<\w+>))*|<\w+>)"
FUNCTION_AFTER = re.compile(
    rf"{LOCATION.pattern}[`*)]*,?\s+(?:in|inside|within)\s+"
    rf"(?:the\s+(?=`|\w+[._]\w))?`?(?P<function>{NAME})"
)
FUNCTION_BEFORE = re.compile(
    rf"\b(?:in|by|inside|within|function|method)\s+`?(?P<function>{NAME})(?:\(\))?`?,?\s+"
    rf"(?:at\s+|\()`?(?={LOCATION.pattern})"
)
NO_FUNCTIONS = frozenset({
    "the", "a", "an", "this", "that", "its", "it", "each", "both", "which", "one", "line", "code",
    "test", "module", "function", "method", "loop", "body", "frame", "file", "caller", "debugger",
    "switch", "catch", "throw", "new", "null", "static", "synchronized", "void", "case", "do",
})  # fmt: skip
"""Besides Python's keywords; the last are Java's."""
QUOTED = re.compile(
    r"(?!['\"]):?\s*+\(?\s*+(?P<quote>['\"])"
    r"(?P<message>(?:\\.|(?!(?P=quote))[^\\\n])++)(?P=quote)"
)
"""A quoted message after an exception's type: `KeyError('b')`, `KeyError: 'b'`."""
TOLD = re.compile(r":\s*(?P<message>[^;\n`]+)")
"""A message in a traceback's form, to the end of the line or the quote."""
BEFORE_TOLD = re.compile(r"(?:^|[`;]|:(?= ))\s*+$|\n[^\S\n]*+$")
"""What precedes an exception's type in a quoted traceback; in a sentence, prose follows a colon."""
REMARK = re.compile(r"(?<=\s)\((?P<quote>['\"])(?P<message>[^'\"\n]+)(?P=quote)\)")
"""A message in brackets and quotes, not directly after the type."""
PROSE = re.compile(
    rf"\.\s+(?=[A-Z])|\.$|(?:,|(?<![\s,]))\s++(?:(?:was\s+)?(?:raised|thrown)\s+)?(?:at|from)\s+"
    rf"(?={LOCATION.pattern})"
)
"""Where a message in a sentence ends."""

_parsed = lru_cache(maxsize=4_096)(parse_value)


class ClaimKind(StrEnum):
    VALUE = "value"
    LOCATION = "location"
    """A file and a line, or a function."""
    EXCEPTION = "exception"
    """A type, or a message."""


class Support(StrEnum):
    """The evidence for a claim."""

    OBSERVED = "observed"
    """A tool answer or debugger event of the conversation shows it."""
    GIVEN = "given"
    """The task's text contains it, so repeating it proves nothing."""
    UNGROUNDED = "ungrounded"


@dataclass(frozen=True)
class Claim:
    """One fact that a text states."""

    kind: ClaimKind
    text: str
    """The value, `file:line`, the function, the exception's type or its message."""
    name: str = ""
    """For a value: the expression that is said to have it; empty if it is only quoted."""
    value: object = None
    """For a value: parsed."""
    quote: str = ""
    """For a value given to a name: both as written in the text."""
    file: str = ""
    line: int = 0
    """For a location: 0 for a function."""

    def __str__(self) -> str:
        return f"{self.name} = {self.text}" if self.name else self.text


@dataclass(frozen=True)
class GroundedClaim:
    """A claim and its evidence."""

    kind: ClaimKind
    text: str
    grounded: Support
    where: int | None = None
    """Index of the message that first showed it."""
    from_test: bool = False
    """Whether it was observed only in a test: in its frame, source or assertion message."""


@dataclass(frozen=True)
class Grounding:
    """All claims of one answer."""

    claims: tuple[GroundedClaim, ...] = ()

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of claims by `Support`."""
        supports = [claim.grounded for claim in self.claims]
        return {each.value: supports.count(each) for each in Support}

    @property
    def score(self) -> float | None:
        """Share of observed claims, not counting given ones; None if there are none."""
        seen, unseen = self.counts[Support.OBSERVED], self.counts[Support.UNGROUNDED]
        return seen / (seen + unseen) if seen + unseen else None


def ground(conversation: Conversation, tests: TestFiles) -> Grounding:
    """The claims of a conversation's answer or plan, and the evidence for each."""
    texts = answer_texts(conversation)
    stated = [INFERRED.sub(" ", text[:MAX_CHARACTERS]) for text in texts]
    claims = {(claim.kind, str(claim)): claim for text in stated for claim in claims_in(text)}
    if not claims:
        return Grounding()
    roles = [row.message.role for row in conversation.messages]
    # What the agent was told before it acted, without its standing instructions.
    before = conversation.messages[: roles.index("assistant")]
    told = [row.message.content for row in before if row.message.role == "user"]
    task = _Task("\n".join(told))
    end = len(roles) - 1 - roles[::-1].index("assistant")
    seen = observed(conversation, end, tests)
    found = []
    for words, claim in claims.items():
        if task.says(claim):
            found.append(GroundedClaim(*words, Support.GIVEN))
        elif sightings := list(_sightings(claim, seen)):
            where = min(each.where for each in sightings)
            from_test = all(each.in_test for each in sightings)
            found.append(GroundedClaim(*words, Support.OBSERVED, where, from_test))
        else:
            found.append(GroundedClaim(*words, Support.UNGROUNDED))
    return Grounding(tuple(found))


def answer_texts(conversation: Conversation) -> Sequence[str]:
    """The texts to ground: an answer's fields, or what a plan says about the cause."""
    answer = conversation.answer
    if conversation.role is Role.INSPECTOR:
        plan = answer.answer if answer is not None else plan_of(conversation.final_answer)
        return (REPAIR.split(plan, maxsplit=1)[0],)
    return (answer.answer, answer.evidence, answer.location) if answer is not None else ()


class _Task:
    """The text that the agent was given, and the facts in it."""

    def __init__(self, text: str) -> None:
        self._text, self._plain = text, plain(text)
        self._places = [(file, line) for file, line, _ in places(text)]
        asked = read_subagent_task(text)
        if asked is not None and asked.path:
            self._places += [(asked.path, line) for line in asked.lines or ()]

    @cached_property
    def _values(self) -> Sequence[object]:
        return [each.value for each in values_in(self._text)]

    def says(self, claim: Claim) -> bool:
        """Whether the text contains a claim, with the main agent's hints."""
        if claim.kind is ClaimKind.LOCATION and claim.line:
            found = [file for file, line in self._places if line == claim.line]
            return any(same_file(file, claim.file) for file in found)
        if claim.kind is not ClaimKind.VALUE:
            return _has_word(self._plain, plain(claim.text))
        told = self._values
        if claim.name:
            named = named_values(self._text, claim.name) if claim.name in self._text else []
            told = [each.value for each in named]
        elif isinstance(claim.value, str | Call) and _has_word(self._plain, plain(claim.text)):
            return True
        return any(same(each, claim.value) for each in told)


def _sightings(claim: Claim, seen: Observations) -> Iterator[Sighting]:
    """Where a claim was seen, unordered; a place may repeat."""
    text = plain(claim.text)
    match claim.kind:
        case ClaimKind.LOCATION if claim.line:
            found = seen.lines.get((posixpath.basename(claim.file), claim.line), ())
            yield from (each for file, each in found if same_file(file, claim.file))
        case ClaimKind.LOCATION:
            for known, sighting in seen.functions.items():
                if f".{known}".endswith(f".{claim.text}"):
                    yield sighting
            yield from _in_texts(claim.text.rpartition(".")[2], seen)
        case ClaimKind.EXCEPTION:
            raised = (at for kind, said, at in seen.exceptions if text == kind or text in said)
            yield from (*raised, *_in_texts(text, seen))
        case ClaimKind.VALUE:
            yield from _sightings_of_value(claim, seen)


def _sightings_of_value(claim: Claim, seen: Observations) -> Iterator[Sighting]:
    """A value given to a name must have been seen under that name or inside its value. If the name
    was never seen, such as an expression in the model's own words, a distinctive value must have
    been seen somewhere, not one that anybody would guess. A name and its value that occur in an
    observation exactly as in the answer, or as an item of a larger value, count as a quote."""
    text, value = plain(claim.text), claim.value

    def shows(shown: str) -> bool:
        return plain(shown) == text or same(_parsed(shown), value)

    if claim.name:
        key = last_part(claim.name)
        quotes = {plain(claim.quote), f"{plain(claim.name)} = {text}"}
        for words in quotes | {f"{key}={text}", f"'{key}': {text}"}:
            yield from _in_texts(words, seen)
        under_name = seen.values.get(key, ())
        yield from (each for shown, each in under_name if shows(shown))
        members = list(_members(claim.name, seen))
        yield from (each for inside, each in members if same(inside, value))
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_short = is_number and len(claim.text) < TELLING
        if under_name or members or is_short or claim.text in GUESSED:
            return
    for found in seen.values.values():
        yield from (each for shown, each in found if shows(shown))
    if isinstance(value, tuple) and not claim.name:
        yield from _together(value, seen)
    forms = [text]
    if isinstance(value, str) and value.strip():
        is_short = len(value) < TELLING
        forms += [f"'{value}'", f'"{value}"'] if is_short else [plain(value)]
    for form in forms:
        yield from _in_texts(form, seen)


def _together(values: Sequence[object], seen: Observations) -> Iterator[Sighting]:
    """The observations that show each of several values, such as a row of a table."""
    shown = [(_parsed(text), each) for found in seen.values.values() for text, each in found]
    seen_at = [{each for other, each in shown if same(other, value)} for value in values]
    if seen_at:
        yield from set.intersection(*seen_at)


def _members(name: str, seen: Observations) -> Iterator[tuple[object, Sighting]]:
    """What `lines['tea']` or `cart.total` is, according to the values of `lines` or `cart`."""
    node = expression(name)
    if not isinstance(node, ast.Subscript | ast.Attribute):
        return
    whole = source_of(node.value)
    shown = seen.values.get(last_part(whole), ())
    outer = [(_parsed(text), sighting) for text, sighting in shown]
    for value, sighting in (*outer, *_members(whole, seen)):
        try:
            if isinstance(node, ast.Attribute) and isinstance(value, Call):
                yield dict(value.keywords)[node.attr], sighting
            elif isinstance(node, ast.Subscript) and isinstance(value, dict | list | tuple):
                yield value[ast.literal_eval(node.slice)], sighting
        except (LookupError, TypeError, ValueError):
            continue


def _in_texts(words: str, seen: Observations) -> Iterator[Sighting]:
    """The tool answers that contain these words."""
    return (sighting for text, sighting in seen.texts if _has_word(text, words))


def _has_word(text: str, words: str) -> bool:
    """Whether a text contains the words, not as part of longer ones: `12` is not in `-12`, `1.12`
    or `123`. The escape of a line's end is no part of a word."""
    return bool(words) and words in text and _word_pattern(words).search(text) is not None


@lru_cache(1_000)
def _word_pattern(words: str) -> re.Pattern[str]:
    before = r"(?:(?<!\w)|(?<=\\[nrt]))" if re.match(r"\w", words[0]) else ""
    after = r"(?!\w)" if re.match(r"\w", words[-1]) else ""
    if words[0].isdigit():
        before = r"(?:(?<![\w.-])|(?<=\\[nrt]))"
    if words[-1].isdigit():
        after = r"(?!\w|\.\d)"
    return re.compile(before + re.escape(words) + after)


def claims_in(text: str) -> tuple[Claim, ...]:
    """The locations, exceptions and values that a text states, each once, read as by `scoring`."""
    found = [*_locations(text), *_exceptions(text), *_values(text)]
    return tuple({(claim.kind, str(claim)): claim for claim in found}.values())


def _locations(text: str) -> Iterator[Claim]:
    for file, line, _ in places(text):
        yield Claim(ClaimKind.LOCATION, f"{file}:{line}", file=file, line=line)
    for pattern in (FUNCTION_AFTER, FUNCTION_BEFORE):
        for found in pattern.finditer(text):
            if _is_function(text, found):
                yield Claim(ClaimKind.LOCATION, found["function"])


def _is_function(text: str, found: re.Match[str]) -> bool:
    """Whether a name next to a place is a function's: no keyword, nor the begin of other code."""
    name, (start, end) = found["function"], found.span("function")
    is_code = text[start - 1 : start] == "`"
    if is_code and not re.match(r"(?:\([^`\n]*\))?`", text[end:]):
        return False
    return not iskeyword(name) and name.lower() not in NO_FUNCTIONS and not is_file(name)


def _exceptions(text: str) -> Iterator[Claim]:
    raised = list(EXCEPTION.finditer(text))
    messages = [found["message"] for found in REMARK.finditer(text)] if raised else []
    for found in raised:
        yield Claim(ClaimKind.EXCEPTION, found[0].rpartition(".")[2])
        quoted, told = QUOTED.match(text, found.end()), TOLD.match(text, found.end())
        if quoted:
            messages.append(quoted["message"])
        elif told and BEFORE_TOLD.search(text[: found.start()]):
            messages.append(PROSE.split(told["message"], maxsplit=1)[0])
    yield from (Claim(ClaimKind.EXCEPTION, each.strip()) for each in messages if each.strip())


def _values(text: str) -> Iterator[Claim]:
    """The values given to expressions, quoted literals, and what an assertion compared."""
    for part in CUT.split(text):
        named = {each.start: (each, _named(part, each)) for each in _whole(part, values_in(part))}
        shown = _without_places(part)
        for name in dict.fromkeys(filterfalse(is_file, QUOTED_NAME.findall(part))):
            for each in _whole(part, named_values(part, name)):
                between = shown[shown.rfind(name, 0, each.start) + len(name) : each.start]
                is_own = BETWEEN.fullmatch(between) is not None
                if is_own and named.get(each.start, (each, None))[1] is None:
                    named[each.start] = each, name
        for each, known in named.values():
            entry = ENTRY.match(part, each.end) if known and isinstance(each.value, str) else None
            if entry is not None and entry.end() in named:
                yield _claim(part, named[entry.end()][0], f"{known}[{each.text}]")
            elif _is_claim(each, known) and not WISHED.search(_before(part, each)):
                yield _claim(part, each, known)
        actual, expected = compared(part) if ROLE.search(part) else ([], [])
        for each in _whole(part, [*actual, *expected]):
            if _is_data(each) and named.get(each.start, (each, None))[1] is None:
                yield _claim(part, each, None)


def _whole(text: str, found: list[ValueClaim]) -> Iterator[ValueClaim]:
    """The values, including text that the reader blanks out although it is part of a value."""
    for each in found:
        own = text[each.start : each.end]
        value = each.value if own == each.text else parse_value(own)
        is_whole = own == each.text or own.startswith("<") or not isinstance(value, Text)
        before = text[max(0, each.start - 2) : each.start]
        is_part = NUMBER_GOES_ON.match(text, each.end) or NUMBER_BEFORE.search(before)
        if is_whole and not is_part:
            yield replace(each, text=own, value=value)


def _named(text: str, found: ValueClaim) -> str | None:
    """The expression that a value is given to. What is said of a place is said of no name."""
    name = _name(text, found)
    return None if name is not None and (is_file(name) or is_place(name)) else name


def _name(text: str, found: ValueClaim) -> str | None:
    """The expression that a value is given to: the debugger also writes `len(x) > 2 = True`."""
    before = text[: found.start]
    if before.endswith(" = "):
        # No expression spans these characters; one after other words may start after a blank.
        part = re.split(r"[;`\n]|\.\s", before[-200:-3])[-1]
        for start in (0, *(each.end() for each in re.finditer(r"\s", part))):
            name = part[start:].strip()
            # A tuple comes from text before the expression.
            if not isinstance(expression(name), ast.Tuple | None):
                return name
    return other_names(_without_places(text), found)


@lru_cache(64)
def _without_places(text: str) -> str:
    return WHERE.sub(blank, text)


def _before(text: str, found: ValueClaim) -> str:
    """What stands just before a value."""
    return text[max(0, found.start - MAX_VALUE) : found.start]


def _claim(text: str, found: ValueClaim, name: str | None) -> Claim:
    start = text.rfind(name, 0, found.start) if name else found.start
    quote = text[start : found.end].replace("`", "") if 0 <= start < found.start else ""
    return Claim(ClaimKind.VALUE, found.text, name=name or "", value=found.value, quote=quote)


def _is_claim(found: ValueClaim, name: str | None) -> bool:
    """Whether a value is stated: given to a name, or quoted and more than a number or word."""
    if not _is_data(found):
        return False
    if name is not None:
        # `14 - 3 = 11` is arithmetic, and `is` no expression.
        return not iskeyword(name) and re.search(r"[^\W\d]", name) is not None
    if isinstance(found.value, int | float | complex | None) or found.text in GUESSED:
        return False
    if isinstance(found.value, str) and is_place(found.value):
        return False
    return not isinstance(found.value, Call) or found.value.name[:1].isupper()


def _is_data(found: ValueClaim) -> bool:
    """Whether it is a value's representation, not code, which uses names."""
    raised = isinstance(found.value, Call) and EXCEPTION.fullmatch(found.value.name)
    remark = isinstance(found.value, str) and found.text.startswith("(")
    return not raised and not remark and not _has_names(found.value)


def _has_names(value: object) -> bool:
    match value:
        case list() | tuple():
            return any(map(_has_names, value))
        case dict():
            return any(map(_has_names, (*value.keys(), *value.values())))
        case Call():
            return any(map(_has_names, (*value.arguments, *dict(value.keywords).values())))
    return isinstance(value, Name)


def changed_by(patch: str) -> tuple[ChangedRange, ...]:
    """The lines that a rollout's patch changes; empty for a broken patch."""
    try:
        changed = changed_lines(patch)
    except PatchError:
        return ()
    # Paths are interned because a whole run's ranges are held at once.
    return tuple(replace(each, path=intern(each.path)) for each in changed)


def fix_touched_location(
    conversation: Conversation, changed: Sequence[ChangedRange]
) -> bool | None:
    """Whether a patch changed the place that an answer or plan reported: its line, or, from what
    the conversation has read of a Python file, its function, at module level its statement. None if
    it reports no place, nothing was changed, or too little of the right file was read."""
    answer, texts = conversation.answer, list(answer_texts(conversation))
    if answer is not None and conversation.role is not Role.INSPECTOR:
        texts = [answer.location, answer.answer]
    reported = [place for text in texts for place in locations(text)]
    if not reported or not changed:
        return None
    file, line = reported[0]
    ranges = [each for each in changed if same_file(each.path, file)]
    if not ranges or any(each.start <= line <= each.end for each in ranges):
        return bool(ranges)
    source = _known_source(conversation, file) if file.endswith(".py") else {}
    own = _block(source, line)
    others = {_block(source, number) for each in ranges for number in (each.start, each.end)}
    if own is not None and own in others:
        return True
    return None if own is None or None in others else False


def _known_source(conversation: Conversation, file: str) -> Mapping[int, str]:
    """The lines of a file that the conversation has read."""
    # By the number of blanks after a line's number in the listing.
    listings: list[tuple[int, str]] = []
    calls = conversation.calls
    for row in conversation.messages:
        call = calls.get(row.message.tool_call_id or "")
        path = call.text("path") if call is not None and call.name == READ_FILE else ""
        if path and same_file(path.removeprefix("./"), file):
            listings.append((1, row.message.content))
    events = [each.event for each in conversation.events]
    shown = [each for each in events if each.file and same_file(each.file, file)]
    listings += [(2, "\n".join(each.source)) for each in shown]
    lines: dict[int, str] = {}
    for blanks, text in listings:
        listed = rf"^(?:->)?[ *]*(\d{{1,9}})(?: {{{blanks}}}(.*))?$"
        for found in re.finditer(listed, text, re.MULTILINE):
            lines[int(found[1])] = found[2] or ""
    return lines


def _block(source: Mapping[int, str], line: int) -> int | None:
    """The first line of the innermost definition around a line, or at module level of the least
    indented statement; None if unknown."""
    while source.get(line, "").lstrip().startswith("@"):
        line += 1
    least: int | None = None
    while line in source:
        text = source[line].lstrip()
        indent = len(source[line]) - len(text)
        # A closing bracket is indented like the line that opens it.
        if text and not text.startswith((")", "]", "}")) and (least is None or indent < least):
            if re.match(r"(?:async\s+)?def\s+\w+", text) or indent == 0:
                return line
            least = indent
        line -= 1
    return None
