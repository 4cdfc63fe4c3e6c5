"""The ReAct form (InspectCoder, listing 1): a thought, then calls in a fenced block."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from textwrap import dedent

from collect.agents.inspectcoder.code_blocks import FENCE, fenced_blocks, syntax_problem
from collect.agents.tools import ActionForm, Answered, MalformedAction, TextForm
from collect.code.syntax import literal, parse
from collect.store.messages import Message, ToolCall

PARAMETERS = {
    "set_breakpoint": "line",
    "control_execution": "cmd",
    "interact_code": "code",
    "propose_repair": "plan",
}
"""The one parameter of each action (InspectCoder, section 2.3.1)."""
CALL = re.compile(r"^[ \t]*(?:>[ \t]*)?([A-Za-z_]\w*)[ \t]*\(", re.MULTILINE)
QUOTES = ('"""', "'''", '"', "'")
END_OF_CALL = re.compile(r"\)[ \t]*+;?[ \t]*+(?:#[^\n]*)?$")


class UnreadableAction(Exception):
    """A block without a readable call; the message says what is wrong."""


@dataclass(frozen=True)
class ActionCall:
    name: str
    arguments: dict[str, object]

    @property
    def json(self) -> str:
        return json.dumps(self.arguments)


def parse_actions(block: str) -> list[ActionCall]:
    """The calls of an action block, in order. Raises UnreadableAction."""
    block = block.strip("\n")
    try:
        actions = [_from_statement(statement) for statement in parse(_dedented(block)).body]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _parse_loosely(block)
    if not actions:
        raise UnreadableAction("The action block is empty.")
    return actions


def call_text(action: ActionCall) -> str:
    """A call as written in a block."""
    return f"{action.name}({', '.join(map(_literal, action.arguments.values()))})"


def _literal(value: object) -> str:
    if not isinstance(value, str):
        return repr(value)
    if "\n" not in value:
        return json.dumps(value, ensure_ascii=False)
    quotes = '"""' if '"""' not in value and not value.endswith('"') else "'''"
    # A parser treats "\r" as a line end, and rejects other control characters.
    odd = any(character < " " and character not in "\n\t" for character in value)
    if odd or "\\" in value or quotes in value:
        return repr(value)
    return f"{quotes}{value}{quotes}"


def _from_statement(statement: ast.stmt) -> ActionCall:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        shown = ast.unparse(statement).splitlines()[0][:80]
        raise UnreadableAction(
            f"`{shown}` is not an action. An action block holds nothing but calls of "
            f"{', '.join(PARAMETERS)}; code to run in the program goes inside interact_code(...)."
        )
    parameter = PARAMETERS.get(call.func.id, "argument")
    if len(call.args) > 1:
        raise UnreadableAction(
            f"{call.func.id} takes one argument, not {len(call.args)}; call it once for each."
        )
    values = [(parameter, node) for node in call.args]
    values += [(keyword.arg or parameter, keyword.value) for keyword in call.keywords]
    # Code that is no literal stays its text, since models forget the quotes.
    texts = {name: ast.unparse(node) for name, node in values}
    return ActionCall(call.func.id, {name: _plain(text, text) for name, text in texts.items()})


def _plain(text: str, otherwise: str | None) -> str | int | None:
    """A literal's value if it is a text or an integer of a usual size, else `otherwise`."""
    try:
        value = literal(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return otherwise
    if isinstance(value, int):
        return otherwise if isinstance(value, bool) or value.bit_length() > 64 else value
    return value if isinstance(value, str) else otherwise


def _parse_loosely(block: str) -> list[ActionCall]:
    starts = [mark for mark in CALL.finditer(block) if mark[1] in PARAMETERS]
    if not starts:
        raise UnreadableAction(
            "No action could be read in the block. It must hold calls such as set_breakpoint(11), "
            'control_execution("continue") or interact_code("print(x)"), one a line.'
        )
    ends = [*(mark.start() for mark in starts[1:]), len(block)]
    actions = []
    for mark, end in zip(starts, ends, strict=True):
        name, rest = mark[1], block[mark.end() : end].rstrip()
        closed = END_OF_CALL.search(rest, rest.rfind("\n") + 1)
        if closed is None:
            raise UnreadableAction(f"{name}(...) has no closing parenthesis.")
        text = re.sub(rf"^{PARAMETERS[name]}\s*=\s*", "", rest[: closed.start()].strip())
        actions.append(ActionCall(name, {PARAMETERS[name]: _unquoted(name, text)}))
    return actions


def _unquoted(name: str, text: str) -> object:
    value = _plain(text, None)
    if value is not None:
        return value
    for quotes in QUOTES:
        if text.startswith(quotes) and len(text) >= 2 * len(quotes):
            if not text.endswith(quotes):
                raise UnreadableAction(
                    f"The argument of {name} begins with {quotes} and never ends."
                )
            return text[len(quotes) : -len(quotes)]
    if not text:
        raise UnreadableAction(f"{name} needs its argument, `{PARAMETERS[name]}`.")
    return text


def _dedented(block: str) -> str:
    """A uniformly indented block without its indent, and without prompts like `> `."""
    lines = re.sub(r"^[ \t]*>[ \t]+(?=\w+\()", "", block, flags=re.MULTILINE).split("\n")
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    common = min(indents, default=0)
    return "\n".join(line[common:] for line in lines)


ACTION = re.compile(r"^#{1,6}[ \t]*ACTIONS?[ \t]*+:?[ \t]*+$", re.MULTILINE | re.IGNORECASE)
OBSERVATION = re.compile(
    r"^(?:#{1,6}[ \t]*OBSERVATION\b|OBSERVATION[ \t]*:)", re.MULTILINE | re.IGNORECASE
)
HOW_TO_ACT = (
    'Respond with one "### THOUGHT" and one "### ACTION" that holds a ```...``` block of actions. '
)
STATE_HEADING = "## PDB Session State"
"""Heading of `InspectorSession.state_text` in answers and in the task's prompt."""
WARN_AT = 2
MAX_FENCES = 50
"""Maximum fences to try as the end of a block."""


def few_steps(steps_left: int) -> str:
    """A warning if few steps are left; else empty, also after the last, of which a message of its
    own tells."""
    if not 0 < steps_left <= WARN_AT:
        return ""
    if steps_left == 1:
        return "You have 1 step left; propose a repair in it."
    return f"You have {steps_left} steps left; propose a repair within them."


def state_section(state: Callable[[], str] | None) -> str:
    """The session's state under its heading; empty if there is none."""
    return f"{STATE_HEADING}\n{state()}" if state else ""


class InspectorTools(ActionForm):
    """Tool calls; the last answer to a reply shows the session's state if it has changed."""

    def __init__(self, state: Callable[[], str] | None = None) -> None:
        """`state` returns the session's state, which the task has shown as it is now."""
        self._state = state
        self._shown = state_section(state)

    def reminder(self, steps_left: int) -> str:
        shown, self._shown = self._shown, state_section(self._state)
        state = self._shown if self._shown != shown else ""
        return "\n\n".join(part for part in (state, few_steps(steps_left)) if part)


class ReactForm(TextForm):
    """Thought, action block, and one observation of all its calls, in order."""

    stop = ("\n### OBSERVATION", "\n### Observation", "\nObservation:")

    read = staticmethod(parse_actions)
    """The actions of a block. Raises UnreadableAction."""
    write = staticmethod(call_text)
    """An action as written in a block."""

    def __init__(self, state: Callable[[], str] | None = None) -> None:
        """`state` returns the session's state, which is shown after each observation."""
        self.state = state

    def calls(self, reply: Message, step: int) -> Sequence[ToolCall]:
        try:
            actions = self.read(action_block(reply.said))
        except UnreadableAction as error:
            raise MalformedAction(f"### OBSERVATION\n{error} {HOW_TO_ACT}{self._shown()}") from None
        return [
            ToolCall(f"action_{step}_{index}", action.name, action.json)
            for index, action in enumerate(actions)
        ]

    def observation(self, answered: Sequence[Answered], left_out: int, steps_left: int) -> str:
        parts = []
        for each in answered:
            call = ActionCall(each.call.name, json.loads(each.call.arguments))
            parts.append(f"> {self.write(call)}\n{each.reply.text}")
        if left_out:
            parts.append(f"({left_out} more actions were left out after this error.)")
        if warning := few_steps(steps_left):
            parts.append(warning)
        return "### OBSERVATION\n" + "\n\n".join(parts) + self._shown()

    def _shown(self) -> str:
        return f"\n\n{state_section(self.state)}" if self.state else ""


class TerminalForm(ReactForm):
    """Blocks of pdb commands, one per line, up to a proposal."""

    stops_at_error = False

    @staticmethod
    def read(block: str) -> list[ActionCall]:
        commands: list[ActionCall] = []
        lines = [line for line in block.splitlines() if line.strip()]
        for number, line in enumerate(lines):
            if line.strip().startswith("propose_repair("):
                return [*commands, *parse_actions("\n".join(lines[number:]))]
            commands.append(ActionCall("debugger", {"command": line.rstrip()}))
        return commands

    @staticmethod
    def write(action: ActionCall) -> str:
        typed = action.name == "debugger"
        return str(action.arguments["command"]) if typed else call_text(action)


def action_block(text: str) -> str:
    """The action block of a reply. Raises UnreadableAction if there is none.

    It is the first fenced block after the heading ACTION; models may omit the fence or the heading.
    Observations that they invent are ignored.
    """
    heading = ACTION.search(text)
    body = text[heading.end() :] if heading else text
    made_up = OBSERVATION.search(body)
    if made_up:
        body = body[: made_up.start()]
    blocks = [block for block in fenced_blocks(body) if block.strip()]
    if blocks:
        return _whole(blocks[0], body) if heading else blocks[-1]
    if heading and body.strip():
        return body.strip("\n`")
    raise UnreadableAction("There was no action in your response.")


def _whole(block: str, body: str) -> str:
    """The block, extended to a later fence if that makes it valid: a plan may contain fences."""
    start = body.index(block)
    marks = islice(FENCE.finditer(body, start + len(block)), MAX_FENCES)
    ends = [mark.start() for mark in marks]
    longer = (body[start:end].rstrip("\n") for end in ends)
    return next((text for text in (block, *longer) if not syntax_problem(dedent(text))), block)
