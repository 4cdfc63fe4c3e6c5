"""Claims are made false in a form that is still read as a claim."""

from __future__ import annotations

import pytest

from benchmarks.grounding import falsified
from collect.questions.grounding import ClaimKind, GroundedClaim, Support
from collect.store.records import DebugAnswer


@pytest.mark.parametrize(
    ("kind", "claim", "false"),
    [
        (ClaimKind.LOCATION, "cart.py:7", "cart.py:5007"),
        (ClaimKind.EXCEPTION, "KeyError", "OtherKeyError"),
        (ClaimKind.VALUE, "total = 19", "12"),
        (ClaimKind.VALUE, "row = ('a', None)", "('a', True)"),
        (ClaimKind.VALUE, "rows = []", "[7]"),
        (ClaimKind.VALUE, "cart = <Cart at 0x7f01>", "<Carq at 0x7f01>"),
    ],
)
def test_a_claim_is_made_false(kind: ClaimKind, claim: str, false: str) -> None:
    answer = DebugAnswer(question="", answer=f"It is {claim}", evidence="", location="")
    changed = falsified(answer, GroundedClaim(kind, claim, Support.OBSERVED))
    words = claim.rpartition(" = ")[2]
    assert changed is not None
    assert changed.answer == answer.answer.replace(words, false)
