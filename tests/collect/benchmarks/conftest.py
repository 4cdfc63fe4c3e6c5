from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import Sandbox, SandboxConfig, open_sandbox

BUG = """\
repository: counter
category: off_by_one
issue: |
  `total` forgets the last number
fail_to_pass:
  - tests/test_counter.py::test_total
pass_to_pass:
  - tests/test_counter.py::test_empty
"""
GOLD_PATCH = """\
--- a/counter/totals.py
+++ b/counter/totals.py
@@ -1,2 +1,2 @@
 def total(numbers):
-    return sum(numbers[:-1])
+    return sum(numbers)
"""
CORRECT = {
    "counter/__init__.py": "",
    "counter/totals.py": "def total(numbers):\n    return sum(numbers)\n",
    "tests/test_counter.py": (
        "from counter.totals import total\n\n\n"
        "def test_total():\n    assert total([1, 2]) == 3\n\n\n"
        "def test_empty():\n    assert total([]) == 0\n"
    ),
}


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with open_sandbox(SandboxConfig()) as opened:
        yield opened


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A folder of the bundled benchmark's shape, with one bug."""
    root = tmp_path / "bundle"
    bug = root / "bugs" / "counter__total"
    bug.mkdir(parents=True)
    (bug / "bug.yaml").write_text(BUG)
    (bug / "gold.patch").write_text(GOLD_PATCH)
    for path, text in CORRECT.items():
        file = root / "repositories" / "counter" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root
