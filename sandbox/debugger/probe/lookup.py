"""Find the file, function or test that a name means, or else the nearest names."""

from __future__ import annotations

import os
import re
from typing import Dict, List, Optional, Tuple

from .interpreter import import_standard
from .own import basename, isfile, join, read_file, realpath
from .source import Function
from .wire import Refusal
from .workspace import Workspace


def find_file(workspace: Workspace, name: str) -> str:
    """The one file that a name means. Raises Refusal with the nearest names."""
    direct = realpath(join(workspace.root, name))
    if isfile(direct):
        return direct
    known = list(workspace.files())
    ending = os.sep + name.lstrip("./")
    matches = [path for path in known if path.endswith(ending)]
    if len(matches) == 1:
        return matches[0]
    relative = [workspace.relative(path) for path in matches or known]
    if matches:
        raise Refusal("{} is ambiguous: {}".format(name, ", ".join(relative[:8])))
    raise Refusal(f"there is no file {name}{nearest(name, relative)}")


def list_tests(workspace: Workspace, files: Optional[List[str]] = None) -> List[str]:
    """The node ids of the test functions in the given files, by default in all test files."""
    if files is None:
        pattern = re.compile(r"(?:^|[/\\])(?:test_[^/\\]*|[^/\\]*_test|tests)\.py$")
        files = [path for path in workspace.files() if pattern.search(path)]
    found = []
    for path in files[:500]:
        try:
            functions = workspace.source(path).functions
        except Refusal:
            continue  # a file that does not compile has no runnable tests
        for function in functions:
            if function.name.startswith("test"):
                qualified = function.qualified.replace(".", "::")
                found.append(f"{workspace.relative(path)}::{qualified}")
    return found


def find_tests(workspace: Workspace, name: str) -> List[str]:
    """The node ids of the test functions, or of the test classes, with a bare name."""
    tests = list_tests(workspace)
    functions = [test for test in tests if test.endswith("::" + name)]
    classes = [test.rpartition("::")[0] for test in tests if f"::{name}::" in test]
    return functions or list(dict.fromkeys(classes))


def find_function(workspace: Workspace, spec: str) -> Tuple[str, Function]:
    """The function that `name`, `Class.name`, `module.name` or `file.py:name` means."""
    file, _, name = spec.rpartition(":") if ".py:" in spec else ("", "", spec)
    parts = name.replace("::", ".").replace("()", "").strip().strip(".:").split(".")
    if file:
        paths = [find_file(workspace, file.rstrip(":"))]
    else:
        paths = files_defining(workspace, parts[-1])
    found = matching_functions(workspace, paths, parts)
    if len(found) == 1:
        return found[0]
    if found:
        names = [f"{workspace.relative(path)}:{f.qualified}" for path, f in found]
        raise Refusal("{} is ambiguous: {}".format(spec, ", ".join(names[:8])))
    raise Refusal(f"there is no function {spec}{near_functions(workspace, parts, paths)}")


def matching_functions(
    workspace: Workspace, paths: List[str], parts: List[str]
) -> List[Tuple[str, Function]]:
    """Functions with exactly that qualified name, or else those whose name ends with it."""
    exact: List[Tuple[str, Function]] = []
    loose: List[Tuple[str, Function]] = []
    for path in paths:
        module = workspace.relative(path)[:-3].replace(os.sep, ".")
        for function in workspace.source(path).functions:
            match = match_quality(module, function, parts)
            if match:
                (exact if match == 2 else loose).append((path, function))
    return exact or loose


def match_quality(module: str, function: Function, parts: List[str]) -> int:
    """2: the whole qualified name was given; 1: its last part; 0: another function."""
    for size in range(len(parts), 0, -1):
        prefix = parts[:-size]
        if prefix and not ("." + module).endswith("." + ".".join(prefix)):
            continue
        suffix = ".".join(parts[-size:])
        if function.qualified == suffix:
            return 2
        if function.qualified.endswith("." + suffix):
            return 1
    return 0


def files_defining(workspace: Workspace, name: str) -> List[str]:
    pattern = re.compile(rb"\bdef\s+" + re.escape(name.encode("utf-8")) + rb"\s*\(")
    found = []
    for path in workspace.files():
        if not pattern.search(read_file(path)):
            continue
        try:
            workspace.source(path)
        except Refusal:
            continue  # a file that does not compile can't hold a running function
        found.append(path)
    return found


def near_functions(workspace: Workspace, parts: List[str], paths: List[str]) -> str:
    names: Dict[str, str] = {}
    for path in paths or workspace.files():
        for match in re.finditer(rb"^\s*(?:async\s+)?def\s+(\w+)", read_file(path), re.M):
            names.setdefault(match.group(1).decode("utf-8"), workspace.relative(path))
        if len(names) > 4000:
            break
    close = closest(parts[-1], list(names))
    listed = ", ".join(f"{names[name]}:{name}" for name in close)
    return "; nearest: " + listed if listed else ""


def near_tests(workspace: Workspace, test_id: str) -> str:
    """The tests with the nearest names, in the named file or in all."""
    path, _, name = test_id.partition("::")
    wanted = re.split(r"[.:]", name or path)[-1].partition("[")[0]
    try:
        files = [find_file(workspace, path)] if path.endswith(".py") else None
    except Refusal as refusal:
        return f"; {refusal}"
    tests = list_tests(workspace, files)
    names = {re.split("::", test)[-1]: test for test in reversed(tests)}
    close = [names[found] for found in closest(wanted, list(names))] or tests[:8]
    return "; nearest: " + ", ".join(close) if close else "; there are no tests here"


def closest(name: str, names: List[str]) -> List[str]:
    difflib = import_standard("difflib")
    found: List[str] = difflib.get_close_matches(name, names[:4000], 5, 0.5)
    return found


def nearest(name: str, names: List[str]) -> str:
    base = basename(name)
    close = closest(name, names)
    close += [path for path in names if basename(path) == base and path not in close]
    return "; nearest: " + ", ".join(close[:5]) if close else ""
