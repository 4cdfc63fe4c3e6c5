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
LEETCODE = {
    "task_id": "pair-sum",
    "question_id": 1,
    "difficulty": "Easy",
    "problem_description": "Add two numbers.\n\nExample 1:\n\nInput: a = 1, b = 2\nOutput: 3\n"
    "Explanation: 1 + 2\n\nExample 2:\n\nInput: a = 0,  b = 0\nOutput: 0\n\nConstraints: none",
    "starter_code": "class Solution:\n    def add(self, a: int, b: int) -> int:\n        ",
    "estimated_date": "2024-09-01",
    "prompt": "from typing import *\n\n\ndef same(a, b):\n    return a == b\n",
    "completion": "class Solution:\n    def add(self, a: Optional[int], b: int) -> int:\n"
    "        total = a + b\n        return total\n",
    "entry_point": "Solution().add",
    "test": "def check(candidate):\n    assert candidate(a = 5,b = 7) == 12\n"
    "    assert candidate(a = 1,b = 2) == 3\n    assert same(candidate(a = 2,b = 2), 4)\n"
    "    assert candidate(a = 0,b = 0) == 0\n",
    "input_output": [],
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
