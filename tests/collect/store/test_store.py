"""The trajectory store: what is written comes back, and no crash loses or doubles a row."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from collect.errors import ConfigError, FailureKind
from collect.store import tables
from collect.store.messages import Message
from collect.store.records import MessageRow, Rollout
from collect.store.run_store import ROLLOUTS, RunStore
from collect.store.tables import ROWS_PER_GROUP
from tests.records import make_conversations, make_failed_rollout, make_rollout

REPOSITORY = Path(__file__).parents[3]


def fill(store: RunStore, *numbers: int, **changes: Any) -> list[Rollout]:
    rollouts = [make_rollout(f"ledger-{number}", **changes) for number in numbers]
    for rollout in rollouts:
        store.add(rollout, make_conversations(rollout))
    return rollouts


def contents(folder: Path) -> dict[str, tuple[Rollout, int]]:
    """Each rollout by id and how many conversations it has; fails on duplicates and orphans."""
    store = RunStore(folder)
    rollouts = list(store.read_rollouts())
    conversations = [c.conversation_id for c in store.read_conversations()]
    ids = [rollout.rollout_id for rollout in rollouts]
    assert len(set(ids)) == len(ids)
    assert len(set(conversations)) == len(conversations)
    counts = dict.fromkeys(ids, 0)
    for name in conversations:
        counts[name.rpartition("-")[0]] += 1
    return {rollout.rollout_id: (rollout, counts[rollout.rollout_id]) for rollout in rollouts}


def reopened(folder: Path) -> dict[str, tuple[Rollout, int]]:
    """What a store holds after mending, which must be what it held before."""
    before = contents(folder)
    RunStore.open(folder).close()
    assert contents(folder) == before
    assert not list(folder.rglob(".tmp-*"))
    assert len(list((folder / "rollouts").glob("data-*"))) <= 1
    return before


@pytest.mark.parametrize("compact", [False, True])
def test_records_come_back_equal(tmp_path: Path, compact: bool) -> None:
    store = RunStore.open(tmp_path)
    rollouts = fill(store, 1, 2)
    failed = make_failed_rollout(FailureKind.MODEL, "ledger-3", sub_calls=0)
    store.add(failed, make_conversations(failed))
    if compact:
        store.compact()
    found = {rollout.rollout_id: rollout for rollout in store.read_rollouts()}
    assert found == {rollout.rollout_id: rollout for rollout in [*rollouts, failed]}
    expected = {c.conversation_id: c for r in [*rollouts, failed] for c in make_conversations(r)}
    assert {c.conversation_id: c for c in store.read_conversations()} == expected


@pytest.mark.parametrize("compact", [False, True])
def test_some_rollouts_are_read_alone(tmp_path: Path, compact: bool) -> None:
    store = RunStore.open(tmp_path)
    rollouts = fill(store, *range(5))
    if compact:
        store.compact()
    wanted = [rollouts[1].rollout_id, rollouts[3].rollout_id]
    assert {row.rollout_id for row in store.read_rollouts(only=wanted)} == set(wanted)
    conversations = list(store.read_conversations(only=wanted))
    assert {row.rollout_id for row in conversations} == set(wanted)
    assert len(conversations) == 4
    assert list(store.read_rollouts(only=[])) == []


def test_a_rollout_without_conversations(tmp_path: Path) -> None:
    store = RunStore.open(tmp_path)
    rollout = make_failed_rollout()
    store.add(rollout, [])
    assert contents(tmp_path) == {rollout.rollout_id: (rollout, 0)}
    store.compact()
    assert reopened(tmp_path) == {rollout.rollout_id: (rollout, 0)}
    fill(store, 1)
    store.compact()
    assert len(reopened(tmp_path)) == 2


def test_an_empty_store(tmp_path: Path) -> None:
    store = RunStore.open(tmp_path / "new" / "run")
    store.compact()
    assert contents(tmp_path / "new" / "run") == {}
    assert list(RunStore(tmp_path / "absent").read_rollouts()) == []


def test_a_store_without_a_finished_rollout(tmp_path: Path) -> None:
    store = RunStore.open(tmp_path)
    (rollout,) = fill(store, 1)
    (tmp_path / "rollouts" / f"part-{rollout.rollout_id}.parquet").unlink()
    store.compact()
    assert not list(tmp_path.glob("*/*.parquet"))


def test_text_that_utf8_cannot_hold_is_replaced(tmp_path: Path) -> None:
    store = RunStore.open(tmp_path)
    rollout = make_rollout()
    main = make_conversations(rollout)[0]
    text = "lone \ud83d, pair \ud83d\udc1b, nul \0, \u4e2d"
    odd = replace(main, messages=(*main.messages, MessageRow(Message("assistant", text))))
    store.add(rollout, [odd])
    (found,) = store.read_conversations()
    assert found.messages[-1].message.content == "lone \ufffd, pair \U0001f41b, nul \0, \u4e2d"


def test_conversations_of_another_rollout_are_refused(tmp_path: Path) -> None:
    store = RunStore.open(tmp_path)
    with pytest.raises(AssertionError, match="are not of rollout"):
        store.add(make_rollout("ledger-1"), make_conversations(make_rollout("ledger-2")))
    assert reopened(tmp_path) == {}


@pytest.mark.parametrize("compact", ["never", "between", "after", "both"])
def test_a_later_row_supersedes(tmp_path: Path, compact: str) -> None:
    store = RunStore.open(tmp_path)
    fill(store, 1, 2, resolved=False)
    if compact in ("between", "both"):
        store.compact()
    (new,) = fill(store, 1, sub_calls=0)
    if compact in ("after", "both"):
        store.compact()
    found = reopened(tmp_path)
    assert found[new.rollout_id] == (new, 1)
    assert len(found) == 2


@pytest.mark.slow
def test_compaction_joins_rows_into_few_groups(tmp_path: Path) -> None:
    store = RunStore.open(tmp_path)
    for start in range(0, 60, 20):
        fill(store, *range(start, start + 20))
        store.compact()
    (file,) = (tmp_path / "rollouts").iterdir()
    metadata = pq.read_metadata(file)
    assert metadata.num_rows == 60 < ROWS_PER_GROUP
    assert metadata.num_row_groups == 1


def test_leftovers_of_a_killed_writer_are_mended(tmp_path: Path) -> None:
    store = RunStore.open(tmp_path)
    (finished,) = fill(store, 1)
    in_flight = make_rollout("ledger-2")
    store.add(in_flight, make_conversations(in_flight))
    (tmp_path / "rollouts" / f"part-{in_flight.rollout_id}.parquet").unlink()
    (tmp_path / "rollouts" / ".tmp-part-0123456789abcdef.parquet").write_bytes(b"PAR1 cut sho")
    expected = {finished.rollout_id: (finished, 2)}
    assert reopened(tmp_path) == expected
    store.compact()
    assert contents(tmp_path) == expected
    for table in ("rollouts", "conversations"):
        assert [path.name for path in (tmp_path / table).iterdir()] == ["data-0.parquet"]


class Crash(BaseException):
    """Stands for a kill: nothing may handle it."""


def crash_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Let the step-th change of the file system's names, counted from 0, raise instead."""
    left = step

    def guarded(original: Callable[..., Any]) -> Callable[..., Any]:
        def change(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Crash
            return original(*args, **kwargs)

        return change

    for name in ("unlink", "rename"):
        monkeypatch.setattr(Path, name, guarded(getattr(Path, name)))


def crash_everywhere(
    folder: Path, *actions: Callable[[RunStore], Any]
) -> list[dict[str, tuple[Rollout, int]]]:
    """What a store holds when opened after a crash at each step of the last action, after all that
    come before it; last, after none."""
    *preparations, act = actions
    found = []
    for step in range(100):
        run = folder / str(step)
        store = RunStore.open(run)
        for prepare in preparations:
            prepare(store)
        crashed = False
        with pytest.MonkeyPatch.context() as patch:
            crash_at(patch, step)
            try:
                act(store)
            except Crash:
                crashed = True
        found.append(reopened(run))
        if not crashed:
            return found
    raise AssertionError("the action never ends")


def compacted_and_parts(store: RunStore) -> None:
    fill(store, 1, 2, 3, resolved=False)
    store.compact()
    fill(store, 3, 4)


@pytest.mark.slow
def test_a_crash_during_compaction_changes_nothing(tmp_path: Path) -> None:
    states = crash_everywhere(tmp_path, compacted_and_parts, RunStore.compact)
    assert len(states) > 5
    assert all(state == states[-1] for state in states)
    assert [row.resolved for row, _ in states[-1].values()].count(True) == 2


@pytest.mark.slow
def test_a_crash_during_add_leaves_the_row_whole_or_out(tmp_path: Path) -> None:
    states = crash_everywhere(tmp_path, compacted_and_parts, lambda store: fill(store, 9))
    new = make_rollout("ledger-9").rollout_id
    assert [state.get(new, (None, 0))[1] for state in states] == [0] * (len(states) - 1) + [2]
    assert all(len(state) >= 4 for state in states)


@pytest.mark.parametrize("number", [pytest.param(2, marks=pytest.mark.slow), 4])
def test_a_crash_during_replacement_never_mixes_two_rollouts(tmp_path: Path, number: int) -> None:
    states = crash_everywhere(
        tmp_path, compacted_and_parts, lambda store: fill(store, number, sub_calls=0, dollars=9.0)
    )
    replaced = make_rollout(f"ledger-{number}").rollout_id
    for state in states:
        assert len(state) == 4 or (replaced not in state and len(state) == 3)
        if replaced in state:
            row, conversations = state[replaced]
            assert conversations == (1 if row.dollars == 9.0 else 2)
    assert states[-1][replaced][0].dollars == 9.0


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 2, 3, 5])
def test_a_second_crash_never_mixes_two_rollouts(tmp_path: Path, first: int) -> None:
    def interrupted(store: RunStore) -> None:
        fill(store, 2, 4, sub_calls=0, dollars=5.0)
        with pytest.MonkeyPatch.context() as patch, suppress(Crash):
            crash_at(patch, first)
            store.compact()
        store.close()
        RunStore.open(store.folder).close()

    def replace_all(store: RunStore) -> None:
        fill(store, 1, 2, 3, 4, dollars=9.0)

    states = crash_everywhere(tmp_path, compacted_and_parts, interrupted, replace_all)
    for state in states:
        for row, conversations in state.values():
            assert conversations == (1 if row.dollars == 5.0 else 2)
    assert [row.dollars for row, _ in states[-1].values()] == [9.0] * 4


def test_broken_files_are_named(tmp_path: Path) -> None:
    store = RunStore.open(tmp_path)
    (rollout,) = fill(store, 1)
    part = tmp_path / "rollouts" / f"part-{rollout.rollout_id}.parquet"
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(ConfigError, match=part.name):
        list(store.read_rollouts())
    with pytest.raises(ConfigError, match=part.name):
        store.compact()
    store.add(rollout, make_conversations(rollout))
    store.compact()
    store.close()
    told = tmp_path / "conversations" / "data-0.parquet"
    told.write_bytes(b"")
    with pytest.raises(ConfigError, match=r"conversations/data-0\.parquet is not a readable"):
        RunStore.open(tmp_path)
    told.unlink()
    with pytest.raises(ConfigError, match=r"conversations/data-0\.parquet is missing"):
        RunStore.open(tmp_path)


def test_a_foreign_schema_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "rollouts"
    folder.mkdir()
    other = ROLLOUTS.with_metadata({"stepinto.schema_version": "99"})
    pq.write_table(pa.Table.from_pylist([], schema=other), folder / "data-0.parquet")
    with pytest.raises(ConfigError, match="schema version 99"):
        RunStore.open(tmp_path)
    pq.write_table(pa.table({"rollout_id": ["x"]}), folder / "data-0.parquet")
    with pytest.raises(ConfigError, match="schema version none"):
        list(RunStore(tmp_path).read_rollouts())
    lacking = ROLLOUTS.remove(ROLLOUTS.get_field_index("patch"))
    pq.write_table(pa.Table.from_pylist([], schema=lacking), folder / "data-0.parquet")
    with pytest.raises(ConfigError, match="lacks the columns patch"):
        list(RunStore(tmp_path).read_rollouts())


def test_version_6_is_read_and_compacted(tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "demonstrations" / "rollouts", tmp_path / "rollouts")
    shutil.copytree(REPOSITORY / "demonstrations" / "conversations", tmp_path / "conversations")
    written = pq.read_schema(tmp_path / "rollouts" / "data-0.parquet").metadata
    assert written[b"stepinto.schema_version"] == b"6"
    store = RunStore.open(tmp_path)
    before = list(store.read_conversations())
    assert {row.tokens for each in before for row in each.messages} == {None}
    fill(store, 1)
    store.compact()
    assert list(store.read_conversations())[: len(before)] == before


def test_datasets_loads_both_tables(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    store = RunStore.open(tmp_path / "run")
    rollouts = fill(store, 1, 2)
    store.compact()
    fill(store, 3)
    (tmp_path / "run" / "rollouts" / ".tmp-part-0.parquet").write_bytes(b"cut sho")

    def load(table: str) -> Any:
        files = str(tmp_path / "run" / table / "*.parquet")
        cache = str(tmp_path / "cache")
        return datasets.load_dataset("parquet", data_files=files, split="train", cache_dir=cache)

    assert set(load("rollouts")["instance_id"]) == {"ledger-1", "ledger-2", "ledger-3"}
    conversations = load("conversations")
    assert len(conversations) == 6
    sub = next(c for c in conversations if c["role"] == "debug_subagent")
    expected = make_conversations(rollouts[0])[1]
    assert sub["messages"][2]["tool_calls"][0]["arguments"].startswith('{"test"')
    assert sub["events"][0]["frames"][0]["function"] == expected.events[0].event.function


WRITER = """
import sys
from pathlib import Path
from collect.store.run_store import RunStore
from tests.records import make_conversations, make_rollout

store = RunStore.open(Path(sys.argv[1]))
number = int(sys.argv[2])
print("open", flush=True)
while True:
    number += 1
    rollout = make_rollout(f"ledger-{number}")
    store.add(rollout, make_conversations(rollout))
    print(rollout.rollout_id, flush=True)
    if number % 5 == 0:
        store.compact()
"""


def write_until_killed(folder: Path, first: int, lines: int, delay: float) -> list[str]:
    """Run a writer, kill it a moment after it reported some rows, and give all it reported."""
    command = [sys.executable, "-c", WRITER, str(folder), str(first)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        reported = [writer.stdout.readline().strip() for _ in range(lines)]
        time.sleep(delay)  # what is killed must be anywhere in its work, not just after a print
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read()
        return reported + [line for line in rest.splitlines(keepends=False) if len(line) == 16]


@pytest.mark.slow
def test_kill_9_loses_and_doubles_nothing(tmp_path: Path) -> None:
    chance = random.Random(7)
    reported: list[str] = []
    for attempt in range(10):
        lines, delay = chance.randrange(12), chance.uniform(0, 0.03)
        reported += write_until_killed(tmp_path, 1000 * attempt, lines, delay)
        found = reopened(tmp_path)
        assert set(reported) <= found.keys()
        assert all(count == 2 for _, count in found.values())
        # At most the one row that was durable but not yet reported.
        assert len(found) <= len(reported) + attempt + 1
    assert len(reported) > 10


def test_one_writing_process_at_a_time(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path), "0"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        with pytest.raises(ConfigError, match="another process is writing"):
            RunStore.open(tmp_path)
        writer.kill()
    RunStore.open(tmp_path).close()


def test_a_large_table_is_compacted_in_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "ROWS_PER_GROUP", 7)
    with closing(RunStore.open(tmp_path)) as store:
        fill(store, *range(20))
        before = {each.conversation_id for each in store.read_conversations()}
        store.compact()
        (file,) = (tmp_path / "conversations").glob("data-*.parquet")
        assert pq.ParquetFile(file).num_row_groups > 2
        assert {each.conversation_id for each in store.read_conversations()} == before
