"""What a session was good for."""

from __future__ import annotations

from typing import Any

import pytest

from collect.errors import TRIED_AGAIN, FailureKind
from format.candidates import Pairs
from tests.records import make_rollout


@pytest.mark.parametrize(
    ("resolved", "alone", "helped"),
    [(True, False, 1), (True, True, 0), (False, False, 0), (False, True, -1)],
)
def test_paired_rollouts_tell_whether_debugging_helped(
    resolved: bool, alone: bool, helped: int
) -> None:
    without = make_rollout(variant="baseline", sub_model="", resolved=alone)
    with_it = make_rollout(variant="debug2fix_tool_limit", resolved=resolved)
    pairs = Pairs([without, with_it])
    assert pairs.debug_helped(with_it) == helped
    assert pairs.debug_helped(without) is None


def test_a_failure_of_the_models_is_a_verdict() -> None:
    failed: dict[str, Any] = {"resolved": False, "failure_kind": FailureKind.MODEL}
    without = make_rollout(variant="baseline", sub_model="", **failed)
    with_it = make_rollout(variant="debug2fix", resolved=True)
    assert Pairs([without]).debug_helped(with_it) == 1
    fixed = make_rollout(variant="baseline", sub_model="", resolved=True)
    assert Pairs([fixed]).debug_helped(make_rollout(variant="debug2fix", **failed)) == -1


@pytest.mark.parametrize(
    "other",
    [
        make_rollout(attempt=1, variant="baseline"),
        make_rollout(main_model="another", variant="baseline"),
        make_rollout(instance_hash="0" * 16, variant="baseline"),
        make_rollout(variant="debug_tools_only"),
        make_rollout(variant="simple_debugging"),
        *(make_rollout(variant="baseline", failure_kind=kind) for kind in TRIED_AGAIN),
    ],
)
def test_others_are_no_pair(other: object) -> None:
    assert Pairs([other]).debug_helped(make_rollout()) is None  # type: ignore[list-item]
