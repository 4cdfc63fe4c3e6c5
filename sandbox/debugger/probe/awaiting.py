"""Which asyncio task waits for the one that runs, whose stack ends at the event loop. It is read
from the tasks that CPython's `_asyncio` makes, up to 3.13, without calling the program's code."""

from __future__ import annotations

import functools
import sys
import types
from contextlib import suppress
from typing import Any, Iterator, Mapping
from weakref import WeakSet, ref

from .interpreter import FrameAt

METHOD, PARTIAL = types.MethodType, functools.partial
MOST_AWAITS = 1_000
"""Coroutines that one task is followed through."""


def running_task(native: Any) -> Any:
    """The task that this thread's event loop runs; None if there is none."""
    loop = native._get_running_loop()
    current = of_asyncio("tasks").get("_current_tasks")
    if loop is None or type(current) is not dict:
        return None
    return next((task for owner, task in list(current.items()) if owner is loop), None)


def of_asyncio(module: str) -> Mapping[str, Any]:
    """What a module of asyncio holds, if it is imported."""
    loaded = sys.modules.get(f"asyncio.{module}")
    return vars(loaded) if type(loaded) is types.ModuleType else {}


def known_tasks() -> list[Any]:
    """All tasks that have not been freed."""
    tasks = of_asyncio("tasks")
    known: list[Any] = []
    for name in ("_all_tasks", "_scheduled_tasks"):
        members = tasks.get(name)
        if type(members) is WeakSet:
            references = [one for one in list(vars(members)["data"]) if type(one) is ref]
            known += [one() for one in references]
    return [task for task in known if task is not None]


def called_back(callback: Any) -> Iterator[Any]:
    """What a callback that asyncio has added to a task belongs to: the future of a `gather`, a
    `wait` or a `wait_for`, or the task of a group."""
    group = of_asyncio("taskgroups").get("TaskGroup")
    if type(callback) is METHOD and type(callback.__self__) is group:
        yield vars(callback.__self__)["_parent_task"]
    elif type(callback) is PARTIAL and in_asyncio(callback.func):
        yield from callback.args
    elif in_asyncio(callback):
        for cell in callback.__closure__ or ():
            with suppress(ValueError):  # it is empty
                yield cell.cell_contents


def in_asyncio(function: Any) -> bool:
    return type(function) is types.FunctionType and function.__globals__ is of_asyncio("tasks")


def innermost_frames(coroutine: Any) -> Iterator[FrameAt]:
    """The frames of a suspended coroutine and of the coroutines that it awaits; the innermost is
    first."""
    frames = []
    for _ in range(MOST_AWAITS):
        if type(coroutine) is types.CoroutineType:
            frame, inner = coroutine.cr_frame, coroutine.cr_await
        elif type(coroutine) is types.GeneratorType:
            frame, inner = coroutine.gi_frame, coroutine.gi_yieldfrom
        else:
            break
        if frame is not None:
            frames.append(FrameAt(frame, frame.f_lineno))
        coroutine = inner
    return reversed(frames)


def waiting_task() -> tuple[str, list[FrameAt]] | None:
    """The name and the frames of the task that waits for this thread's; None if it is not known."""
    native: Any = sys.modules.get("_asyncio")
    current = running_task(native) if type(native) is types.ModuleType else None
    if current is None or not issubclass(type(current), native.Task):
        return None
    fields = vars(native.Task)
    callbacks = vars(native.Future)["_callbacks"].__get__(current) or ()
    awaited = [current]
    for callback, _ in callbacks:
        awaited += called_back(callback)
    for task in known_tasks():
        if task is current or not issubclass(type(task), native.Task):
            continue
        waiter = fields["_fut_waiter"].__get__(task)
        waits = waiter is not None and any(one is waiter for one in awaited)
        if waits or any(one is task for one in awaited):
            name = fields["get_name"](task)
            frames = innermost_frames(fields["_coro"].__get__(task))
            return name if type(name) is str else "", list(frames)
    return None
