"""A real coding agent, played by a scripted model, debugs through the server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from collect.store.run_store import RunStore
from stepinto import main
from tests.collect.live.conftest import ANSWER, CART, TEST, asked_of, calling
from tests.collect.live.test_clients import COMMAND, wait_until
from tests.collect.models.chat_server import Answer, ChatServer, reply

Call = tuple[str, dict[str, Any]]
FIX = "sed -i 's/round(result)/round(result) + 1/' shop/cart.py"
QUESTION = {"question": "What is result?", "test": TEST, "path": "shop/cart.py", "lines": [5]}
DEBUGGING: list[Call] = [
    ("debug_start_session", {"test": TEST, "breakpoints": ["shop/cart.py:5"]}),
    ("debug_control", {"action": "continue"}),
    ("debug_inspect", {"what": "locals"}),
    ("debug_breakpoint", {"action": "list"}),
    ("debug_subagent", QUESTION),
]


def events(*each: dict[str, Any]) -> Answer:
    """A streamed reply."""
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in each)
    return Answer(body=body, headers={"Content-Type": "text/event-stream"})


def of_responses(number: int, item: dict[str, Any]) -> Answer:
    """A reply of OpenAI's Responses API with one item."""
    usage = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}
    response = {"id": f"resp_{number}", "usage": usage}
    return events(
        {"type": "response.created", "response": response},
        {"type": "response.output_item.done", "item": item},
        {"type": "response.completed", "response": response},
    )


def as_codex(calls: Sequence[Call]) -> list[Answer]:
    said: list[dict[str, Any]] = []
    for number, (name, arguments) in enumerate(calls):
        space = {"namespace": "mcp__stepinto"} if name.startswith("debug_") else {}
        call = {"call_id": f"call_{number}", "name": name, "arguments": json.dumps(arguments)}
        said.append({"type": "function_call", **call, **space})
    text = {"type": "output_text", "text": "Fixed."}
    said.append({"type": "message", "role": "assistant", "content": [text]})
    return [of_responses(number, item) for number, item in enumerate(said)]


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("codex") is None, reason="no codex here: npm install -g @openai/codex"
)
def test_codex_debugs_a_test_and_fixes_it(repo: Path, tmp_path: Path, server: ChatServer) -> None:
    server.will_answer(calling("debug_inspect", what="locals"), reply(ANSWER))
    run, home = tmp_path / "live", tmp_path / "codex"
    arguments = [*COMMAND, *asked_of(server), "--model", "scripted", "--repo", str(repo)]
    arguments += ["--record", str(run), "--test", TEST]
    agent = ChatServer()
    agent.will_answer(*as_codex([*DEBUGGING, ("exec_command", {"cmd": FIX})]))
    home.mkdir()
    (home / "config.toml").write_text(f"""\
model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false
analytics.enabled = false
model_providers.scripted = {{name = "scripted", base_url = "{agent.url}", wire_api = "responses"}}

[mcp_servers.stepinto]
command = {json.dumps(sys.executable)}
args = {json.dumps(arguments)}
required = true
startup_timeout_sec = 120
tool_timeout_sec = 600
""")
    closed = "http://127.0.0.1:9"  # nothing else is to be reached
    given = {"CODEX_HOME": str(home), "HTTPS_PROXY": closed, "HTTP_PROXY": closed}
    free = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    with agent.running():
        subprocess.run(
            ["codex", "exec", *free, "-C", str(repo), f"Fix {TEST}"],
            env=os.environ | given | {"NO_PROXY": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            check=True,
            timeout=300,
        )
    (offered,) = [
        each for each in agent.requests[0]["tools"] if each.get("name") == "mcp__stepinto"
    ]
    assert "Use it when a runtime value decides" in offered["description"]
    assert {each["name"] for each in offered["tools"]} == {
        "debug_environment",
        *(name for name, _ in DEBUGGING),
    }
    assert "result = 33.0" in json.dumps(agent.requests[3]["input"])
    assert "**Answer**: 33.0" in json.dumps(agent.requests[5]["input"])
    assert (repo / "shop/cart.py").read_text() != CART

    # Codex has killed the server by now, whose record goes on to its verdict.
    wait_until(lambda: [each.resolved for each in RunStore(run).read_rollouts()] == [True], 120)
    (rollout,) = RunStore(run).read_rollouts()
    assert (rollout.main_model, rollout.sub_calls) == ("codex-mcp-client", 1)
    assert "+    return round(result) + 1" in rollout.patch
    assert main(["replay", str(run)]) == 0
    assert main(["format", str(run)]) == 0
