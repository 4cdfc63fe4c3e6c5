"""Which modules of a tree no package may bring into its sandbox."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from collect.benchmarks.workspace import own_modules


@pytest.mark.parametrize(
    ("files", "import_paths", "expected"),
    [
        (["toolz/__init__.py", "toolz/curried/__init__.py", "setup.py"], [], ["setup", "toolz"]),
        (["src/attr/__init__.py", "src/attr/_make.py"], ["src", "."], ["attr", "src.attr"]),
        (["jaraco/text/__init__.py", "jaraco/x.py"], [], ["jaraco.text", "jaraco.x"]),
        (["lib/six.py", "README.md", "data/x.json"], ["./lib/"], ["lib.six", "six"]),
        (["my-tests/test_x.py", "a[b]*.py"], [], []),
    ],
)
def test_names(files: Sequence[str], import_paths: Sequence[str], expected: list[str]) -> None:
    assert list(own_modules(files, import_paths)) == expected
