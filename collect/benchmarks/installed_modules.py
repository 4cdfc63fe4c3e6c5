"""Prints those of the named modules that Python itself or an installed package has.

It is run in a sandbox (see `collect.benchmarks.running`) by the interpreter of the bugs' tests:
standard library only, CPython 3.8 and later. Its argument is the workspace, which doesn't count;
it reads the names from standard input, one a line.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path


def main(workspace: str) -> None:
    # An environment inside the workspace is not the project's own code.
    environments = (sys.prefix, sys.base_prefix)
    listed = [*os.environ.get("PYTHONPATH", "").split(os.pathsep), *sys.path]
    paths = [
        path
        for path in map(os.path.abspath, filter(None, listed))
        if not is_below(path, workspace) or any(is_below(path, each) for each in environments)
    ]
    for name in sys.stdin.buffer.read().decode().split("\n"):
        if name in sys.builtin_module_names or is_installed(name, paths):
            print(name)


def is_installed(name: str, paths: list[str]) -> bool:
    spec = PathFinder.find_spec(name, paths)
    if spec is None:
        return False
    if spec.origin is not None:
        return True
    # Any folder is a package; what counts holds modules.
    folders = spec.submodule_search_locations or ()
    return any(True for folder in folders for _ in Path(folder).rglob("*.py"))


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


if __name__ == "__main__":
    main(sys.argv[1])
