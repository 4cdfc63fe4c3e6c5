"""What pytest's output says of how a test failed."""

from __future__ import annotations

import re

from collect.self_repair.records import Failure

MAX_MESSAGE = 1500
"""Characters."""
_TITLE = re.compile(r"^_{3,} (?:ERROR .* )?(\S+) _{3,}$", re.MULTILINE)
_CRASH = re.compile(r"^\S+:\d+: (\w+)$", re.MULTILINE)
_ERROR_LINE = re.compile(r"^E   ?(.*)$", re.MULTILINE)
_NAMED = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning|Iteration))\b:? ?")
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def read_failure(output: str, test: str) -> Failure:
    """The failure of one test, by its node id, in the output of a run of pytest."""
    section = _section(output, test.partition("::")[2].replace("::", "."))
    lines = _ERROR_LINE.findall(section)
    crashes = _CRASH.findall(section)
    text = _ADDRESS.sub("0x...", "\n".join(line.strip() for line in lines)).strip()
    named = _NAMED.match(text)
    if crashes:
        kind = crashes[-1]
    elif named:
        kind = named[1].rpartition(".")[2]
    else:
        kind = "AssertionError" if lines else "Unknown"
    message = text[named.end() :] if named else text
    return Failure(type=kind, message=message[:MAX_MESSAGE].strip())


def _section(output: str, name: str) -> str:
    """The report of one test; the whole output where it has none of its own."""
    titles = list(_TITLE.finditer(output))
    for title, following in zip(titles, [*titles[1:], None], strict=True):
        if title[1] == name:
            return output[title.end() : following.start() if following else len(output)]
    return output
