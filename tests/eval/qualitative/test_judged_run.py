"""`stepinto eval` with a judge, from the rollouts to the tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepinto import main
from tests.collect.models.chat_server import ChatServer, error, reply

CONFIG = Path(__file__).resolve().parents[3] / "configs" / "quickstart.yaml"


@pytest.mark.slow
def test_a_judge_that_fails_costs_no_table_and_is_asked_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ChatServer().running() as server:
        model = f"{{backend: openai, model: m, base_url: '{server.url}', api_key_env: null"
        arguments = [
            *("eval", str(CONFIG), f"runs_folder={tmp_path}", "run=judged"),
            "eval.pairs=[{main: oracle, sub: oracle}]",
            "eval.benchmark.limit=1",
            f"models.judge={model}, retries: {{max_retries: 0, outage_wait: 0}}}}",
            "eval.judge={model: judge}",
        ]
        results = tmp_path / "judged" / "eval" / "results.json"
        unusable = "models.judge={backend: openai, model: m, api_key_env: NO_SUCH_KEY}"
        assert main([*arguments, unusable]) == 2
        assert results.is_file()
        server.will_answer(error(500, "down"))
        assert main(arguments) == 1
        assert "judge has not judged 1 item yet" in capsys.readouterr().err
        before = {each["name"] for each in json.loads(results.read_text("utf-8"))["figures"]}
        assert "tools_by_step_1" in before
        assert "question_categories" not in before

        server.will_answer(reply("label: root_cause"))
        assert main(arguments) == 0
        found = {each["name"]: each for each in json.loads(results.read_text("utf-8"))["figures"]}
        (row,) = found["question_categories"]["rows"]
        assert row[2] == "Root Cause Analysis"
        assert row[4:] == [1, 100.0, 1]
        page = (tmp_path / "judged" / "eval" / "tables.md").read_text("utf-8")
        assert "## What main agents ask" in page
        assert len(server.requests) == 2
