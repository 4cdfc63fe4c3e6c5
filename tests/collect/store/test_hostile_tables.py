"""Parquet files that no StepInto wrote are refused by name, and read in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from collect.errors import ConfigError
from collect.store.run_store import CONVERSATIONS, ROLLOUTS, RunStore, plain
from tests.records import make_conversations, make_rollout

NESTED = pa.list_(pa.string())
for _ in range(200):
    NESTED = pa.list_(NESTED)


def rollouts(count: int = 3) -> pa.Table:
    rows = [plain(make_rollout(f"ledger-{number}")) for number in range(count)]
    return pa.Table.from_pylist(rows, schema=ROLLOUTS)


def with_column(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    column = table.schema.get_field_index(name)
    changed = table.set_column(column, name, values)
    return changed.replace_schema_metadata(ROLLOUTS.metadata)


def with_id(rollout_id: str | None) -> Callable[[], pa.Table]:
    def table() -> pa.Table:
        ids = [*rollouts()["rollout_id"].to_pylist()[:2], rollout_id]
        return with_column(rollouts(), "rollout_id", pa.array(ids, pa.string()))

    return table


def nested() -> pa.Table:
    return with_column(rollouts(), "patch", pa.nulls(3, NESTED))


def wrong_type() -> pa.Table:
    return with_column(rollouts(), "tests", pa.array(["a", "b", "c"]))


def unknown_value() -> pa.Table:
    return with_column(rollouts(), "stop_reason", pa.array(["evil", "evil", "evil"]))


def deep() -> pa.Table:
    return with_column(rollouts(), "actions", pa.array(3 * ["[" * 100_000]))


def twice() -> pa.Table:
    return rollouts().append_column("patch", pa.array(["a", "b", "c"]))


def bomb() -> pa.Table:
    """A million rows in some kilobytes."""
    count = 1_000_000
    row = pa.Table.from_pylist([{"rollout_id": 16 * "0"}], schema=ROLLOUTS)
    columns = [
        pa.DictionaryArray.from_arrays(
            pa.array(bytes(count), pa.int8()), row[name].combine_chunks()
        )
        if name == "rollout_id"
        else pa.nulls(count)
        for name in ROLLOUTS.names
    ]
    return pa.table(dict(zip(ROLLOUTS.names, columns, strict=True))).replace_schema_metadata(
        ROLLOUTS.metadata
    )


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (with_id("x/../../../y"), r"data-0\.parquet, row 3: 'x/\.\./.* 16 hex digits"),
        (with_id("0123456789abcdef\n"), r"data-0\.parquet, row 3: "),
        (with_id("0123456789ABCDEF"), r"data-0\.parquet, row 3: "),
        (with_id(None), r"data-0\.parquet, row 3: None"),
        (nested, r"data-0\.parquet"),
        (wrong_type, r"data-0\.parquet"),
        (unknown_value, r"the row of rollout [0-9a-f]{16} .*: stop_reason: "),
        (deep, r"the row of rollout [0-9a-f]{16} .*: maximum recursion depth"),
        (twice, r"data-0\.parquet"),
        (bomb, r"data-0\.parquet has 1000000 rows in \d+ bytes"),
    ],
)
def test_what_no_run_wrote_is_refused(
    tmp_path: Path, table: Callable[[], pa.Table], told: str
) -> None:
    (tmp_path / "rollouts").mkdir()
    pq.write_table(table(), tmp_path / "rollouts" / "data-0.parquet", compression="zstd")
    with pytest.raises(ConfigError, match=told):
        list(RunStore(tmp_path).read_rollouts())


def test_ids_alone_are_checked_too(tmp_path: Path) -> None:
    (tmp_path / "rollouts").mkdir()
    pq.write_table(with_id("x/../../../y")(), tmp_path / "rollouts" / "data-0.parquet")
    with pytest.raises(ConfigError, match=r"data-0\.parquet, row 3: "):
        RunStore(tmp_path).rollouts.ids()


@pytest.mark.parametrize("identity", ["0123456789abcdef-../../x", "x", "0123456789abcdef-"])
def test_a_conversation_has_an_id_of_its_rollout(tmp_path: Path, identity: str) -> None:
    rollout = make_rollout()
    row = plain(make_conversations(rollout)[0]) | {"conversation_id": identity}
    for name, rows, schema in (
        ("rollouts", [plain(rollout)], ROLLOUTS),
        ("conversations", [row], CONVERSATIONS),
    ):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "data-0.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    with pytest.raises(ConfigError, match=r"the row of rollout .*: conversation_id: "):
        list(RunStore(tmp_path).read_conversations())
