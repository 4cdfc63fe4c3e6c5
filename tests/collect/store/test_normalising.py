"""What is left out of observations, and that values stay."""

from __future__ import annotations

import pytest

from collect.store.normalising import normalised
from sandbox import Command, SandboxConfig, open_sandbox
from sandbox.java.gradle import gradle_command
from sandbox.java.jdk import find_jdk
from sandbox.java.maven import maven_command
from sandbox.java.project import BuildKind, Module
from tests.sandbox.image import TAG
from tests.sandbox.java.conftest import Lay, lay_out, require_program
from tests.sandbox.java.programs import GRADLE, MAVEN

__all__ = ["lay_out"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<Cart object at 0x7f1eb57841d0>", "<Cart object at 0x?>"),
        ("id(keys) = 140389711140544  (int)", "id(keys) = ?  (int)"),
        ("1 failed in 0.12s", "1 failed in ? s"),
        ("at 2026-11-22 13:00:01.5 sharp", "at ? sharp"),
        ("/tmp/tmpab12_x/log.txt", "/tmp/?/log.txt"),
        ("/tmp/pytest-of-root/pytest-17/a0", "/tmp/?/pytest-?/a0"),
        ("  total = 12  \nend\n", "total = 12\nend"),
        ("Mon Mar  2 10:15:00 UTC 2026 INFO", "? INFO"),
        ("Date:   Mon Mar 2 10:15:00 2026 +0000", "Date:   ?"),
        ("Mon, 02 Mar 2026 10:15:00 GMT", "?"),
        ("[main (root-commit) 1a2b3c4] begin", "[main (root-commit) ?] begin"),
        ("uid=51234 gid=51234 groups=51234", "uid=?"),
        ("BUILD SUCCESSFUL in 1m 2s", "BUILD SUCCESSFUL in ?"),
        ("[INFO] Total time: 3 s", "[INFO] Total time: ?"),
        ("[INFO] Total time:  01:02 min", "[INFO] Total time: ?"),
        ("[INFO] core ... SUCCESS [ 12.345 s]", "[INFO] core ... SUCCESS [?]"),
        ("Tests run: 2, Time elapsed: 1 s - in T", "Tests run: 2, Time elapsed: ? - in T"),
        ("T.one  Time elapsed: 1 s  <<< ERROR!", "T.one  Time elapsed: ?  <<< ERROR!"),
        ("Time: 0.012\n\nOK (1 test)", "Time: ?\n\nOK (1 test)"),
        ("====== 2 passed in 61.20s (0:01:01) ======", "= 2 passed in ? s ="),
        ("2 failed, 1 passed in 61.20s (0:01:01)", "2 failed, 1 passed in ? s"),
        ("real\t0m1.203s\nuser\t0m0.900s", "real ?\nuser ?"),
    ],
)
def test_what_passes_is_left_out(text: str, expected: str) -> None:
    assert normalised(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "total = 12.5, 0x1f",
        "total 12",
        "1403897111405440, 1403897111405.44, 14038971114054",
        "due on 2026-03-02",
        "Mar  2  2026",
        "opens at 10:15",
        "BUILD took 3s",
        "waited 3 s, 12 ms",
        "Time: 12.5",
        "Total time: 3 s",
        "Time elapsed: 3 s",
        "-rw-r--r-- is a mode",
        "1234 1234 1234",
        "commit 1234",
        "uid=51234",
        "[main] 1a2b3c4",
    ],
)
def test_values_stay(text: str) -> None:
    assert normalised(text) == text


LISTING = """\
total 12
drwxr-xr-x  3 root root 4096 Mar  2 10:15 .
drwxr-xr-x 20 root root 4096 Mar  2 10:15 ..
-rw-r--r--  1 root root  120 Mar  2 10:15 a file
lrwxrwxrwx  1 root root    6 Mar  2  2026 link -> a file
"""
ELSEWHERE = """\
total 4
drwxr-xr-x. 1 51234 51234 60 Nov 23 06:38 .
drwxr-xr-x. 1 root  root   0 Nov 23 06:38 ..
-rw-r--r--. 2 51234 51234 120 Nov 23 06:38 a file
lrwxrwxrwx. 1 51234 51234   6 Nov 23 06:38 link -> a file
"""


def test_a_long_listing_keeps_modes_sizes_and_names() -> None:
    assert normalised(LISTING) == normalised(ELSEWHERE)
    assert normalised(LISTING).splitlines() == [
        "total ?",
        "drwxr-xr-x ? ? .",
        "drwxr-xr-x ? ? ..",
        "-rw-r--r-- ? 120 ? a file",
        "lrwxrwxrwx ? 6 ? link -> a file",
    ]
    for old, new in (("-rw-", "-rwx"), (" 120 ", " 121 "), ("a file\nl", "b file\nl")):
        changed = LISTING.replace(old, new)
        assert changed != LISTING
        assert normalised(changed) != normalised(LISTING)


FILES = {
    "a.txt": b"text\n",
    "code/more.py": b"VALUE = 1\n",
    "test_case.py": (
        b"import unittest\n\n\nclass Case(unittest.TestCase):\n"
        b"    def test_one(self):\n        self.assertEqual(1, 2)\n"
    ),
}
OLD = "find . -exec touch -d '2001-05-06 07:08:09' {} +"
COMMIT = (
    "git init -q -b main . && git config user.name a && git config user.email a@b && git add -A "
    "&& git commit -m begin && echo 2 >>a.txt && git stash && git stash pop && git log --stat"
)
COMMANDS = (
    *("ls -la", "ls -lai code", "ls -lash", "ls -ln --time-style=long-iso", "ls -l --full-time"),
    *("find . -ls", "stat a.txt code", "date", "date -R", "id"),
    *(
        "bash -c 'time sleep 0'",
        COMMIT,
        "$python -m pytest -p no:cacheprovider test_case.py",
        "$python -m unittest test_case.py",
    ),
)


@pytest.mark.slow
def test_commands_say_the_same_in_two_sandboxes(backend: str) -> None:
    """Whose files are of another age."""
    config = SandboxConfig.model_validate({"backend": backend, "image": TAG})
    first, second = said("true", config), said(OLD, config)
    for command, one, other in zip(COMMANDS, first, second, strict=True):
        assert one.strip(), command
        assert normalised(one) == normalised(other), command
    assert [one == other for one, other in zip(first, second, strict=True)].count(False) >= 12


def said(before: str, config: SandboxConfig) -> list[str]:
    """What the commands print in a fresh sandbox, after another one."""
    with open_sandbox(config) as sandbox:
        sandbox.write_files(FILES)
        assert sandbox.run(Command(["sh", "-c", before])).exit_code == 0
        environment = {"python": sandbox.python}
        runs = (Command(["sh", "-c", command], env=environment) for command in COMMANDS)
        return [sandbox.run(each).output for each in runs]


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["mvn", "gradle"])
def test_builds_say_the_same_in_two_sandboxes(tool: str, lay_out: Lay) -> None:
    require_program("javac")
    require_program(tool)
    one, other = (built(tool, lay_out) for _ in range(2))
    assert "BUILD SUCCESS" in one
    assert normalised(one) == normalised(other) != one


def built(tool: str, lay_out: Lay) -> str:
    """What the build tool prints of running the tests."""
    sandbox = lay_out(MAVEN if tool == "mvn" else GRADLE)
    jdk = find_jdk(sandbox)
    if tool == "mvn":
        options = ["-Dmaven.test.failure.ignore=true"]
        command = maven_command(sandbox, jdk, Module(BuildKind.MAVEN, ".", "."), options)
    else:
        command = gradle_command(sandbox, jdk, ["assemble"])
    return sandbox.run(Command(command, timeout=300)).output
