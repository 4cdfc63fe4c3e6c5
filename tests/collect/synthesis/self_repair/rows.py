"""Rows in the upstream schemas, written for these tests."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

BIGCODEBENCH = {
    "task_id": "BigCodeBench/9000",
    "complete_prompt": "import math\n\n\ndef task_func(xs):\n"
    '    """\n    The root of the mean.\n    """\n',
    "instruct_prompt": "The root of the mean.\nYou should write self-contained code starting "
    "with:\n```\nimport math\ndef task_func(xs):\n```",
    "canonical_solution": "    total = sum(xs)\n    return math.sqrt(total / len(xs))\n",
    "code_prompt": "import math\ndef task_func(xs):\n",
    "test": "import unittest\n\n\nclass TestCases(unittest.TestCase):\n"
    "    def setUp(self):\n        self.root = math.sqrt(4)\n\n"
    "    def test_two(self):\n        self.assertEqual(task_func([3, 5]), self.root)\n\n"
    "    def test_one(self):\n        self.assertEqual(task_func([9]), 3)\n",
    "entry_point": "task_func",
    "doc_struct": "{}",
    "libs": "['math']",
}


def packed(tests: object) -> str:
    """Private tests as LiveCodeBench publishes them."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


def stdin_row(**changes: Any) -> dict[str, Any]:
    """A problem on standard input: add up the numbers."""
    public = [{"input": "2\n1 2\n", "output": "3\n", "testtype": "stdin"}]
    private = [{"input": "1\n7\n", "output": "7\n", "testtype": "stdin"}]
    return {
        "question_title": "Sum",
        "question_content": "Add the numbers.",
        "platform": "atcoder",
        "question_id": "abc900_a",
        "contest_id": "abc900",
        "contest_date": "2024-08-10T00:00:00",
        "starter_code": "",
        "difficulty": "easy",
        "public_test_cases": json.dumps(public),
        "private_test_cases": packed(private),
        "metadata": "{}",
        "canonical_solution": "count = int(input())\nprint(sum(map(int, input().split())))\n",
        **changes,
    }


def functional_row(**changes: Any) -> dict[str, Any]:
    """A problem that calls a method: the pairs of neighbours."""
    public = [{"input": "[1, 2, 3]\n1", "output": "[[1, 2]]", "testtype": "functional"}]
    private = [{"input": "[]\n4", "output": "[]", "testtype": "functional"}]
    return {
        **stdin_row(),
        "question_id": "3900",
        "starter_code": "class Solution:\n    def pairs(self, xs: List[int], n: int):\n        ",
        "public_test_cases": json.dumps(public),
        "private_test_cases": json.dumps(private),
        "metadata": '{"func_name": "pairs"}',
        "canonical_solution": "class Solution:\n"
        "    def pairs(self, xs: List[int], n: int):\n"
        "        return tuple(list(p) for p in pairwise(xs))[:n]\n",
        **changes,
    }


def lines_file(path: Path, *rows: object) -> Path:
    """A JSON-lines file."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
