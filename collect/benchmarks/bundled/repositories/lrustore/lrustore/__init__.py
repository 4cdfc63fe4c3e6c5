"""Layered caches: LRU tiers with time to live, tags, and write-back to a store."""

from .cache import Cache
from .lru import LRU
from .rules import TTLRules
from .store import MemoryStore
from .writeback import WriteBack

__all__ = ["Cache", "LRU", "MemoryStore", "TTLRules", "WriteBack"]
