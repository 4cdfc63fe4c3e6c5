"""Unified diffs: make, apply, reverse and cut them, and say which lines they change.

Patches are in git's format (`diff --git`, `a/` and `b/` prefixes, /dev/null for new and deleted
files), so that `git apply` takes them. File modes, renames and binary contents are not carried:
a rename is a deletion and a creation, and a file that is not UTF-8 is only named, in a comment
line before the first diff.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePosixPath

from unidiff import PatchSet
from unidiff.errors import UnidiffParseError

BINARY_NOTE = "# binary file changed, not in this patch: "
_MODE = "100644"
_NO_NEWLINE = "\\ No newline at end of file\n"
_OPPOSITE = {"+": "-", "-": "+", " ": " "}


class PatchError(Exception):
    """A patch can't be parsed or applied; the message names the file and the hunk."""


@dataclass(frozen=True)
class ChangedRange:
    """Lines of the source file that a patch changes, 1-based and inclusive.

    Of a pure insertion: the lines it follows and precedes, as far as there are such.
    """

    path: str
    start: int
    end: int
    insertion: bool = False


@dataclass(frozen=True)
class Edit:
    """Replace `old`, which occurs once in the file, with `new`. An empty `old` makes the file."""

    path: str
    old: str
    new: str


@dataclass(frozen=True)
class _Hunk:
    source_start: int
    target_start: int
    lines: tuple[tuple[str, str], ...]
    """Of each line the type (space, + or -) and the text, with its line end where it has one."""

    @property
    def old(self) -> list[str]:
        return [text for kind, text in self.lines if kind != "+"]

    @property
    def new(self) -> list[str]:
        return [text for kind, text in self.lines if kind != "-"]


@dataclass(frozen=True)
class _FilePatch:
    source: str | None
    target: str | None
    hunks: tuple[_Hunk, ...]

    @property
    def path(self) -> str:
        return self.target or self.source or ""


def diff_trees(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """The patch that turns one tree into the other; empty where they are equal."""
    notes, diffs = [], []
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        try:
            diffs.append(_render(_diff_file(path, old, new)))
        except UnicodeDecodeError:
            notes.append(f"{BINARY_NOTE}{_quote(path)}\n")
    return "".join(notes + diffs)


def apply_patch(files: Mapping[str, bytes], patch: str) -> dict[str, bytes]:
    """The tree after the patch: exact, without fuzz or offset. Raises PatchError."""
    result = dict(files)
    for file in _parse(patch):
        content = _patched(file, result)
        if file.source is not None:
            del result[file.source]
        if file.target is not None:
            result[file.target] = content
        elif content:
            raise PatchError(f"{file.source}: the patch deletes it, but not all of its lines")
    return result


def reverse_patch(patch: str) -> str:
    """The patch that undoes this one. Raises PatchError."""
    return "".join(
        _render(_FilePatch(file.target, file.source, tuple(map(_reversed, file.hunks))))
        for file in _parse(patch)
    )


def drop_paths(patch: str, paths: Sequence[str]) -> str:
    """The patch without what it does to these files and below these folders."""
    notes = [
        line
        for line in patch[: _first_diff(patch)].splitlines(keepends=True)
        if not _is_below(_unquote(line.removeprefix(BINARY_NOTE).strip()), paths)
    ]
    kept = [
        _render(file)
        for file in _parse(patch)
        if not any(_is_below(path, paths) for path in (file.source, file.target) if path)
    ]
    return "".join(notes + kept)


def changed_lines(patch: str) -> list[ChangedRange]:
    """Which lines of the source files the patch replaces, removes or inserts next to."""
    return [
        changed
        for file in _parse(patch)
        if file.source is not None
        for hunk in file.hunks
        for changed in _hunk_ranges(file.source, hunk)
    ]


def hunk_edits(files: Mapping[str, bytes], patch: str) -> list[Edit]:
    """The patch as exact string replacements, to be made in this order.

    Each `old` occurs exactly once in its file as the edits before it left that file. Raises
    PatchError where the patch does not apply, or deletes a file.
    """
    apply_patch(files, patch)
    edits: list[Edit] = []
    for file in _parse(patch):
        if file.target is None or file.source not in (None, file.target):
            raise PatchError(f"{file.source}: deleting a file is no string replacement")
        lines = _split(_decoded(file.target, files))
        for hunk in file.hunks:
            edits.append(_edit(file.target, lines, hunk))
            start = _index(hunk.target_start, hunk.new)
            lines[start : start + len(hunk.old)] = hunk.new
        if file.source is None and not file.hunks:
            edits.append(Edit(file.target, "", ""))
    return edits


def _diff_file(path: str, old: bytes | None, new: bytes | None) -> _FilePatch:
    source, target = _split((old or b"").decode()), _split((new or b"").decode())
    matcher = difflib.SequenceMatcher(None, source, target, autojunk=False)
    hunks = []
    for group in matcher.get_grouped_opcodes(3):
        lines: list[tuple[str, str]] = []
        for kind, start, end, new_start, new_end in group:
            if kind == "equal":
                lines += [(" ", line) for line in source[start:end]]
            else:
                lines += [("-", line) for line in source[start:end]]
                lines += [("+", line) for line in target[new_start:new_end]]
        first, last = group[0], group[-1]
        # A side without lines is numbered by the line before it: the format's own oddity.
        source_start = first[1] + (last[2] > first[1])
        target_start = first[3] + (last[4] > first[3])
        hunks.append(_Hunk(source_start, target_start, tuple(lines)))
    return _FilePatch(
        path if old is not None else None, path if new is not None else None, tuple(hunks)
    )


def _parse(patch: str) -> list[_FilePatch]:
    try:
        parsed = PatchSet(patch)
    except UnidiffParseError as error:
        raise PatchError(f"not a unified diff: {error}") from error
    files = []
    for file in parsed:
        source, target = _path(file.source_file, "a/"), _path(file.target_file, "b/")
        if file.is_binary_file:
            raise PatchError(f"{target or source}: a binary change can't be applied")
        hunks = tuple(
            _Hunk(hunk.source_start, hunk.target_start, tuple(_hunk_lines(hunk))) for hunk in file
        )
        files.append(_FilePatch(source, target, hunks))
    return files


def _hunk_lines(hunk: Sequence[object]) -> Iterator[tuple[str, str]]:
    pending: tuple[str, str] | None = None
    for line in hunk:
        kind, text = str(line)[:1], str(line)[1:]
        if kind == "\\" and pending is not None:
            pending = pending[0], pending[1].removesuffix("\n")
        elif kind in _OPPOSITE:
            if pending is not None:
                yield pending
            pending = kind, text
    if pending is not None:
        yield pending


def _render(file: _FilePatch) -> str:
    source = _quote("a/" + (file.source or file.path))
    target = _quote("b/" + (file.target or file.path))
    parts = [f"diff --git {source} {target}\n"]
    if file.source is None:
        parts.append(f"new file mode {_MODE}\n")
    elif file.target is None:
        parts.append(f"deleted file mode {_MODE}\n")
    if file.hunks:
        parts.append(f"--- {source if file.source is not None else '/dev/null'}\n")
        parts.append(f"+++ {target if file.target is not None else '/dev/null'}\n")
    for hunk in file.hunks:
        old, new = len(hunk.old), len(hunk.new)
        parts.append(f"@@ -{hunk.source_start},{old} +{hunk.target_start},{new} @@\n")
        for kind, text in hunk.lines:
            parts.append(kind + text + ("" if text.endswith("\n") else "\n" + _NO_NEWLINE))
    return "".join(parts)


def _patched(file: _FilePatch, files: Mapping[str, bytes]) -> bytes:
    if file.source is not None and file.source not in files:
        raise PatchError(f"{file.source}: the patch changes it, but there is no such file")
    if file.target != file.source and file.target in files:
        raise PatchError(f"{file.target}: the patch creates it, but it exists")
    lines = _split_bytes(files[file.source]) if file.source is not None else []
    offset = 0
    for number, hunk in enumerate(file.hunks, start=1):
        old = [text.encode() for text in hunk.old]
        start = _index(hunk.source_start, old) + offset
        if start < 0 or lines[start : start + len(old)] != old:
            raise PatchError(
                f"{file.path}: hunk {number} (at line {hunk.source_start}) does not match the file"
            )
        new = [text.encode() for text in hunk.new]
        lines[start : start + len(old)] = new
        offset += len(new) - len(old)
    return b"".join(lines)


def _reversed(hunk: _Hunk) -> _Hunk:
    lines = [(_OPPOSITE[kind], text) for kind, text in hunk.lines]
    ordered: list[tuple[str, str]] = []
    for _, run in groupby(lines, key=lambda line: line[0] == " "):
        # Removed lines come first by convention. The sort is stable, and "-" > "+".
        ordered += sorted(run, key=lambda line: line[0], reverse=True)
    return _Hunk(hunk.target_start, hunk.source_start, tuple(ordered))


def _hunk_ranges(path: str, hunk: _Hunk) -> Iterator[ChangedRange]:
    line = _index(hunk.source_start, hunk.old) + 1
    last = line + len(hunk.old) - 1
    for unchanged, run in groupby(hunk.lines, key=lambda item: item[0] == " "):
        kinds = [kind for kind, _ in run]
        removed = sum(kind != "+" for kind in kinds)
        if not unchanged and removed:
            yield ChangedRange(path, line, line + removed - 1)
        elif not unchanged:
            start = max(line - 1, 1)
            yield ChangedRange(path, start, max(start, min(line, last)), insertion=True)
        line += removed


def _edit(path: str, lines: Sequence[str], hunk: _Hunk) -> Edit:
    """One hunk as a replacement, with as little context as makes its old text unique."""
    changed = [index for index, (kind, _) in enumerate(hunk.lines) if kind != " "]
    core = hunk.lines[changed[0] : changed[-1] + 1]
    old = [text for kind, text in core if kind != "+"]
    new = [text for kind, text in core if kind != "-"]
    # The hunks before this one are applied already, so it lies where the target side says.
    start = _index(hunk.target_start, hunk.new) + changed[0]
    end, text = start + len(old), "".join(lines)
    before, after = start, end
    while not _is_unique("".join(lines[before:after]), text) and (before, after) != (0, len(lines)):
        before, after = max(before - 1, 0), min(after + 1, len(lines))
    head, tail = "".join(lines[before:start]), "".join(lines[end:after])
    return Edit(path, head + "".join(old) + tail, head + "".join(new) + tail)


def _decoded(path: str, files: Mapping[str, bytes]) -> str:
    try:
        return files.get(path, b"").decode()
    except UnicodeDecodeError as error:
        raise PatchError(f"{path}: not UTF-8, so no string replacement can change it") from error


def _is_unique(part: str, text: str) -> bool:
    first = text.find(part)
    return bool(part) and text.find(part, first + 1) == -1


def _index(start: int, lines: Sequence[object]) -> int:
    """0-based index of a hunk's first line; a side without lines names the line before it."""
    return start - 1 if lines else start


def _split(text: str) -> list[str]:
    """Lines with their ends, split at line feeds only, as diffs count them."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _split_bytes(data: bytes) -> list[bytes]:
    return re.findall(rb"[^\n]*\n|[^\n]+", data)


def _first_diff(patch: str) -> int:
    found = re.search(r"^(diff |--- )", patch, re.MULTILINE)
    return found.start() if found else len(patch)


def _is_below(path: str, paths: Sequence[str]) -> bool:
    return any(PurePosixPath(path).is_relative_to(folder) for folder in paths)


def _path(header: str, prefix: str) -> str | None:
    path = _unquote(header)
    if path == "/dev/null":
        return None
    path = path.removeprefix(prefix)
    if path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise PatchError(f"{path}: outside of the tree; paths must be relative and without '..'")
    return path


def _quote(path: str) -> str:
    """git's C-style quoting. Blanks too, for a `diff --git` line with blanks is ambiguous."""
    if re.fullmatch(r'[^\x00-\x20"\\\x7f]+', path):
        return path
    escape = r'[\x00-\x20"\\\x7f]'
    return '"' + re.sub(escape, lambda found: f"\\{ord(found[0]):03o}", path) + '"'


_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}


def _unquote(path: str) -> str:
    if not (len(path) > 1 and path.startswith('"') and path.endswith('"')):
        return path

    def byte(found: re.Match[bytes]) -> bytes:
        code = found[1].decode()
        return bytes([_ESCAPES[code] if code in _ESCAPES else int(code, 8)])

    raw = re.sub(rb'\\([0-7]{3}|[abtnvfr"\\])', byte, path[1:-1].encode())
    return raw.decode(errors="replace")
