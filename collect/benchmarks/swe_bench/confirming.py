"""Confirm by a plugin of pytest's what a log says of tests: any program can write to a log.

Upstream's rules stay: the log is what is graded, and a runner that loads no plugin (Django's,
SymPy's, tox, Java's) is believed. Where pytest loaded the plugin, a pass counts if pytest reported
it, and a session that did not come to its end confirms nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import posixpath
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from collect.benchmarks.base import TestStatus
from sandbox import Sandbox
from sandbox.errors import SandboxFileError
from sandbox.shell import read_text, write_bytes

PLUGIN = Path(__file__).with_name("confirming_plugin.py")
NAME = "stepinto_confirmation"
MAX_SESSIONS = 64
"""Of pytest, in one run of a record."""


@dataclass(frozen=True)
class Confirmation:
    """The plugin and its reports in one run, in a folder of the sandbox."""

    folder: str
    """Absolute."""
    key: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)

    def lay_out(self, sandbox: Sandbox) -> None:
        """Write the plugin. Raises SandboxError."""
        write_bytes(sandbox, f"{self.folder}/{NAME}.py", PLUGIN.read_bytes())
        write_bytes(sandbox, f"{self.folder}/key", self.key.encode())

    @property
    def settings(self) -> str:
        """A command of the shell, after which each pytest loads the plugin."""
        return (
            f'export PYTHONPATH="{self.folder}${{PYTHONPATH:+:$PYTHONPATH}}" '
            f'PYTEST_ADDOPTS="-p {NAME} ${{PYTEST_ADDOPTS-}}"'
        )

    def check(
        self, sandbox: Sandbox, statuses: Mapping[str, TestStatus]
    ) -> tuple[dict[str, TestStatus], str | None]:
        """The statuses that stand, of the tests that were asked for, and what shows that the
        program interfered with the run."""
        sessions = self._sessions(_read(sandbox, f"{self.folder}/key"))
        if sessions is None:
            return dict(statuses), "the program changed a file that pytest's own report rests on"
        passed: set[str] = set()
        whole = True
        for number, key in enumerate(sessions):
            seal, _, text = _read(sandbox, f"{self.folder}/report-{number}").partition(" ")
            if not seal:
                whole = False
                continue
            expected = hmac.digest(key.encode(), text.encode(), "sha256").hex()
            if not hmac.compare_digest(seal.encode(), expected.encode()):
                return dict(statuses), "the program wrote to the report of pytest's own plugin"
            passed.update(json.loads(text))
        if not sessions:
            return dict(statuses), None
        strange = list(_unconfirmed(statuses, passed))
        found = {**statuses, **dict.fromkeys(strange, TestStatus.FAILED)}
        told = f"the log says that {strange[0]} passed, and pytest did not" if strange else None
        return found, told if whole else None

    def _sessions(self, left: str) -> list[str] | None:
        """The keys that sessions took, from what is left in the file; None for no such thing."""
        keys = [self.key]
        while keys[-1] != left:
            if len(keys) > MAX_SESSIONS:
                return None
            keys.append(hashlib.sha256(keys[-1].encode()).hexdigest())
        return keys[:-1]


def _unconfirmed(statuses: Mapping[str, TestStatus], passed: set[str]) -> Iterator[str]:
    """The tests that passed by the log, of functions that did not pass as often.

    Logs and upstream's ids cut and rewrite parameters and folders: so passes are counted by file
    and function.
    """
    left = Counter(map(_function, passed))
    counted: set[str] = set()
    for test, status in statuses.items():
        name = test.split(" <- ")[0]
        if status is not TestStatus.PASSED or "::" not in test or name in counted:
            continue
        counted.add(name)
        if left[_function(test)] < 1:
            yield test
        left[_function(test)] -= 1


def _function(test: str) -> str:
    """`test_cart.py::CartTest::test_total`, whatever its folder and its parameters."""
    path, _, names = test.partition("[")[0].replace("::()", "").partition("::")
    return f"{posixpath.basename(path)}::{names.split(' ')[0]}"


def _read(sandbox: Sandbox, path: str) -> str:
    try:
        return read_text(sandbox, path)
    except SandboxFileError:
        return ""
