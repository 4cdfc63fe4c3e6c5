"""All kinds of mutations."""

from __future__ import annotations

from collections.abc import Mapping

from collect.mutations.absence import (
    CutComparison,
    EmptyTakenForNone,
    MissingCase,
    OrForNone,
    UnguardedStatement,
)
from collect.mutations.arguments import ConfusedFunction, DroppedOption, LateBinding
from collect.mutations.base import MutationKind
from collect.mutations.calls import (
    DroppedCall,
    MissingDeduplication,
    SwappedArguments,
    WrongFunction,
)
from collect.mutations.conditions import (
    DroppedCondition,
    InvertedTest,
    NegatedCondition,
    WrongBooleanOperator,
    WrongBoundary,
    WrongComparison,
)
from collect.mutations.defaults import (
    MutableDefault,
    SharedState,
    WrongDefault,
    WrongFallback,
    WrongFlag,
)
from collect.mutations.exceptions import (
    MissingSuper,
    SkippedCleanup,
    SwallowedException,
    WrongException,
)
from collect.mutations.iteration import (
    NestedYield,
    ResetInLoop,
    UsedUpIterator,
    WrongSliceEnd,
)
from collect.mutations.narrowing import (
    Narrowed,
    arguments_alike,
    no_minus_zero,
    no_other_type,
    of_numbers,
)
from collect.mutations.operators import LostUpdate, WrongArithmeticOperator, WrongDivision
from collect.mutations.order import SwappedBranches, SwappedMerge, SwappedStatements
from collect.mutations.results import (
    DroppedRecursiveResult,
    SwappedResults,
    WrongLength,
    WrongUnit,
)
from collect.mutations.similar import ConfusedAttribute, ConfusedKey, ConfusedVariable
from collect.mutations.state import (
    DroppedReset,
    ForgetfulKey,
    ShallowCopy,
    SharedObject,
    StaleCache,
)
from collect.mutations.statements import (
    DroppedBranch,
    DroppedGuard,
    DroppedStatement,
    EarlyReturn,
    WrongLoopControl,
)
from collect.mutations.values import OffByOne, WrongKey, WrongStart, WrongVariable

PROGRAM_KINDS: tuple[MutationKind, ...] = (
    DroppedGuard(),
    DroppedStatement(),
    EarlyReturn(),
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
    WrongLoopControl(),
)
"""For programs in one file. What self-repair benchmarks pick depends on them and their order."""

_NARROWED: Mapping[str, tuple[MutationKind, ...]] = {
    # In a large module most other names and keys are of another type, and fail at once.
    "wrong_key": (ConfusedKey(),),
    "wrong_variable": (ConfusedVariable(), ConfusedAttribute()),
    "wrong_comparison": (WrongBoundary(), InvertedTest()),
    "wrong_arithmetic_operator": (Narrowed(WrongArithmeticOperator(), of_numbers),),
    "wrong_function": (Narrowed(WrongFunction(), no_other_type),),
    "off_by_one": (Narrowed(OffByOne(), no_minus_zero),),
    "swapped_arguments": (Narrowed(SwappedArguments(), arguments_alike),),
}
"""What stands in a kind's place in projects."""

PROJECT_KINDS: tuple[MutationKind, ...] = (
    *(other for kind in PROGRAM_KINDS for other in _NARROWED.get(kind.name, (kind,))),
    WrongDefault(),
    WrongFlag(),
    WrongFallback(),
    MutableDefault(),
    SharedState(),
    StaleCache(),
    DroppedReset(),
    ForgetfulKey(),
    SharedObject(),
    ShallowCopy(),
    EmptyTakenForNone(),
    OrForNone(),
    CutComparison(),
    MissingCase(),
    UnguardedStatement(),
    WrongException(),
    SwallowedException(),
    SkippedCleanup(),
    MissingSuper(),
    DroppedOption(),
    ConfusedFunction(),
    LateBinding(),
    ResetInLoop(),
    UsedUpIterator(),
    WrongSliceEnd(),
    NestedYield(),
    SwappedStatements(),
    SwappedBranches(),
    SwappedMerge(),
    SwappedResults(),
    DroppedRecursiveResult(),
    WrongUnit(),
    WrongLength(),
)
"""For the modules of real projects."""
