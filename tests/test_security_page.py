"""The security page names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
CLAIM = re.compile(r"^\| (?!claim|---).+\|$", re.MULTILINE)


def test_every_claim_names_tests_that_are_there() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    claims = CLAIM.findall(page)
    assert len(claims) >= 15
    assert [claim for claim in claims if not NAMED.search(claim)] == []
    missing = [
        f"{path}::{name}"
        for path, name in NAMED.findall(page)
        if f"def {name}(" not in (ROOT / path).read_text(encoding="utf-8")
    ]
    assert missing == []
