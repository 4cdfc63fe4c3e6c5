"""The debug tools' arguments, and what they say in each language."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from typing import Any

import pytest

from collect.agents.config import AgentsConfig
from collect.agents.debug2fix import (
    DEBUG_TOOLS_ONLY,
    SYSTEMS,
    TOOL_LIMIT,
    main_prompt,
    subagent_prompt,
    subagent_toolbox,
)
from collect.agents.debug_tools import DebugCallsTogether, breakpoint_request, debug_tools
from collect.agents.prompts import WORDINGS, wording
from collect.agents.tools import Answered, Toolbox, ToolReply
from collect.errors import ConfigError
from collect.store.messages import ToolCall
from collect.store.records import ToolOutcome
from sandbox import SandboxConfig, open_sandbox
from sandbox.debugger import BreakpointRequest, DebugLimits, open_debugger
from sandbox.debugger.rendering import CODE_RAN

OTHER_LANGUAGE = {
    "python": (".java", "mvn", "NullPointerException"),
    "java": (".py", "pytest", "KeyError"),
}


@pytest.mark.parametrize(
    ("location", "request_"),
    [
        ("shop/cart.py:42", BreakpointRequest(file="shop/cart.py", line=42)),
        (" src/A.java:7 ", BreakpointRequest(file="src/A.java", line=7)),
        ("src/A.java:7-9", BreakpointRequest(file="src/A.java", line=7)),
        ("Cart.total()", BreakpointRequest(function="Cart.total")),
        ("shop/cart.py:total", BreakpointRequest(function="shop/cart.py:total")),
        ("Calc.total(int, String)", BreakpointRequest(function="Calc.total(int, String)")),
        ("exception KeyError", BreakpointRequest(exception="KeyError")),
        ("exception: java.io.IOException", BreakpointRequest(exception="java.io.IOException")),
        ("shop/cart.py:42 if n > 1", BreakpointRequest("shop/cart.py", 42, condition="n > 1")),
        (
            "Cart.total if x if y else z",
            BreakpointRequest(function="Cart.total", condition="x if y else z"),
        ),
        ("uncaught exception KeyError", BreakpointRequest(exception="KeyError", uncaught=True)),
        ("exception", BreakpointRequest(function="exception")),
    ],
)
def test_locations(location: str, request_: BreakpointRequest) -> None:
    assert breakpoint_request(location) == request_


def test_a_breakpoint_keeps_its_options() -> None:
    expected = BreakpointRequest(exception="KeyError", condition="x", temporary=True)
    assert breakpoint_request("exception KeyError", "x", temporary=True) == expected


@pytest.mark.parametrize("language", WORDINGS)
def test_each_language_is_spoken_to_in_its_own_terms(language: str) -> None:
    values = wording(language)
    with open_sandbox(SandboxConfig()) as sandbox:
        debugger = open_debugger("python", sandbox, DebugLimits())
        tools = debug_tools(debugger, run_code=True)
        schemas = json.dumps(Toolbox(tools, values).schemas())
    prompts = [main_prompt(system, values) for system in SYSTEMS] + [
        subagent_prompt(values, AgentsConfig(start_session=start)) for start in ("auto", "model")
    ]
    for text in (schemas, *prompts):
        assert not any(term in text for term in OTHER_LANGUAGE[language])
        assert not any("{" + name + "}" in text for name in values)
    assert values["location"] in schemas


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"pom.xml": b"", "src/A.java": b""}, "mvn -q test"),
        ({"build.gradle.kts": b"", "settings.gradle.kts": b"a = 1"}, "gradle test"),
        ({"settings.gradle": b"include 'shop'"}, "gradle :MODULE:test"),
        ({"pom.xml": b"", "build.gradle": b""}, "mvn -q test"),
    ],
)
def test_a_java_prompt_names_the_projects_build_tool(files: dict[str, bytes], command: str) -> None:
    prompt = main_prompt(TOOL_LIMIT, wording("java", files))
    assert f"    {command}" in prompt


@pytest.mark.parametrize("language", WORDINGS)
def test_the_compact_form_takes_the_same_calls_in_less_than_half_the_text(language: str) -> None:
    values, size = wording(language), dict[str, int]()
    with open_sandbox(SandboxConfig()) as sandbox:
        debugger = open_debugger("python", sandbox, DebugLimits())
        for form in ("full", "compact"):
            config = AgentsConfig(subagent_form=form, start_session="model")
            schemas = subagent_toolbox(debugger, sandbox, config, values).schemas()
            text = subagent_prompt(values, config) + json.dumps(schemas)
            size[form] = len(text)
            assert "{" + "file_tools}" not in text
            assert "- list_files, grep, read_file: " in text
    assert size["compact"] < 0.5 * size["full"]
    assert all(f"`{name}`" in text for name in ("temporary", "hits", "start"))
    shown = {each["function"]["name"]: each["function"]["parameters"] for each in schemas}
    whole = subagent_toolbox(debugger, sandbox, AgentsConfig(), values).schemas()
    for schema in whole:
        function = schema["function"]
        lean = shown[function["name"]]
        assert lean["properties"].keys() == function["parameters"]["properties"].keys()
        assert lean.get("required") == function["parameters"].get("required")
        assert lean["additionalProperties"] is False
    assert shown["debug_breakpoint"]["properties"]["number"] == {"type": "integer"}
    assert "description" not in json.dumps(schemas)


def test_without_file_tools_none_is_told_of() -> None:
    for form in ("full", "compact"):
        config = AgentsConfig(subagent_form=form, sub_file_tools=False)
        text = subagent_prompt(wording("python"), config)
        assert not any(name in text for name in ("read_file", "grep", "list_files", "{f"))


def test_the_fifth_tool_is_told_of_only_where_it_is_offered() -> None:
    values = wording("python")
    for run_code in (False, True):
        text = subagent_prompt(values, AgentsConfig(debug_run_code=run_code))
        assert ("\n- debug_run_code: " in text) is run_code
        assert "{debug_run_code}" not in text


def test_who_debugs_is_told_what_a_stop_shows_and_what_a_failed_call_holds_back() -> None:
    values = wording("python")
    subagent = subagent_prompt(values, AgentsConfig())
    for text in (main_prompt(DEBUG_TOOLS_ONLY, values), subagent):
        assert "A stop shows the program before the line marked `->` runs" in text
        assert "later calls of the same message" in text
        assert "{debugging}" not in text


def test_code_is_run_in_the_frame_that_is_named() -> None:
    with open_sandbox(SandboxConfig()) as sandbox:
        sandbox.write_file("program.py", PYTHON)
        with closing(open_debugger("python", sandbox, DebugLimits())) as debugger:
            tools = Toolbox(debug_tools(debugger, run_code=True))

            def call(name: str, **arguments: Any) -> ToolReply:
                return tools.call(ToolCall("1", name, json.dumps(arguments)))

            assert call("debug_run_code", code="n = 1").outcome is ToolOutcome.REFUSED
            call("debug_start_session", test="program.py", breakpoints=["look"])
            call("debug_control", action="continue")
            assert "n = 1" in call("debug_run_code", code="print('n =', n - 199)").text
            changed = call("debug_run_code", code="n = 3", frame=1)
            assert (changed.outcome, changed.text) == (ToolOutcome.OK, CODE_RAN)
            raised = call("debug_run_code", code="1 / 0")
            assert raised.outcome is ToolOutcome.ERROR
            assert "ZeroDivisionError" in raised.text
            assert call("debug_run_code", code="").outcome is ToolOutcome.INVALID
            assert "n = 3 " in call("debug_inspect", what="evaluate", expression="n", frame=1).text


PYTHON = b"""\
def look(n):
    items = list(range(n))
    try:
        return {}[n]
    except KeyError:
        return len(items)


for n in (200, 300):
    look(n)
"""
JAVA = b"""\
import java.util.*;

public class Main {
    static int look(int n) {
        List<Integer> items = new ArrayList<>(Collections.nCopies(n, 7));
        try {
            return new HashMap<Integer, Integer>().get(n);
        } catch (NullPointerException error) {
            return items.size();
        }
    }

    public static void main(String[] args) {
        for (int n : new int[] {200, 300}) {
            look(n);
        }
    }
}
"""
needs_javac = pytest.mark.skipif(shutil.which("javac") is None, reason="there is no JDK here")


@pytest.mark.parametrize(
    ("language", "file", "text", "exception", "handler"),
    [
        ("python", "program.py", PYTHON, "KeyError", 6),
        pytest.param(
            "java",
            "Main.java",
            JAVA,
            "NullPointerException",
            9,
            marks=[needs_javac, pytest.mark.slow],
        ),
    ],
)
def test_the_tools_do_the_same_in_each_language(
    language: str, file: str, text: bytes, exception: str, handler: int
) -> None:
    test = file if language == "python" else "Main"
    with open_sandbox(SandboxConfig()) as sandbox:
        sandbox.write_file(file, text)
        with closing(open_debugger(language, sandbox, DebugLimits())) as debugger:
            tools = Toolbox(debug_tools(debugger))

            def call(name: str, **arguments: Any) -> str:
                reply = tools.call(ToolCall("1", name, json.dumps(arguments)))
                assert reply.outcome is ToolOutcome.OK, reply.text
                return reply.text

            points = [f"exception {exception}"]
            stop = call("debug_start_session", test=test, breakpoints=points, stop_at_test=False)
            assert stop.startswith(f"Paused at {file}:{handler - 2} in ")
            assert "(exception, breakpoint 1)" in stop
            assert "look | return" in call("debug_inspect", what="threads")
            page = call("debug_inspect", what="fields", expression="items", start=190)
            assert page.splitlines()[1].startswith("[190] = ")
            assert page.count("\n") == 10
            assert "#0 " not in call("debug_inspect", what="stack", start=1)
            place = f"{file}:{handler}"
            assert "temporary" in call(
                "debug_breakpoint", action="set", location=place, temporary=True
            )
            assert "(breakpoint 2)" in call("debug_control", action="continue")
            assert place not in call("debug_breakpoint", action="list")


def test_an_action_that_is_refused_names_the_calls_that_are_possible() -> None:
    with (
        open_sandbox(SandboxConfig()) as sandbox,
        closing(open_debugger("python", sandbox, DebugLimits())) as debugger,
    ):
        tools = Toolbox(debug_tools(debugger))
        refused = tools.call(ToolCall("1", "debug_control", '{"action": "continue"}'))
        listed = tools.call(ToolCall("2", "debug_breakpoint", '{"action": "list"}'))
        sandbox.write_file("program.py", b"x = 1\n")
        start = {"test": "program.py", "stop_at_test": False}
        tools.call(ToolCall("3", "debug_start_session", json.dumps(start)))
        collect = {"action": "collect", "location": "program.py:1"}
        ended = tools.call(ToolCall("4", "debug_breakpoint", json.dumps(collect)))
    assert refused.outcome is ToolOutcome.REFUSED
    assert refused.text.endswith("Call debug_start_session first.")
    assert "list_breakpoints" not in listed.text
    assert ended.text == (
        "Error (not_allowed): this is not possible after the program has ended; nothing changed\n"
        "The debugger now allows: debug_control restart, debug_breakpoint set/remove/list, "
        "debug_start_session, debug_control terminate"
    )


CLAMP = """\
def clamp(value, low):
    if value < low:
        raise ValueError(f"{value} is below {low}")
    return value


def total(values):
    result = 0
    for value in values:
        result += clamp(value, 0)
    return result


def test_total():
    assert total([1, 2]) == 4
"""


def test_what_the_tools_tell_a_model_is_true_and_complete() -> None:
    with (
        open_sandbox(SandboxConfig()) as sandbox,
        closing(open_debugger("python", sandbox, DebugLimits())) as debugger,
    ):
        sandbox.write_file("test_sums.py", CLAMP.encode())
        tools = Toolbox(debug_tools(debugger, run_code=True))

        def call(name: str, **arguments: Any) -> str:
            return tools.call(ToolCall("1", name, json.dumps(arguments))).text

        points = ["test_sums.py:10 if value > 0", "test_sums.py:11"]
        stop = call("debug_start_session", test="test_sums.py::test_total", breakpoints=points)
        assert stop.splitlines()[-3:] == [
            "Breakpoints:",
            "1: test_sums.py:10 if value > 0, hit 0 times",
            "2: test_sums.py:11, hit 0 times",
        ]
        assert "(breakpoint 1)" in call("debug_control", action="continue")
        again = call("debug_control", action="continue").splitlines()
        assert again == [
            "Paused at test_sums.py:10 in total (breakpoint 1, hit 2)",
            "-> *    10          result += clamp(value, 0)",
        ]
        raised = call("debug_inspect", what="evaluate", expression="total([-1])")
        assert raised == (
            "Error (evaluation): ValueError: -1 is below 0, raised at test_sums.py:3 in clamp, "
            "called from test_sums.py:10 in total"
        )
        long = " + ".join(f"result * {n}" for n in range(20))
        told = call("debug_inspect", what="evaluate", expression=long)
        assert told.startswith("result * 0 + result * 1")
        assert len(told) < 80
        call("debug_run_code", code="values.append(1)")
        call("debug_breakpoint", action="remove", number=1)
        call("debug_breakpoint", action="remove", number=2)
        ended = call("debug_control", action="continue")
    assert ended.splitlines() == [
        "Program ended with exit code 0",
        "Note: test_sums.py::test_total passed in this run",
        "Note: code that you ran in the program may have changed this run; the files are as they "
        "were",
    ]


def test_watching_and_collecting_take_one_call() -> None:
    with (
        open_sandbox(SandboxConfig()) as sandbox,
        closing(open_debugger("python", sandbox, DebugLimits())) as debugger,
    ):
        sandbox.write_file("test_sums.py", CLAMP.encode())
        tools = Toolbox(debug_tools(debugger))

        def call(name: str, **arguments: Any) -> ToolReply:
            return tools.call(ToolCall("1", name, json.dumps(arguments)))

        call("debug_start_session", test="test_sums.py::test_total", watch=["result", "value"])
        where = "test_sums.py:10 if value > 1"
        assert call("debug_breakpoint", action="set", location=where, watch=["[value]"]).event
        stop = call("debug_control", action="continue").text
        assert stop.splitlines()[-4:] == [
            "Watched:",
            "result = 1  (int)",
            "value = 2  (int)",
            "[value] = [2]  (list)",
        ]
        call("debug_start_session", test="test_sums.py::test_total")
        told = call(
            "debug_breakpoint",
            action="collect",
            location="test_sums.py:10",
            watch=["result", "value", "gone"],
            hits=2,
        )
        assert told.outcome is ToolOutcome.OK
        assert told.text.splitlines() == [
            "Paused at test_sums.py:10 in total (collected hit 2)",
            "->      10          result += clamp(value, 0)",
            "Collected at test_sums.py:10 in total, before the line ran:",
            "hit | result | value | gone",
            "1 | 0 | 1 | (NameError: name 'gone' is not defined)",
            "2 | 1 | 2 | (same error)",
            "Note: more hits may follow: collect again to go on",
        ]
        placed = {"action": "set", "location": "test_sums.py:10-11", "hits": 2}
        assert call("debug_breakpoint", **placed).text.splitlines() == [
            "Breakpoint set:",
            "2: test_sums.py:10, hit 0 times",
            "Note: set at line 10 of the range alone",
            "Note: `hits` is for collect alone: every hit stops",
        ]
        assert call("debug_breakpoint", action="collect").outcome is ToolOutcome.INVALID
        assert call("debug_breakpoint", action="collect", location="x", hits=0).event is None


def test_a_language_without_wording_is_refused() -> None:
    with pytest.raises(ConfigError, match="not on 'cobol'"):
        wording("cobol")


SET, COLLECT, STEP, RESTART, START = (
    ToolCall("", name, json.dumps(given))
    for name, given in (
        ("debug_breakpoint", {"action": "set"}),
        ("debug_breakpoint", {"action": "collect"}),
        ("debug_control", {"action": "step_out"}),
        ("debug_control", {"action": "restart"}),
        ("debug_start_session", {}),
    )
)


@pytest.mark.parametrize(
    ("earlier", "call", "held"),
    [
        ([(STEP, False)], COLLECT, True),
        ([(STEP, False), (START, True)], COLLECT, False),
        ([(SET, False), (START, False)], STEP, True),
        ([(SET, False), (START, True)], RESTART, False),
        ([(STEP, False), (COLLECT, False)], RESTART, False),
        ([(STEP, False), (RESTART, True), (SET, True)], STEP, False),
        ([(SET, False), (STEP, False)], RESTART, True),
    ],
)
def test_a_start_makes_up_for_what_failed_before(
    earlier: list[tuple[ToolCall, bool]], call: ToolCall, held: bool
) -> None:
    outcomes = {True: ToolOutcome.OK, False: ToolOutcome.REFUSED}
    answered = [Answered(each, ToolReply("", outcomes[done]), 0.0) for each, done in earlier]
    assert (DebugCallsTogether().refusal(call, answered) is not None) == held
