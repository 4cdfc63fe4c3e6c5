"""Removes from observations what differs between runs of the same command.

Each kind of line is recognised by its whole form, so that values computed by a program stay:
`2026-03-02` alone, `3 seconds`, `1234`. docs/replay.md lists what is removed.
"""

from __future__ import annotations

import re

from sandbox.shell import NAME as SCRATCH_NAME

MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
ISO_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
ZONE = r"(?: (?:[+-]\d{4}|UTC|GMT)\b)?"


def _listed(mode: str) -> str:
    """A line of `ls -l` up to the name, with or without the inode and blocks of `-i`, `-s` and
    `find`, the owner or the group.
    """
    return (
        rf"^[ \t]*(?:\d+ +)?(?:\d[\d.]*[KMGT]? +)?(?P<mode>{mode})[.+@]? +\d+ +"
        r"(?:\S+ +){0,2}?(?P<size>\d+, +\d+|\d[\d.]*[KMGTPE]?) +"
        rf"(?:{MONTH} +\d{{1,2}} +(?:\d\d:\d\d|\d{{4}})|{ISO_TIME}(?: [+-]\d{{4}})?) "
    )


LISTINGS = (
    (_listed("[-lbcpsD][-rwxsStT]{9}"), r"\g<mode> ? \g<size> ? "),
    # A folder's size and link count depend on the file system.
    (_listed("d[-rwxsStT]{9}"), r"\g<mode> ? ? "),
    (r"^total \d[\d.]*[KMGT]?$(?=\n[-dlbcpsD][-rwxsStT]{9} \? )", "total ?"),
    (r"^(  Size: )\d+( .*)\bBlocks: \d+ +IO Block: \d+ +directory$", r"\1? directory"),
    (r"^(  Size: \d+)\s+Blocks: \d+ +IO Block: \d+ +", r"\1 "),
    (r"^Device: \S+\s+Inode: \d+ +Links: \d+", "Device: ?"),
    (r"\bUid: \( *\d+/ *\S+\) +Gid: \( *\d+/ *\S+\)", "Uid: ? Gid: ?"),
    (r"^ Birth: (?:-|\d{4}-.*)$", " Birth: ?"),
)
"""`ls -l`, `find -ls` and `stat`."""
USERS = (
    (r"\buid=\d+(?:\([^()\s]*\))? gid=\d+(?:\([^()\s]*\))?(?: groups=\S+)?", "uid=?"),
    (r"\b(cannot find name for (?:user|group) ID) \d+", r"\1 ?"),
    (r"^(real|user|sys)\t\d+m\d+[.,]\d+s$", r"\1 ?"),
)
"""`id`, and the shell's `time`."""
GIT = (
    (r"^(commit) [0-9a-f]{40}\b", r"\1 ?"),
    (r"^(\[[^\]\s]+(?: \(root-commit\))?) [0-9a-f]{7,40}\] ", r"\1 ?] "),
    (r"^(Saved working directory and [^:]+:|HEAD is now at) [0-9a-f]{7,40} ", r"\1 ? "),
    (r"^(Dropped \S+) \([0-9a-f]{40}\)$", r"\1 (?)"),
)
"""Commit ids, which depend on the time, on lines that git prints."""
TEST_RUNS = (
    # The line is filled with the signs on both sides.
    (r"^=+ (.*) in \d+\.\d\d(?:s| seconds)(?: \(\d+:\d\d:\d\d\))? =+$", r"= \1 in ? s ="),
    (r"(?<= in )\d+\.\d\ds \(\d+:\d\d:\d\d\)$", "? s"),
    (r"^(BUILD (?:SUCCESSFUL|FAILED) in) (?:\d+h ?)?(?:\d+m ?)?(?:\d+s)?(?:\d+ms)?$", r"\1 ?"),
    (r"^(\[INFO\] Total time: ) *(?:\d+(?:\.\d+)? s|\d+:\d\d (?:min|h))$", r"\1?"),
    (r"^(\[INFO\] Final Memory: )\d+[KMG]/\d+[KMG]$", r"\1?"),
    (r"\[ *(?:\d+\.\d+ s|\d+:\d\d (?:min|h))\]", "[?]"),
    (r"(\bTests run: (?:(?!Tests run: ).)*\bTime elapsed: )\d+(?:\.\d+)? s(?:ec)?\b", r"\1?"),
    (r"(\bTime elapsed: )\d+(?:\.\d+)? s(?:ec)?(?= *<<<)", r"\1?"),
    (r"^(Test run finished after) \d+ ms$", r"\1 ?"),
    (r"^(Time: )\d+(?:[.,]\d+)?$(?=\n+(?:OK \(|There w))", r"\1?"),
)
"""pytest, Gradle, Maven, Surefire, and JUnit's own runners."""
TIMES = (
    (rf"\b{DAY} {MONTH} +\d{{1,2}} \d\d:\d\d:\d\d(?:(?: [A-Z]{{3,5}})? \d{{4}}\b)?{ZONE}", "?"),
    (rf"\b{DAY}, \d{{1,2}} {MONTH} \d{{4}} \d\d:\d\d:\d\d{ZONE}", "?"),
    (rf"\b{ISO_TIME}", "?"),
    (r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b", "?"),
    (r"\b\d+\.\d+ ?(?:ns|µs|us|ms|s|sec|secs|seconds)\b", "? s"),
)
"""Dates with a time of day, times of day, and durations with a fraction."""
NAMES = (
    (r"\b0x[0-9a-fA-F]{4,}\b", "0x?"),
    (r"(?<![\d.])1(?:39|40)\d{12}(?![\d.])", "?"),
    (r"\bpytest-\d+\b", "pytest-?"),
    (r"(?<=/tmp/)[\w.-]+", "?"),
    (SCRATCH_NAME.pattern, ".stepinto-?"),
)
"""Addresses, also as numbers that `id()` gives on Linux, and names of temporary folders."""

PASSING = tuple(
    (re.compile(pattern, re.MULTILINE), stands_in)
    for pattern, stands_in in (*LISTINGS, *USERS, *GIT, *TEST_RUNS, *TIMES, *NAMES)
)
"""Patterns to replace and their replacements, in this order."""


def normalised(text: str) -> str:
    """An observation in the form used for comparison."""
    for pattern, stands_in in PASSING:
        text = pattern.sub(stands_in, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())
