"""Unified diffs in git's format, as text and as records.

Paths are quoted like git's. File modes and binary contents are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from unidiff import PatchSet
from unidiff.errors import UnidiffParseError

_NO_NEWLINE = "\\ No newline at end of file\n"
_NAMES = re.compile(r'^diff --git (?:a/(.+?)|"a/(.+?)") (?:b/(.+)|"b/(.+)")$', re.MULTILINE)
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


def _hunk_lines(hunk: Iterable[object]) -> tuple[tuple[str, str], ...]:
    lines: list[tuple[str, str]] = []
    for line in map(str, hunk):
        kind, text = line[:1], line[1:]
        if kind == "\\" and lines:
            lines[-1] = lines[-1][0], lines[-1][1].removesuffix("\n")
        elif kind in (" ", "+", "-"):
            lines.append((kind, text))
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


def split_bytes(data: bytes) -> list[bytes]:
    return re.findall(rb"[^\n]*\n|[^\n]+", data)


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
    """git's C-style quoting, which makes any name printable, even if it is not UTF-8.

    Blanks are quoted too, since a `diff --git` line with blanks is ambiguous.
    """
    quoted = ""
    for character in path:
        if character.isprintable() and character not in ' "\\':
            quoted += character
        else:
            encoded = character.encode("utf-8", "surrogateescape")
            quoted += "".join(f"\\{byte:03o}" for byte in encoded)
    return path if quoted == path else f'"{quoted}"'


def unquote(path: str) -> str:
    """The path from git's form, quoted or not; bytes that are not UTF-8 are decoded like
    `os.fsdecode`.
    """
    if not (len(path) > 1 and path.startswith('"') and path.endswith('"')):
        return path

    def byte(found: re.Match[bytes]) -> bytes:
        code = found[1].decode()
        return bytes([_ESCAPES[code] if code in _ESCAPES else int(code, 8)])

    raw = re.sub(rb'\\([0-3][0-7]{2}|[abtnvfr"\\])', byte, path[1:-1].encode())
    return raw.decode(errors="surrogateescape")
