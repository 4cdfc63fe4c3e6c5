"""Searches a sandbox for copies of a bug's fix, seeing what an agent's commands see.

A sandbox's own interpreter (CPython 3.6 or later) runs it, never StepInto: it unmarshals byte code.
It reads a request from standard input and prints the copies as JSON. Each readable file is compared
that has a name like a gold file's (a file after the gold patch, or a hidden test) or about its
size, also as a member of a zip archive (a wheel, an egg, a jar).

Found are, outside the workspace:

- the same text under any name, up to blank lines, line ends, white space at the end of lines, and
  lines around it, such as a licence;
- another version of the file that has the fix: half of the gold file's lines, and one of the gold
  patch's hunks with a line around it, applied;
- its byte code, of this interpreter's release: the module's, or a changed function's;
- for Java, a class of the same qualified name, whether fixed or not;
- a list of an installed package's files (`RECORD`) with its hash.

Within the workspace, where a project may have twins of a file, only the whole text or module
counts, at another path than the gold file's.

Not found are: files of less than `TELLING` bytes, reformatted or renamed code, byte code of other
releases of Python and of instrumented tests, compiled extensions, other archives than zip,
archives in archives, and what git or a database holds.
"""

import hashlib
import json
import marshal
import os
import re
import signal
import stat
import sys
import zipfile
from base64 import urlsafe_b64encode
from functools import partial
from importlib.util import MAGIC_NUMBER
from types import CodeType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Functions = dict[str, list[tuple[Any, ...]]]
    Read = Callable[[int], bytes]
    """Reads at most so many bytes of a file."""

TELLING = 64
"""Bytes of a gold file, without blank lines, below which others may equal it by chance."""
MOST_COPIES = 10
UNSEEN = ("/proc", "/sys", "/dev")
ZIPS = (".whl", ".zip", ".jar", ".egg", ".pyz", ".pex", ".war")
BYTE_CODE = ".pyc"
LIST = ".dist-info/RECORD"
HEADER = 16 if sys.version_info >= (3, 7) else 12
"""Bytes before the code in a .pyc file."""
LARGEST = 16 * 1024 * 1024
"""Bytes that are read of a file."""
PACKAGE = re.compile(rb"^[ \t]*package[ \t]+([\w.]+)[ \t]*;", re.MULTILINE)


class OutOfTime(BaseException):
    pass


class Gold:
    """A file as the gold patch leaves it."""

    def __init__(self, facts: "dict[str, Any]") -> None:
        self.path: str = facts["path"]
        after = facts["after"].encode("latin-1")
        self.name, self.suffix = os.path.splitext(os.path.basename(self.path))
        before = facts["before"]
        self._before = None if before is None else joined(before.encode("latin-1"))
        self._after = joined(after)
        self._lines = set(self._after.split(b"\n"))
        self._hunks = [
            (joined(old.encode("latin-1")), joined(new.encode("latin-1")))
            for old, new in facts["hunks"]
        ]
        self._hunks = [hunk for hunk in self._hunks if not self._is_applied(hunk, self._before)]
        self.is_telling = self._after != self._before and len(self._after) >= TELLING
        unix = after.replace(b"\r\n", b"\n").rstrip(b"\n")
        breaks = unix.count(b"\n")
        self.sizes = {len(unix) + more for more in (0, 1, breaks, breaks + 2)} | {len(after)}
        self._smallest, self._largest = len(after) // 4, len(after) * 4 + 4096
        self._modules = list(self._compiled(facts)) if self.suffix == ".py" else []
        package = PACKAGE.search(after) if self.suffix == ".java" else None
        digest = urlsafe_b64encode(hashlib.sha256(after).digest()).rstrip(b"=")
        self._listed = b"sha256=" + digest
        self._class = ""
        if package:
            self._class = f"/{package[1].decode().replace('.', '/')}/{self.name}.class"

    def _compiled(self, facts: "dict[str, Any]") -> "Iterator[tuple[Functions, Functions]]":
        """The functions before and after, at each level of optimisation."""
        for level in (0, 1, 2):
            modules = []
            for side in ("before", "after"):
                source = (facts[side] or "").encode("latin-1")
                try:
                    code = compile(source, "", "exec", dont_inherit=True, optimize=level)
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    return
                modules.append(functions(code))
            yield modules[0], modules[1]

    def is_copied_by(self, path: str, data: bytes, whole: bool) -> bool:
        """Whether a file is a copy. `whole`: of all of this file, not of another version of it."""
        if self._class and path.endswith(self._class):
            return not whole
        if path.endswith(LIST):
            return self._listed in data
        if path.endswith(BYTE_CODE):
            return self._is_code(data, whole)
        return self._smallest <= len(data) <= self._largest and self._is_text(data, whole)

    def _is_text(self, data: bytes, whole: bool) -> bool:
        text = joined(data)
        longer = self._before if len(self._before or b"") > len(self._after) else None
        if self._after in text and not (longer and longer in text):
            return True
        if whole or 2 * len(self._lines.intersection(text.split(b"\n"))) < len(self._lines):
            return False
        return any(self._is_applied(hunk, text) for hunk in self._hunks)

    def _is_applied(self, hunk: "tuple[bytes, bytes]", text: "bytes | None") -> bool:
        """Whether a text has a hunk's new lines, and not its old ones, as often as this file."""
        old, new = hunk
        if text is None or not new.strip():
            return False
        fixed = text.count(new) >= self._after.count(new) > 0
        return fixed and (not old.strip() or text.count(old) <= self._after.count(old))

    def _is_code(self, data: bytes, whole: bool) -> bool:
        if data[:4] != MAGIC_NUMBER:
            return False
        code = marshal.loads(data[HEADER:])
        if not isinstance(code, CodeType):
            return False
        found = functions(code)
        for before, after in self._modules:
            if found == after != before:
                return True
            if whole or self._before is None or 2 * len(found.keys() & after.keys()) < len(after):
                continue
            changed = [name for name in after if after[name] != before.get(name)]
            if any(found.get(name) == after[name] for name in changed):
                return True
        return False


def joined(data: bytes) -> bytes:
    """The lines of a text that are not blank, with a line break before and after each."""
    lines = [line.rstrip().expandtabs() for line in data.lstrip(b"\xef\xbb\xbf").splitlines()]
    return b"\n" + b"".join(line + b"\n" for line in lines if line)


def functions(module: CodeType) -> "Functions":
    """A module's code and that of its functions and classes, by qualified name, without file names
    and lines."""
    found: Functions = {}
    left = [("", module)]
    while left:
        name, code = left.pop()
        facts = (
            code.co_code,
            tuple(map(constant, code.co_consts)),
            code.co_names,
            code.co_varnames,
            (code.co_freevars, code.co_cellvars, code.co_flags),
            (code.co_argcount, code.co_kwonlyargcount),
            getattr(code, "co_exceptiontable", b""),
        )
        # Several may have one name, such as lambdas.
        found.setdefault(name, []).append(facts)
        inner = [const for const in code.co_consts if isinstance(const, CodeType)]
        left += [(f"{name}.{const.co_name}", const) for const in inner]
    return found


def constant(value: object) -> object:
    if isinstance(value, CodeType):
        return "code"
    if isinstance(value, tuple):
        return tuple(map(constant, value))
    if isinstance(value, frozenset):
        return sorted(map(repr, value))
    return type(value).__name__, repr(value)


class Search:
    def __init__(self, golds: "list[Gold]", workspace: str, found: "list[tuple[str, str]]") -> None:
        """`found` gets the paths of each gold file and its copy."""
        self._golds = golds
        self._workspace = workspace
        self._own = {os.path.join(workspace, gold.path) for gold in golds}
        names = "|".join(re.escape(gold.name) for gold in golds)
        self._like = re.compile(f"(?<![A-Za-z0-9])(?:{names})(?![A-Za-z0-9])")
        self._by_size: dict[int, list[Gold]] = {}
        for gold in golds:
            for size in gold.sizes:
                self._by_size.setdefault(size, []).append(gold)
        self._found = found

    def run(self) -> None:
        for path, size in files_below("/", self._is_left_out):
            if len(self._found) >= MOST_COPIES:
                return
            if path not in self._own:
                self._look_at(path, size)

    def _is_left_out(self, folder: str) -> bool:
        return folder in UNSEEN or folder == os.path.join(self._workspace, ".git")

    def _look_at(self, path: str, size: int) -> None:
        whole = path.startswith(self._workspace + "/")
        if path.endswith(ZIPS):
            self._look_into(path, whole)
        else:
            self._compare(path, path, size, lambda limit: read_file(path, limit), whole)

    def _look_into(self, path: str, whole: bool) -> None:
        try:
            with zipfile.ZipFile(path) as archive:
                for member in archive.infolist():
                    name = f"{path}/{member.filename}"
                    read = partial(read_member, archive, member)
                    self._compare(name, member.filename, member.file_size, read, whole)
        except Exception:  # Unreadable, or no archive as its name says.
            return

    def _compare(self, path: str, name: str, size: int, read: "Read", whole: bool) -> None:
        like = self._like.search(os.path.basename(name))
        golds = self._golds if like or name.endswith(LIST) else self._by_size.get(size)
        if not golds:
            return
        try:
            data = read(min(size, LARGEST))
            copied = next((gold for gold in golds if gold.is_copied_by(path, data, whole)), None)
        except Exception:  # Unreadable, or no byte code as its name says.
            return
        if copied is not None:
            self._found.append((copied.path, path))


def files_below(root: str, is_left_out: "Callable[[str], bool]") -> "Iterator[tuple[str, int]]":
    """The path and size of every regular file. Links are not followed, and each folder is listed
    once, wherever it is mounted."""
    left, seen = [root], set()
    while left:
        folder = left.pop()
        try:
            with os.scandir(folder) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            place = found.st_dev, found.st_ino
            if stat.S_ISREG(found.st_mode):
                yield entry.path, found.st_size
            elif stat.S_ISDIR(found.st_mode) and place not in seen and not is_left_out(entry.path):
                seen.add(place)
                left.append(entry.path)


def read_file(path: str, limit: int) -> bytes:
    # Something else may have taken the file's place.
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return file.read(limit)


def stop(number: int, frame: object) -> None:
    raise OutOfTime


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, limit: int) -> bytes:
    with archive.open(member) as file:
        return file.read(limit)


def main() -> None:
    request = json.loads(sys.stdin.buffer.read().decode())
    found: list[tuple[str, str]] = []
    ended = True
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, request["seconds"])
    try:
        golds = [gold for gold in map(Gold, request["golds"]) if gold.is_telling]
        if golds:
            Search(golds, request["workspace"], found).run()
        signal.setitimer(signal.ITIMER_PROF, 0)
    except OutOfTime:
        ended = False
    copies = [[gold, os.fsencode(path).decode("utf-8", "replace")] for gold, path in found]
    print(json.dumps({"copies": copies, "ended": ended}))


if __name__ == "__main__":
    main()
