"""Why pytest ran no test, as a model reads it."""

from __future__ import annotations

import pytest

from sandbox.debugger import ErrorKind, Launch, State
from tests.sandbox.debugger.conftest import Workbench

MOST_LINES = 6
TEST = "test_shop.py::test_total"


def refusal(bench: Workbench, files: dict[str, str], test: str = TEST) -> list[str]:
    """The lines that answer a start which fails; nothing else is said."""
    if not bench.interpreter.has_pytest:
        pytest.skip(f"no pytest for CPython {bench.interpreter.version}")
    bench.write({"test_shop.py": "def test_total(): pass\n", **files})
    event = bench.debugger.start(Launch(test))
    assert (event.error_kind, event.state) == (ErrorKind.LAUNCH_FAILED, State.START), event
    assert event.output == ""
    lines = (event.error or "").splitlines()
    assert len(lines) <= MOST_LINES, lines
    return lines


def test_a_missing_fixture(some_bench: Workbench) -> None:
    conftest = "import pytest\n@pytest.fixture\ndef acme_client(): pass\n"
    test = "def test_total(acme_cliend): pass\n"
    lines = refusal(some_bench, {"conftest.py": conftest, "test_shop.py": test})
    assert lines[0] == "fixture 'acme_cliend' not found; nearest: acme_client"
    assert lines[1] == "  at test_shop.py:1: def test_total(acme_cliend): pass"


def test_a_fixture_that_another_fixture_misses(some_bench: Workbench) -> None:
    conftest = "import pytest\n@pytest.fixture\ndef client(faker): pass\n"
    lines = refusal(
        some_bench, {"conftest.py": conftest, "test_shop.py": "def test_total(client): pass\n"}
    )
    assert lines[0] == "fixture 'faker' not found"
    assert lines[1].startswith("  at conftest.py:")


def test_an_internal_error(some_bench: Workbench) -> None:
    conftest = "def pytest_sessionstart(session):\n    raise ValueError('no settings')\n"
    lines = refusal(some_bench, {"conftest.py": conftest})
    assert lines == [
        "ValueError: no settings",
        "  at conftest.py:2: raise ValueError('no settings')",
    ]


def test_a_warning_that_is_an_error(some_bench: Workbench) -> None:
    settings = "[pytest]\nfilterwarnings = error\nno_such_key = 3\n"
    lines = refusal(some_bench, {"pytest.ini": settings})
    assert lines[0].startswith("PytestConfigWarning: Unknown config option: no_such_key")


def test_an_option_that_no_plugin_has(some_bench: Workbench) -> None:
    lines = refusal(some_bench, {"pytest.ini": "[pytest]\naddopts = --no-such-option\n"})
    assert lines[0] == "pytest refuses its options: unrecognized arguments: --no-such-option"


def test_a_plugin_that_is_not_there(some_bench: Workbench) -> None:
    lines = refusal(some_bench, {"pytest.ini": "[pytest]\naddopts = -p acme_plugin\n"})
    assert "No module named 'acme_plugin'" in lines[0]


def test_a_conftest_that_can_not_be_imported(some_bench: Workbench) -> None:
    lines = refusal(some_bench, {"conftest.py": "import nowhere_to_be_found\n"})
    assert lines == [
        "ModuleNotFoundError: No module named 'nowhere_to_be_found'",
        "  at conftest.py:1: import nowhere_to_be_found",
    ]


def test_a_conftest_of_a_folder_that_can_not_be_imported(some_bench: Workbench) -> None:
    files = {"tests/conftest.py": "import nowhere\n", "tests/test_a.py": "def test_a(): pass\n"}
    lines = refusal(some_bench, files, "tests/test_a.py::test_a")
    assert lines[0] == "ModuleNotFoundError: No module named 'nowhere'"


def test_a_module_that_can_not_be_imported(some_bench: Workbench) -> None:
    files = {
        "shop.py": "\nimport nowhere\n",
        "test_shop.py": "import shop\ndef test_total(): pass\n",
    }
    assert refusal(some_bench, files) == [
        "ModuleNotFoundError: No module named 'nowhere'",
        "  at shop.py:2: import nowhere",
        "  at test_shop.py:1: import shop",
    ]
    lines = refusal(some_bench, {"shop.py": "def total(:\n", "test_shop.py": "import shop\n"})
    assert lines[0].startswith("SyntaxError: ")
    assert "(shop.py:1: def total(:)" in lines[0]


def test_tests_that_the_options_leave_out(some_bench: Workbench) -> None:
    if not some_bench.interpreter.has_pytest:
        pytest.skip("no pytest")
    settings = "[pytest]\naddopts = -m 'not slow'\nmarkers = slow\n"
    test = "import pytest\n@pytest.mark.slow\ndef test_total():\n    assert 0\n"
    some_bench.write({"pytest.ini": settings, "test_shop.py": test})
    event = some_bench.debugger.start(Launch(TEST))
    assert event.error_kind is ErrorKind.NO_SUCH_TEST
    assert "(-m 'not slow'; -m '' selects all markers)" in (event.error or "")
    event = some_bench.start(test=f"pytest {TEST} -m ''")
    assert event.function == "test_total"


def test_the_case_that_failed_is_said(some_bench: Workbench) -> None:
    if not some_bench.interpreter.has_pytest:
        pytest.skip("no pytest")
    test = (
        "import pytest\n@pytest.mark.parametrize('n', [1, 2])\ndef test_n(n):\n    assert n == 1\n"
    )
    some_bench.write({"test_shop.py": test})
    event = some_bench.start(test="test_shop.py::test_n", stop_at_entry=False)
    assert event.state is State.POST_MORTEM
    assert "the test that failed is test_shop.py::test_n[2]" in event.notes
