"""`stepinto ask`: the subagent without a coding agent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stepinto import main
from tests.collect.live.conftest import ANSWER, CART, TEST, TESTS, asked_of, calling
from tests.collect.models.chat_server import ChatServer, reply


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer().running() as running:
        yield running


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    for name, text in {"shop/cart.py": CART, "tests/test_cart.py": TESTS}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_an_answer_is_printed_and_its_steps_are_told(
    repo: Path, server: ChatServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will_answer(reply(ANSWER))
    asked = ["ask", "What is result?", *asked_of(server), "--model", "scripted"]
    asked += ["--repo", str(repo), "--test", TEST, "--path", "shop/cart.py", "--lines", "3-4,5"]
    assert main([*asked, "--variables", "result, rate"]) == 0
    shown = capsys.readouterr()
    assert shown.out.strip() == ANSWER
    assert "step 1 of 25: answers" in shown.err
    task = server.requests[0]["messages"][1]["content"]
    assert "Lines: 3, 4, 5\nVariables: result, rate" in task

    server.will_answer(reply("I don't know."))
    assert main(asked) == 1
    assert "gave no answer after 2 steps" in capsys.readouterr().out


def test_what_a_model_writes_does_not_reach_the_terminal_as_codes(
    repo: Path, server: ChatServer, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = "\x1b]0;title\x07\x1b[2J\u202e"
    server.will_answer(calling(f"debug_{codes}"), reply(ANSWER.replace("33.0 at", f"{codes} at")))
    asked = ["ask", "What is result?", *asked_of(server), "--model", "scripted"]
    asked += ["--repo", str(repo), "--test"]
    assert main([*asked, TEST]) == 0
    shown = capsys.readouterr()
    assert r"\x1b]0;title\x07\x1b[2J\u202e at" in shown.out
    assert main([*asked, f"tests/test_cart.py::{codes}"]) == 1
    told = capsys.readouterr()
    assert r"there is no test \x1b" in told.out
    assert not {*"\x1b\x07\u202e"} & {*shown.out, *shown.err, *told.out, *told.err}


def test_a_question_past_its_time_limit_ends_with_a_message(
    repo: Path, server: ChatServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will_answer(calling("debug_inspect", what="locals"), reply(hold=True))
    asked = ["ask", "What is result?", *asked_of(server), "--model", "scripted"]
    assert main([*asked, "--repo", str(repo), "--test", TEST, "--timeout", "5"]) == 2
    told = capsys.readouterr().err
    assert "scripted gave no answer: it did not answer within 5 s" in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "nobody is there to ask: give --model"),
        (["--model", "oracle"], "can't answer here"),
        (["--model", "no/model"], "--model no/model: no such folder"),
        (["--lines", "3"], "--lines are lines of a file: give --path too"),
        (["--path", "shop/cart.py", "--lines", "5-3"], "give lines such as"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    repo: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert main(["ask", "What?", "--repo", str(repo), "--test", TEST, *arguments]) == 2
    assert told in capsys.readouterr().err
