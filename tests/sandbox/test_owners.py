"""Which process is known to have ended, and of which that can't be told."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sandbox import leftovers
from sandbox.leftovers import owner_is_dead, owner_tag

TELL = "from sandbox.leftovers import owner_tag; print(owner_tag(), flush=True); input()"


def changed(part: int, value: str) -> str:
    parts = owner_tag().split()
    parts[part] = value
    return " ".join(parts)


def test_a_process_of_this_machine_lives_until_it_ends() -> None:
    assert owner_is_dead(owner_tag()) is False
    with running([sys.executable, "-c", TELL]) as process:
        tag = told_by(process)
        assert owner_is_dead(tag) is False
    assert owner_is_dead(tag) is True


def test_a_number_that_another_process_has_now() -> None:
    assert owner_is_dead(changed(4, "1")) is True


def test_those_of_other_machines_can_t_be_told() -> None:
    assert owner_is_dead(changed(0, "elsewhere")) is None
    assert owner_is_dead("") is None
    assert owner_is_dead("c0ffee:17:4711") is None, "of a release without machines"


def test_a_process_of_another_pid_namespace_can_t_be_told() -> None:
    """It shares the machine's boot id, and its numbers are those of others here."""
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    able = subprocess.run([*unshare, "true"], capture_output=True, text=True, check=False)
    if able.returncode != 0:
        pytest.skip(f"no PID namespace can be made here: {able.stderr.strip()}")
    with running([*unshare, sys.executable, "-c", TELL]) as process:
        tag = told_by(process)
        assert tag.split()[3] == "1"
        assert owner_is_dead(tag) is None


def test_those_before_the_machine_s_last_boot_are_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    before = changed(2, "an-earlier-boot")
    monkeypatch.setattr(leftovers, "INITIAL_NAMESPACE", "1")
    assert owner_is_dead(before) is None, "the number of a container's namespace is given anew"
    monkeypatch.setattr(leftovers, "INITIAL_NAMESPACE", before.split()[1])
    assert owner_is_dead(before) is True


HIDDEN = """
import os, sys
from sandbox.leftovers import owner_is_dead
os.setgid(65534)
os.setuid(65534)
print([owner_is_dead(tag) for tag in sys.argv[1:]])
"""


@pytest.mark.parametrize("hidepid", [1, 2])
def test_a_process_that_proc_hides_may_live(hidepid: int) -> None:
    mount = f'mount -t proc -o hidepid={hidepid} proc /proc && exec "$@"'
    hidden = ["unshare", "--mount", "sh", "-c", mount, "sh"]
    able = subprocess.run([*hidden, "true"], capture_output=True, text=True, check=False)
    if able.returncode != 0:
        pytest.skip(f"/proc can't be mounted here: {able.stderr.strip()}")
    with running([sys.executable, "-c", TELL]) as process:
        ended = told_by(process)
    command = [*hidden, sys.executable, "-c", HIDDEN, owner_tag(), ended]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.stdout == "[None, True]\n", told.stderr


def running(argv: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def told_by(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
