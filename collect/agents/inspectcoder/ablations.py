"""InspectCoder, and what its ablations take away (section 4.3)."""

from __future__ import annotations

from enum import StrEnum


class Ablation(StrEnum):
    """The names of its systems."""

    NOTHING = "inspectcoder"
    NO_INSPECTION = "inspectcoder_no_inspection"
    NO_MODIFICATION = "inspectcoder_no_modification"
    NO_DEBUGGER = "inspectcoder_no_debugger"
    NO_INSPECTWARE = "inspectcoder_no_inspectware"
