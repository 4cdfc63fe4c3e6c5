"""All kinds of mutations."""

from __future__ import annotations

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
    NegatedCondition,
    WrongBooleanOperator,
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
    SwappedBranches,
    SwappedStatements,
    UsedUpIterator,
    WrongSliceEnd,
)
from collect.mutations.operators import LostUpdate, WrongArithmeticOperator, WrongDivision
from collect.mutations.results import (
    DroppedRecursiveResult,
    SwappedMerge,
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
"""For programs in one file. What self-repair benchmarks pick depends on them and their order."""

_TOO_WILD = {"wrong_key", "wrong_variable"}
"""In a large module most other names and keys are of another type, and fail at once."""

PROJECT_KINDS: tuple[MutationKind, ...] = (
    *(kind for kind in PROGRAM_KINDS if kind.name not in _TOO_WILD),
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
    ConfusedVariable(),
    ConfusedAttribute(),
    ConfusedKey(),
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
