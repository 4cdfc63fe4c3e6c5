"""What debug sessions could save by a warm start, at the most.

An interpreter that has imported pytest, and is forked for each session, saves the import alone: it
would have to live in each rollout's sandbox, and so be started there first. A JVM has its classes
from an archive that all JVMs of the machine share, as sessions have them by default.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time

from benchmarks.rollout_parts import part_seconds
from sandbox.debugger.java_session import PROBE_OPTIONS

ROUNDS = 10
SHARED = "-Xshare:auto"


def warm_start_seconds() -> dict[str, float]:
    """Medians of seconds, of Java's none where there is no JVM."""
    parts = part_seconds()
    imported = parts["import pytest"] - parts["start Python alone"]
    found = {
        "Python: debug session, to the first stop": parts["debug session, to the first stop"],
        "Python: of that, the import of pytest": imported,
    }
    if shutil.which("java") is None:
        return found
    without = ["-Xshare:off" if option == SHARED else option for option in PROBE_OPTIONS]
    return found | {
        "Java: a JVM without shared classes": _jvm_seconds(without),
        "Java: a JVM with them, as sessions start it": _jvm_seconds(PROBE_OPTIONS),
    }


def _jvm_seconds(options: list[str] | tuple[str, ...]) -> float:
    seconds = []
    for _ in range(ROUNDS):
        began = time.monotonic()
        subprocess.run(["java", *options, "-version"], check=True, capture_output=True)
        seconds.append(time.monotonic() - began)
    return statistics.median(seconds)
