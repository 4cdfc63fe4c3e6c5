"""Each claim of docs/security.md has tests in security_claims.md, and they are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
CLAIM = re.compile(r"^(\d+)\. \S", re.MULTILINE)
ROW = re.compile(r"^\| (\d+) \|(.+)\|$", re.MULTILINE)


def test_every_claim_names_tests_that_are_there() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    claims = CLAIM.findall(page)
    assert claims == [str(number + 1) for number in range(len(claims))]
    assert len(claims) >= 30
    table = (ROOT / "tests" / "security_claims.md").read_text(encoding="utf-8")
    held = {number for number, tests in ROW.findall(table) if NAMED.search(tests)}
    assert held == set(claims)
    missing = [
        f"{path}::{name}"
        for path, name in NAMED.findall(page + table)
        if f"def {name}(" not in (ROOT / path).read_text(encoding="utf-8")
    ]
    assert missing == []
