"""Replies of a model in this process whose tool calls can't be invalid, by llguidance.

A constrained reply is any text, and then any number of calls in the Hermes form: of tools that the
request offers, with arguments that their schemas allow. Calls of the debug tools also give what
their action needs, come when the session allows them, and name places that were shown. Before each
token whatever would lead to another reply is ruled out; among the rest the model chooses as ever.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from llguidance import LLMatcher, LLParserLimits
from llguidance.hf import from_tokenizer

from collect.errors import LocalModelFailed
from collect.models.tool_parsing import CLOSE, OPEN
from collect.store.messages import LEFT_OUT, STARTED, Message, ToolSchema
from sandbox.debugger import ALLOWED, Action, State, read_state

SPACES = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""Arguments as chat templates write them, from which models learn."""
Schema = dict[str, Any]
Places = Mapping[str, Mapping[str, Schema]]
"""What the strings of arguments can be, by tool and argument."""
START, CONTROL = "debug_start_session", "debug_control"
NEEDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    CONTROL: ("action", {}),
    "debug_breakpoint": ("action", {"set": "location", "collect": "location", "remove": "number"}),
    "debug_inspect": ("what", {"evaluate": "expression", "fields": "expression"}),
}
"""By tool: the argument that says what to do, and the one that it needs for it."""
ACTIONS = {
    "set": Action.SET_BREAKPOINT,
    "remove": Action.REMOVE_BREAKPOINT,
    "list": Action.LIST_BREAKPOINTS,
    "collect": Action.CONTINUE,
    "terminate": Action.RESTART,  # nothing is to be ended where nothing can be restarted
}
"""Under other names than the debugger's."""
FILLED = {"minLength": 1}
_ENDS = r"\s\"'`()<>{}*,:;|=\[\]"
PATH = re.compile(
    r"^(?:Paused at |#\d+ )(.+?):\d+ in "
    rf"|(?<![^{_ENDS}])([^{_ENDS}]*[./][^{_ENDS}]*+)",
    re.MULTILINE,
)
"""The debugger's own words tell a name with spaces or brackets too."""
PLAIN = f"{string.ascii_letters}{string.digits}_./-"
"""What a path is told by in a text: other characters would make it slow to rule out."""
RUN, SLASH = re.compile(r"[A-Za-z0-9_./-]+"), re.compile("/")
MOST, MOST_CHARS = 300, 15_000
"""Files, folders or words, and their characters, above which it takes too long to hold a reply to
those shown, and llguidance can give up."""
MOST_BEGUN_CHARS = 60_000
"""The same, of all that the shown paths begin with."""
WORD = re.compile(r"[^\W\d]\w*")
TEST = re.compile(
    r"^Test: (.+)$|((?<![^\s\"'`(])[^\s\"'`(]+\.py(?:::\w+)++(?:\[.{1,1000}?\](?![\]\w-]))?"
    r"|(?<![\w.$])[\w.$]++#\w+)",
    re.MULTILINE,
)


class ConstrainedCalls:
    """Begins the constraints of one model's replies. Thread-safe."""

    def __init__(self, tokenizer: Any, vocabulary: int, end_ids: Collection[int]) -> None:
        """`vocabulary` is the number of the model's scores, which can be more than its tokens."""
        self._tokens = from_tokenizer(tokenizer, n_vocab=vocabulary, eos_token=sorted(end_ids))
        # To llguidance a token such as `<think>` is not its text.
        self._named = {
            text: f"<[{number}]>"
            for text, number in tokenizer.get_added_vocab().items()
            if self._tokens.is_special_token(number)
        }
        unspoken = {OPEN, CLOSE, *tokenizer.all_special_tokens}
        self._words = [token for text, token in self._named.items() if text not in unspoken]

    def begin(self, tools: Sequence[ToolSchema], messages: Sequence[Message]) -> LLMatcher:
        """The constraint of the reply to these messages; without tools it has no call.

        Raises LocalModelFailed if a tool's schema can't be followed.
        """
        grammar = self._grammar([tool["function"] for tool in tools], messages)
        rules, fuel = LLMatcher.grammar_from_lark(grammar), 20_000_000
        # More than its default, at which it gives up on some dozens of files.
        limits = LLParserLimits(initial_lexer_fuel=fuel, step_lexer_fuel=fuel)
        matcher = LLMatcher(self._tokens, rules, limits=limits)
        if matcher.is_error():
            reason = matcher.get_error().partition("\n")[0]
            raise LocalModelFailed(
                f"no call can be held to the tools' schemas: {reason}. "
                "What to do: set constrain_calls: false"
            )
        return matcher

    def _grammar(self, functions: Sequence[Schema], messages: Sequence[Message]) -> str:
        """The grammar of a reply, in llguidance's variant of Lark."""
        names = {function["name"] for function in functions}
        told = [each.content for each in messages if each.role in ("user", "tool")]
        # A shell finds what no message names whole, and what is left out was shown too.
        more = "bash" in names or any(map(_left_out, told))
        shown = "" if more else "\n".join(told)
        paths = {(own or word).rstrip(".") for own, word in PATH.findall(shown)}
        files = sorted(each for each in paths if each.endswith((".py", ".java")))
        if _too_many(files):
            files = []
        # A search for a test finds its name alone.
        tests = set() if "grep" in names else {line or name for line, name in TEST.findall(shown)}
        calls = _calls(functions, _state(messages), _places(shown, files, tests))
        seen = " & ~UNSEEN" if files else ""
        lines = [
            "start: text | to_call calls" if calls else "start: text",
            "text: words PLAIN?",
            # Never two PLAIN in a row: together they could be the tag.
            f"words: (PLAIN? ({' | '.join(self._words)}))*" if self._words else 'words: ""',
            rf"PLAIN: /(?s:.+)/ & ~/(?s:.*{OPEN}.*)/{seen}",
        ]
        if files:
            said = "\n".join(each.content for each in messages if each.role != "assistant")
            lines.append(f"UNSEEN: {_unseen(shown, files, WORD.findall(said.lower()))}")
        if calls:
            opening = self._token(OPEN)
            lines += [
                " | ".join(["to_call: words to_tag", *(f"text {each}" for each in opening)]),
                "to_tag[lazy]: TO_TAG",
                rf"TO_TAG: /(?s:.*{OPEN})/{seen}",
                " | ".join([f'open: "{OPEN}"', *opening]),
                " | ".join([f'close: "{CLOSE}"', *self._token(CLOSE)]),
                r'NEXT: "\n"',
                *calls,
            ]
        return "\n".join(lines)

    def _token(self, tag: str) -> list[str]:
        """The tag as one token, if there is such a token."""
        return [self._named[tag]] if tag in self._named else []


def _unseen(shown: str, files: Sequence[str], words: Collection[str]) -> str:
    """The pattern of texts that name a folder, a file, or a line of a file that was not shown, or
    break off a folder's name, unless at a word that was said."""
    ends = [each[len(each.rstrip(PLAIN)) :] for each in files]
    paths, names = _path_pattern(ends), _one_of(each.rpartition("/")[2] for each in ends)
    runs = set(RUN.findall(shown))
    folders = {run[: at.end()] for run in runs for at in SLASH.finditer(run)}
    known = _path_pattern(folders) if not _too_many(folders) else ".*"
    one = r"[A-Za-z0-9_.\/-]"
    unseen = [
        rf"(/[a-z_.]{one}+\// & ~/{known}/)",  # but `N/A`
        rf"(/{one}*\.(py|java)/ & ~/({paths}|{names})/)",
        rf"(/{one}*\.(py|java):[0-9]/ & ~/({paths}|{_one_of(_lone_names(ends))}):[0-9]/)",
    ]
    # Early, so that the model goes on rightly: of a wrong `pack/` for `package/` only the slash
    # would be ruled out, of `package/mdle.py` only its end.
    tops = {each.partition("/")[0] for each in ends if "/" in each} - {""}
    if cut := {top[:end] for top in tops for end in range(4, len(top))}.difference(words):
        unseen.append(rf"/{_one_of(cut)}[^A-Za-z]/")
    below = [run for run in runs if run.partition("/")[0] in tops]
    begun = {run[:end] for run in below for end in range(1, len(run) + 1)}
    if begun and sum(map(len, begun)) <= MOST_BEGUN_CHARS:
        begun_or_more = rf"{_path_pattern(begun)}|{paths}[.-]{one}*"
        unseen.append(rf"(/{_one_of(tops)}\/{one}+/ & ~/{begun_or_more}/)")
    return rf"/(?s:.*[^A-Za-z0-9_.\/-])?/ ({' | '.join(unseen)}) /(?s:.*)/"


def _lone_names(paths: Sequence[str]) -> list[str]:
    """The names of files that no other of them has: the debugger needs no folder."""
    names = Counter(each.rpartition("/")[2] for each in paths)
    return [name for name, files in names.items() if files == 1]


def _calls(functions: Sequence[Schema], state: State, places: Places) -> list[str]:
    """The rules of a reply's calls; none if no call is possible.

    The state is known up to the first call that can change it.
    """
    bodies = dict[str, str]()
    groups: dict[str, list[str]] = {"look": [], "run": [], "later": []}
    for function in functions:
        first = "run" if function["name"] in (START, CONTROL) else "look"
        for group, at in ((first, state), ("later", State.RUNTIME)):
            schema = _held(function, at, places)
            if schema is not None:
                name = json.dumps(json.dumps(function["name"]) + ', "arguments": ')
                body = f"{name} %json {json.dumps(schema | {'x-guidance': SPACES})}"
                groups[group].append(bodies.setdefault(body, f"call_{len(bodies)}"))
    looks = ["look"] if groups["look"] else []
    runs = ["run (NEXT open later)*"] if groups["run"] else []
    if not looks + runs:
        return []
    return [
        f"calls: {'(look NEXT open)* ' * len(looks)}({' | '.join(looks + runs)})",
        *(
            rf'{group}: "\n{{\"name\": " ({" | ".join(names)}) "}}\n" close'
            for group, names in groups.items()
            if names
        ),
        *(f"{name}: {body}" for body, name in bodies.items()),
    ]


def _held(function: Schema, state: State, places: Places) -> Schema | None:
    """The schema of a tool's arguments; None if the session's state allows no call of it."""
    name: str = function["name"]
    parameters: Schema = function.get("parameters", {"type": "object"})
    properties = parameters.get("properties", {})
    if name == "debug_run_code":
        return parameters if Action.RUN_CODE in ALLOWED[state] else None
    what, needs = NEEDS.get(name, ("", {}))
    if "enum" not in properties.get(what, {}):
        held = {
            argument: _strings(properties[argument], place)
            for argument, place in places.get(name, {}).items()
            if argument in properties
        }
        return parameters | {"properties": properties | held} if held else parameters
    values: dict[str, list[str]] = {}
    for value in properties[what]["enum"]:
        if ACTIONS.get(value, value) in ALLOWED[state]:
            values.setdefault(needs.get(value, what), []).append(value)
    forms = []
    for needed, some in values.items():
        given = _strings(_not_null(properties[needed]), places.get(name, {}).get(needed, FILLED))
        given = given | {"enum": some} if needed == what else given
        held = properties | {what: properties[what] | {"enum": some}, needed: given}
        required = [*parameters.get("required", ()), needed]
        forms.append(parameters | {"properties": held, "required": required})
    return {"anyOf": forms} if forms else None


def _places(shown: str, files: Sequence[str], tests: Collection[str]) -> Places:
    """The tests, files and names that were shown."""
    start = {"test": {"enum": sorted(tests)}} if tests else dict[str, Schema]()
    if not files:
        return {START: start}
    words = set(WORD.findall(shown)) - {"py", "java"}
    name = rf"({_one_of(words)}|<[a-z]+>)" if not _too_many(words) else "[^ .:$()]+"
    function = rf"{name}([.$]({name}|[0-9]+))*(\(\))?"
    raised = r"(uncaught )?exception[: ] ?[\w.$]+"
    file = _one_of({*files, *_lone_names(files)})
    location = rf"^({file}:[0-9]{{1,9}}|{function}|{raised})( if .+)?$"
    place = {"pattern": location}
    return {START: start | {"breakpoints": place}, "debug_breakpoint": {"location": place}}


def _state(messages: Sequence[Message]) -> State:
    """The session's state after these messages; RUNTIME, which allows most, if it can't be seen."""
    for message in reversed(messages):
        if message.role != "user" and message.name not in (START, *NEEDS):
            continue
        if _left_out(message.content):
            return State.RUNTIME
        text = message.content.partition(STARTED)[2] if message.role == "user" else message.content
        state = read_state(text, start=message.name in (None, START))
        if state is not None:
            return state
    return State.START


def _left_out(content: str) -> bool:
    return content.startswith(LEFT_OUT.partition("{")[0])


def _strings(schema: Schema, held: Schema) -> Schema:
    """The schema with all strings in it held to more."""
    if schema.get("type") == "string":
        return schema | held
    inner = dict[str, Any]()
    if "anyOf" in schema:
        inner["anyOf"] = [_strings(each, held) for each in schema["anyOf"]]
    if "items" in schema:
        inner["items"] = _strings(schema["items"], held)
    return schema | inner


def _not_null(schema: Schema) -> Schema:
    if "anyOf" not in schema:
        return schema
    return schema | {"anyOf": [each for each in schema["anyOf"] if each.get("type") != "null"]}


def _too_many(texts: Collection[str]) -> bool:
    return len(texts) > MOST or sum(map(len, texts)) > MOST_CHARS


def _path_pattern(paths: Iterable[str]) -> str:
    return _one_of(paths).replace("/", r"\/")


def _one_of(texts: Iterable[str]) -> str:
    return f"({'|'.join(map(re.escape, sorted(set(texts))))})"
