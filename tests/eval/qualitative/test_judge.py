"""A model that sorts questions, at a real HTTP endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collect.benchmarks.bundled import BundledBenchmark
from collect.config import RunnerConfig, RuntimeConfig
from collect.errors import ConfigError
from collect.models.budget import SPENT
from collect.models.config import OpenAIConfig, OracleConfig, Prices, RelayConfig, Retries
from eval.config import JudgeConfig
from eval.metrics import Arm
from eval.qualitative.judge import Item, JudgeReport, check_judge, read_label
from eval.qualitative.judge import judge as judge_items
from tests.collect.models.chat_server import ChatServer, error, reply

QUESTIONS = ("What is `rate`?", "Why is it wrong?", "Is line 3 reached?")
CATEGORIES = ("local_variable", "root_cause", "code_reachability")
PRICE = 100 * 1e-6
"""Of one reply, with 100 prompt tokens."""


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer().running() as running:
        yield running


INSTANCE = BundledBenchmark().instances()[0]
KEY = (INSTANCE.benchmark, INSTANCE.id)
ARM = Arm("debug2fix", "large", "small")


def items() -> list[Item]:
    return [Item(f"r-{number}", KEY, ARM, 0, text) for number, text in enumerate(QUESTIONS)]


def runtime(server: ChatServer, **runner: Any) -> RuntimeConfig:
    model = OpenAIConfig(
        backend="openai",
        model="judge",
        base_url=server.url,
        api_key_env=None,
        prices=Prices(input=1.0),
        retries=Retries(max_retries=0, outage_wait=0),
    )
    return RuntimeConfig(models={"judge": model}, runner=RunnerConfig(concurrency=1, **runner))


def judge(runtime: RuntimeConfig, folder: Path, listed: list[Item] | None = None) -> JudgeReport:
    config = JudgeConfig(model="judge")
    return judge_items(runtime, config, [INSTANCE], listed or items(), folder)


def labels(report: JudgeReport) -> list[str | None]:
    return [label for _, label in report.judged]


def test_a_second_start_pays_for_nothing_again(server: ChatServer, tmp_path: Path) -> None:
    server.will_answer(*(reply(f"label: {label}") for label in CATEGORIES))
    first = judge(runtime(server), tmp_path)
    assert labels(first) == list(CATEGORIES)
    assert float((tmp_path / SPENT).read_text()) == pytest.approx(3 * PRICE)
    second = judge(runtime(server), tmp_path)
    assert second.judged == first.judged
    assert len(server.requests) == 3
    assert QUESTIONS[0] in server.requests[0]["messages"][0]["content"]


def test_the_same_question_of_two_rollouts_is_asked_once(
    server: ChatServer, tmp_path: Path
) -> None:
    server.will_answer(reply("label: local_variable"))
    twice = [replace(items()[0], id=name) for name in ("r-0", "s-0")]
    assert labels(judge(runtime(server), tmp_path, twice)) == [
        *("local_variable", "local_variable"),
    ]
    assert len(server.requests) == 1


def test_another_question_or_model_is_asked_anew(server: ChatServer, tmp_path: Path) -> None:
    server.will_answer(reply("label: local_variable"))
    judge(runtime(server), tmp_path)
    changed = Item("r-0", KEY, ARM, 0, "What is `net`?")
    judge(runtime(server), tmp_path, [changed])
    assert len(server.requests) == 4


def test_a_reply_in_another_form_is_kept_and_counts_for_nothing(
    server: ChatServer, tmp_path: Path
) -> None:
    server.will_answer(reply("label: root_cause"), reply("It is root_cause."))
    report = judge(runtime(server), tmp_path)
    assert labels(report) == ["root_cause", None, None]
    judge(runtime(server), tmp_path)
    assert len(server.requests) == 3


def test_a_reply_that_holds_half_a_character_is_kept(server: ChatServer, tmp_path: Path) -> None:
    server.will_answer(reply("label: root_cause \ud83d"))
    assert labels(judge(runtime(server), tmp_path)) == [None] * 3
    assert judge(runtime(server), tmp_path).missing == 0
    assert len(server.requests) == 3


def test_failed_requests_are_asked_by_the_next_start(server: ChatServer, tmp_path: Path) -> None:
    server.will_answer(reply("label: local_variable"), error(500, "down"))
    report = judge(runtime(server), tmp_path)
    assert (len(report.judged), report.missing) == (1, 2)
    assert "down" in report.reasons[0]
    server.will_answer(reply("label: root_cause"))
    assert judge(runtime(server), tmp_path).missing == 0
    assert len(server.requests) == 5


def test_it_gives_up_where_nothing_works(server: ChatServer, tmp_path: Path) -> None:
    server.will_answer(error(500, "down"))
    report = judge(runtime(server, give_up_after=2), tmp_path)
    assert (report.missing, report.stopped, len(server.requests)) == (3, True, 2)


def test_it_stays_within_the_budget(server: ChatServer, tmp_path: Path) -> None:
    (tmp_path / SPENT).write_text("0.99985\n")
    server.will_answer(reply("label: root_cause"))
    report = judge(runtime(server, budget_dollars=1.0), tmp_path)
    assert (len(report.judged), report.missing, report.stopped) == (2, 1, True)
    assert "budget" in report.reasons[0]


def test_a_line_that_was_cut_off_is_asked_again(server: ChatServer, tmp_path: Path) -> None:
    server.will_answer(reply("label: root_cause"))
    judge(runtime(server), tmp_path)
    path = tmp_path / "judgements.work.jsonl"
    path.write_text(path.read_text()[:-20])
    assert judge(runtime(server), tmp_path).missing == 0
    assert len(server.requests) == 4


def test_a_line_may_be_cut_within_a_character(server: ChatServer, tmp_path: Path) -> None:
    server.will_answer(reply("label: root_cause"), reply("naïve"))
    judge(runtime(server), tmp_path)
    path = tmp_path / "judgements.work.jsonl"
    written = path.read_bytes()
    path.write_bytes(written[: written.rindex("ï".encode()) + 1])
    assert judge(runtime(server), tmp_path).missing == 0
    assert len(server.requests) == 4
    assert path.read_bytes() == written


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("label: root_cause", "root_cause"),
        (" label:root_cause\n", "root_cause"),
        ("<think>It asks why.\nlabel: none</think>\nlabel: root_cause", "root_cause"),
        ("label: none", "none"),
        ("label: wrong_fix", None),
        ("Label: root_cause", None),
        ("root_cause", None),
        ("label: root_cause.", None),
        ("label: root_cause\nlabel: local_variable", None),
        ("The label is\nlabel: root_cause", None),
        ("", None),
    ],
)
def test_replies_are_read_strictly(text: str, label: str | None) -> None:
    assert read_label(text) == label


def test_a_script_and_a_relay_cannot_judge() -> None:
    scripted = OracleConfig(backend="oracle")
    relay = RelayConfig(backend="relay", student="oracle", teacher="oracle")
    oracle = RuntimeConfig(models={"oracle": scripted, "relay": relay})
    for name in oracle.models:
        with pytest.raises(ConfigError, match="cannot judge"):
            check_judge(oracle, JudgeConfig(model=name))
    with pytest.raises(ConfigError, match="no model 'gpt'"):
        check_judge(oracle, JudgeConfig(model="gpt"))
