"""Which function of the program, or else of an installed library, a name means."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Iterable, Iterator

from .own import basename, isfile, join, read_file, walk
from .sources import Function
from .wire import Refusal
from .workspace import Workspace, closest, find_source

IN_FULL = "; for one of a library: package.module.function, or its file and a line"


def find_functions(workspace: Workspace, spec: str) -> tuple[str, list[Function]]:
    """The function that `name`, `Class.name`, `module.name` or `file.py:name` means, or all lambdas
    that `name.<lambda>` does, and their file. Those of libraries take a `Class` or a `module`."""
    file, _, name = spec.rpartition(":") if ".py:" in spec else ("", "", spec)
    plain = name.replace("::", ".").replace("()", "").replace("<locals>.", "")
    parts = plain.strip().strip(".:").split(".")
    if file:
        paths = [find_source(workspace, file.rstrip(":"))]
    else:
        named = [part for part in parts if not part.startswith("<")]
        paths = files_defining(workspace, named[-1]) if named else []
    found = matching_functions(workspace, paths, parts)
    if not found and not file and len(parts) > 1:
        found = library_functions(workspace, parts)
    if len(found) > 1:  # files that can't be imported are copies and the like
        found = [each for each in found if basename(each[0])[:-3].isidentifier()] or found
    if len({(path, f.qualified if f.name.startswith("<") else f) for path, f in found}) == 1:
        return found[0][0], [function for _, function in found]
    if found:
        names = [f"{workspace.relative(path)}:{f.body_line} in {f.qualified}" for path, f in found]
        listed = ", ".join(names[:8])
        raise Refusal(f"{spec} is ambiguous; give the line of one of these instead: {listed}")
    if name.endswith(".py"):
        raise Refusal(f"{spec} is no function; for a line of a file, {spec}:LINE")
    near = near_functions(workspace, parts, paths)
    raise Refusal(f"the program has no function {spec}{near}{'' if file else IN_FULL}")


def library_functions(workspace: Workspace, parts: list[str]) -> list[tuple[str, Function]]:
    """Functions of installed modules, which need not be imported yet: the one in a module or a
    package that is named, or else those of exactly that name, as far as they are found soon,
    unless the program has such a class."""
    if not all(part.isidentifier() for part in parts[:-1]):
        return []  # such as a path, below which there may be much to read
    for size in range(len(parts) - 1, 0, -1):
        for folder in sorted(workspace.import_folders):
            for paths in module_files(join(folder, *parts[:size])):
                found = functions_named(workspace, paths, parts[size:])
                if found:
                    return found
    if methods_of(workspace, parts[-2]):
        return []
    return functions_named(workspace, workspace.installed_files(), parts)


def module_files(path: str) -> Iterator[list[str]]:
    """The file of a module; of a package, then all of its files, from which it may import."""
    yield [file for file in (path + ".py", join(path, "__init__.py")) if isfile(file)]
    yield [
        join(folder, name)
        for folder, _, names in walk(path)
        for name in sorted(names)
        if name.endswith(".py") and isfile(join(folder, name))
    ]


def functions_named(
    workspace: Workspace, paths: Iterable[str], parts: list[str]
) -> list[tuple[str, Function]]:
    """The functions of files that have exactly this qualified name."""
    named = [part for part in parts if not part.startswith("<")]
    found = []
    for path in defining(workspace, paths, named[-1]) if named else ():
        source = workspace.source(path)
        for function in (*source.functions, *source.unnamed):
            if function.qualified == ".".join(parts) and not function.is_stub:
                found.append((path, function))
    return found


def matching_functions(
    workspace: Workspace, paths: list[str], parts: list[str]
) -> list[tuple[str, Function]]:
    """Functions with exactly that qualified name, or else those whose name ends with it."""
    exact: list[tuple[str, Function]] = []
    loose: list[tuple[str, Function]] = []
    for path in paths:
        module = workspace.relative(path)[:-3].replace(os.sep, ".")
        source = workspace.source(path)
        for function in (*source.functions, *source.unnamed):
            match = 0 if function.is_stub else match_quality(module, function, parts)
            if match:
                (exact if match == 2 else loose).append((path, function))
    return exact or loose


def match_quality(module: str, function: Function, parts: list[str]) -> int:
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


def files_defining(workspace: Workspace, name: str) -> list[str]:
    return list(defining(workspace, workspace.files(), name))


def defining(workspace: Workspace, paths: Iterable[str], name: str) -> Iterator[str]:
    """Those of the files that define a function or a class of that name."""
    pattern = re.compile(rb"\b(?:def|class)\s+" + re.escape(name.encode("utf-8")) + rb"\b")
    for path in paths:
        if not pattern.search(read_file(path)):
            continue
        try:
            workspace.source(path)
        except Refusal:
            continue  # a file that does not compile can't hold a running function
        yield path


def near_functions(workspace: Workspace, parts: list[str], paths: list[str]) -> str:
    """For an error: the methods of the class that is named, or else the nearest names."""
    methods = methods_of(workspace, parts[-2]) if len(parts) > 1 else {}
    if methods:
        close = closest(parts[-1], list(methods))
        shown = [methods[name] for name in dict.fromkeys([*close, *methods])][:8]
        return "; nearest: " + ", ".join(shown)
    names: dict[str, list[str]] = {}
    for path in paths or workspace.files():
        for match in re.finditer(rb"^[ \t]*(?:async\s+)?def\s+(\w+)", read_file(path), re.M):
            names.setdefault(match.group(1).decode("utf-8"), []).append(path)
        if len(names) > 4000:
            break
    found = [first_defining(workspace, names[name], name) for name in closest(parts[-1], [*names])]
    listed = ", ".join(filter(None, found))
    return "; nearest: " + listed if listed else ""


def first_defining(workspace: Workspace, paths: list[str], name: str) -> str:
    """The first file that has such a function, as `file:name`; empty if a text of theirs has it."""
    for path in paths:
        with suppress(Refusal):
            if any(function.name == name for function in workspace.source(path).functions):
                return f"{workspace.relative(path)}:{name}"
    return ""


def methods_of(workspace: Workspace, kind: str) -> dict[str, str]:
    """The methods of the classes with a name, as `file:Class.method` by their own names."""
    found: dict[str, str] = {}
    for path in files_defining(workspace, kind):
        for function in workspace.source(path).functions:
            *owners, name = function.qualified.split(".")
            if owners[-1:] == [kind]:
                found.setdefault(name, f"{workspace.relative(path)}:{function.qualified}")
    return found
