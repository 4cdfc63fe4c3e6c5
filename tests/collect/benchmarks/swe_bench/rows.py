"""Records in the schemas of SWE-bench's generations, about one small made-up repository."""

from __future__ import annotations

import json
from typing import Any

BASE = "0123456789abcdef0123456789abcdef01234567"
GOLD = """\
diff --git a/counter/totals.py b/counter/totals.py
--- a/counter/totals.py
+++ b/counter/totals.py
@@ -1,2 +1,2 @@
 def total(numbers):
-    return sum(numbers[:-1])
+    return sum(numbers)
"""
TEST_PATCH = """\
diff --git a/tests/test_counter.py b/tests/test_counter.py
--- a/tests/test_counter.py
+++ b/tests/test_counter.py
@@ -3,3 +3,7 @@

 def test_empty():
     assert total([]) == 0
+
+
+def test_total():
+    assert total([1, 2]) == 3
diff --git a/tests/data/numbers.txt b/tests/data/numbers.txt
new file mode 100644
--- /dev/null
+++ b/tests/data/numbers.txt
@@ -0,0 +1 @@
+1 2
"""
TOTAL, EMPTY = "tests/test_counter.py::test_total", "tests/test_counter.py::test_empty"


def first(**changes: Any) -> dict[str, Any]:
    """SWE-bench's first schema."""
    row = {
        "repo": "pallets/flask",
        "instance_id": "pallets__flask-1",
        "base_commit": BASE,
        "patch": GOLD,
        "test_patch": TEST_PATCH,
        "problem_statement": "`total` forgets the last number",
        "hints_text": "",
        "created_at": "2020-01-01",
        "version": "2.3",
        "FAIL_TO_PASS": json.dumps([TOTAL]),
        "PASS_TO_PASS": json.dumps([EMPTY]),
        "environment_setup_commit": BASE,
    }
    return {**row, **changes}


def live(**changes: Any) -> dict[str, Any]:
    """SWE-bench-Live's."""
    row = {
        "instance_id": "made__counter-7",
        "repo": "made/counter",
        "FAIL_TO_PASS": [TOTAL],
        "PASS_TO_PASS": [EMPTY],
        "version": None,
        "environment_setup_commit": None,
        "pull_number": "7",
        "test_cmds": ["python3 -m pytest -rA -p no:cacheprovider tests"],
        "log_parser": "pytest",
    }
    return {**first(), **row, **changes}
