"""Servers that start, die, refuse and resist, as real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from collect.errors import ConfigError, InfrastructureFailure, RolloutStopped
from collect.models.serving import server
from collect.models.serving.server import POOL
from tests.collect.models.serving.conftest import Scripted, ask, runs


def test_a_server_runs_as_long_as_its_model_is_open(scripted: Scripted) -> None:
    backend = scripted.open(scripted.config(SCRIPT_CHILD=1))
    assert ask(backend).message.content == "I am served"
    (start,) = scripted.starts
    assert start["arguments"][:4] == ["serve", "org/model", "--served-model-name", "served"]
    assert scripted.alive == start["pids"]
    backend.close()
    assert scripted.alive == []  # its child in a session of its own included


def test_models_of_one_server_share_its_process(scripted: Scripted, lora: Path) -> None:
    adapters = {"tuned": lora}
    base = scripted.open(scripted.config(adapters=adapters))
    tuned = scripted.open(scripted.config("tuned", adapters=adapters))
    assert [ask(base).message.content, ask(tuned).message.content] == ["I am served", "I am tuned"]
    base.close()
    base.close()  # a second time is of no matter
    assert ask(tuned).message.content == "I am tuned"
    tuned.close()
    assert len(scripted.starts) == 1
    assert scripted.alive == []


def test_a_kept_server_waits_for_its_next_user(scripted: Scripted) -> None:
    with POOL.kept():
        scripted.open(scripted.config()).close()
        assert len(scripted.alive) == 1
        scripted.open(scripted.config()).close()
        assert len(scripted.starts) == 1
        scripted.open(scripted.config(max_context=64))
        assert scripted.alive == scripted.starts[1]["pids"]  # the first made room
    assert len(scripted.alive) == 1


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"SCRIPT_SAYS": "KeyError: 'invalid tool call parser: hermes9 (chose"}, "hermes9 .chose"),
        ({"SCRIPT_SAYS": "Hm."}, "see what it said"),
        ({"command": ["/dev/null"]}, "no program /dev/null"),
    ],
)
def test_a_server_that_does_not_start_is_told(
    scripted: Scripted, settings: dict[str, Any], told: str
) -> None:
    config = scripted.config(SCRIPT_DIES_AT_STARTS=1, **settings)
    with pytest.raises(ConfigError, match=told) as failure:
        scripted.open(config)
    if "SCRIPT_SAYS" in settings:
        assert str(settings["SCRIPT_SAYS"]) in str(failure.value)
        assert str(scripted.log) in str(failure.value)
        assert "ended with status 1" in str(failure.value)


def test_a_server_that_is_never_ready_is_given_up(scripted: Scripted) -> None:
    config = scripted.config(SCRIPT_NEVER_READY=1, SCRIPT_SAYS="Loading ...", start_timeout=1.5)
    with pytest.raises(ConfigError, match=r"not ready after 1.5 s; raise server.start_timeout"):
        scripted.open(config)
    assert scripted.alive == []


def test_a_server_that_dies_is_started_again_and_the_request_with_it(scripted: Scripted) -> None:
    backend = scripted.open(scripted.config(SCRIPT_DIES_AT_REQUEST=3))  # two are the check
    assert ask(backend).message.content == "I am served"
    assert len(scripted.starts) == 2
    assert "engine died" in scripted.log.read_text()


@pytest.mark.slow
def test_a_server_that_dies_of_its_first_request_is_not_started_again(scripted: Scripted) -> None:
    with pytest.raises(ConfigError, match=r"(?s)a first request failed: .*engine died"):
        scripted.open(scripted.config(SCRIPT_DIES_AT_REQUEST=1))
    assert len(scripted.starts) == 1


@pytest.mark.slow
def test_a_server_that_dies_for_good_fails_its_requests(scripted: Scripted) -> None:
    config = scripted.config(
        SCRIPT_DIES_AT_REQUEST=3, SCRIPT_DIES_AT_STARTS="2 3", restarts=2, SCRIPT_SAYS="Hm."
    )
    backend = scripted.open(config)
    with pytest.raises(InfrastructureFailure, match=r"(?s)Hm\..*started again 2 times"):
        ask(backend)
    assert len(scripted.starts) == 3
    backend.close()
    fresh = scripted.open(config)
    assert ask(fresh).message.content == "I am served"


def test_a_server_that_is_killed_from_outside_comes_back(scripted: Scripted) -> None:
    backend = scripted.open(scripted.config())
    os.kill(scripted.starts[0]["pids"][0], signal.SIGKILL)
    assert ask(backend).message.content == "I am served"
    assert len(scripted.starts) == 2


def test_a_stopped_run_does_not_wait_for_a_server(scripted: Scripted) -> None:
    backend = scripted.open(scripted.config(SCRIPT_DIES_AT_STARTS="2 3 4", restarts=3))
    assert backend.server is not None
    os.kill(scripted.starts[0]["pids"][0], signal.SIGKILL)
    threading.Timer(0.3, scripted.stop.set).start()
    with pytest.raises((RolloutStopped, InfrastructureFailure)):
        ask(backend)


def test_a_server_that_ignores_sigterm_is_killed(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "GRACE_SECONDS", 0.3)
    backend = scripted.open(scripted.config(SCRIPT_STUBBORN=1))
    assert scripted.alive
    backend.close()
    assert scripted.alive == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_server_outlives_a_process_that_ends_in_any_way(
    scripted: Scripted, number: signal.Signals
) -> None:
    """The other process opens the model and is then killed, interrupted ..."""
    config = scripted.config(SCRIPT_CHILD=1).model_dump_json()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, config, str(scripted.folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "open\n", holder.communicate()
    (start,) = scripted.starts
    holder.send_signal(number)
    holder.communicate(timeout=60)
    _await_end(start["pids"])


HOLDER = """
import signal, sys, threading, time
from pathlib import Path
from collect.models.budget import Budget
from collect.models.config import VllmConfig
from collect.rollouts.executor import open_model
config = VllmConfig.model_validate_json(sys.argv[1])
model = open_model("sub", config, Budget(None), threading.Event(), Path(sys.argv[2]))
# Ignored where the tests run in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("open", flush=True)
time.sleep(1000)
"""


def _await_end(pids: list[int]) -> None:
    deadline = time.monotonic() + 60
    while any(map(runs, pids)):
        assert time.monotonic() < deadline, f"still there: {pids}"
        time.sleep(0.05)
