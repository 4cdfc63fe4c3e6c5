"""The records, with queries over them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, Dict, Iterable, Iterator, List, Optional

from .index import Index, candidates
from .parser import parse
from .sorting import compare, parse_order, sort_values


@dataclass(frozen=True)
class Page:
    """Some of the results. `cursor` gets the next ones, None if these are the last."""

    records: List[dict]
    cursor: Optional[List[Any]] = None


class Store:
    """Records by id, indexed by some of their fields."""

    def __init__(self, indexed: Iterable[str] = ()) -> None:
        self._records: Dict[int, dict] = {}
        self._indexes = {field: Index(field) for field in indexed}
        self._last_id = 0

    def insert(self, **values: Any) -> int:
        """Store a record and answer with its id."""
        self._last_id += 1
        record = dict(values, id=self._last_id)
        self._records[self._last_id] = record
        for index in self._indexes.values():
            index.add(record)
        return self._last_id

    def update(self, record_id: int, **changes: Any) -> None:
        record = self._records[record_id]
        for index in self._indexes.values():
            index.remove(record)
        record.update(changes)
        for index in self._indexes.values():
            index.add(record)

    def delete(self, record_id: int) -> None:
        record = self._records.pop(record_id)
        for index in self._indexes.values():
            index.remove(record)

    def query(self, text: str = "", order: str = "") -> List[dict]:
        """All matching records."""
        return self.page(text, order, limit=len(self._records)).records

    def count(self, text: str = "") -> int:
        return sum(1 for _ in self._matching(text))

    def page(self, text: str, order: str, limit: int, after: Optional[List[Any]] = None) -> Page:
        """At most `limit` matching records, those behind the cursor `after`."""
        terms = parse_order(order)
        rows = [(sort_values(record, terms), record) for record in self._matching(text)]
        rows.sort(key=cmp_to_key(lambda a, b: compare(a[0], b[0], terms)))
        if after is not None:
            rows = [row for row in rows if compare(row[0], after, terms) > 0]
        records = [dict(record) for _, record in rows[:limit]]
        return Page(records, rows[limit - 1][0] if len(rows) > limit else None)

    def _matching(self, text: str) -> Iterator[dict]:
        tree = parse(text)
        ids = candidates(tree, self._indexes)
        for record_id in self._records if ids is None else sorted(ids):
            if tree.matches(self._records[record_id]):
                yield self._records[record_id]
