"""Whether this process is one of several that `accelerate launch` or `torchrun` has started.

Read from the environment, so that the command line needs no torch for it.
"""

from __future__ import annotations

import os


def process_count() -> int:
    """How many processes there are, on all machines."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main_process() -> bool:
    """Whether this is the one that writes files and speaks to the user."""
    return os.environ.get("RANK", "0") == "0"
