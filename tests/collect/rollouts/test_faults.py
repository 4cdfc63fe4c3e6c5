"""The table of failures: it is whole, the page shows it, and rows name its types."""

from __future__ import annotations

import errno
from pathlib import Path

from collect import errors
from collect.errors import FailureKind, RolloutError
from collect.rollouts.faults import BROKE_SANDBOX, FAULTS, RESUMED
from collect.rollouts.rollout import failure_of
from collect.store.run_store import RunStore
from sandbox.errors import SandboxError
from stepinto import main
from tests.collect.models.chat_server import Answer, ChatServer, collect_from, error, reply

ROOT = Path(__file__).resolve().parents[3]
CONFIG = ROOT / "configs" / "debug2fix.yaml"
PAGE = ROOT / "docs" / "failures.md"
NEVER_RAISED = {RolloutError, SandboxError}
"""Bases alone."""


def test_every_failure_has_its_row() -> None:
    found = {
        each
        for base in NEVER_RAISED
        for each in _below(base)
        if not each.__module__.startswith("tests.")
    }
    assert set(FAULTS.values()) <= found
    for private in found - NEVER_RAISED - set(FAULTS.values()):
        assert set(FAULTS.values()) & set(private.__mro__), private
    assert FAULTS.keys() >= RESUMED | BROKE_SANDBOX


def _below(base: type[Exception]) -> set[type[Exception]]:
    """All classes that extend it, wherever they stand."""
    direct = set(base.__subclasses__())
    return direct.union(*map(_below, direct))


def test_the_page_shows_the_table() -> None:
    rows = [line.split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines()]
    shown = {(row[0], row[1], row[-1]) for row in rows if len(row) == 5 and all(row)}
    missing = [row for row in map(as_row, FAULTS) if row not in shown]
    assert not missing, f"docs/failures.md lacks: {missing}"


def as_row(name: str) -> tuple[str, str, str]:
    """The type, the blame, and what the next start does; meaning and retries are the page's own."""
    kind = failure_of(FAULTS[name]("it broke")).kind
    next_start = "continued" if name in RESUMED else "repeated"
    if name in BROKE_SANDBOX:
        next_start = "repeated once"
    if kind is FailureKind.MODEL:
        next_start = "final"
    return f"| `{name}`", kind.value, f"{next_start} |"


def test_a_full_disk_is_told_apart() -> None:
    failure = failure_of(OSError(errno.ENOSPC, "No space left on device", "/tmp/x"))
    assert (failure.kind, failure.type) == (FailureKind.INFRASTRUCTURE, "OutOfDisk")
    assert "/tmp/x" in failure.message


BAD_CALL = reply(tool_calls=[{"id": "c", "function": "ls"}])


TROUBLES = [
    (error(503, "overloaded"), errors.EndpointDown),
    (Answer(drop=True), errors.EndpointDown),
    (error(429, "slow down"), errors.RateLimited),
    (error(429, "no credit", "insufficient_quota"), errors.EndpointFailure),
    (error(401, "wrong key"), errors.EndpointFailure),
    (Answer(body="<html>"), errors.InvalidReply),
    (BAD_CALL, errors.InvalidReply),
    (error(400, "too many tokens", "context_length_exceeded"), errors.ContextTooLong),
    (error(400, "not this", "content_policy_violation"), errors.ContentRefused),
    (reply(finish_reason="content_filter"), errors.ContentRefused),
]


def test_a_row_names_the_failure(server: ChatServer, tmp_path: Path) -> None:
    """Each attempt gets one of the answers."""
    server.will_answer(*(answer for answer, _ in TROUBLES))
    attempts = f"collect.attempts={len(TROUBLES)}"
    endless = ("runner.again=0", f"runner.give_up_after={len(TROUBLES)}")
    main(collect_from(server, tmp_path, "collect.benchmark.limit=1", attempts, *endless))
    rows = sorted(RunStore(tmp_path / "test").read_rollouts(), key=lambda row: row.attempt)
    found = [(row.failure_type, row.failure_kind) for row in rows]
    assert found == [(failure.__name__, failure.kind) for _, failure in TROUBLES]
