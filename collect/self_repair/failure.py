"""What pytest's output says of how a test failed."""

from __future__ import annotations

import re

from collect.benchmarks.pytest_output import section_of
from collect.self_repair.records import Failure
from sandbox.output import CUT

MAX_MESSAGE = 1500
"""Characters."""
_ERROR_LINES = re.compile(r"^E {1,3}.*(?:\nE\b.*)*", re.MULTILINE)
_NAMED = re.compile(r"^([A-Za-z_][\w.]*)(?:: |:?$)", re.MULTILINE)
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def read_failure(output: str, test: str) -> Failure:
    """The failure of one test, by its node id, in the output of a run of pytest.

    Of exceptions that led to each other the last one; `Unknown` where pytest reported none, as for
    a program that ended the process.
    """
    section = section_of(test, output)
    # Behind a cut another test's part may go on.
    blocks = _ERROR_LINES.findall(CUT.split(section)[0]) or _ERROR_LINES.findall(section)
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
