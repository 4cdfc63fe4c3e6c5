"""The matrix of servers' faults: no conversation is lost that another request can save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from benchmarks.server_faults.__main__ import BACKENDS, is_right, measure, table
from benchmarks.server_faults.faults import FAULTS, Fault


def lost(faults: Sequence[Fault]) -> list[tuple[str, str, str]]:
    results = measure(tuple(faults))
    assert table(results).row_count == len(faults)
    cells = [(name, *each) for name, row in results.items() for each in row.items()]
    assert len(cells) == len(BACKENDS) * len(faults)
    return [each for each in cells if not is_right(each[-1])]


@pytest.mark.slow
def test_no_fault_loses_a_conversation() -> None:
    assert not lost(FAULTS)


@pytest.mark.slow
def test_a_full_context_loses_none() -> None:
    assert not lost([each for each in FAULTS if "full context, by its words" in each.name])


def test_a_lost_conversation_is_seen() -> None:
    [streams] = (each for each in FAULTS if each.settings.get("stream"))
    cells = lost([replace(streams, settings={})])
    assert [backend for _, backend, _ in cells] == list(BACKENDS)
    assert all("RequestRefused" in outcome for *_, outcome in cells)
