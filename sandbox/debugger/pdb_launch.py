"""What a launch is to pdb: the command that runs it, and where its test begins."""

from __future__ import annotations

from sandbox.base import Command, Sandbox
from sandbox.debugger.channel import Json
from sandbox.debugger.records import ErrorKind
from sandbox.debugger.terminal_session import Refused, stdin_source

# pdb clears the namespace of `__main__`, where this runs; and `.pdbrc` may hold anything.
RUN_PDB = """\
def run():
    import pdb, sys
    terminal, screen = open("/dev/tty"), sys.stdout
    class Pdb(pdb.Pdb):
        def __init__(self, *arguments, **named):
            named.update(stdin=terminal, stdout=screen, readrc=False)
            super().__init__(*arguments, **named)
    pdb.Pdb = Pdb
    pdb.main()
run()
"""
ENVIRONMENT = {
    "COLUMNS": "100",
    "NO_COLOR": "1",
    "PYTHON_COLORS": "0",
    "PYTHON_BASIC_REPL": "1",
}
PYTEST_OPTIONS = "-s -q --pdb -p no:cacheprovider"
"""Given by the environment: on the command line pdb 3.13.0 would read them itself."""

MODULES = {"pytest": ["-m", "pytest"], "unittest": ["-m", "unittest"], "module": ["-m"]}


def pdb_command(sandbox: Sandbox, kind: str, names: list[str], stdin: str) -> Command:
    """pdb on a target, its standard input the program's alone."""
    program = (sandbox.python, "-c", RUN_PDB, *MODULES.get(kind, []), *names)
    script = f'exec "$@" < {stdin_source(sandbox, stdin)}'
    own = sandbox.config.environment.get("PYTEST_ADDOPTS", "")
    environment = {**ENVIRONMENT, "PYTEST_ADDOPTS": f"{own} {PYTEST_OPTIONS}".strip()}
    return Command(("sh", "-c", script, "sh", *program), env=environment)


def entry_requests(target: Json) -> list[Json]:
    """What to look up so as to stop where the test begins."""
    name = target["names"][0]
    if target["kind"] == "name":
        return [{"test": name}]
    if target["kind"] == "unittest":
        return [{"function": name}] if name != "discover" else []
    path, _, test = name.partition("::")
    if target["kind"] != "pytest" or not test:
        return []
    return [{"function": f"{path}:{test.partition('[')[0].replace('::', '.')}"}]


def resolved(target: Json, entries: list[Json]) -> list[str]:
    """The names to run: a bare name is the one test that has it. Raises Refused."""
    names: list[str] = target["names"]
    if target["kind"] != "name":
        return names
    tests = entries[0]["tests"]
    if len(tests) != 1:
        found = f"several tests: {', '.join(tests[:8])}" if tests else "no such test"
        raise Refused(f"{names[0]}: {found}", ErrorKind.NO_SUCH_TEST)
    return list(tests)
