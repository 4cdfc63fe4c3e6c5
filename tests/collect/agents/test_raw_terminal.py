"""The ablation: the debugger's terminal as a tool, and the protocol over it in a whole rollout."""

from __future__ import annotations

import threading

from collect.agents.config import AgentsConfig, Variant
from collect.agents.raw_terminal import RawTerminalArguments, raw_terminal
from collect.agents.rollout_context import Player
from collect.benchmarks.bundled import BundledBenchmark
from collect.models.base import Sampling
from collect.models.config import OracleConfig
from collect.oracle.backend import OracleBackend
from collect.rollouts.rollout import RolloutSettings, RolloutSpec, run_rollout
from collect.store.records import ToolOutcome
from sandbox import SandboxConfig, open_sandbox
from sandbox.debugger import DebugLimits, StopReason
from sandbox.debugger.opening import open_terminal

PROGRAM = b"""\
def test_total():
    prices = [3, 4]
    assert sum(prices) == 8
"""


def test_commands_are_typed_at_the_prompt() -> None:
    with open_sandbox(SandboxConfig()) as sandbox:
        sandbox.write_files({"test_cart.py": PROGRAM})
        debugger = open_terminal("python", sandbox, DebugLimits())
        [tool] = raw_terminal(debugger, "test_cart.py::test_total")

        def typed(command: str) -> tuple[str, ToolOutcome]:
            answer = tool.call(RawTerminalArguments(command=command), "c")
            return answer.text, answer.outcome

        text, _ = typed("b test_cart.py:3")
        assert text.count("(Pdb) ") == 2
        assert "Breakpoint 1 at" in text
        assert "-> assert sum(prices) == 8" in typed("c")[0]
        assert typed("p prices") == ("[3, 4]\n(Pdb) ", ToolOutcome.OK)
        assert "control characters" in typed("p 1\x03")[0]
        typed("c")
        typed("q")
        typed("q")
        assert "pytest entry point" in typed("p 1")[0]
        debugger.close()


def test_the_oracle_resolves_a_bug_over_the_terminal() -> None:
    benchmark = BundledBenchmark()
    instance = next(i for i in benchmark.instances() if i.id == "shopcart__negative-base")
    oracle = Player(OracleBackend("o", OracleConfig(backend="oracle")), Sampling(), is_oracle=True)
    agents = AgentsConfig(debugger_backend="terminal")
    settings = RolloutSettings(benchmark, SandboxConfig(), agents, {"o": oracle}, threading.Event())
    spec = RolloutSpec(instance, Variant.DEBUG2FIX_TOOL_LIMIT, "o", "o", 0)
    trace = run_rollout(spec, settings)
    assert trace.failure is None
    assert trace.verdict.resolved
    stops = [row.event.stop_reason for log in trace.logs for row in log.events]
    assert StopReason.BREAKPOINT in stops
