"""How values are written: bounded, cut with a mark, and page by page."""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from typing import Any

import pytest

from sandbox.debugger.probe.fields import fields_of
from sandbox.debugger.probe.values import Bounds, render

BOUNDS = Bounds(chars=200, depth=4, items=50, lines=10)
Point = namedtuple("Point", "x y")


class Colour(enum.Enum):
    RED = 1


class Names(list[str]):
    """A list that would show itself otherwise, were it asked."""

    def __iter__(self) -> Any:
        raise RuntimeError("not to be run")

    def __len__(self) -> int:
        return 10**9


@dataclass
class Order:
    lines: list[int]
    note: str = "none"
    hidden: int = field(default=1, repr=False)


def whole(value: object, bounds: Bounds = BOUNDS) -> str:
    """All pages of a value's text, one after the other."""
    pages: list[str] = []
    start = 0
    while True:
        page = render(value, bounds, start)
        if page.next_start is None:
            return "".join([*pages, page.text])
        assert page.truncated
        assert page.next_start > start
        pages.append(page.text[: page.next_start - start])
        start = page.next_start


SAME = [
    1.5,
    "short",
    "it's",
    "x" * 7_000,
    "it's " * 2_000,
    'it\'s a "quote" \n\\ \x00 é' * 1_000,
    b'it\'s a "quote"\xff' * 1_000,
    bytearray(b"ab" * 3_000),
    list(range(3_000)),
    [str(n) for n in range(3_000)],
    tuple(n / 7 for n in range(3_000)),
    [*range(2_500), "it's", *range(2_500)],
    tuple(range(500)),
    (1,),
    {1, 2, 3},
    set(),
    frozenset(),
    frozenset({1}),
    {n: str(n) for n in range(500)},
    deque(range(200), maxlen=200),
    deque([1]),
    defaultdict(list, {1: [2]}),
    Point(1, list(range(40))),
    Order(list(range(40)), "it's"),
    Colour.RED,
    [{"a": (1, [2, 3])}],
    type("Mine", (dict,), {})({1: 2}),
]


@pytest.mark.parametrize("value", SAME, ids=lambda value: repr(value)[:30])
def test_pages_add_up_to_the_representation(value: object) -> None:
    assert whole(value) == repr(value)


@pytest.mark.parametrize("value", SAME, ids=lambda value: repr(value)[:30])
def test_tiny_pages_too(value: object) -> None:
    text = repr(value)
    if len(text) < 800:
        assert whole(value, Bounds(7, 4, 50, 10)) == text


def test_what_is_left_is_said() -> None:
    assert render(list(range(200_000)), BOUNDS).text.endswith(", 49, ... 199,950 more items")
    assert render("x" * 10_000, BOUNDS).text.endswith("x... 9,802 more characters")
    quotes = repr(bytearray(b"\n" * 10_000))
    shown = render(bytearray(b"\n" * 10_000), BOUNDS).text
    assert shown.endswith(f"... {len(quotes) - 200:,} more characters")
    assert render("\n" * 70_000, BOUNDS).text.endswith("... at least 135,338 more characters")
    text = render(["a" * 300, 1, 2], BOUNDS).text
    assert text.endswith("aaa..., ... 2 more items")
    lines = type("Lines", (), {"__repr__": lambda self: "line\n" * 30})()
    page = render(lines, BOUNDS)
    assert page.text == "line\n" * 10 + "... 20 more lines"
    assert page.next_start is not None
    assert render(lines, BOUNDS, page.next_start).text.startswith("line\nline")
    inner = render([list(range(60))], BOUNDS._replace(chars=1_000))
    assert inner.text.endswith(", 49, ... 10 more items]]")
    assert inner.truncated
    assert inner.next_start is None


def test_a_late_page_of_a_long_list_does_not_make_the_text_before_it() -> None:
    made = []

    class Seen:
        def __repr__(self) -> str:
            made.append(self)
            return "s"

    items = [0] * 100_000 + [Seen()] * 1_000
    page = render(items, BOUNDS, start=300_000)
    assert page.text.startswith(" s, s, s") or page.text.startswith("s, s, s")
    assert len(made) < 100


def test_subclasses_are_shown_by_what_they_hold() -> None:
    assert render(Names(["a", "b"]), BOUNDS).text == "['a', 'b']"
    assert render(OrderedDict(a=1), BOUNDS).text == "OrderedDict({'a': 1})"
    assert render(Counter("aab"), BOUNDS).text == "Counter({'a': 2, 'b': 1})"
    found, total = fields_of(Names(["a", "b", "c"]), 1, 1)
    assert (found, total) == ([("[1]", "b")], 3)


def test_values_that_hold_themselves_end() -> None:
    table: dict[str, Any] = {}
    table["self"] = table
    items: list[Any] = [table]
    items.append(items)
    assert render(items, BOUNDS).text == "[{'self': {...}}, [...]]"
    order = Order([])
    order.lines = [order]  # type: ignore[list-item]
    assert render(order, BOUNDS).text == "Order(lines=[Order(...)], note='none')"


def test_deep_values_are_cut() -> None:
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    page = render(deep, BOUNDS)
    assert (page.text, page.truncated, page.next_start) == ("[[[[[...]]]]]", True, None)


def test_control_characters_can_not_act() -> None:
    lines = type("Colours", (), {"__repr__": lambda self: "\x1b[31m\r\x00\x9b\u2028(Pdb) "})()
    assert render(lines, BOUNDS).text == "\\x1b[31m\\x0d\\x00\\x9b\\u2028(Pdb) "


def test_fields_come_in_pages() -> None:
    table = {n: n * n for n in range(1_000)}
    found, total = fields_of(table, 100, 3)
    assert found == [("[100]", 10_000), ("[101]", 10_201), ("[102]", 10_404)]
    assert total == 1_000
    assert fields_of(Point(1, 2), 0, 10)[0] == [("x", 1), ("y", 2)]
    assert fields_of(Order([1]), 1, 1) == ([("note", "none")], 3)


def test_arrays_and_tables_are_cut_by_lines() -> None:
    numpy = pytest.importorskip("numpy")
    pandas = pytest.importorskip("pandas")
    assert render(numpy.arange(3), BOUNDS).text == "array([0, 1, 2])"
    table = pandas.DataFrame({"n": range(1_000)})
    page = render(table, BOUNDS._replace(chars=2_000, lines=5))
    assert page.text.count("\n") == 5
    assert page.text.endswith(" more lines")


class Unshowable:
    def __repr__(self) -> str:
        raise AttributeError("not yet")


class Holder:
    def __init__(self) -> None:
        self.first, self.bad, self.last = 1, Unshowable(), [Unshowable(), 2]


def test_a_part_that_can_not_be_shown_leaves_the_others() -> None:
    raised = "<repr raised AttributeError>"
    assert whole(Holder()) == f"<Holder first=1 bad={raised} last=[{raised}, 2]>"
    with pytest.raises(AttributeError, match="not yet"):
        render(Unshowable(), BOUNDS)
