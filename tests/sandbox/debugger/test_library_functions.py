"""Breakpoints on functions of installed libraries, named as a stack or their documentation does."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.debugger import BreakpointRequest, ErrorKind
from tests.interpreters import find_interpreter, some_versions
from tests.sandbox.debugger.conftest import Workbench

LIBRARY = {
    "acme/__init__.py": "from acme.orders.parts import gather\n",
    "acme/orders/__init__.py": "",
    "acme/orders/base.py": """
        class Order:
            def refresh(self, field):
                return field * 2

        class Mapping:
            def total(self):
                return 1
    """,
    "acme/orders/parts.py": "def gather(n):\n    return [n]\n",
    "acme/broken.py": "def gather(:\n",
}
PROGRAM = """
    import acme
    from acme.orders.base import Order

    class Mapping:
        def size(self):
            return 0

    value = Order().refresh(3)
    print(acme.gather(value))
"""
PATH = "acme/orders/base.py"


@pytest.fixture(params=some_versions())
def library_bench(
    request: pytest.FixtureRequest, open_bench: Callable[..., Workbench], tmp_path: Path
) -> Workbench:
    interpreter = find_interpreter(request.param)
    if interpreter is None:
        pytest.skip(f"CPython {request.param} is not on this machine")
    for name, text in LIBRARY.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text))
    tmp_path.chmod(0o755)
    (tmp_path / "acme" / "gone.py").symlink_to("nowhere.py")
    environment = {"PYTHONPATH": str(tmp_path)}
    bench = open_bench(interpreter, readable=(str(tmp_path),), environment=environment)
    bench.write({"program.py": PROGRAM})
    return bench


@pytest.mark.parametrize(
    ("function", "stops_in"),
    [
        ("Order.refresh", "Order.refresh"),
        ("acme.orders.base.Order.refresh", "Order.refresh"),
        ("acme.Order.refresh", "Order.refresh"),
        (f"{PATH}:refresh", "Order.refresh"),
        ("acme.gather", "gather"),
    ],
)
def test_a_function_of_a_library_before_it_is_imported(
    library_bench: Workbench, function: str, stops_in: str
) -> None:
    event = library_bench.start(BreakpointRequest(function=function))
    assert event.function == stops_in
    assert [point.hits for point in event.breakpoints] == [1]
    assert library_bench.debugger.restart().function == stops_in


def test_a_line_of_a_library(library_bench: Workbench, tmp_path: Path) -> None:
    event = library_bench.start(BreakpointRequest(file=PATH, line=4))
    assert (event.file, event.line) == (str(tmp_path / PATH), 4)


def test_functions_that_no_library_is_searched_for(library_bench: Workbench) -> None:
    library_bench.start()
    full = "; for one of a library: package.module.function, or its file and a line"
    for name in ("gather", "Order.renew", "Mapping.total"):
        event = library_bench.debugger.set_breakpoint(BreakpointRequest(function=name))
        assert event.error_kind is ErrorKind.BAD_REQUEST
        assert (event.error or "").startswith(f"the program has no function {name}")
        assert (event.error or "").endswith(full)
    event = library_bench.debugger.set_breakpoint(BreakpointRequest(file="orders/base.py", line=4))
    assert (event.error or "").startswith("there is no file orders/base.py")


def test_a_path_is_no_module(library_bench: Workbench, tmp_path: Path) -> None:
    library_bench.start()
    name = f"{tmp_path}/acme/orders/base.Order.refresh"
    event = library_bench.debugger.set_breakpoint(BreakpointRequest(function=name))
    assert (event.error or "").startswith(f"the program has no function {name}")
