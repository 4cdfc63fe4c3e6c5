"""The debug tools' arguments, and what they say in each language."""

from __future__ import annotations

import json

import pytest

from collect.agents.config import Variant
from collect.agents.debug2fix import main_prompt
from collect.agents.debug_tools import breakpoint_request, debug_tools
from collect.agents.prompts import prompt
from collect.agents.tools import Toolbox
from collect.agents.wording import WORDINGS, wording
from collect.errors import ConfigError
from sandbox import SandboxConfig, open_sandbox
from sandbox.debugger import BreakpointRequest, DebugLimits
from sandbox.debugger.opening import open_debugger

OTHER_LANGUAGE = {
    "python": (".java", "mvn", "NullPointerException"),
    "java": (".py", "pytest", "KeyError"),
}


@pytest.mark.parametrize(
    ("location", "request_"),
    [
        ("shop/cart.py:42", BreakpointRequest(file="shop/cart.py", line=42)),
        (" src/A.java:7 ", BreakpointRequest(file="src/A.java", line=7)),
        ("Cart.total()", BreakpointRequest(function="Cart.total")),
        ("shop/cart.py:total", BreakpointRequest(function="shop/cart.py:total")),
        ("Calc.total(int, String)", BreakpointRequest(function="Calc.total(int, String)")),
        ("exception KeyError", BreakpointRequest(exception="KeyError")),
        ("exception: java.io.IOException", BreakpointRequest(exception="java.io.IOException")),
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
    values = wording(language).values()
    with open_sandbox(SandboxConfig()) as sandbox:
        debugger = open_debugger("python", sandbox, DebugLimits())
        schemas = json.dumps(Toolbox(debug_tools(debugger), values).schemas())
    prompts = [main_prompt(variant, values) for variant in Variant] + [prompt("subagent", **values)]
    for text in (schemas, *prompts):
        assert not any(term in text for term in OTHER_LANGUAGE[language])
        assert not any("{" + name + "}" in text for name in values)
    assert values["location"] in schemas


def test_a_language_without_wording_is_refused() -> None:
    with pytest.raises(ConfigError, match="not on 'cobol'"):
        wording("cobol")
