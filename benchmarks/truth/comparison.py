"""One program, debugged with a breakpoint on each line and traced plainly, in any language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Stop = tuple[int, str]
"""A line, and the values of its variables before it ran."""


@dataclass(frozen=True)
class Row:
    """What was compared on one interpreter or virtual machine."""

    runtime: str
    programs: int
    statements: int
    lines: int
    """With a breakpoint."""
    stops: int
    wrong_hits: int
    """Lines whose breakpoint was not hit as often as they ran."""
    wrong_stops: int
    """Programs that did not stop at the lines in the order in which they ran."""
    wrong_values: int
    """Stops with other values."""
    problems: tuple[str, ...]


def row(runtime: str, programs: Sequence[Comparison]) -> Row:
    problems = [problem for program in programs for problem in program.problems()]
    return Row(
        runtime,
        len(programs),
        sum(program.statements for program in programs),
        sum(len(program.told) for program in programs),
        sum(len(program.stops) for program in programs),
        sum(len(program.wrong_hits) for program in programs),
        sum(program.misses_order for program in programs),
        sum(len(program.wrong_values) for program in programs),
        tuple(problems),
    )


@dataclass(frozen=True)
class Comparison:
    """What the debugger said of one program, and what ran."""

    name: str
    statements: int
    told: Mapping[int, int]
    """By line with a breakpoint: how often the debugger says it was hit."""
    ran: Mapping[int, int]
    """By line: how often a plain trace has it run."""
    stops: Sequence[Stop]
    """The debugger's, of lines whose order can be compared."""
    expected: Sequence[Stop]

    @property
    def wrong_hits(self) -> list[int]:
        return [line for line, hits in self.told.items() if hits != self.ran.get(line, 0)]

    @property
    def misses_order(self) -> bool:
        return [line for line, _ in self.stops] != [line for line, _ in self.expected]

    @property
    def wrong_values(self) -> list[Stop]:
        """The stops whose values no execution of their line had."""
        left = Counter(self.stops) - Counter(self.expected)
        return list(left.elements())

    def problems(self) -> list[str]:
        found = [
            f"{self.name}:{line}: hit {self.told[line]} times, ran {self.ran.get(line, 0)} times"
            for line in self.wrong_hits
        ]
        if self.misses_order and not found:
            pairs = enumerate(zip(self.stops, self.expected, strict=False))
            at = next((at for at, (stop, ran) in pairs if stop[0] != ran[0]), len(self.stops))
            found.append(f"{self.name}: stop {at + 1} is not at the line that ran")
        wrong = {line: values for line, values in self.wrong_values if line not in self.wrong_hits}
        found += [f"{self.name}:{line}: no run had {values}" for line, values in wrong.items()]
        return found
