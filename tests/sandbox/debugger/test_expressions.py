"""Expressions mean in a frame what they would mean in the code that it runs."""

from __future__ import annotations

from sandbox.debugger import Action
from tests.sandbox.debugger.conftest import Workbench

PRIVATE = """
    class Base:
        def total(self):
            return self.__count  # @base

        def __init__(self):
            self.__count = 1


    class _Safe(Base):
        __limit = 10

        def __init__(self):
            super().__init__()
            self.__count = 4

        def total(self):
            __local = 5

            def inner(__arg):
                made = __arg + self.__count + __local
                return made  # @inner

            class __Part:
                __size = inner(1)  # @body

                def __init__(self):
                    self.__size = [  # @part
                        self for _ in "a"
                    ]
            __Part()
            keep = lambda __arg: (
                self.__limit  # @lambda
            )
            return keep(2) + super().total()

    class __:
        def tag(self):
            self.__tag = "plain"
            return self.__tag  # @tag

    def outside(self):
        return self.total()  # @outside

    outside(_Safe())
    globals()["__"]().tag()
    """
VALUES = {
    "outside": {"self._Safe__count": "4"},
    "inner": {
        "__arg, self.__count, __local": "(1, 4, 5)",
        "(lambda __x: __x + self.__count + __local)(2)": "11",
        "[self.__count + __local for _ in range(2)]": "[9, 9]",
        "type('Own', (), {'__x': 3}).__x if 0 else __local": "5",
    },
    "part": {"self.__class__.__name__": "'__Part'", "self._Part__size": "10"},
    "lambda": {"__arg + self.__limit": "12"},
    "base": {"self.__count": "1"},
    "tag": {"self.__tag": "'plain'"},
}


def test_private_names_are_those_of_the_class_around(bench: Workbench) -> None:
    bench.script(PRIVATE, "outside", "inner", "body", "part", "lambda", "base", "tag")
    assert "has no attribute" in (bench.debugger.evaluate("self.__count").error or "")
    for mark, values in VALUES.items():
        stopped = mark == "outside"
        while not stopped:
            event = bench.debugger.control(Action.CONTINUE)
            stopped = event.line == bench.line(mark)
        for expression, text in values.items():
            assert bench.text_of(expression) == text
    assert (
        bench.start(
            bench.at("inner", condition="self.__count == 4 and __arg == 1", watch=("__local",)),
            bench.at("base", condition="self.__count == 1"),
        ).notes
        == ()
    )
    event = bench.debugger.control(Action.CONTINUE)
    assert (event.line, event.function, event.notes) == (bench.line("base"), "Base.total", ())


def test_code_in_an_inner_function_uses_private_names(some_bench: Workbench) -> None:
    bench = some_bench
    bench.script(PRIVATE, "inner")
    code = "global __kept\nimport sys as __sys\nself.__count += __arg\n__kept = __sys\nself.__count"
    assert [value.text for value in bench.debugger.run_code(code).values] == ["5"]
    assert bench.text_of("_Safe__kept") == "<module 'sys' (built-in)>"


NAMES = """
    x = "global"
    sum_of = sum

    class Base:
        def name(self):
            return "base " + x

    class Shape(Base):
        x = "class"
        size = x  # @class

        def name(self):
            return "shape"  # @method

        @classmethod
        def make(cls):
            return cls()  # @make

    def outer(arg):
        x = "outer"
        unused = "only here"

        def inner(k):
            y = [x, k]
            if k > 100:
                missing = 1
            return y  # @inner

        class Local:
            size = x  # @local
        return inner(arg)

    def work():
        try:
            raise ValueError("wrong")
        except ValueError:
            pass

    outer(2)
    Shape.make().name()
    work()
    done = 1  # @module
    """
GIVEN = {
    "class": {
        "x, globals()['x']": "('class', 'global')",
        "[x for _ in '1']": "['global']",
        "list(x for _ in '1')": "['global']",
        "(lambda: x)()": "'global'",
        "[part for part in x]": "['c', 'l', 'a', 's', 's']",
        "'x' in vars(), 'outer' in dir()": "(True, False)",
        "eval('x')": "'class'",
    },
    "local": {"x, [x for _ in '1'], (lambda: x)()": "('outer', ['outer'], 'outer')"},
    "inner": {
        "x, globals()['x'], globals() is outer.__globals__": "('outer', 'global', True)",
        "globals().get('y', 'none')": "'none'",
        "sorted(locals()), dir(), sorted(vars())": str((["k", "x", "y"],) * 3),
        "eval('x + str(k)')": "'outer2'",
        "eval('x', {'x': 5})": "5",
        "[eval('x', globals()) for _ in '1']": "['global']",
        "exec('k = 50'), k": "(None, 2)",
        "[[x for _ in range(k)] for _ in range(1)]": "[['outer', 'outer']]",
        "[(lambda: (x, k, n))() for n in range(1)]": "[('outer', 2, 0)]",
        "sorted({x: k for _ in y}.items()), {k for k in y}.issuperset([2])": (
            "([('outer', 2)], True)"
        ),
        "list(map(lambda k: k, y))": "['outer', 2]",
        "[k for k in y], k": "(['outer', 2], 2)",
        "(lambda x: x)(1), x": "(1, 'outer')",
        "(k := 50) + 1, k": "(51, 50)",
        "[(k := n) for n in y], k": "(['outer', 2], 2)",
        "k": "2",
    },
    "make": {"super().__name__ if 0 else super().__thisclass__.__name__": "'Shape'"},
    "method": {
        "super().name()": "'base global'",
        "[super(Shape, self).name() for _ in '1']": "['base global']",
        "__class__.__name__": "'Shape'",
    },
    "module": {"x, [x for _ in '1'], locals()['x']": "('global', ['global'], 'global')"},
}


def test_names_mean_what_they_mean_in_the_code(bench: Workbench) -> None:
    bench.script(NAMES, *GIVEN)
    for mark, values in GIVEN.items():
        while bench.debugger.snapshot().frames[0].line != bench.line(mark):
            bench.debugger.control(Action.CONTINUE)
        for expression, text in values.items():
            assert (expression, bench.text_of(expression)) == (expression, text)
        if mark == "method":
            ran = bench.debugger.run_code("name = super().name()\nname")
            assert ran.error is None, ran.error
            assert [value.text for value in ran.values] == ["'base global'"]


def test_an_expression_assigns_no_variable_of_the_program(bench: Workbench) -> None:
    bench.script("""
        def total(count):
            return count  # @here

        total(2)
        """)
    bench.start(bench.at("here"))
    event = bench.debugger.evaluate("(count := 9) + count")
    assert [value.text for value in event.values] == ["18"]
    assert event.notes == ("set in this expression alone, not in the program: count",)
    assert bench.text_of("count") == "2"
    assert not bench.debugger.evaluate("count").notes
