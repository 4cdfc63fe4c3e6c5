"""What belongs to an exception: its causes, what it was raised in handling, a group's members.

They form a tree, in which Python's objects may repeat and be in thousands. Attributes are read past
what the program's classes make of them.
"""

from __future__ import annotations

import builtins
import sys
from itertools import takewhile
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Iterator, NamedTuple

from .interpreter import FrameAt, is_compiled, traceback_frames
from .values import Bounds, bounded_text, exception_text, type_name
from .wire import Json

if TYPE_CHECKING:
    from .describing import Describer

CAUSE = "caused by"
CONTEXT = "raised while handling"
HIDDEN = "raised while handling (hidden by `from None`)"
MEMBER = "member {} of {}"
ALIKE = "{} ({} alike; the innermost)"
"""Of a chain in which each was raised at the same line, as in a loop without end."""
MOST = 8
"""Exceptions of a tree that are shown, besides the first."""
MOST_SEEN = 20_000
MOST_NOTES = 5


class Related(NamedTuple):
    """An exception in the tree of another."""

    relation: str
    depth: int
    """1 for one that belongs to the first, and so on."""
    error: BaseException


def attribute(error: BaseException, name: str) -> Any:
    """An attribute of every exception."""
    return BaseException.__dict__[name].__get__(error)


def members(error: BaseException) -> list[BaseException]:
    """Those of a group, also of the package `exceptiongroup`; empty for other exceptions."""
    kind: type = type(error)  # `isinstance` would run a `__class__` of the program's
    found: Any = ()
    group = getattr(builtins, "BaseExceptionGroup", None)
    backport = vars(sys.modules.get("exceptiongroup", object)).get("BaseExceptionGroup")
    if group is not None and issubclass(kind, group):
        found = group.__dict__["exceptions"].__get__(error)
    elif isinstance(backport, type) and backport in type.__getattribute__(kind, "__mro__"):
        found = attribute(error, "__dict__").get("_exceptions")
    every = found if type(found) in (tuple, list) else ()
    return [each for each in every[:MOST_SEEN] if issubclass(type(each), BaseException)]


def added_notes(error: BaseException) -> list[str]:
    """What `add_note` has added."""
    notes = attribute(error, "__dict__").get("__notes__")
    found = [note for note in notes if type(note) is str] if type(notes) is list else []
    more = len(found) - MOST_NOTES
    return found[:MOST_NOTES] + ([f"(and {more} more notes)"] if more > 0 else [])


def children(error: BaseException) -> Iterator[tuple[str, BaseException]]:
    """What belongs to an exception directly: one that another was raised from or in handling, and a
    group's members."""
    cause, context = attribute(error, "__cause__"), attribute(error, "__context__")
    if cause is not None:
        yield CAUSE, cause
    elif context is not None:
        yield HIDDEN if attribute(error, "__suppress_context__") else CONTEXT, context
    every = members(error)
    for number, member in enumerate(every, 1):
        yield MEMBER.format(number, len(every)), member


def related(error: BaseException) -> tuple[list[Related], int]:
    """The tree below an exception in reading order, each once; and how many are left out. Of a long
    one the first are kept, and the last, which in a chain of causes is the innermost."""
    found: list[Related] = []
    seen = {id(error)}
    left = [children(error)]
    while left and len(found) < MOST_SEEN:
        relation, each = next(left[-1], ("", None))
        if each is None:
            left.pop()
        elif id(each) not in seen:
            seen.add(id(each))
            found.append(Related(relation, len(left), each))
            left.append(children(each))
    found = merged(found)
    if len(found) <= MOST:
        return found, 0
    return [*found[: MOST - 1], found[-1]], len(found) - MOST


def merged(tree: list[Related]) -> list[Related]:
    """The tree with each chain of exceptions that are alike as one, which stands for the last."""
    found: list[Related] = []
    depths = [0]
    """What the depths of the path to an exception have become."""
    above: tuple[int, object] = 0, None
    times = 1
    for each in tree:
        likeness = likeness_of(each)
        is_alike = likeness is not None and above == (each.depth - 1, likeness)
        times = times + 1 if is_alike else 1
        relation = ALIKE.format(each.relation, times) if is_alike else each.relation
        del depths[each.depth :]
        depths.append(depths[-1] + (not is_alike))
        if is_alike:
            found.pop()
        found.append(Related(relation, depths[-1], each.error))
        above = each.depth, likeness
    return found


def is_plain(value: object) -> bool:
    return value is None or type(value) is str or type(value) is int


def likeness_of(related: Related) -> object:
    """What alike exceptions have in common; None if it is not known without the program's code."""
    trace, args = attribute(related.error, "__traceback__"), attribute(related.error, "args")
    if trace is None or added_notes(related.error) or not all(map(is_plain, args)):
        return None
    while trace.tb_next is not None:
        trace = trace.tb_next
    place = id(trace.tb_frame.f_code), trace.tb_lineno
    return related.relation, id(type(related.error)), args, place


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The members of a group, and of the groups in it."""
    left = members(error)[::-1]
    for _ in range(MOST_SEEN):
        if not left:
            return
        each = left.pop()
        yield each
        left += members(each)[::-1]


def split_compiled(error: BaseException) -> tuple[list[FrameAt], list[FrameAt]]:
    """The innermost frames of an exception that stand for compiled code, and the others."""
    frames = traceback_frames(error)
    compiled = [*takewhile(lambda at: is_compiled(at.frame.f_code), frames)]
    return compiled, frames[len(compiled) :]


SHORT = Bounds(chars=200, depth=1, items=1, lines=1)
"""For the message of a cause, and for notes."""
COMPILED = "it was raised in compiled code: {function} at {file}:{line}"


def on_one_line(text: str) -> str:
    return bounded_text(" ".join(text[:MOST_SEEN].split()), SHORT)


class InTree(NamedTuple):
    """An exception in the tree of another, and the frames that it has passed."""

    related: Related
    frames: list[FrameAt]


class Raised:
    """An exception, the frames that it has passed, and its tree."""

    def __init__(self, error: BaseException, describer: Describer) -> None:
        self.error, self.describer = error, describer
        self.compiled, others = split_compiled(error)
        self.frames = describer.visible(others)
        every, self.unlisted = related(error)
        self.tree = [InTree(each, describer.passed(each.error)) for each in every]

    def describe(self, index: int) -> Json:
        """The frames of its tree begin at an index."""
        shown = []
        for each in self.tree:
            relation, depth, error = each.related
            fields = {**self._describe(error), "relation": relation, "depth": depth}
            fields["message"] = on_one_line(fields["message"])
            if each.frames:
                fields.update(self.describer.place(each.frames[0]), frame=index)
            index += len(each.frames)
            shown.append(fields)
        return {**self._describe(self.error), "related": shown, "unlisted": self.unlisted}

    def _describe(self, error: BaseException) -> Json:
        name, evaluator = type_name(type(error)), self.describer.evaluator
        module = type.__getattribute__(type(error), "__dict__").get("__module__")
        if type(module) is str and module not in ("builtins", "__main__"):
            name = f"{module}.{name}"
        message = "<str did not end>"
        with evaluator.evaluating():
            message = exception_text(error, evaluator.bounds)
        return {"type": name, "message": message, "notes": [*map(on_one_line, added_notes(error))]}

    def notes(self) -> list[str]:
        """Whether it was raised in compiled code, which has no frame to look at."""
        return [COMPILED.format(**self.describer.place(at)) for at in self.compiled[:1]]


def keep_unexpected() -> None:
    """Have unittest's `assertRaises` keep the frames of an exception that it does not accept. It
    clears their variables, and drops the traceback before it looks at the message."""
    case: Any = sys.modules.get("unittest.case")
    if case is None or type(case.traceback) is SimpleNamespace:
        return
    clear, leave = case.traceback.clear_frames, case._AssertRaisesContext.__exit__
    case.traceback = SimpleNamespace(**{**vars(case.traceback), "clear_frames": lambda trace: None})

    def leave_and_keep(context: Any, kind: Any, error: Any, trace: Any) -> Any:
        try:
            accepted = leave(context, kind, error, trace)
        except BaseException:
            if error is not None:
                error.__traceback__ = trace
            raise
        if accepted:
            clear(trace)
        return accepted

    case._AssertRaisesContext.__exit__ = leave_and_keep
