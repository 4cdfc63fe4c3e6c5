"""Unified diffs: make, apply, reverse and cut them, find their lines, and tell test files apart.

Patches are in git's format, so that `git apply` accepts them, but without file modes and binary
contents: a file that is not UTF-8, or large, is only named in a comment line before the first diff.
Renames are read, but not written.
"""

from __future__ import annotations

import difflib
import posixpath
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, groupby, takewhile
from pathlib import PurePosixPath

from unidiff import PatchSet
from unidiff.errors import UnidiffParseError

_NO_NEWLINE = "\\ No newline at end of file\n"
_QUOTED = r'((?:[^"\\\n]|\\.)++)"'
_NAMES = re.compile(rf'^diff --git (?:a/(.+?)|"a/{_QUOTED}) (?:b/(.+)|"b/{_QUOTED})$', re.MULTILINE)
_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}


class PatchError(Exception):
    """A patch can't be parsed or applied; the message names the file and the hunk."""


@dataclass(frozen=True)
class Hunk:
    """One block of changed lines with the lines around it."""

    source_start: int
    target_start: int
    lines: tuple[tuple[str, str], ...]
    """For each line its type (space, + or -) and text, with its line end if it has one."""

    @property
    def old(self) -> list[str]:
        return [text for kind, text in self.lines if kind != "+"]

    @property
    def new(self) -> list[str]:
        return [text for kind, text in self.lines if kind != "-"]


@dataclass(frozen=True)
class FilePatch:
    source: str | None
    """Path before; None: the patch creates the file."""
    target: str | None
    """Path after; None: the patch deletes the file."""
    hunks: tuple[Hunk, ...]

    @property
    def path(self) -> str:
        return self.target or self.source or ""


def parse(patch: str) -> list[FilePatch]:
    """The records of a patch; text around the diffs is skipped. Raises PatchError."""
    try:
        parsed = PatchSet(patch)
    except UnidiffParseError as error:
        raise PatchError(f"not a unified diff: {error}") from error
    files = []
    for file in parsed:
        source, target = _path(file.source_file, "a/"), _path(file.target_file, "b/")
        if file.is_binary_file:
            raise PatchError(f"{target or source}: a binary change can't be applied")
        if any(line.startswith("copy from") for line in file.patch_info or ()):
            raise PatchError(f"{target}: copies can't be applied; make the diff without them")
        hunks = [Hunk(hunk.source_start, hunk.target_start, _hunk_lines(hunk)) for hunk in file]
        files.append(FilePatch(source, target, tuple(hunks)))
    return files


def renamed_files(patch: str) -> list[tuple[str, str]]:
    """The old and new name (usually equal) of each file in a git patch, binary files included."""
    return [
        (old or unquote(f'"{quoted_old}"'), new or unquote(f'"{quoted_new}"'))
        for old, quoted_old, new, quoted_new in _NAMES.findall(patch)
    ]


def named_files(patch: str) -> set[str]:
    """All old and new names of files in a git patch."""
    return {path for pair in renamed_files(patch) for path in pair}


def _hunk_lines(hunk: Iterable[object]) -> tuple[tuple[str, str], ...]:
    lines: list[tuple[str, str]] = []
    for line in map(str, hunk):
        if line.startswith("\\") and lines:
            lines[-1] = lines[-1][0], lines[-1][1].removesuffix("\n")
        elif line.startswith((" ", "+", "-")):
            lines.append((line[0], line[1:]))
    return tuple(lines)


def render(file: FilePatch) -> str:
    source = quote("a/" + (file.source or file.path))
    target = quote("b/" + (file.target or file.path))
    parts = [f"diff --git {source} {target}\n"]
    if file.source is None:
        parts.append("new file mode 100644\n")
    elif file.target is None:
        parts.append("deleted file mode 100644\n")
    elif file.source != file.target:
        parts.append(f"rename from {quote(file.source)}\nrename to {quote(file.target)}\n")
    if file.hunks:
        parts.append(f"--- {source if file.source is not None else '/dev/null'}\n")
        parts.append(f"+++ {target if file.target is not None else '/dev/null'}\n")
    for hunk in file.hunks:
        old, new = len(hunk.old), len(hunk.new)
        parts.append(f"@@ -{hunk.source_start},{old} +{hunk.target_start},{new} @@\n")
        for kind, text in hunk.lines:
            parts.append(kind + text + ("" if text.endswith("\n") else "\n" + _NO_NEWLINE))
    return "".join(parts)


def first_index(start: int, lines: Sequence[object]) -> int:
    """0-based index of a hunk's first line; a side without lines names the line before it."""
    return start - 1 if lines else start


def split_lines(text: str) -> list[str]:
    """Lines with their ends, split only at line feeds, like diffs count them."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _path(header: str, prefix: str) -> str | None:
    # In a patch saved with CRLF, names end in "\r" too.
    path = unquote(header.removesuffix("\r"))
    if path == "/dev/null":
        return None
    path = path.removeprefix(prefix)
    if path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise PatchError(f"{path}: outside of the tree; paths must be relative and without '..'")
    return path


def quote(path: str) -> str:
    """git's C-style quoting, which makes any name printable, even if it is not UTF-8. Blanks are
    quoted too, since a `diff --git` line with blanks is ambiguous."""
    quoted = ""
    for character in path:
        if character.isprintable() and character not in ' "\\':
            quoted += character
        else:
            encoded = character.encode("utf-8", "surrogateescape")
            quoted += "".join(f"\\{byte:03o}" for byte in encoded)
    return path if quoted == path else f'"{quoted}"'


def unquote(path: str) -> str:
    """The path from git's form, quoted or not; decoded like `os.fsdecode`."""
    if not (len(path) > 1 and path.startswith('"') and path.endswith('"')):
        return path

    def byte(found: re.Match[bytes]) -> bytes:
        code = found[1].decode()
        return bytes([_ESCAPES[code] if code in _ESCAPES else int(code, 8)])

    raw = re.sub(rb'\\([0-3][0-7]{2}|[abtnvfr"\\])', byte, path[1:-1].encode())
    return raw.decode(errors="surrogateescape")


class TestFiles:
    """The test files of one bug, from its tests' names and pytest's naming rules.

    Every concurrent rollout has one, so it holds only the names.
    """

    __test__ = False
    __slots__ = ("_names",)

    def __init__(self, tests: Iterable[str] = ()) -> None:
        """`tests`: pytest's node ids, or `package.Class#method` in Java."""
        files = (test.partition("::")[0].partition("#")[0] for test in tests)
        self._names = tuple(map(sys.intern, dict.fromkeys(files)))

    def __contains__(self, path: str) -> bool:
        stem, extension = posixpath.splitext(posixpath.basename(path))
        if extension == ".java":
            own = stem.partition("$")[0]
            return any(own == name.rpartition(".")[2] for name in self._names)
        is_named = stem == "conftest" or stem.startswith("test_") or stem.endswith("_test")
        return is_named or any(path == name or path.endswith(f"/{name}") for name in self._names)


LARGE_FILE = 1024 * 1024
"""Bytes of a file, before or after, above which `diff_trees` only names it."""
MOST_COMPARED = 20_000_000
"""Pairs of equal lines to compare per file, in seconds: enough for real changes. Thousands of equal
lines on both sides would take days."""
BINARY_NOTE = "# binary or large file changed, not in this patch: "
_OPPOSITE = {"+": "-", "-": "+", " ": " "}


class PatchTooLarge(PatchError):
    """A patch would have more lines than allowed."""


@dataclass(frozen=True, slots=True)
class ChangedRange:
    """Lines of the source file that a patch changes, 1-based and inclusive; for a pure insertion
    the lines before and after it, if they exist."""

    path: str
    start: int
    end: int
    insertion: bool = False


@dataclass(frozen=True)
class Edit:
    """Replace `old`, which occurs once in the file, with `new`. An empty `old` creates the file."""

    path: str
    old: str
    new: str


def diff_trees(
    before: Mapping[str, bytes], after: Mapping[str, bytes], most_lines: int | None = None
) -> str:
    """The patch that turns one tree into the other; empty if they are equal. Raises PatchTooLarge
    if it has more than `most_lines` lines."""
    notes, diffs, count = [], list[str](), 0
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        change = None
        if max(len(old or b""), len(new or b"")) <= LARGE_FILE:
            with suppress(UnicodeDecodeError):
                change = _diff_file(path, old, new)
        if change is None:
            notes.append(f"{BINARY_NOTE}{quote(path)}\n")
        else:
            diffs.append(render(change))
            count += diffs[-1].count("\n")
            if most_lines is not None and count > most_lines:
                raise PatchTooLarge(f"the patch has more than {most_lines} lines")
    return "".join(notes + diffs)


def outside(files: Mapping[str, bytes], paths: Sequence[str]) -> dict[str, bytes]:
    """The files except these paths and everything below them."""
    if not paths:
        return dict(files)
    is_below = _below(paths)
    return {path: data for path, data in files.items() if not is_below(path)}


def apply_patch(files: Mapping[str, bytes], patch: str) -> dict[str, bytes]:
    """The tree after the patch, applied without fuzz or offset. Raises PatchError."""
    result = dict(files)
    for file in parse(patch):
        if file.source is not None and file.source not in result:
            raise PatchError(f"{file.source}: the patch changes it, but there is no such file")
        if file.target != file.source and file.target in result:
            raise PatchError(f"{file.target}: the patch creates it, but it exists")
        content = _patched(file, result[file.source] if file.source is not None else b"")
        if file.source is not None:
            del result[file.source]
        if file.target is not None:
            result[file.target] = content
        elif content:
            raise PatchError(f"{file.source}: the patch deletes it, but not all of its lines")
    return result


def reverse_patch(patch: str) -> str:
    return "".join(
        render(FilePatch(file.target, file.source, tuple(map(_reversed, file.hunks))))
        for file in parse(patch)
    )


def _reversed(hunk: Hunk) -> Hunk:
    lines: list[tuple[str, str]] = []
    opposite = [(_OPPOSITE[kind], text) for kind, text in hunk.lines]
    for _, run in groupby(opposite, key=lambda line: line[0] == " "):
        # Removed lines come first by convention. The sort is stable, and "-" > "+".
        lines += sorted(run, key=lambda line: line[0], reverse=True)
    return Hunk(hunk.target_start, hunk.source_start, tuple(lines))


def drop_paths(patch: str, paths: Sequence[str]) -> str:
    """The patch without changes to these files and below these folders."""
    first, is_below = re.search(r"^(diff |--- )", patch, re.MULTILINE), _below(paths)
    notes = [
        line
        for line in split_lines(patch[: first.start()] if first else patch)
        if not is_below(unquote(line.removeprefix(BINARY_NOTE).strip()))
    ]
    kept = [
        render(file)
        for file in parse(patch)
        if not any(is_below(path) for path in (file.source, file.target) if path)
    ]
    return "".join(notes + kept)


def changed_paths(patch: str) -> set[str]:
    """The files that the patch changes, creates, deletes or renames, by old and new name."""
    return {name for file in parse(patch) for name in (file.source, file.target) if name}


def changed_lines(patch: str) -> list[ChangedRange]:
    """The source lines that the patch replaces, removes or inserts next to."""
    return [before for before, _ in changed_ranges(patch)]


def changed_ranges(patch: str) -> list[tuple[ChangedRange, ChangedRange]]:
    """Each changed range of a file that is there, and what becomes of it in the patched file."""
    return [
        ranges
        for file in parse(patch)
        if file.source is not None
        for hunk in file.hunks
        for ranges in zip(
            _hunk_ranges(file.source, hunk),
            _hunk_ranges(file.path, _reversed(hunk)),
            strict=True,
        )
    ]


def hunk_edits(files: Mapping[str, bytes], patch: str) -> list[Edit]:
    """The patch as exact string replacements, to be made in this order.

    Each `old` occurs exactly once in its file after the edits before it. Raises PatchError if the
    patch does not apply or deletes a file.
    """
    apply_patch(files, patch)
    edits: list[Edit] = []
    for file in parse(patch):
        if file.target is None or file.source not in (None, file.target):
            raise PatchError(f"{file.source}: deleting a file is no string replacement")
        try:
            lines = split_lines(files.get(file.target, b"").decode())
        except UnicodeDecodeError as error:
            raise PatchError(
                f"{file.target}: not UTF-8, so no string replacement can change it"
            ) from error
        for hunk in file.hunks:
            edits.append(_edit(file.target, lines, hunk))
            start = first_index(hunk.target_start, hunk.new)
            lines[start : start + len(hunk.old)] = hunk.new
        if file.source is None and not file.hunks:
            edits.append(Edit(file.target, "", ""))
    return edits


def _diff_file(path: str, old: bytes | None, new: bytes | None) -> FilePatch:
    source, target = split_lines((old or b"").decode()), split_lines((new or b"").decode())
    matcher = _Matcher(source, target)
    hunks = []
    for group in matcher.get_grouped_opcodes(3):
        lines: list[tuple[str, str]] = []
        for kind, start, end, new_start, new_end in group:
            lines += [(" " if kind == "equal" else "-", line) for line in source[start:end]]
            if kind != "equal":
                lines += [("+", line) for line in target[new_start:new_end]]
        first, last = group[0], group[-1]
        # In this format, a side without lines has the number of the line before it.
        source_start = first[1] + (last[2] > first[1])
        target_start = first[3] + (last[4] > first[3])
        hunks.append(Hunk(source_start, target_start, tuple(lines)))
    sides = [path if side is not None else None for side in (old, new)]
    return FilePatch(sides[0], sides[1], tuple(hunks))


class _Matcher(difflib.SequenceMatcher[str]):
    """Compares like difflib. If that takes too long, it matches only a common start and end."""

    def __init__(self, source: list[str], target: list[str]) -> None:
        super().__init__(None, source, target, autojunk=False)
        self._source, self._target, self._left = source, target, MOST_COMPARED
        counts = Counter(target)
        self._pairs = list(accumulate((counts[line] + 1 for line in source), initial=0))

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> difflib.Match:
        ahi = len(self._source) if ahi is None else ahi
        bhi = len(self._target) if bhi is None else bhi
        pairs = self._pairs[ahi] - self._pairs[alo]
        if pairs <= self._left:
            self._left -= pairs
            return super().find_longest_match(alo, ahi, blo, bhi)
        source, target = self._source[alo:ahi], self._target[blo:bhi]
        if same := equal_at_start(source, target):
            return difflib.Match(alo, blo, same)
        same = equal_at_start(source[::-1], target[::-1])
        return difflib.Match(ahi - same, bhi - same, same)


def equal_at_start(one: Sequence[object], other: Sequence[object]) -> int:
    """How many items at the start are the same."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _patched(file: FilePatch, data: bytes) -> bytes:
    lines = re.findall(rb"[^\n]*\n|[^\n]+", data)
    offset = 0
    for number, hunk in enumerate(file.hunks, start=1):
        old = [text.encode() for text in hunk.old]
        start = first_index(hunk.source_start, old) + offset
        found = lines[max(start, 0) : start + len(old)]
        if start < 0 or found != old:
            raise PatchError(
                f"{file.path}: hunk {number} (at line {hunk.source_start}) does not match the file"
                f"{_line_endings(old, found)}"
            )
        new = [text.encode() for text in hunk.new]
        lines[start : start + len(old)] = new
        offset += len(new) - len(old)
    return b"".join(lines)


def _line_endings(patch: Sequence[bytes], file: Sequence[bytes]) -> str:
    """A hint if the lines differ only in their line endings."""
    in_patch, in_file = ([line.rstrip(b"\r\n") for line in lines] for lines in (patch, file))
    if patch == file or in_patch != in_file:
        return ""
    if any(line.endswith(b"\r\n") for line in (*patch, *file)):
        return ": only the line endings differ (CRLF and LF); make the patch from the file as it is"
    return ": only the line feed at the end of the file differs"


def _hunk_ranges(path: str, hunk: Hunk) -> Iterator[ChangedRange]:
    line = first_index(hunk.source_start, hunk.old) + 1
    last = line + len(hunk.old) - 1
    for unchanged, run in groupby(hunk.lines, key=lambda item: item[0] == " "):
        removed = sum(kind != "+" for kind, _ in run)
        if not unchanged and removed:
            yield ChangedRange(path, line, line + removed - 1)
        elif not unchanged:
            start = max(line - 1, 1)
            yield ChangedRange(path, start, max(start, min(line, last)), insertion=True)
        line += removed


def _edit(path: str, lines: Sequence[str], hunk: Hunk) -> Edit:
    """One hunk as a replacement, with just enough context to make its old text unique."""
    changed = [index for index, (kind, _) in enumerate(hunk.lines) if kind != " "]
    core = hunk.lines[changed[0] : changed[-1] + 1]
    old = [text for kind, text in core if kind != "+"]
    new = [text for kind, text in core if kind != "-"]
    # The earlier hunks are applied, so this one lies at its target position.
    start = first_index(hunk.target_start, hunk.new) + changed[0]
    end, text = start + len(old), "".join(lines)
    before, after = start, end
    while not _is_unique("".join(lines[before:after]), text) and (before, after) != (0, len(lines)):
        before, after = max(before - 1, 0), min(after + 1, len(lines))
    head, tail = "".join(lines[before:start]), "".join(lines[end:after])
    return Edit(path, head + "".join(old) + tail, head + "".join(new) + tail)


def _is_unique(part: str, text: str) -> bool:
    first = text.find(part)
    return bool(part) and text.find(part, first + 1) == -1


def _below(paths: Iterable[str]) -> Callable[[str], bool]:
    """Whether a path is one of these or below one, in a time that doesn't depend on their number:
    a model chooses how many files it leaves."""
    places = set(map(PurePosixPath, paths))

    def is_below(path: str) -> bool:
        pure = PurePosixPath(path)
        return pure in places or not places.isdisjoint(pure.parents)

    return is_below
