"""How long a debug session may take, and how much of it is shown."""

from __future__ import annotations

from dataclasses import dataclass

MAY_BE_ZERO = ("context_lines", "interrupt_grace")


@dataclass(frozen=True)
class DebugLimits:
    """Bounds of a session. Times are in seconds, sizes in characters. Raises ValueError for a bound
    that leaves nothing."""

    start_timeout: float = 60.0
    """Seconds from the launch to the first stop or the end."""
    build_timeout: float = 300.0
    """Seconds for a build tool (Maven, Gradle, a compiler), before the launch."""
    action_timeout: float = 30.0
    """Seconds of one action, after which the program is interrupted."""
    watch_timeout: float = 3.0
    """Seconds of one watched expression."""
    interrupt_grace: float = 3.0
    """Seconds in which an interrupted program must show where it is."""
    value_chars: int = 600
    """Characters of one value."""
    value_depth: int = 6
    """Nesting of containers."""
    value_items: int = 100
    """Items per container."""
    value_lines: int = 40
    """Lines of one value."""
    output_chars: int = 4_000
    """Characters of the program's output since the last answer; the end is kept."""
    max_frames: int = 40
    """Frames of one stack."""
    max_values: int = 60
    """Variables, items or threads in one answer, which says where the next ones begin."""
    collected_chars: int = 6_000
    """Characters of the values that one action collects; a value has at most a quarter of
    `value_chars`."""
    context_lines: int = 4
    """Source lines shown above and below a stop."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 0 or (value == 0 and name not in MAY_BE_ZERO):
                raise ValueError(f"{name} is {value}; it must be above 0")
