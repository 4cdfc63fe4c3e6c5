"""What pytest's output says of how a test failed."""

from __future__ import annotations

import re

from collect.self_repair.records import Failure

MAX_MESSAGE = 1500
"""Characters."""
_TITLE = re.compile(r"^_{3,} (?:ERROR .* )?(\S+) _{3,}$", re.MULTILINE)
_ERROR_LINES = re.compile(r"^E {1,3}.*(?:\nE\b.*)*", re.MULTILINE)
_NAMED = re.compile(r"^([A-Za-z_][\w.]*)(?:: |:?$)", re.MULTILINE)
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def read_failure(output: str, test: str) -> Failure:
    """The failure of one test, by its node id, in the output of a run of pytest.

    Of exceptions that led to each other the last one; `Unknown` where pytest reported none, as for
    a program that ended the process.
    """
    blocks = _ERROR_LINES.findall(report_of(output, test))
    if not blocks:
        return Failure(type="Unknown", message="the run ended without a report on the test")
    lines = [line[1:].strip() for line in blocks[-1].split("\n")]
    text = _ADDRESS.sub("0x...", "\n".join(lines)).strip()
    named = _NAMED.match(text)
    if named is None:
        # A plain assert, which pytest shows without the exception's name.
        return Failure(type="AssertionError", message=text[:MAX_MESSAGE])
    kind = named[1].rpartition(".")[2]
    return Failure(type=kind, message=text[named.end() :][:MAX_MESSAGE].strip())


def report_of(output: str, test: str) -> str:
    """The report of one test, by its node id; the whole output where it has none of its own."""
    name = test.partition("::")[2].replace("::", ".")
    titles = list(_TITLE.finditer(output))
    ends = [title.start() for title in titles[1:]] + [len(output)]
    for title, end in zip(titles, ends, strict=False):
        if title[1] == name:
            return output[title.end() : end]
    return output
