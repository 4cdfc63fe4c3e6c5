"""All kinds of mutations."""

from __future__ import annotations

from collect.mutations.base import MutationKind
from collect.mutations.calls import (
    DroppedCall,
    MissingDeduplication,
    SwappedArguments,
    WrongFunction,
)
from collect.mutations.conditions import (
    DroppedCondition,
    NegatedCondition,
    WrongBooleanOperator,
    WrongComparison,
)
from collect.mutations.operators import LostUpdate, WrongArithmeticOperator, WrongDivision
from collect.mutations.statements import (
    DroppedBranch,
    DroppedGuard,
    DroppedStatement,
    EarlyReturn,
    WrongLoopControl,
)
from collect.mutations.values import OffByOne, WrongKey, WrongStart, WrongVariable

PROGRAM_KINDS: tuple[MutationKind, ...] = (
    WrongComparison(),
    WrongBooleanOperator(),
    NegatedCondition(),
    DroppedCondition(),
    WrongArithmeticOperator(),
    WrongDivision(),
    LostUpdate(),
    OffByOne(),
    WrongStart(),
    WrongKey(),
    WrongVariable(),
    SwappedArguments(),
    DroppedCall(),
    MissingDeduplication(),
    WrongFunction(),
    DroppedBranch(),
    DroppedGuard(),
    DroppedStatement(),
    EarlyReturn(),
    WrongLoopControl(),
)
"""For programs in one file."""
PROJECT_KINDS: tuple[MutationKind, ...] = PROGRAM_KINDS
