"""AutoSD's scripts as models write them, well and badly."""

from __future__ import annotations

import pytest

from collect.agents.baselines.autosd import (
    DebuggerScript,
    Print,
    UnreadableExperiment,
    apply_edits,
    parse_experiment,
)
from sandbox.debugger import Action, BreakpointRequest

PROGRAM = """\
def f(words):
    found = []
    for word in words.split("\\n"):
        if word['a'] > 3 and not found:
            found.append(word.replace("x", ""))
    return found
"""


def debugger_script(text: str) -> DebuggerScript:
    script = parse_experiment(text)
    assert isinstance(script, DebuggerScript)
    return script


def edited(text: str) -> str:
    script = parse_experiment(text)
    assert isinstance(script, list)
    return apply_edits(PROGRAM, script)


@pytest.mark.parametrize(
    "text",
    [
        "b 12 ;; c ;; p total",
        "b 12 ; c ; p total",
        "`b 12 ;; c ;; p total`",
        "break 12\ncontinue\nprint total",
        "(Pdb) b 12 ;; (Pdb) c ;; (Pdb) p total",
        "b line 12 ;; p total",
        "b 12;;c;;p total;;q",
    ],
)
def test_the_same_debugger_script_in_many_hands(text: str) -> None:
    script = debugger_script(text)
    assert script.breakpoints == (BreakpointRequest(line=12),)
    assert script.at_hits == ((Print("total"),),)


def test_breakpoints_name_files_functions_and_conditions() -> None:
    script = debugger_script("b lib/a.py:3, n > 2 ;; tbreak g() ;; c ;; p n")
    assert script.breakpoints == (
        BreakpointRequest(file="lib/a.py", line=3, condition="n > 2"),
        BreakpointRequest(function="g", temporary=True),
    )


def test_what_is_done_differs_by_hit_and_separators_may_be_quoted() -> None:
    script = debugger_script("b 3 ;; c ;; c ;; n ;; p ';;'.join(x) ;; b 9 ;; p (a,\n b)[0]")
    assert script.at_hits == (
        (),
        (Action.STEP_OVER, Print("';;'.join(x)"), BreakpointRequest(line=9), Print("(a,\n b)[0]")),
    )


def test_quotes_that_never_close_hide_no_separator() -> None:
    script = debugger_script("b 3 ;; c ;; p it's ;; p y")
    assert script.at_hits == ((Print("it's"), Print("y")),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("```", "empty"),
        ("b 12 ;; c", "prints nothing"),
        ("p total", "no breakpoint"),
        ("c ;; p total", "no breakpoint"),
        ("b 12 ;; c ;; total", "`total` is not a command"),
        ("b ;; c ;; p x", "`b` is not a command"),
        ("b 1 2 ;; c ;; p x", "names no line"),
        ("p ;; b 3", "`p` is not a command"),
        ("run the test and look", "`run the test and look` is not a command"),
        ("RUN", "not a command"),
        ('REPLACE("a", "b") AND RUN', "not a command"),
        ("\0", "not a command"),
        ('REPLACE(3, "a") AND RUN', "could not be read"),
        ('REPLACE(3, "a", "b", "c" AND RUN', "could not be read"),
        ("REPLACE(3, a, b) AND RUN", "could not be read"),
        ('REPLACE(3, "a", "b"', "could not be read"),
        ('REPLACE(3, "a", "b") AND REPLACE(4, 1, 2) AND RUN', "could not be read"),
        ("REPLACE(3,) AND RUN", "could not be read"),
    ],
)
def test_a_script_that_can_not_be_read_is_explained(text: str, why: str) -> None:
    with pytest.raises(UnreadableExperiment, match=r"REPLACE") as refused:
        parse_experiment(text)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ('REPLACE(4, "not found", "found") AND RUN', "not found", "found"),
        ("replace( line 4 , 'not found' , 'found' ) and run", "not found", "found"),
        ('REPLACE(4, old="not found", new="found") AND RUN', "not found", "found"),
        ('REPLACE(4, """not found""", """found""")', "not found", "found"),
        ('REPLACE(4, "word[\'a\'] > 3", "word["b"] > 3") AND RUN', "['a']", '["b"]'),
        ("REPLACE(4, 'word['a'] > 3', 'word['b'] > 3') AND RUN", "['a']", "['b']"),
        ('REPLACE(5, "replace("x", "")", "replace("y", "")") AND RUN', '"x"', '"y"'),
        (
            'REPLACE(5, "replace(""x"", """")", "strip(""x"")") AND RUN',
            '.replace("x", "")',
            '.strip("x")',
        ),
        ('REPLACE(5, "replace(\\"x\\", ", "replace(\\"y\\", ") AND RUN', '"x"', '"y"'),
        ('REPLACE(3, "split("\\n")", "split("\\t")") AND RUN', '"\\n"', '"\\t"'),
        ("REPLACE(3, 'split(\"\\n\")', 'split(\"\\t\")') AND RUN", '"\\n"', '"\\t"'),
        ("REPLACE(3, '\"\\n\"', '\"\\r\\n\"') AND RUN", '"\\n"', '"\\r\\n"'),
        (
            'REPLACE(2, "    found = []", "    found = []\\n    words = words or {}") AND RUN',
            "    found = []\n",
            "    found = []\n    words = words or {}\n",
        ),
        (
            'REPLACE(2, "found = []\\n    for word", "found = set()\\n    for word") AND RUN',
            "found = []",
            "found = set()",
        ),
    ],
)
def test_quotes_and_escapes_are_read_as_they_were_meant(text: str, old: str, new: str) -> None:
    assert old in PROGRAM
    assert edited(text) == PROGRAM.replace(old, new, 1)


def test_several_edits_count_lines_as_in_the_original() -> None:
    text = (
        'REPLACE(2, "found = []", "seen = 0\\n    found = []") AND REPLACE(4, "3", "4") '
        'AND REPLACE(4, "not ", "") AND RUN'
    )
    after = PROGRAM.replace("found = []", "seen = 0\n    found = []").replace(
        "> 3 and not", "> 4 and"
    )
    assert edited(text) == after


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('REPLACE(4, "absent", "b") AND RUN', "`absent` was not found in line 4, which reads `  "),
        ('REPLACE(40, "a", "b") AND RUN', "There is no line 40: the program has 6 lines."),
        ('REPLACE(0, "a", "b") AND RUN', "There is no line 0"),
        ('REPLACE(4, "", "b") AND RUN', "was not found"),
    ],
)
def test_an_edit_that_does_not_fit_the_program_is_explained(text: str, why: str) -> None:
    with pytest.raises(UnreadableExperiment) as refused:
        edited(text)
    assert why in str(refused.value)


@pytest.mark.parametrize("text", ["x" * 9_000, "b " + "[" * 9_000, "REPLACE(3, " + "'a', " * 9_000])
def test_a_long_script_is_not_repeated_whole(text: str) -> None:
    with pytest.raises(UnreadableExperiment, match=r"REPLACE") as refused:
        parse_experiment(text)
    assert len(str(refused.value)) < 600
