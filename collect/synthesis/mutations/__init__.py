"""Realistic edits that break a correct Python program, found on its syntax tree.

`find_mutations` returns every edit that the mutation kinds find, `chosen` selects among them, and
`Mutation.apply` makes one, leaving the rest of the source unchanged.
"""

from collect.synthesis.mutations.base import Mutation, MutationKind
from collect.synthesis.mutations.catalog import PROGRAM_KINDS, PROJECT_KINDS
from collect.synthesis.mutations.finding import (
    CombinedMutation,
    chosen,
    combined,
    find_mutations,
    find_project_mutations,
    shuffled,
)

__all__ = [
    "PROGRAM_KINDS",
    "PROJECT_KINDS",
    "CombinedMutation",
    "Mutation",
    "MutationKind",
    "chosen",
    "combined",
    "find_mutations",
    "find_project_mutations",
    "shuffled",
]
