"""Which files are the tests of a bug."""

from __future__ import annotations

import pytest

from collect.code.patches import TestFiles

PYTHON = ("checks/cart.py::test_total[1::2]", "checks/cart.py::Case::test_other", "run_all.py")
JAVA = ("shop.CartTest#total", "shop.Smoke")


@pytest.mark.parametrize(
    ("path", "is_test"),
    [
        ("checks/cart.py", True),
        ("/workspace/checks/cart.py", True),
        ("shop/cart.py", False),
        ("run_all.py", True),
        ("tests/test_new.py", True),
        ("shop/cart_test.py", True),
        ("tests/conftest.py", True),
        ("tests/helpers.py", False),
        ("src/test/java/shop/CartTest.java", True),
        ("CartTest$Inner.java", True),
        ("src/main/java/shop/Cart.java", False),
        ("Smoke.java", True),
        ("", False),
    ],
)
def test_files_are_told_by_the_tests_names(path: str, is_test: bool) -> None:
    assert (path in TestFiles([*PYTHON, *JAVA])) is is_test
