"""A name in an evaluated Java expression means what it means to the compiler at that place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.debugger import Action
from tests.sandbox.debugger.java_bench import JavaBench, java_benches

NAMES = """
    package demo;

    class Part {
        String of() { return "package"; }
    }

    public class Program {
        static class Part {
            static String kind = "member";
            String of() { return kind; }
        }

        static class Base {
            String name = "base";
            static int count = 1;
        }

        static class Derived extends Base {
            String name = "derived";
            static int count = 2;

            void run() {
                class Part {
                    String of() { return name; }
                }
                name.length(); // @derived
            }
        }

        String locals(int base) {
            String before = new Part().of(); // @before
            class Part {
                String of() { return "local"; }
                String again() {
                    return new Part().of(); // @within
                }
            }
            class Using {
                int sum() { return base + 1; }
            }
            record Pair(int left, int right) {
                int sum() { return left + right; }
            }
            {
                enum Level { LOW, HIGH }
                before += Level.HIGH; // @block
            }
            Runnable task = () -> {
                new Part().of(); // @lambda
            };
            task.run();
            before += new Part().again() + new Pair(1, 2).sum() + new Using().sum();
            return before; // @after
        }

        void other() {
            class Part {
                String of() { return "other"; }
            }
            new Part().of(); // @other
        }

        public static void main(String[] args) {
            new Program().locals(2);
            new Program().other();
            new Derived().run();
        }
    }
"""
MARKS = ("before", "block", "lambda", "within", "after", "other", "derived")
VALUES = {
    "before": {"new Part().of()": '"member"', "Part.kind": '"member"'},
    "block": {"Level.LOW": "LOW", "new Part().of()": '"local"'},
    "lambda": {"new Part().of()": '"local"'},
    "within": {"new Part().of()": '"local"', "this instanceof Part": "true"},
    "after": {
        "new Part().of()": '"local"',
        "new Program.Part().of()": '"member"',
        "new demo.Part().of()": '"package"',
        "new Pair(3, 4).sum()": "7",
        "Pair.class.getSimpleName()": '"Pair"',
    },
    "other": {"new Part().of()": '"other"'},
    "derived": {
        "name": '"derived"',
        "super.name": '"base"',
        "super.name.length() + super.count": "5",
        "((Base) this).name": '"base"',
        "new Part().of()": '"derived"',
    },
}
REFUSED = {
    "before": {"new Pair(1, 2)": "there is no class Pair here"},
    "after": {
        "new Using().sum()": "Using is a local class that uses the variable base around it",
        "Level.LOW": "is named Level here",
        "java.util.stream.Stream.of(1).map(n -> new Part().of()).count()": "Part is a local class",
    },
}


@pytest.fixture(scope="module")
def told() -> Iterator[dict[str, dict[str, str]]]:
    """The values, or else errors, by mark and expression."""
    with java_benches() as open_one:
        bench = open_one()
        bench.write({"demo/Program.java": NAMES})
        points = [bench.at(mark, "demo/Program.java") for mark in MARKS]
        bench.start(*points, test="demo.Program")
        answers = dict[str, dict[str, str]]()
        for mark in MARKS:
            expressions = [*VALUES[mark], *REFUSED.get(mark, {})]
            answers[mark] = {each: answer(bench, each) for each in expressions}
            bench.debugger.control(Action.CONTINUE)
        yield answers


def answer(bench: JavaBench, expression: str) -> str:
    event = bench.debugger.evaluate(expression)
    return event.error or event.values[0].text


@pytest.mark.parametrize("mark", VALUES)
def test_a_name_means_what_it_means_there(told: dict[str, dict[str, str]], mark: str) -> None:
    assert {each: told[mark][each] for each in VALUES[mark]} == VALUES[mark]


@pytest.mark.parametrize("mark", REFUSED)
def test_what_it_cannot_mean_is_refused_with_the_reason(
    told: dict[str, dict[str, str]], mark: str
) -> None:
    for expression, reason in REFUSED[mark].items():
        assert reason in told[mark][expression]
