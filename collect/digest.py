"""What tells one piece of work from another."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest(facts: Any) -> str:
    """16 hexadecimal digits that are the same for the same facts, given as JSON."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
