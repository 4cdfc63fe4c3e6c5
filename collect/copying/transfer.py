"""Bring one folder of a run up to date with another, in an order that keeps the store's invariants.

After every single step the target is what a store may be after a kill (`collect.store`): each
rollout stands there whole, with the conversations of the same attempt, or not at all.

- A table's parts are listed before its compacted file: a part that is gone by then stands in it.
  Rollouts are listed before conversations, whose files are written first, and of which that
  compacted file counts which has the number of the rollouts'.
- Conversations are written before rollouts. Where those of a rollout that stands there change, its
  row is removed first, as `RunStore.add` does.
- What a compacted file replaces is removed when both tables have theirs, as
  `RunStore.compact` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath

from collect.copying.folder import Folder, Listing, Stamp, copy_stream
from collect.rollouts.journal import FOLDER as JOURNAL

AT_ONCE = 16
"""Files under way: each waits for the store most of its time."""
LEFT_OUT = ("sft", "model", "report", "wandb")
"""Folders that `format`, `train` and `view` write, which are made anew from the rows, and what
wandb keeps until it has sent it."""
ROLLOUTS, CONVERSATIONS = "rollouts", "conversations"


class Changed(Exception):
    """A file is gone, or another, since it was listed: try again."""


@dataclass(frozen=True)
class Table:
    """The files of a table that count, as they stood at one time."""

    parts: Listing
    compacted: Listing
    """The one that counts; none where nothing was compacted yet."""

    @classmethod
    def of(cls, folder: Folder, path: str) -> Table:
        """List one that belongs to no other."""
        parts = _parts(folder, path)
        found = {n: s for n, s in folder.listed(path).items() if _generation(n) is not None}
        newest = max(found, key=lambda name: _generation(name) or 0, default=None)
        return cls(parts, {newest: found[newest]} if newest is not None else {})

    def conversations(self, folder: Folder, path: str) -> Table:
        """List those of these rollouts. Raises Changed."""
        parts, compacted = _parts(folder, path), {}
        for name in (f"{path}/{PurePosixPath(name).name}" for name in self.compacted):
            stamp = folder.stamp(name)
            if stamp is None:
                raise Changed(f"{name} is gone")
            compacted[name] = stamp
        return Table(parts, compacted)

    @property
    def files(self) -> Listing:
        return self.parts | self.compacted


class Transfer:
    """Takes files from one folder to another, those that are new or changed."""

    def __init__(self, source: Folder, target: Folder) -> None:
        """Raises OSError."""
        self._source, self._target = source, target
        self._there = set(target.listed(recursive=True))
        self.taken: Listing = {}
        """What the target has, as it stood in the source."""

    def trust(self) -> None:
        """Take for the same what has the same size, and was written to the target later."""
        there = self._target.listed(recursive=True)
        for name, stamp in self._source.listed(recursive=True).items():
            other = there.get(name)
            if other and other.size == stamp.size and other.changed_ns >= stamp.changed_ns:
                self.taken[name] = stamp

    def missing(self) -> int:
        """Files that the target lacks, or has as they were."""
        listed = self._source.listed(recursive=True)
        return len([name for name in self._new(listed) if not _left_out(name)])

    def run(self) -> None:
        """Take everything. Raises Changed, and OSError."""
        listed = self._source.listed(recursive=True)
        stores = stores_of(listed)
        plain = {n: s for n, s in listed.items() if not (_left_out(n) or _table_of(n))}
        self._each(self._take_as_it_is, self._new(plain))
        for store in stores:
            self._take_store(store)
        journals = [name for name in self._there - plain.keys() if _is_journal(name)]
        self._each(self._remove, journals)

    def _take_store(self, store: str) -> None:
        rollouts = Table.of(self._source, f"{store}{ROLLOUTS}")
        conversations = rollouts.conversations(self._source, f"{store}{CONVERSATIONS}")
        if _ids(rollouts.parts) - _ids(conversations.parts):
            raise Changed(f"{store}{ROLLOUTS} was compacted, or written anew")
        changed = self._new(conversations.files)
        rows = {f"{store}{ROLLOUTS}/{PurePosixPath(name).name}" for name in changed}
        self._each(self._remove, [n for n in rows & self._there if _generation(n) is None])
        self._each(lambda name: self._take(name, conversations.files[name]), changed)
        files = rollouts.files
        self._each(lambda name: self._take(name, files[name]), self._new(files))
        if rollouts.compacted:
            self._each(self._remove, self._replaced(f"{store}{ROLLOUTS}", rollouts))
            self._each(self._remove, self._replaced(f"{store}{CONVERSATIONS}", conversations))
        elif any(_generation(name) is not None for name in self._names(f"{store}{ROLLOUTS}")):
            raise Changed(f"{store}{ROLLOUTS} has no compacted file any more")

    def _replaced(self, path: str, table: Table) -> list[str]:
        """What of a table the source has no longer, where a compacted file replaces it."""
        return sorted(self._names(path) - table.files.keys())

    def _names(self, path: str) -> set[str]:
        """What the target has in a folder."""
        return {name for name in self._there if str(PurePosixPath(name).parent) == path}

    def _new(self, listed: Listing) -> list[str]:
        return [name for name, stamp in listed.items() if self.taken.get(name) != stamp]

    def _take_as_it_is(self, name: str) -> None:
        """A file of which any state will do."""
        stamp = self._source.stamp(name)
        if stamp is not None:
            self._take(name, stamp, strict=False)

    def _take(self, name: str, stamp: Stamp, strict: bool = True) -> None:
        try:
            with self._source.opened(name) as stream:
                # An object appears when it is closed, so that this comes before it is opened.
                self._check(name, stamp, strict)
                with self._target.replacing(name) as target:
                    self._there.add(name)
                    copy_stream(stream, target)
                    self._check(name, stamp, strict)
        except FileNotFoundError as error:
            if strict:
                raise Changed(f"{name} is gone") from error
            return
        self.taken[name] = stamp

    def _check(self, name: str, stamp: Stamp, strict: bool) -> None:
        if strict and self._source.stamp(name) != stamp:
            raise Changed(f"{name} is another")

    def _remove(self, name: str) -> None:
        self._target.remove(name)
        self._there.discard(name)
        self.taken.pop(name, None)

    def _each(self, do: Callable[[str], None], names: Iterable[str]) -> None:
        """Several at once, up to the first that fails."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                for future in [pool.submit(do, name) for name in names]:
                    future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def _parts(folder: Folder, path: str) -> Listing:
    """The part files of a table."""
    return {n: s for n, s in folder.listed(path).items() if _stem(n).startswith("part-")}


def _ids(parts: Listing) -> set[str]:
    """The rollouts that part files are of."""
    return {_stem(name).removeprefix("part-") for name in parts}


def stores_of(listed: Iterable[str]) -> list[str]:
    """The stores of a run, as what stands before `rollouts/` in their files' paths."""
    tables = {_table_of(name) for name in listed} - {None}
    return sorted(
        {str(table).removesuffix(ROLLOUTS).removesuffix(CONVERSATIONS) for table in tables}
    )


def _table_of(name: str) -> str | None:
    """The folder of the table that a file belongs to."""
    path = PurePosixPath(name)
    stored = path.suffix == ".parquet" and path.parent.name in (ROLLOUTS, CONVERSATIONS)
    return str(path.parent) if stored else None


def _left_out(name: str) -> bool:
    *folders, _ = name.split("/")
    return not set(folders).isdisjoint(LEFT_OUT)


def _is_journal(name: str) -> bool:
    return PurePosixPath(name).parent.name == JOURNAL


def _stem(name: str) -> str:
    return PurePosixPath(name).stem


def _generation(name: str) -> int | None:
    """The number of a compacted file; None of any other."""
    number = _stem(name).removeprefix("data-")
    return int(number) if number.isdecimal() and _stem(name).startswith("data-") else None
