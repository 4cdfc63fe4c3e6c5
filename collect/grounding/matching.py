"""Where a claimed value, or words of a claim, stand among what was observed.

A value that is given to a name must have been seen under that name, or inside of what was. Where
the name was never seen, as that of an expression in the model's own words, a telling value must
have been seen at least somewhere; one that anybody would guess (0, True, an empty list) grounds
nothing there. A name and its value that stand in an observation just as in the answer count: what
was seen is quoted.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from collect.grounding.observations import Observations, Sighting, last_part, plain
from collect.grounding.records import Claim
from collect.questions.comparing import Call, parse_value, same
from collect.questions.readable import GUESSED

TELLING_CHARACTERS = 3
"""Of a string or a number: a shorter one stands everywhere."""
_parsed = lru_cache(maxsize=4_096)(parse_value)


def sightings_of_value(claim: Claim, seen: Observations) -> Iterator[Sighting]:
    """Where a claimed value was seen, in no particular order; the same place may come twice."""
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
    """What `lines['tea']` or `cart.total` is, by what `lines` or `cart` was seen to be."""
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
    """Whether a representation is of the claimed value."""
    return plain(shown) == plain(claim.text) or same(_parsed(shown), claim.value)


def _is_telling(claim: Claim) -> bool:
    """Whether a value is one that nobody would guess."""
    if claim.text in GUESSED:
        return False
    is_number = isinstance(claim.value, int | float) and not isinstance(claim.value, bool)
    return not is_number or len(claim.text) >= TELLING_CHARACTERS


def _forms(claim: Claim) -> Iterator[str]:
    """How a value may stand in a text."""
    yield plain(claim.text)
    if isinstance(claim.value, str) and claim.value.strip():
        quoted = len(claim.value) < TELLING_CHARACTERS
        yield from (f"'{claim.value}'", f'"{claim.value}"') if quoted else (plain(claim.value),)


def in_texts(words: str, seen: Observations) -> Iterator[Sighting]:
    """The tools' answers that hold these words."""
    return (sighting for text, sighting in seen.texts if has_word(text, words))


def has_word(text: str, words: str) -> bool:
    """Whether a text holds the words, not as part of longer ones: `12` is not in `123`, `1.12` or
    `-12`."""
    position = text.find(words)
    while words and position >= 0:
        end = position + len(words)
        before, after = text[max(0, position - 1) : position], text[end : end + 2]
        if not _joins(before, words[0]) and not _goes_on(words[-1], after):
            return True
        position = text.find(words, position + 1)
    return False


def _joins(before: str, first: str) -> bool:
    """Whether a character belongs to the word that begins after it."""
    return _is_wordy(first) and (_is_wordy(before) or (first.isdigit() and before in ("-", ".")))


def _goes_on(last: str, after: str) -> bool:
    """Whether the word that ends in a character goes on with those after it."""
    is_fraction = last.isdigit() and re.match(r"\.\d", after) is not None
    return _is_wordy(last) and (_is_wordy(after[:1]) or is_fraction)


def _is_wordy(char: str) -> bool:
    return char.isalnum() or char == "_"
