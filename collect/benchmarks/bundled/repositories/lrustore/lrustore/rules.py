"""How long which values may be kept."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class TTLRules:
    """Seconds to live by prefix of the key. 0 means that a value isn't kept at all."""

    default: float = 60.0
    by_prefix: dict[str, float] = field(default_factory=dict)

    def seconds(self, key: str) -> float:
        """The rule with the longest prefix that the key has, else the default."""
        prefixes = [prefix for prefix in self.by_prefix if key.startswith(prefix)]
        longest = max(prefixes, key=len, default="")
        return self.by_prefix.get(longest, self.default)
