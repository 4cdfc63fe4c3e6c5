"""Causes and groups of exceptions: the post mortem shows their tree, and their frames can be looked
at like any other."""

from __future__ import annotations

import pytest

from sandbox.debugger import Action, BreakpointRequest, DebugEvent, ErrorKind, State, render
from tests.sandbox.debugger.conftest import Workbench

SHOP = """
    class ShopError(Exception):
        pass

    def read(prices, name):
        found = prices.get
        return prices[name]  # @key

    def price(prices, name):
        try:
            return read(prices, name)  # @read
        except KeyError as error:
            raise ShopError(name) from error  # @shop

    def total(prices):
        try:
            return price(prices, "pear")  # @price
        except ShopError:
            raise ValueError("no total")  # @total

    def hidden(prices):
        try:
            return total(prices)  # @called
        except ValueError:
            raise RuntimeError("sorry") from None  # @hidden
"""


def tree(event: DebugEvent) -> list[tuple[str, int, str, int | None, int | None]]:
    assert event.exception is not None
    return [
        (each.relation, each.depth, each.type, each.line, each.frame)
        for each in event.exception.related
    ]


def test_the_innermost_cause_can_be_looked_at(bench: Workbench) -> None:
    bench.write({"program.py": SHOP + "\n    hidden({})"})
    bench.start()
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.line) == (State.POST_MORTEM, bench.line("hidden"))
    assert tree(event) == [
        ("raised while handling (hidden by `from None`)", 1, "ValueError", bench.line("total"), 2),
        ("raised while handling", 2, "ShopError", bench.line("shop"), 4),
        ("caused by", 3, "KeyError", bench.line("key"), 6),
    ]
    told = f"caused by KeyError: 'pear', raised at program.py:{bench.line('key')} in read (frame 6)"
    assert told in render(event)
    assert bench.text_of("name, sorted(prices)", frame=6) == "('pear', [])"
    assert {value.name for value in bench.debugger.locals(6).values} == {"prices", "name", "found"}
    shown = bench.debugger.stack(6).frames
    assert [(frame.index, frame.function) for frame in shown] == [(6, "read"), (7, "price")]
    assert [frame.function for frame in bench.debugger.stack().frames] == ["hidden", "<module>"]
    refused = bench.debugger.locals(8)
    assert refused.error_kind is ErrorKind.BAD_REQUEST
    assert "frames 0 to 7" in (refused.error or "")


def test_a_breakpoint_on_an_exception_shows_its_cause_too(some_bench: Workbench) -> None:
    bench = some_bench
    bench.write({"program.py": SHOP + "\n    hidden({})"})
    event = bench.start(BreakpointRequest(exception="ShopError"))
    assert event.line == bench.line("shop")
    ((relation, _, kind, line, frame),) = tree(event)
    assert (relation, kind, line) == ("caused by", "KeyError", bench.line("key"))
    assert bench.text_of("name", frame=frame or 0) == "'pear'"
    while event.state is State.RUNTIME_ERROR:
        event = bench.debugger.control(Action.STEP_OVER)
    assert event.state is State.RUNTIME
    assert bench.debugger.locals(frame or 0).error_kind is ErrorKind.BAD_REQUEST


GROUPS = """
    import sys
    if sys.version_info < (3, 11):
        from exceptiongroup import BaseExceptionGroup, ExceptionGroup

    def fail(kind, n):
        size = n * 2
        raise kind(n)  # @fail

    def gathered(*works):
        errors = []
        for kind, n in works:
            try:
                fail(kind, n)  # @work
            except Exception as error:
                errors.append(error)
        return errors

    def run():
        inner = ExceptionGroup("inner", gathered((KeyError, 2), (OSError, 3)))
        inner.add_note("of the second\\nworker")
        members = [*gathered((ValueError, 1)), inner, IndexError("never raised")]
        raise ExceptionGroup("outer", members)  # @outer

    run()
"""
BACKPORT = """
class BaseExceptionGroup(BaseException):
    def __new__(cls, message, exceptions):
        self = super().__new__(cls, message, exceptions)
        self._message, self._exceptions = message, tuple(exceptions)
        return self

    @property
    def exceptions(self):
        return self._exceptions

    def __str__(self):
        return "%s (%d sub-exceptions)" % (self._message, len(self._exceptions))

    def add_note(self, note):
        self.__dict__.setdefault("__notes__", []).append(note)

class ExceptionGroup(BaseExceptionGroup, Exception):
    pass
"""
"""What the package `exceptiongroup` has, before CPython 3.11."""


def test_nested_groups_and_notes(bench: Workbench) -> None:
    bench.write({"program.py": GROUPS, "exceptiongroup.py": BACKPORT})
    bench.start()
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.line) == (State.POST_MORTEM, bench.line("outer"))
    fail = bench.line("fail")
    prefix = "exceptiongroup." if bench.interpreter.version in ("3.8", "3.9", "3.10") else ""
    assert tree(event) == [
        ("member 1 of 3", 1, "ValueError", fail, 2),
        ("member 2 of 3", 1, f"{prefix}ExceptionGroup", None, None),
        ("member 1 of 2", 2, "KeyError", fail, 4),
        ("member 2 of 2", 2, "OSError", fail, 6),
        ("member 3 of 3", 1, "IndexError", None, None),
    ]
    assert bench.text_of("kind, size", frame=4).endswith(", 4)")
    shown = render(event).splitlines()
    at = next(n for n, line in enumerate(shown) if "member 2 of 3" in line)
    assert shown[at] == f"    member 2 of 3 {prefix}ExceptionGroup: inner (2 sub-exceptions)"
    assert shown[at + 1] == "        note: of the second worker"
    assert shown[at + 2].startswith("        member 1 of 2 KeyError: 2, raised at program.py:")


def test_a_member_of_an_unhandled_group_is_unhandled(some_bench: Workbench) -> None:
    bench = some_bench
    bench.write({"program.py": GROUPS, "exceptiongroup.py": BACKPORT})
    kinds = ("LookupError", "OSError", "TypeError")
    points = [BreakpointRequest(exception=kind, uncaught=True) for kind in kinds]
    condition = "__exception__.args == (3,) and n == 3"
    other = BreakpointRequest(exception="OSError", uncaught=True, condition=condition)
    event = bench.start(*points, other)
    assert event.state is State.POST_MORTEM
    assert [point.hits for point in event.breakpoints] == [1, 1, 0, 1]


MANY = """
    def deep(n):
        level = n
        try:
            if n:
                deep(n - 1)
            {}["start"]
        except Exception as error:
            if not n:
                raise
            raise ValueError(n) from error

    class Odd(Exception):
        __cause__ = __context__ = __notes__ = property(lambda self: 1 / 0)

        def __str__(self):
            raise KeyError("str")

    error = Odd()
    error.__dict__["__notes__"] = ["x" * 5000, 7, "b"]
    try:
        deep(30)
    except ValueError:
        raise error
"""


def test_a_long_tree_is_cut_and_a_strange_exception_does_no_harm(some_bench: Workbench) -> None:
    bench = some_bench
    bench.script(MANY)
    event = bench.debugger.control(Action.CONTINUE)
    assert event.exception is not None
    assert event.exception.message == "<str raised KeyError>"
    assert len(event.exception.notes[0]) < 300
    assert event.exception.notes[1] == "b"
    related = event.exception.related
    assert len(related) == 8
    assert event.exception.unlisted == 31 - 8
    assert [each.message for each in related[:2]] == ["30", "29"]
    assert related[-1].type == "KeyError"
    assert bench.text_of("level", frame=related[-1].frame or 0) == "0"
    assert "... 23 more, and the last:" in render(event)


AGAIN = """
    def load(n):
        left = n
        try:
            if n:
                load(n - 1)
        finally:
            raise OSError("no disk")  # @load

    def retry():
        try:
            load(12)
        except OSError as error:
            raise LookupError("pear") from error

    retry()
"""


def test_a_chain_of_exceptions_that_are_alike_is_one_line(some_bench: Workbench) -> None:
    bench = some_bench
    bench.script(AGAIN)
    event = bench.debugger.control(Action.CONTINUE)
    assert event.exception is not None
    ((first, _, _, _, outer), (relation, depth, kind, line, frame)) = tree(event)
    assert (first, outer) == ("caused by", 2)
    assert relation == "raised while handling (12 alike; the innermost)"
    assert (depth, kind, line) == (2, "OSError", bench.line("load"))
    assert bench.text_of("left", frame=frame or 0) == "0"
    lines = render(event, {Action.STACK: "debug_inspect"}).splitlines()
    assert sum("OSError: no disk" in text for text in lines) == 2
    assert any(text.endswith("in load (frame 2: stack start=2)") for text in lines)
    assert any(text.endswith(f"in load (frame {frame})") for text in lines)
    shown = bench.debugger.stack(2).frames
    assert (shown[0].index, shown[0].line) == (2, bench.line("load"))


def test_causes_that_form_a_circle(some_bench: Workbench) -> None:
    bench = some_bench
    text = """
        one, two = ValueError(1), ValueError(2)
        one.__cause__, two.__cause__ = two, one
        raise one
    """
    bench.script(text)
    event = bench.debugger.control(Action.CONTINUE)
    assert [each[:3] for each in tree(event)] == [("caused by", 1, "ValueError")]


WRAPPED = """
    import unittest

    import pytest

    def convert(text):
        size = len(text)
        return int(text)  # @convert

    class Case(unittest.TestCase):
        def test_other_kind(self):
            with self.assertRaises(KeyError):
                convert("x")

        def test_other_message(self):
            with self.assertRaisesRegex(ValueError, "empty"):
                convert("x")

        def test_call(self):
            self.assertRaises(KeyError, convert, "x")

    def test_raises():
        with pytest.raises(ValueError, match="empty"):
            convert("x")

    def test_raises_other():
        with pytest.raises(KeyError):
            convert("x")
"""
WRAPPED_TESTS = [
    "Case::test_other_kind",
    "Case::test_other_message",
    "Case::test_call",
    "test_raises",
    "test_raises_other",
]


@pytest.mark.parametrize("name", WRAPPED_TESTS)
def test_what_a_test_expected_otherwise(some_bench: Workbench, name: str) -> None:
    if not some_bench.interpreter.has_pytest:
        pytest.skip(f"no pytest for CPython {some_bench.interpreter.version}")
    bench = some_bench
    bench.write({"test_shop.py": WRAPPED})
    bench.start(test=f"test_shop.py::{name}")
    event = bench.debugger.control(Action.CONTINUE)
    assert event.state is State.POST_MORTEM
    convert = bench.line("convert", "test_shop.py")
    frames = [(event.line, 0)] + [(line, frame or 0) for _, _, _, line, frame in tree(event)]
    frame = next(frame for line, frame in frames if line == convert)
    assert bench.text_of("size, text", frame=frame) == "(1, 'x')"


def test_unittest_alone(some_bench: Workbench) -> None:
    bench = some_bench
    bench.write(
        {"test_shop.py": WRAPPED.replace("import pytest", "").partition("    def test_r")[0]}
    )
    bench.start(test="test_shop.Case.test_other_kind")
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.line) == (State.POST_MORTEM, bench.line("convert", "test_shop.py"))
    assert bench.text_of("size") == "1"


def test_an_accepted_exception_leaves_no_frame_behind(some_bench: Workbench) -> None:
    bench = some_bench
    bench.write(
        {
            "test_kept.py": """
            import gc
            import unittest
            import weakref

            class Thing:
                pass

            SEEN = []

            def fail():
                thing = Thing()
                SEEN.append(weakref.ref(thing))
                raise KeyError(thing)

            class Case(unittest.TestCase):
                def test_freed(self):
                    with self.assertRaises(KeyError) as caught:
                        fail()
                    caught.exception.args = ()
                    self.assertIsNone(SEEN[0]())
            """
        }
    )
    bench.start(test="test_kept.Case.test_freed")
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.state, event.exit_code) == (State.DONE, 0)
