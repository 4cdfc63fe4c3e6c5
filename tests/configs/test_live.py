"""The commands of the pages on the user's own repository, word for word, and their settings."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from configs.command_line.live import opened
from stepinto import main, read_arguments
from tests.collect.live.conftest import ANSWER, CART, TEST, TESTS, asked_of
from tests.collect.models.chat_server import ChatServer, reply

ROOT = Path(__file__).resolve().parents[2]
MCP, OWN_BUGS = ROOT / "docs" / "mcp.md", ROOT / "docs" / "own-bugs.md"


def blocks(page: Path, kind: str) -> list[str]:
    """The page's blocks of code of this kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", page.read_text("utf-8"), re.M | re.S)


def server_commands() -> Iterator[list[str]]:
    """The arguments of every server that docs/mcp.md starts: in a shell, or in a client's
    settings."""
    for block in blocks(MCP, "sh"):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if "mcp" in words and "stepinto" in words and "http" not in words:
                last = len(words) - words[::-1].index("stepinto")
                yield words[last:]
    for block in blocks(MCP, "toml"):
        yield tomllib.loads(block)["mcp_servers"]["stepinto"]["args"]
    for block in blocks(MCP, "json"):
        yield json.loads(block)["mcpServers"]["stepinto"]["args"]


COMMANDS = sorted({tuple(command) for command in server_commands()})


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer().running() as running:
        yield running


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository as the current folder, with what the pages' commands name."""
    texts = {"shop/cart.py": CART, "tests/test_cart.py": TESTS, "lib/more.py": ""}
    texts |= {"runs/quickstart/model/config.json": "{}"}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return tmp_path


def test_the_page_shows_servers() -> None:
    assert len(COMMANDS) > 5
    assert any("packages" in word for command in COMMANDS for word in command)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_server_that_the_page_shows_has_valid_settings(
    repo: Path, command: tuple[str, ...]
) -> None:
    words = [str(repo) if word == "/path/to/repo" else word for word in command]
    config, place = opened(read_arguments(words))
    assert config.collect.benchmark.name == "local"
    assert place.repository.folder == repo


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_server_that_the_page_shows_starts(repo: Path, command: tuple[str, ...]) -> None:
    words = [str(repo) if word == "/path/to/repo" else word for word in command]
    parameters = StdioServerParameters(
        command=sys.executable, args=[str(ROOT / "stepinto.py"), *words], env={**os.environ}
    )

    async def work() -> None:
        async with Client(stdio_client(parameters)) as client:
            tools = (await client.list_tools()).tools
            assert "debug_start_session" in [tool.name for tool in tools]

    asyncio.run(work())


@pytest.mark.parametrize("config", [[], ["debug2fix"], ["quickstart"]], ids=str)
@pytest.mark.parametrize("prefix", ["", "collect.benchmark."])
def test_the_repositorys_settings_need_no_benchmark(
    repo: Path, config: list[str], prefix: str
) -> None:
    settings = {"packages": "[numpy]", "import_paths": "[lib]", "variables": "{TZ: UTC}"}
    words = [f"{prefix}{name}={value}" for name, value in settings.items()]
    given, _ = opened(read_arguments(["mcp", *config, "--repo", ".", *words]))
    benchmark = given.collect.benchmark
    assert (benchmark.packages, benchmark.import_paths) == (("numpy",), ("lib",))
    assert benchmark.variables == {"TZ": "UTC"}


def test_a_config_of_the_repository_keeps_its_settings(repo: Path) -> None:
    (repo / "own.yaml").write_text(
        "run: own\ncollect: {benchmark: {name: local, path: ., packages: [numpy]}}\n"
    )
    words = ["mcp", "own.yaml", "--repo", ".", "import_paths=[lib]"]
    config, _ = opened(read_arguments(words))
    assert config.collect.benchmark.packages == ("numpy",)
    assert config.collect.benchmark.import_paths == ("lib",)


def test_a_question_takes_the_repositorys_settings(
    repo: Path, server: ChatServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will_answer(reply(ANSWER))
    (repo / "tests/test_cart.py").write_text("import more\n" + TESTS)
    asked = ["ask", "What is result?", *asked_of(server), "--model", "scripted", "--test", TEST]
    assert main([*asked, "packages=[]", "collect.benchmark.import_paths=[lib, .]"]) == 0
    assert ANSWER in capsys.readouterr().out
    assert "result" in server.requests[0]["messages"][1]["content"]


@pytest.mark.slow
def test_the_commands_on_own_bugs_do_what_the_page_says(repo: Path, server: ChatServer) -> None:
    """In the page's folder, beside a repository `shop`."""
    folder = repo / "beside"
    folder.mkdir()
    (folder / "configs").symlink_to(ROOT / "configs")
    (repo / "configs").unlink()
    (folder.parent / "shop" / "test_cart.py").write_text(
        "from cart import total\n\ndef test_total():\n    assert total([10, 20], 1.1) == 34\n\n"
        "def test_none():\n    assert total([], 1) == 0\n"
    )
    own = blocks(OWN_BUGS, "yaml")[0]
    (folder / "own.yaml").write_text(own)
    server.will_answer(reply("I can't fix it."))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OPENAI_BASE_URL": server.url}
    shells = blocks(OWN_BUGS, "sh")
    assert len(shells) == 2
    for block in shells:
        subprocess.run(["bash", "-ec", block], cwd=folder, env=environment, check=True, timeout=300)
    assert server.requests
    assert len(list((folder / "runs").glob("*/rollouts/*.parquet"))) == 2
