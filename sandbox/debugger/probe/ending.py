"""Describe the end of the program as the fields of an answer."""

from __future__ import annotations

import os
import signal
from typing import List, Optional

from .diagnosis import CRASHED, EXITED, OUT_OF_MEMORY
from .processes import dumped_frames, memory_kills, signal_name
from .wire import DUMP, INTERRUPT, Json

MEMORY_ENDS = (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV)
OUT_OF_MEMORY_TEXTS = ("MemoryError", "Cannot allocate memory", "out of memory", "bad_alloc")


def ended(status: int, runs: bool, dump: str, kills_before: Optional[int]) -> Json:
    """The answer if the program ended by itself; `status` is that of `os.waitpid`.

    An exit is a normal answer to an action that `runs` the program, and otherwise a loss.
    """
    if not os.WIFSIGNALED(status):
        answer: Json = {"stop": {"reason": "exited", "exit_code": os.WEXITSTATUS(status)}}
        if not runs:
            answer["kill_reason"] = EXITED
        return answer
    number = os.WTERMSIG(status)
    if number in (INTERRUPT, DUMP):  # the program was ending and had removed the handlers
        return {"stop": {"reason": "exited"}, "kill_reason": EXITED}
    frames = dumped_frames(dump)
    return {
        "stop": {"reason": "exited", "exit_code": 128 + number, **place(frames)},
        "signal": signal_name(number),
        "frames": frames,
        "kill_reason": crash_reason(number, dump, kills_before),
    }


def crash_reason(number: int, dump: str, kills_before: Optional[int]) -> str:
    """Whether lack of memory explains a signal: the kernel counts the processes killed for that."""
    kills = memory_kills()
    if number == signal.SIGKILL and (kills is None or kills != kills_before):
        return OUT_OF_MEMORY
    if number in MEMORY_ENDS and any(text in dump for text in OUT_OF_MEMORY_TEXTS):
        return OUT_OF_MEMORY
    return CRASHED


def killed(reason: str, text: str, dump: str) -> Json:
    """The answer if the program had to be killed: why, and where it was."""
    frames = dumped_frames(dump)
    return {
        "stop": {"reason": "killed", **place(frames)},
        "diagnosis": text,
        "frames": frames,
        "kill_reason": reason,
    }


def place(frames: List[Json]) -> Json:
    """The position of the innermost frame, as the fields of a stop."""
    return {name: frames[0][name] for name in ("file", "line", "function")} if frames else {}
