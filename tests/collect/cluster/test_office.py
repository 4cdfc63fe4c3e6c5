"""The slots of a model that the workers of a run share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from collect.cluster.office import Office

SOON = 0.05
LATER = 30.0
"""Seconds."""
Scene = Callable[[Office], Awaitable[None]]


async def a_slot_is_had_as_soon_as_it_is_free(office: Office) -> None:
    assert await office.take("m", 1, "a", SOON)
    waiting = asyncio.create_task(office.take("m", 1, "b", LATER))
    await asyncio.sleep(SOON)
    assert not waiting.done()
    assert await office.take("another", 1, "b", SOON), "each model has its own"
    await office.give_back("m", "a")
    assert await asyncio.wait_for(waiting, LATER / 2)


async def none_is_had_in_vain(office: Office) -> None:
    assert await office.take("m", 1, "a", SOON)
    assert not await office.take("m", 1, "b", SOON)
    await office.give_back("m", "a")
    assert await office.take("m", 1, "a", SOON)
    assert not await office.take("m", 1, "b", SOON)


async def those_of_a_lost_worker_are_free(office: Office) -> None:
    assert await office.take("m", 2, "lost", SOON)
    assert await office.take("m", 2, "lost", SOON)
    waiting = asyncio.create_task(office.take("m", 2, "b", LATER))
    await asyncio.sleep(SOON)
    await office.forget("lost")
    assert await asyncio.wait_for(waiting, LATER / 2)


async def what_a_lost_worker_still_says_counts_no_more(office: Office) -> None:
    assert await office.take("m", 1, "lost", SOON)
    late = asyncio.create_task(office.take("m", 1, "lost", LATER))
    await asyncio.sleep(SOON)
    await office.forget("lost")
    assert not await late
    await office.give_back("m", "lost")
    assert await office.take("m", 1, "b", SOON)
    assert not await office.take("m", 1, "b", SOON)


async def of_many_each_has_its_turn(office: Office) -> None:
    at_once = most = 0

    async def request(worker: str) -> None:
        nonlocal at_once, most
        assert await office.take("m", 3, worker, LATER)
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.001)
        at_once -= 1
        await office.give_back("m", worker)

    await asyncio.gather(*(request(f"{number % 4}") for number in range(100)))
    assert (most, at_once) == (3, 0)


@pytest.mark.parametrize(
    "scene",
    [
        a_slot_is_had_as_soon_as_it_is_free,
        none_is_had_in_vain,
        those_of_a_lost_worker_are_free,
        what_a_lost_worker_still_says_counts_no_more,
        of_many_each_has_its_turn,
    ],
)
def test_slots(scene: Scene, tmp_path: Path) -> None:
    async def play() -> None:
        await scene(Office(tmp_path, None, 0.0))

    asyncio.run(play())
