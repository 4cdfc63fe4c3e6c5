"""Realistic single edits that break a correct Python program, made on its syntax tree.

`find_mutations` gives every edit that the kinds of `catalog.KINDS` know; `Mutation.apply` makes
one, and leaves the rest of the source as it was, byte for byte.
"""

from collect.mutations.base import Mutation, MutationKind
from collect.mutations.catalog import KINDS
from collect.mutations.finding import find_mutations, shuffled

__all__ = ["KINDS", "Mutation", "MutationKind", "find_mutations", "shuffled"]
