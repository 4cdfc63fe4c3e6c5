"""Basic blocks against hand-made ones: a letter a line, the same letter where the block is."""

from __future__ import annotations

import textwrap

import pytest

from collect.agents.baselines.ldb import statements_of

PROGRAMS = {
    "branches": """
        def f(x):             # a
            y = 1             # b
            if x:             # b
                y = 2         # c
            elif y:           # d
                return 3      # e
            else:
                y = 4         # f
            return y          # g
        """,
    "loops": """
        for i in range(3):    # b
            if i: continue    # c
            while i:          # d
                i -= 1        # e
            else:
                i = 2         # f
        i = [                 # g
            k
            for k in "ab"
        ]
        """,
    "regions": """
        a = 1                 # b
        with open("a") as b:  # c
            c = b             # c
        try:                  # d
            d = 1             # d
        except KeyError:      # e
            d = 2             # f
        except:               # g
            d = 3             # h
        finally:
            e = 4             # i
        match e:              # j
            case 1:           # k
                f = 1         # l
            case _:           # m
                f = 2         # n
        f = 3                 # o
        """,
    "nested functions lie apart": """
        def f(x):             # a
            y = x             # b
            @cache            # b
            def g(z):
                z += 1        # c
                return z      # c
            w = (lambda v:    # b
                 v + 1)
            return g(w)       # b
        h = f                 # a
        """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_blocks_are_those_of_the_control_flow_graph(name: str) -> None:
    code = textwrap.dedent(PROGRAMS[name]).strip("\n")
    marked = {
        number: line.rpartition("# ")[2]
        for number, line in enumerate(code.splitlines(), 1)
        if "# " in line
    }
    found = statements_of(code)
    assert found.keys() == marked.keys()
    first = {letter: line for line, letter in reversed(marked.items())}
    assert {line for line, each in found.items() if each.leads} == set(first.values())


def test_a_statement_spans_its_lines_and_a_header_its_own() -> None:
    found = statements_of("if (a and\n        b):\n    c = [\n        1\n    ]\n")
    assert [(each.first, each.last) for each in found.values()] == [(1, 2), (3, 5)]
