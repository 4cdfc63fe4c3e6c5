"""The slots of a model, and the dollars, that the workers of a run share."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from collect.errors import BudgetExhausted
from collect.models.budget import read_spent
from collect.rollouts.ray_cluster.shared_state import SharedState
from tests.collect.rollouts.ray_cluster import broken_connections

SOON = 0.05
LATER = 30.0
"""Seconds."""
LOST = {"num_failures": 6, "num_lower_bound_resp_failures": 3, "resp_failure_prob": 60}
"""Of the answers to a process's calls of actors: between three and six."""
Scene = Callable[[SharedState], Awaitable[None]]


async def a_slot_is_had_as_soon_as_it_is_free(shared_state: SharedState) -> None:
    assert await shared_state.take("m", 1, "a", "1", SOON)
    waiting = asyncio.create_task(shared_state.take("m", 1, "b", "2", LATER))
    await asyncio.sleep(SOON)
    assert not waiting.done()
    assert await shared_state.take("another", 1, "b", "3", SOON), "each model has its own"
    await shared_state.give_back("m", "1")
    assert await asyncio.wait_for(waiting, LATER / 2)


async def none_is_had_in_vain(shared_state: SharedState) -> None:
    assert await shared_state.take("m", 1, "a", "1", SOON)
    assert not await shared_state.take("m", 1, "b", "2", SOON)
    await shared_state.give_back("m", "1")
    assert await shared_state.take("m", 1, "a", "3", SOON)
    assert not await shared_state.take("m", 1, "b", "4", SOON)


async def those_of_a_lost_worker_are_free(shared_state: SharedState) -> None:
    assert await shared_state.take("m", 2, "lost", "1", SOON)
    assert await shared_state.take("m", 2, "lost", "2", SOON)
    waiting = asyncio.create_task(shared_state.take("m", 2, "b", "3", LATER))
    await asyncio.sleep(SOON)
    await shared_state.forget("lost")
    assert await asyncio.wait_for(waiting, LATER / 2)


async def what_a_lost_worker_still_says_counts_no_more(shared_state: SharedState) -> None:
    assert await shared_state.take("m", 1, "lost", "1", SOON)
    late = asyncio.create_task(shared_state.take("m", 1, "lost", "2", LATER))
    await asyncio.sleep(SOON)
    await shared_state.forget("lost")
    assert not await late
    await shared_state.give_back("m", "1")
    assert await shared_state.take("m", 1, "b", "3", SOON)
    assert not await shared_state.take("m", 1, "b", "4", SOON)


async def of_many_each_has_its_turn(shared_state: SharedState) -> None:
    at_once = most = 0

    async def request(number: int) -> None:
        nonlocal at_once, most
        assert await shared_state.take("m", 3, f"{number % 4}", f"{number}", LATER)
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.001)
        at_once -= 1
        await shared_state.give_back("m", f"{number}")

    await asyncio.gather(*(request(number) for number in range(100)))
    assert (most, at_once) == (3, 0)


async def what_is_said_twice_counts_once(shared_state: SharedState) -> None:
    first, second = (
        asyncio.create_task(shared_state.take("m", 2, "a", "1", SOON)) for _ in range(2)
    )
    assert (await first, await second) == (True, True)
    assert await shared_state.take("m", 2, "a", "2", SOON)
    assert await shared_state.take("m", 2, "a", "2", SOON), "it has the last one itself"
    assert not await shared_state.take("m", 2, "b", "3", SOON)
    for _ in range(2):
        await shared_state.give_back("m", "1")
    assert await shared_state.take("m", 2, "b", "3", SOON)
    assert not await shared_state.take("m", 2, "b", "4", SOON)


@pytest.mark.parametrize(
    "scene",
    [
        a_slot_is_had_as_soon_as_it_is_free,
        none_is_had_in_vain,
        those_of_a_lost_worker_are_free,
        what_a_lost_worker_still_says_counts_no_more,
        of_many_each_has_its_turn,
        what_is_said_twice_counts_once,
    ],
)
def test_slots(scene: Scene, tmp_path: Path) -> None:
    async def play() -> None:
        await scene(SharedState(tmp_path, None, 0.0))

    asyncio.run(play())


def test_dollars_that_are_told_twice_or_late_count_once(tmp_path: Path) -> None:
    shared_state = SharedState(tmp_path, 10.0, 1.0)
    for worker, dollars in [("a", 2.0), ("b", 4.0), ("a", 3.0), ("a", 3.0), ("a", 2.0)]:
        shared_state.spent(worker, dollars)
    shared_state.note()
    assert read_spent(tmp_path) == 1 + 3 + 4
    shared_state.check()
    shared_state.spent("b", 6.0)
    with pytest.raises(BudgetExhausted, match=r"the budget of \$10\.00 is spent"):
        shared_state.check()


@pytest.mark.slow
@pytest.mark.cluster
def test_an_answer_that_is_lost_is_asked_for_again(tmp_path: Path) -> None:
    """The call has been done then: only its answer is missing."""
    script = [sys.executable, "-m", broken_connections.__name__, str(tmp_path)]
    calls = {"CoreWorkerService.grpc_client.PushTask": LOST}
    env = {**os.environ, "RAY_testing_rpc_failure": json.dumps(calls)}
    done = subprocess.run(script, env=env, capture_output=True, text=True, check=False)
    assert "4.0 2" in done.stdout.splitlines(), done.stderr
