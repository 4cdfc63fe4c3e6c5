"""Look in a bug's sandbox for readable copies of its fix and of its hidden tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.workspace import open_instance_sandbox, patch_workspace, read_files
from collect.code.patches import Hunk, changed_paths, parse
from sandbox import Command, Sandbox, SandboxConfig
from sandbox.base import backend_name

SEARCH = Path(__file__).with_name("copy_search.py")
SEARCH_SECONDS = 30
"""Seconds of processor time after which a search ends with what it has found; 270,000 files take
three."""
SEARCH_TIMEOUT = 300.0


@dataclass(frozen=True)
class CopySearch:
    copies: tuple[tuple[str, str], ...] = ()
    """The paths of a gold file, in the workspace, and of its copy, in the sandbox."""
    unsearched: str = ""
    """Why not everything was searched; empty if it was."""


def search_copies(
    benchmark: Benchmark, instance: Instance, sandbox_config: SandboxConfig
) -> CopySearch:
    """Search the sandbox that an agent gets for this bug; `copy_search` says what is found. Raises
    PatchError, SandboxError."""
    if backend_name(sandbox_config) == "local-unsafe":
        return CopySearch(unsearched="commands run on the host itself (sandbox.unsafe)")
    with open_instance_sandbox(sandbox_config, instance) as sandbox:
        benchmark.prepare(instance, sandbox)
        golds = [*_patched_files(instance, sandbox), *_hidden_files(instance)]
        request = {"golds": golds, "workspace": sandbox.workspace, "seconds": SEARCH_SECONDS}
        return _run_search(sandbox, request)


def _patched_files(instance: Instance, sandbox: Sandbox) -> Iterator[dict[str, Any]]:
    """The files that the gold patch changes or adds, as `copy_search` reads them; applies it."""
    if not instance.gold_patch:
        return
    before = read_files(sandbox, sorted(changed_paths(instance.gold_patch)))
    patch_workspace(sandbox, instance.gold_patch)
    for file in parse(instance.gold_patch):
        if file.target is None:
            continue
        old = before.get(file.source or "")
        yield {
            "path": file.target,
            "before": None if old is None else old.decode("latin-1"),
            "after": sandbox.read_file(file.target).decode("latin-1"),
            "hunks": [_changed_lines(hunk) for hunk in file.hunks],
        }


def _hidden_files(instance: Instance) -> Iterator[dict[str, Any]]:
    for path, data in instance.hidden_files.items():
        yield {"path": path, "before": None, "after": data.decode("latin-1"), "hunks": []}


def _changed_lines(hunk: Hunk) -> tuple[str, str]:
    """The hunk before and after, with one line around the changes; no blank lines."""
    lines = [(kind, text) for kind, text in hunk.lines if text.strip()]
    changed = [number for number, (kind, _) in enumerate(lines) if kind != " "]
    if not changed:
        return "", ""
    lines = lines[max(changed[0] - 1, 0) : changed[-1] + 2]
    sides = [[text.rstrip("\r\n") for kind, text in lines if kind != left] for left in "+-"]
    old, new = ("\n".join(side).encode("utf-8", "surrogateescape") for side in sides)
    return old.decode("latin-1"), new.decode("latin-1")


def _run_search(sandbox: Sandbox, request: dict[str, Any]) -> CopySearch:
    if not request["golds"]:
        return CopySearch()
    argv = [sandbox.python, "-I", "-S", "-W", "ignore", "-c", SEARCH.read_text("utf-8")]
    done = sandbox.run(Command(argv, stdin=json.dumps(request).encode(), timeout=SEARCH_TIMEOUT))
    if done.exit_code == 127:
        return CopySearch(unsearched=f"the sandbox has no Python ({sandbox.python})")
    if done.exit_code != 0:
        last = " / ".join(done.output.strip().splitlines()[-3:])
        return CopySearch(unsearched=f"the search ended with exit code {done.exit_code}: {last}")
    answer = json.loads(done.output)
    unsearched = "" if answer["ended"] else f"it took more than {SEARCH_SECONDS} s"
    return CopySearch(tuple((gold, copy) for gold, copy in answer["copies"]), unsearched)
