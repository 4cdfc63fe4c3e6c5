"""Arguments that break a tool's schema: the record has what the model wrote, and what was done."""

from __future__ import annotations

import json
from pathlib import Path

from collect.store.records import ToolOutcome
from collect.store.run_store import RunStore
from stepinto import main
from tests.collect.models.chat_server import ChatServer, collect_from, reply


def test_what_was_carried_out_stands_beside_what_was_said(
    server: ChatServer, tmp_path: Path
) -> None:
    said = '{"command": "echo done", "timeout": "30"}'
    call = {"id": "c", "function": {"name": "bash", "arguments": said}}
    server.will_answer(reply(tool_calls=[call]), reply("Nothing to change."))
    main(collect_from(server, tmp_path, "collect.benchmark.limit=1", "runner.again=0"))
    (conversation,) = RunStore(tmp_path / "test").read_conversations()
    [asked, answered, _] = conversation.messages[2:]
    assert asked.message.tool_calls[0].arguments == said
    assert (answered.tool_outcome, answered.message.content) == (ToolOutcome.OK, "done")
    assert json.loads(answered.carried_out or "") == {"command": "echo done", "timeout": 30}
    sent = server.requests[-1]["messages"][2]["tool_calls"][0]["function"]["arguments"]
    assert sent == said, "the model is sent back what it wrote"
    (log,) = (tmp_path / "test").glob("logs/*")
    assert '"read_by_schema": true' in log.read_text()
