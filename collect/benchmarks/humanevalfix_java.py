"""Convert a Java task of HumanEvalFix to files.

`prompt` + solution becomes `Solution.java`; `test` becomes `Main.java`, below the prompt's imports.
Upstream puts them into one file. The test passes if `Main` runs to its end.
"""

from __future__ import annotations

import re

from collect.benchmarks.humanevalfix_python import Row
from collect.errors import ConfigError

SOLUTION = "Solution.java"
TEST_FILE = "Main.java"
TEST = "Main"
TEST_COMMAND = "javac -d /tmp/classes *.java && java -cp /tmp/classes Main"

_IMPORT = re.compile(r"^import .*;$", re.MULTILINE)
_MAIN = re.compile(r"\bpublic class Main\b")


def make_test_file(where: str, task: Row) -> bytes:
    """Upstream's test class in a separate file. `where` names the row. Raises ConfigError."""
    if not _MAIN.search(task.test):
        raise ConfigError(f"{where}: column test: must hold `public class Main`")
    imports = "\n".join(_IMPORT.findall(task.prompt))
    return f"{imports}\n\n{task.test.strip()}\n".encode()
