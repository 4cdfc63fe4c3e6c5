"""Realistic edits that break a correct Python program, found on its syntax tree.

`find_mutations` returns every edit that the mutation kinds find, `chosen` selects among them, and
`Mutation.apply` makes one, leaving the rest of the source unchanged.
"""

from collect.synthesis.mutations.base import Mutation, apply_all
from collect.synthesis.mutations.finding import (
    PROGRAM_KINDS,
    PROJECT_KINDS,
    chosen,
    combined,
    find_mutations,
    find_project_mutations,
    shuffled,
)

__all__ = [
    "PROGRAM_KINDS",
    "PROJECT_KINDS",
    "Mutation",
    "apply_all",
    "chosen",
    "combined",
    "find_mutations",
    "find_project_mutations",
    "shuffled",
]
