"""A small query language over records in memory.

price < 20 and (brand = "acme" or not tags has "old") and name like "mug%"
"""

from .store import Store
from .tokens import QueryError

__all__ = ["QueryError", "Store"]
