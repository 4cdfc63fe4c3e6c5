"""The Inspector's action blocks, as models write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.agents.inspectcoder.react import (
    PARAMETERS,
    ActionCall,
    UnreadableAction,
    call_text,
    parse_actions,
)


def calls(block: str) -> list[tuple[str, object]]:
    return [(call.name, *call.arguments.values())[:2] for call in parse_actions(block)]  # type: ignore[misc]


LINE = ("set_breakpoint", 11)
GO = ("control_execution", "continue")


def code(text: str) -> tuple[str, str]:
    return "interact_code", text


READABLE = {
    'set_breakpoint(11)\ncontrol_execution("continue")': [LINE, GO],
    "set_breakpoint(11); control_execution('continue')  # go": [LINE, GO],
    "set_breakpoint(line=11)": [LINE],
    '> set_breakpoint(11)\n> control_execution("continue")': [LINE, GO],
    "    set_breakpoint(11)\n    control_execution('continue')": [LINE, GO],
    "# look at the dictionary\ninteract_code(\"print(d['a'])\")": [code("print(d['a'])")],
    'interact_code("print(d["a"])")': [code('print(d["a"])')],
    'interact_code("print(d["a"], (1, 2))")  # nested\nset_breakpoint(11)': [
        code('print(d["a"], (1, 2))'),
        LINE,
    ],
    'interact_code("for x in xs:\n    print(x)")': [code("for x in xs:\n    print(x)")],
    'interact_code("""\nfor x in xs:\n    print(x)\n""")': [code("\nfor x in xs:\n    print(x)\n")],
    "interact_code('''print(\"a\\nb\")''')": [code('print("a\nb")')],
    "interact_code(r\"re.match('\\\\d', x)\")": [code("re.match('\\\\d', x)")],
    "interact_code(print(x))": [code("print(x)")],
    "interact_code(x = 1": None,
    'propose_repair("It isn\'t sorted (line 4), so \\"max\\" fails.")': [
        ("propose_repair", 'It isn\'t sorted (line 4), so "max" fails.')
    ],
    'propose_repair("The cause is that "x" is\nnever set. Set it.")': [
        ("propose_repair", 'The cause is that "x" is\nnever set. Set it.')
    ],
    'interact_code(code="print(1)")': [code("print(1)")],
    'interact_code(code="print("a")")': [code('print("a")')],
    'print("hello")': [("print", "hello")],
}
UNREADABLE = {
    "": "empty",
    "# nothing yet": "empty",
    "x = 3": "is not an action",
    "set_breakpoint(3, 4)": "takes one argument, not 2",
    "set_breakpoint(3": "no closing parenthesis",
    'interact_code("""print(1)': "never ends",
    'interact_code("""print(1': "no closing parenthesis",
    "set_breakpoint()x": "no closing parenthesis",
    "I would like to see the variables first.": "No action could be read",
    "os.system('ls')": "is not an action",
    "set_breakpoint(1) if x else 2": "is not an action",
}


@pytest.mark.parametrize("block", [block for block, expected in READABLE.items() if expected])
def test_a_block_is_read(block: str) -> None:
    assert calls(block) == READABLE[block]


@pytest.mark.parametrize("block", UNREADABLE)
def test_what_is_wrong_with_a_block_is_told(block: str) -> None:
    with pytest.raises(UnreadableAction, match=UNREADABLE[block]):
        parse_actions(block)


def test_an_argument_that_is_missing_is_left_to_the_tool_to_refuse() -> None:
    assert parse_actions("interact_code()") == [ActionCall("interact_code", {})]


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
arguments = {
    "set_breakpoint": st.integers(1, 10**6),
    "control_execution": st.sampled_from(["continue", "restart"]),
    "interact_code": texts,
    "propose_repair": texts,
}
action = st.sampled_from(sorted(PARAMETERS)).flatmap(
    lambda name: arguments[name].map(lambda value: ActionCall(name, {PARAMETERS[name]: value}))
)


@given(st.lists(action, min_size=1, max_size=4))
def test_what_is_written_is_read_back(actions: list[ActionCall]) -> None:
    assert parse_actions("\n".join(map(call_text, actions))) == actions
