"""Names looked up for the terminals where the answer is more than a sandbox keeps of an output."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.debugger.java_sources import JavaSources
from sandbox.debugger.pdb_places import look_up
from sandbox.debugger.sources import SourceLines
from sandbox.debugger.terminal_session import Refused
from sandbox.shell import FOLDER

NAMES = [f"part{n // 40:02}/SomeOrdinaryClass{n:04}" for n in range(200)]


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with open_sandbox(SandboxConfig(output_limit=2_000)) as opened:
        yield opened


def sources(box: Sandbox) -> JavaSources:
    box.write_files(
        {
            f"src/{name}.java": f"class {name[-21:]} {{\n  void turn() {{ }}\n}}".encode()
            for name in NAMES
        }
    )
    return JavaSources(box, SourceLines(box, 3), [f"{box.workspace}/src"])


def test_every_java_source_is_found(box: Sandbox) -> None:
    found = sources(box)
    for name in NAMES[::7]:
        file = f"{name.partition('/')[2]}.java"
        assert found.find_line(file, 2) == (f"src/{name}.java", 2, name[-21:])
        assert found.find_method(f"{name[-21:]}.turn")[1] == f"src/{name}.java"
    with pytest.raises(Refused, match="there is no file Other"):
        found.find_line("Other.java", 1)


def test_java_sources_that_can_t_be_listed_are_not_said_to_be_missing(box: Sandbox) -> None:
    found = sources(box)
    box.run(Command(["sh", "-c", f"rm -rf {FOLDER}; touch {FOLDER}"]))
    with pytest.raises(Refused, match="the sources can't be listed"):
        found.find_line("SomeOrdinaryClass0100.java", 2)


def test_many_breakpoints_are_looked_up_at_once(box: Sandbox) -> None:
    box.write_file("long.py", b"".join(b"value_%d = 1  # %s\n" % (n, b"x" * 90) for n in range(50)))
    requests = [{"file": "long.py", "line": line} for line in range(1, 51)]
    found = look_up(box, requests)
    assert [each["line"] for each in found] == [*range(1, 51)]
    box.run(Command(["sh", "-c", f"rm -rf {FOLDER}; touch {FOLDER}"]))
    with pytest.raises(Refused, match="could not be looked up"):
        look_up(box, requests)
