"""Mistakes in the handling of errors: the wrong one caught, one swallowed, cleaning up left out."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from collect.mutations.base import Replacement
from collect.mutations.reading import calls, only, without
from collect.mutations.surroundings import Surroundings

_CONFUSED = {
    "KeyError": "IndexError",
    "IndexError": "KeyError",
    "LookupError": "KeyError",
    "ValueError": "TypeError",
    "TypeError": "ValueError",
    "AttributeError": "KeyError",
    "OSError": "FileNotFoundError",
    "ArithmeticError": "ZeroDivisionError",
    "ZeroDivisionError": "OverflowError",
    "OverflowError": "ValueError",
    "UnicodeError": "UnicodeDecodeError",
    "UnicodeDecodeError": "UnicodeEncodeError",
    "Exception": "ValueError",
    "StopIteration": "IndexError",
}


class WrongException:
    """A handler of another error, or of too few."""

    name = "wrong_exception"
    category = "exception"
    nodes = (cst.ExceptHandler,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.ExceptHandler):
            return
        caught = node.type
        if isinstance(caught, cst.Name) and caught.value in _CONFUSED:
            yield node.with_changes(type=cst.Name(_CONFUSED[caught.value]))
        elif isinstance(caught, cst.Tuple) and len(caught.elements) > 1:
            for index in (0, len(caught.elements) - 1):
                left = without(caught.elements, index)
                if len(left) == 1:
                    space = cst.SimpleWhitespace(" ")
                    yield node.with_changes(type=left[0].value, whitespace_after_except=space)
                else:
                    yield node.with_changes(type=caught.with_changes(elements=left))


class SwallowedException:
    """An error that is caught and not raised again."""

    name = "swallowed_exception"
    category = "exception"
    nodes = (cst.SimpleStatementLine,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(only(node), cst.Raise) or not isinstance(node, cst.SimpleStatementLine):
            return
        if len(around.parents) > 1 and isinstance(around.parents[1], cst.ExceptHandler):
            # The last statement alone tells how the handler ends.
            if len(around.siblings) > 1:
                yield cst.RemoveFromParent()
            else:
                yield node.with_changes(body=[cst.Pass()])


class SkippedCleanup:
    """What `finally` did, done only where nothing was raised."""

    name = "skipped_cleanup"
    category = "exception"
    nodes = (cst.Try,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Try) or node.finalbody is None:
            return
        if node.handlers:
            yield node.with_changes(finalbody=None)
            return
        tried, cleanup = node.body, node.finalbody.body
        if isinstance(only(tried.body[-1]), cst.Return):
            return
        if isinstance(tried, cst.IndentedBlock) and isinstance(cleanup, cst.IndentedBlock):
            yield cst.FlattenSentinel([*tried.body, *cleanup.body])


class MissingSuper:
    """A method that forgets to call the one that it overrides."""

    name = "missing_super"
    category = "inheritance"
    nodes = (cst.SimpleStatementLine,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        small = only(node)
        if not isinstance(small, cst.Expr) or not isinstance(small.value, cst.Call):
            return
        called = small.value.func
        if not isinstance(called, cst.Attribute) or len(around.siblings) < 2:
            return
        if calls(called.value, "super"):
            yield cst.RemoveFromParent()
